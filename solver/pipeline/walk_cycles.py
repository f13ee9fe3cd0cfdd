"""What a tile walk takes with given multi-buffering degrees: it is played from the first to the last tile."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.machine import Machine
from ..cost.tile_walk import TileWalk

PLAYED_TILES = 512
"""Tiles of a walk that are played; longer walks are compared by their first ones. Chosen, to bound the time."""


@dataclass(frozen=True)
class PrecedingWork:
    """What keeps the vector engine right before a matrix operator: ``cycles`` that it takes, and after which of them
    the input of each tile is there (empty: the tiles wait for none of it)."""

    cycles: int
    ready: tuple[int, ...]


NO_PRECEDING_WORK = PrecedingWork(0, ())


def walk_cycles(
    walk: TileWalk, machine: Machine, loads: dict[int, int], depth: int, weight_depth: int,
    preceding: PrecedingWork = NO_PRECEDING_WORK,
) -> int:  # fmt: skip
    """Cycles of the first :data:`PLAYED_TILES` tiles with so many versions, in program order, ``preceding`` included.

    ``loads``: busy cycles of the copy engine for each weight tile (by its number in the walk).
    """
    copy_latency = walk.loads[0].latency if walk.loads else 0
    matrix_latency = machine.engine_for("matrix").latency
    vector_latency = machine.engine_for("vector").latency
    copy = matrix = stop = 0
    vector = preceding.cycles
    free = [0] * depth
    arrived = [0] * weight_depth
    released = [0] * weight_depth
    held: list[int | None] = [None] * weight_depth
    counter = 0
    for index, number in enumerate(walk.timing[:PLAYED_TILES]):
        kind = walk.timings[number]
        version = index % depth
        result = 0
        if kind.before:
            vector = max(vector, free[version]) + kind.before
            result = vector + vector_latency
        if preceding.ready:
            result = max(result, preceding.ready[index])
        if kind.matrix:
            for part, busy in enumerate(kind.matrix):
                slot = 0
                if walk.weights:
                    key = walk.weights[index][part]
                    if key in held:
                        slot = held.index(key)
                    else:
                        slot = counter % weight_depth
                        counter += 1
                        held[slot] = key
                        copy = max(copy, released[slot]) + loads[key]
                        arrived[slot] = copy + copy_latency
                matrix = max(matrix, result, free[version], arrived[slot]) + busy
                released[slot] = matrix + matrix_latency
            result = free[version] = matrix + matrix_latency
        if kind.drain:
            vector = max(vector, result) + kind.drain
            free[version] = vector + vector_latency
        if kind.finish:
            vector = max(vector, result) + kind.finish
        stop = max(stop, result, vector + vector_latency)
    return stop
