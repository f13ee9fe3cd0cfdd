"""What a transfer is for, by the engine that makes it and the memory that it ends in."""

from __future__ import annotations

from ...ir.machine import Machine


def movement(machine: Machine, kind: str, target: str) -> str:
    """``kind``: the class of its instruction; ``target``: the name of the memory that it writes.

    Between main and shared memory it is a "fetch" or a "spill"; of a core, "store", "load_weights" or "load_data", as
    which all loads count where weights have no memory of their own.
    """
    if kind == "dma":
        return "spill" if target == machine.levels.home.name else "fetch"
    if target == machine.levels.exchange.name:
        return "store"
    return "load_weights" if machine.roles_of(target) == ("weights",) else "load_data"
