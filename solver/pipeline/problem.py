"""The steady state of an operator's tile loop: a small body of tasks that repeats.

A body covers one period of the walk: from one change of the weights to the next, at most :data:`MOST_TILES` tiles.
Which weight tiles are copied in depends on how many versions are held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...ir.machine import Machine
from ..cost.tile_walk import TileWalk
from .candidates import Degrees, Footprint

EngineKind = Literal["copy", "matrix", "vector"]

MOST_TILES = 4
"""Tiles in a body at most; chosen, to keep bodies small."""
MOST_REDUCE_TILES = 12
"""Reduce tiles of one tile that are modelled one by one; more are modelled as so many longer ones. Chosen."""


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
    """Buffers of ``depth`` versions used in turn; each has its own fills, in the order of one iteration of the body."""

    name: Literal["scratch", "weights"]
    depth: int
    buffers: tuple[tuple[Fill, ...], ...]


@dataclass(frozen=True)
class LoopBody:
    """Tasks in program order, ``deps`` (before, after) within an iteration, ``tiles`` that an iteration computes."""

    tasks: tuple[Task, ...]
    deps: tuple[tuple[int, int], ...]
    rings: tuple[Ring, ...]
    tiles: int

    def lag(self, before: int, after: int) -> int:
        """Cycles from the start of a task until another can use its result."""
        task = self.tasks[before]
        return task.busy + (0 if task.engine == self.tasks[after].engine else task.latency)


def _window(flags: list[list[bool]], tiles: int) -> range:
    """The tiles of one period in the steady state: in the second half of the walk."""
    middle = tiles // 2
    changes = [i for i in range(middle, len(flags)) if any(flags[i])]
    if not changes:
        return range(middle, middle + 1)
    stop = changes[1] if len(changes) > 1 else changes[0] + 1
    return range(changes[0], min(stop, changes[0] + MOST_TILES))


def loop_body(
    walk: TileWalk, machine: Machine, footprint: Footprint, loads: dict[int, int], degrees: Degrees
) -> LoopBody:
    """The body of a walk with these degrees of what has a ``footprint``.

    ``loads``: busy cycles of the copy engine for each weight tile (by its number in the walk).
    """
    flags = walk.loaded(degrees.weights)
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
        row = flags[tile] if flags else []
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
        rings.append(Ring("scratch", degrees.scratch, buffers))
    if weights:
        rings.append(Ring("weights", degrees.weights, (tuple(weights),)))
    return LoopBody(tuple(tasks), tuple(deps), tuple(rings), len(window))


def _reduced(matrix: tuple[int, ...], flags: list[bool], loads: list[int]) -> list[tuple[int, int]]:
    """(busy, load) of each reduce tile, load 0 where nothing is copied; in groups if there are too many."""
    steps = [(busy, loads[i] if i < len(flags) and flags[i] else 0) for i, busy in enumerate(matrix)]
    if len(steps) <= MOST_REDUCE_TILES:
        return steps
    size = -(-len(steps) // MOST_REDUCE_TILES)
    groups = [steps[i : i + size] for i in range(0, len(steps), size)]
    return [(sum(b for b, _ in group), sum(load for _, load in group)) for group in groups]
