"""Model 4, pipeline: the cycles of an operator's tile walk with given multi-buffering degrees, tile by tile.

Sets
    Tiles t = 0 .. n - 1 of the walk in program order, at most :data:`PLAYED_TILES`; parts p of each, one for each tile
    of the reduction.
Data
    For each tile the busy cycles of its vector work before, its matrix work by part, its draining and its vector work
    after; for each weight tile the busy cycles of the copy engine; latencies of the three engines.
Variables
    The degrees: S versions of the scratch buffers and W versions of the weights.
Rules
    (1) Each engine issues in order, one task after the other.
    (2) A task starts when what it reads is there: the latency after the end of the task that writes it.
    (3) Tile t uses version t mod S of scratch, and waits until tile t - S has released it.
    (4) A weight tile that is not in one of the W versions is copied into the oldest, once that is released.
Objective
    The end of the last tile: computed exactly here, minimised over all degrees that fit by :mod:`.solve`.
Relaxed
    Contention for links and banks.
Reference
    Multi-buffering as modulo variable expansion: Lam, "Software pipelining", PLDI 1988.
"""

from __future__ import annotations

from ...ir.machine import Machine
from ..cost.tile_walk import TileWalk
from .problem import NO_PRECEDING_WORK, PrecedingWork

PLAYED_TILES = 512
"""Tiles of a walk that are played; longer walks are compared by their first ones. Chosen, to bound the time."""


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
