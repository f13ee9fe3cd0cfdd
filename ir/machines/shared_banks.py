"""Cores that load the same at one time meet on the banks that hold it, if these give less than the cores take."""

from __future__ import annotations

from ..machine import Level, Machine


def bytes_for_all_banks(machine: Machine, source: Level, target: Level) -> int | None:
    """How many bytes of a shared memory cores have to load at one time to be served by all of its banks.

    ``None`` if it does not matter: where the banks of the ``source`` do not take turns, where one engine brings what
    several cores want, and where one bank gives what all of them together take.
    """
    memory = source.memory
    if machine.cores == 1 or not memory.interleave or machine.moves("broadcast", source, target):
        return None
    read = [x.bytes_per_cycle for x in machine.links if x.memory == memory.name and x.direction != "write"]
    taken = min([machine.cores * machine.mover("copy", source, target).bytes_per_cycle, *read])
    if min(taken, memory.bytes_per_cycle * memory.banks) <= memory.bytes_per_cycle:
        return None
    return memory.banks * memory.interleave
