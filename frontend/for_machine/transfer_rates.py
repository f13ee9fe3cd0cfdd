"""How fast operands come to the cores of a machine, at most: by links, memories and the engines that move them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from ...ir.machine import Level, Machine


@dataclass(frozen=True)
class TransferRates:
    """Bytes a cycle of all cores together: ``weights`` to their weight memories, ``data`` between the shared memory and
    local memories, and between main and shared memory ``constants`` and what is none (``main``).

    ``broadcast``: one transfer brings weights to all cores.
    """

    weights: float
    data: float
    constants: float
    main: float
    broadcast: bool

    @staticmethod
    def from_machine(machine: Machine) -> TransferRates:
        levels = machine.levels
        source = levels.source_of(constant=True)
        broadcast = machine.moves("broadcast", source, levels.weights)

        def served(level: Level) -> float:
            links = (x.bytes_per_cycle for x in machine.links if level.name in x.memories and x.direction != "write")
            return min([float(level.memory.bytes_per_cycle * level.memory.banks), *links])

        def carried(kind: str, start: Level, end: Level, engines: int) -> float:
            moves = machine.moves(kind, start, end)
            return machine.mover(kind, start, end).bytes_per_cycle * engines if moves else inf

        def fetched(home: Level) -> float:
            return min(served(home), carried("dma", home, levels.exchange, 1)) if levels.has_exchange else inf

        # A broadcast reaches all cores at the pace of one.
        kind, engines = ("broadcast", 1) if broadcast else ("copy", machine.cores)
        return TransferRates(
            min(served(source), carried(kind, source, levels.weights, engines)),
            min(served(levels.exchange), carried("copy", levels.exchange, levels.activations, machine.cores)),
            fetched(levels.constants),
            fetched(levels.home),
            broadcast,
        )
