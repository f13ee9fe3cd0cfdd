"""The tile loop of an operator as a small body of tasks that repeats: the input of the pipeline model.

A body covers one period of the walk: from one change of the weights to the next, at most :data:`LONGEST` tiles. Which
weight tiles are copied in depends on how many versions are held, so there is a body for each such number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...ir.machine import Machine
from ..cost.tile_walk import TileWalk
from ..switches import ALL_ON, Disabled

EngineKind = Literal["copy", "matrix", "vector"]

LONGEST = 4
"""Tiles in a body at most."""
MOST_REDUCE = 12
"""Reduce tiles of one tile that are modelled one by one; more are modelled as so many longer ones."""
PLAYED = 512
"""Tiles of a walk that are played to compare depths."""
DEPTHS = (1, 2, 3)
"""Versions of the weights that are considered."""
SCRATCH_DEPTHS = (1, 2, 3, 4, 6, 8)
"""Versions of private buffers that are considered: more than three help while the vector engine is with its last."""


@dataclass(frozen=True)
class Task:
    """Something that occupies an engine for ``busy`` cycles; other engines see the result ``latency`` later."""

    engine: EngineKind
    busy: int
    latency: int


@dataclass(frozen=True)
class Fill:
    """One use of a version of a buffer: from the start of task ``writer`` to the end of task ``reader``."""

    writer: int
    reader: int


@dataclass(frozen=True)
class Ring:
    """A buffer of ``depth`` versions used in turn; ``fills`` in the order of one iteration of the body.

    ``buffers`` that take turns together share the depth; each has its own fills. ``bytes`` is one version of all of
    them, ``capacity`` what there is; ``depths`` may be chosen from.
    """

    name: Literal["scratch", "weights"]
    bytes: int
    capacity: int
    depths: tuple[int, ...]
    buffers: tuple[tuple[Fill, ...], ...]

    @property
    def fitting(self) -> tuple[int, ...]:
        """The depths that fit."""
        return tuple(d for d in self.depths if d * self.bytes <= self.capacity)


@dataclass(frozen=True)
class Body:
    """Tasks in program order, ``deps`` (before, after) within an iteration, ``tiles`` that an iteration computes."""

    tasks: tuple[Task, ...]
    deps: tuple[tuple[int, int], ...]
    rings: tuple[Ring, ...]
    tiles: int


@dataclass(frozen=True)
class Footprint:
    """Bytes of one version of the scratch buffers and of the weights of an operator."""

    scratch: int
    weights: int


def bodies(
    walk: TileWalk, machine: Machine, footprint: Footprint, loads: dict[int, int], disabled: Disabled = ALL_ON
) -> list[Body]:
    """One body for each number of weight versions that makes a difference.

    ``loads``: busy cycles of the copy engine for each weight tile (by its number in the walk).
    """
    room = machine.role("weights").capacity
    groups: dict[tuple[tuple[bool, ...], ...], list[int]] = {}
    single = not walk.weights or "multi-buffering" in disabled
    for depth in DEPTHS[:1] if single else DEPTHS:
        if depth * footprint.weights <= room or depth == 1:
            flags = tuple(tuple(row) for row in walk.loaded(depth))
            groups.setdefault(flags, []).append(depth)
    scratch = SCRATCH_DEPTHS
    if "deep-scratch" in disabled:
        scratch = DEPTHS
    if "multi-buffering" in disabled:
        scratch = DEPTHS[:1]
    return [_body(walk, machine, footprint, loads, flags, tuple(depths), scratch) for flags, depths in groups.items()]


def _window(flags: tuple[tuple[bool, ...], ...], tiles: int) -> range:
    """The tiles of one period in the steady state: in the second half of the walk."""
    middle = tiles // 2
    changes = [i for i in range(middle, len(flags)) if any(flags[i])]
    if not changes:
        return range(middle, middle + 1)
    stop = changes[1] if len(changes) > 1 else changes[0] + 1
    return range(changes[0], min(stop, changes[0] + LONGEST))


def _body(
    walk: TileWalk,
    machine: Machine,
    footprint: Footprint,
    loads: dict[int, int],
    flags: tuple[tuple[bool, ...], ...],
    depths: tuple[int, ...],
    scratch_depths: tuple[int, ...],
) -> Body:
    copy_latency = walk.loads[0].latency if walk.loads else 0
    latency = {kind: machine.engine_for(kind).latency for kind in ("matrix", "vector")}
    tasks: list[Task] = []
    deps: list[tuple[int, int]] = []
    results: list[Fill] = []
    operands: list[Fill] = []
    weights: list[Fill] = []
    window = _window(flags, len(walk))
    for tile in window:
        kind = walk.timings[walk.timing[tile]]
        first = len(tasks)
        last: int | None = None
        if kind.before:
            tasks.append(Task("vector", kind.before, latency["vector"]))
            last = first
        row = flags[tile] if flags else ()
        for busy, load in _reduced(kind.matrix, row, [loads[w] for w in walk.weights[tile]] if flags else []):
            arrival: int | None = None
            if load:
                tasks.append(Task("copy", load, copy_latency))
                arrival = len(tasks) - 1
            tasks.append(Task("matrix", busy, latency["matrix"]))
            matrix = len(tasks) - 1
            if arrival is not None:
                deps.append((arrival, matrix))
                weights.append(Fill(arrival, matrix))
            if last is not None:
                deps.append((last, matrix))
            last = matrix
        if kind.before and last != first and last is not None:
            operands.append(Fill(first, last))
        start = next((i for i in range(first, len(tasks)) if tasks[i].engine == "matrix"), None)
        for part in (kind.drain, kind.finish):
            if part:
                tasks.append(Task("vector", part, latency["vector"]))
                if last is not None and tasks[last].engine == "matrix":
                    deps.append((last, len(tasks) - 1))
                last = len(tasks) - 1
                if start is not None:
                    results.append(Fill(start, last))
                    start = None
    if not tasks:
        tasks.append(Task("vector", 1, latency["vector"]))
    rings: list[Ring] = []
    if footprint.scratch:
        # Buffers between vector stages need no versions: they are written and read in the order of one queue.
        buffers = tuple(tuple(fills) for fills in (operands, results) if fills)
        rings.append(Ring("scratch", footprint.scratch, machine.role("accumulator").capacity, scratch_depths, buffers))
    if walk.weights:
        rings.append(Ring("weights", footprint.weights, machine.role("weights").capacity, depths, (tuple(weights),)))
    return Body(tuple(tasks), tuple(deps), tuple(rings), len(window))


def _reduced(matrix: tuple[int, ...], flags: tuple[bool, ...], loads: list[int]) -> list[tuple[int, int]]:
    """(busy, load) of each reduce tile, load 0 where nothing is copied; in groups if there are too many."""
    steps = [(busy, loads[i] if i < len(flags) and flags[i] else 0) for i, busy in enumerate(matrix)]
    if len(steps) <= MOST_REDUCE:
        return steps
    size = -(-len(steps) // MOST_REDUCE)
    groups = [steps[i : i + size] for i in range(0, len(steps), size)]
    return [(sum(b for b, _ in group), sum(load for _, load in group)) for group in groups]


@dataclass(frozen=True)
class Before:
    """A vector operator right before a matrix operator that reads its result: its ``cycles``, and after which of them
    the input of each tile is there."""

    cycles: int
    ready: tuple[int, ...]


NOTHING = Before(0, ())


def played(
    walk: TileWalk, machine: Machine, loads: dict[int, int], depth: int, weight_depth: int, before: Before = NOTHING
) -> int:
    """Cycles of the walk with so many versions, in program order, ``before`` included; of :data:`PLAYED` tiles."""
    copy_latency = walk.loads[0].latency if walk.loads else 0
    matrix_latency = machine.engine_for("matrix").latency
    vector_latency = machine.engine_for("vector").latency
    copy = matrix = stop = 0
    vector = before.cycles
    free = [0] * depth
    arrived = [0] * weight_depth
    released = [0] * weight_depth
    held = [-1] * weight_depth
    counter = 0
    for index, number in enumerate(walk.timing[:PLAYED]):
        kind = walk.timings[number]
        version = index % depth
        result = 0
        if kind.before:
            vector = max(vector, free[version]) + kind.before
            result = vector + vector_latency
        if before.ready:
            result = max(result, before.ready[index])
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
