"""Cycles that parts of an operator take on each engine: what the lowering will emit, without emitting it.

A stage over a box of points becomes vector instructions of up to three loops, a contraction becomes matrix
instructions of up to two row loops, one column loop and three reduced loops, a copy has up to four. Neighbouring loops
that every operand sees as one merge first; loops that are left over repeat the instruction. The cheapest assignment of
loops is assumed to be found. Durations of single instructions are those of :mod:`girih.ir.timing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, prod

from ..ir.box import Box, is_empty, shape_of
from ..ir.elements import ELEMENTS
from ..ir.graph import DTYPES, Access, Stage, contraction_axes
from ..ir.machine import Engine, Machine, Role
from ..ir.timing import burst_bytes, contiguous_runs, matrix_body, vector_body

Layout = Mapping[str, tuple[Box, str]]
"""Of each buffer that a stage touches: the box of the tensor that it holds, row-major, and its dtype."""


@dataclass(frozen=True)
class Run:
    """Some instructions in a row on one engine; ``busy`` cycles of it in total, the last result ``latency`` later."""

    instructions: int
    busy: int
    latency: int


@dataclass(frozen=True)
class _Loops:
    """Loops of a nest: ``strides[operand][loop]`` in elements; ``clipped`` loops decide what is in bounds."""

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    clipped: frozenset[int]

    def merged(self) -> _Loops:
        """Pairs of loops that every operand sees as one are merged; loops of one point are dropped."""
        axes = [a for a, e in enumerate(self.extents) if e > 1]
        extents = {a: self.extents[a] for a in axes}
        again = True
        while again:
            again = False
            for outer, inner in ((a, b) for a in axes for b in axes if a != b):
                if outer in self.clipped or inner in self.clipped:
                    continue
                if all(s[outer] == s[inner] * extents[inner] for s in self.strides):
                    extents[inner] *= extents[outer]
                    axes.remove(outer)
                    again = True
                    break
        return _Loops(
            tuple(extents[a] for a in axes),
            tuple(tuple(s[a] for a in axes) for s in self.strides),
            frozenset(i for i, a in enumerate(axes) if a in self.clipped),
        )


def row_major(box: Box) -> tuple[int, ...]:
    """Strides in elements of a dense array with the box's extents."""
    strides: list[int] = []
    step = 1
    for span in reversed(box):
        strides.append(step)
        step *= span.size
    return tuple(reversed(strides))


def _walk(access: Access, box: Box, loops: int) -> tuple[int, ...]:
    strides = row_major(box)
    return tuple(sum(i.coeffs[a] * s for i, s in zip(access.index, strides, strict=True)) for a in range(loops))


def _loops(stage: Stage, points: Box, layout: Layout) -> _Loops:
    accesses = [stage.write, *(r for r in stage.reads if r.tensor in layout)]
    count = len(stage.axes)
    clipped: set[int] = set()
    for access in accesses[1:]:
        if access.fill is None:
            continue
        for index, span in zip(access.index, layout[access.tensor][0], strict=True):
            reached = index.over(points)
            if reached.lo < span.lo or reached.hi > span.hi:
                clipped |= {a for a, c in enumerate(index.coeffs) if c and points[a].size > 1}
    strides = tuple(_walk(access, layout[access.tensor][0], count) for access in accesses)
    return _Loops(shape_of(points), strides, frozenset(clipped))


def vector_run(engine: Engine, stage: Stage, points: Box, layout: Layout) -> Run:
    """The vector instructions for ``points`` of one stage (0 of them for an empty box)."""
    if is_empty(points):
        return Run(0, 0, 0)
    loops = _loops(stage, points, layout)
    dtype = layout[stage.write.tensor][1]
    special = ELEMENTS[stage.func].special
    if stage.combine is None:
        best = _spatial(engine, loops.merged(), dtype, special)
        if loops.clipped:
            best = _sum(best, _fill(engine, stage, points, layout))
        return Run(*best, engine.latency)
    fill = _fill(engine, stage, points, layout)
    folded = stage.func == "copy" or (stage.func == "mul" and stage.combine == "sum")
    if not folded:
        # The function first, into a temporary, then its combination.
        first = _spatial(engine, loops.merged(), "float32", special)
        return Run(*_sum(first, _reduction(engine, loops.merged(), dtype, "float32", fill)), engine.latency)
    reads = [layout[r.tensor][1] for r in stage.reads if r.tensor in layout]
    return Run(*_reduction(engine, loops.merged(), dtype, reads[0] if reads else dtype, fill), engine.latency)


def _sum(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]


def _fill(engine: Engine, stage: Stage, points: Box, layout: Layout) -> tuple[int, int]:
    """Setting what the stage writes to one value."""
    axes = [a for a, axis in enumerate(stage.axes) if not axis.reduce]
    walk = _walk(stage.write, layout[stage.write.tensor][0], len(stage.axes))
    loops = _Loops(tuple(points[a].size for a in axes), (tuple(walk[a] for a in axes),), frozenset())
    return _spatial(engine, loops.merged(), layout[stage.write.tensor][1], False)


def _shapes(extents: Sequence[int], rank: int) -> Iterator[tuple[int, list[int]]]:
    """(repeats, shape of an instruction) for each choice of up to ``rank`` loops and of the last one."""
    axes = range(len(extents))
    for chosen in combinations(axes, min(rank, len(extents))):
        repeats = prod(e for a, e in enumerate(extents) if a not in chosen)
        if not chosen:
            yield repeats, [1]
        for last in chosen:
            yield repeats, [*(extents[a] for a in chosen if a != last), extents[last]]


def _spatial(engine: Engine, loops: _Loops, dtype: str, special: bool) -> tuple[int, int]:
    """(instructions, busy cycles) element by element; reduced loops are like the others."""
    busy, repeats = min(
        (repeats * (engine.issue + vector_body(engine, shape, dtype, special)), repeats)
        for repeats, shape in _shapes(loops.extents, 3)
    )
    return repeats, busy


def _reduction(engine: Engine, loops: _Loops, dtype: str, source: str, fill: tuple[int, int]) -> tuple[int, int]:
    """Accumulate over the outer loops (after a fill), or fold the last loop of each instruction."""
    spatial = [a for a, s in enumerate(loops.strides[0]) if s]
    reduced = [a for a in range(len(loops.extents)) if a not in spatial]
    outside = prod(loops.extents[a] for a in reduced)
    repeats, busy = _spatial(engine, _Loops(tuple(loops.extents[a] for a in spatial), ((),), frozenset()), dtype, False)
    options = [(outside * busy, outside * repeats, fill)]
    for lane in reduced:
        if lane in loops.clipped:
            continue
        rest = outside // loops.extents[lane]
        for chosen in combinations(spatial, min(2, len(spatial))):
            times = rest * prod(loops.extents[a] for a in spatial if a not in chosen)
            shape = [*(loops.extents[a] for a in chosen), loops.extents[lane]]
            cost = times * (engine.issue + vector_body(engine, shape, source))
            options.append((cost, times, fill if loops.clipped else (0, 0)))
    busy, count, first = min(options)
    return _sum((count, busy), first)


def matrix_run(engine: Engine, stage: Stage, points: Box, layout: Layout, dtype: str) -> Run:
    """The matrix instructions for ``points`` of a contraction whose operands have ``dtype``."""
    if is_empty(points):
        return Run(0, 0, 0)
    roles = contraction_axes(stage)
    loops = _loops(stage, points, layout)

    def merged(axes: Sequence[int]) -> list[int]:
        part = _Loops(
            tuple(loops.extents[a] for a in axes),
            tuple(tuple(s[a] for a in axes) for s in loops.strides),
            frozenset(i for i, a in enumerate(axes) if a in loops.clipped),
        )
        return list(part.merged().extents)

    m, n, k = merged(roles.m), merged(roles.n), sorted(merged(roles.k))
    outside = prod(points[a].size for a in roles.batch) * prod(k[:-3])
    best: tuple[int, int] | None = None
    for rows in combinations(range(len(m)), min(2, len(m))):
        for column in range(len(n)) if n else [-1]:
            repeats = outside * prod(e for a, e in enumerate(m) if a not in rows)
            repeats *= prod(e for a, e in enumerate(n) if a != column)
            body = matrix_body(engine, prod(m[a] for a in rows), n[column] if n else 1, prod(k[-3:]), dtype)
            option = (repeats * (engine.issue + body), repeats)
            best = option if best is None else min(best, option)
    assert best is not None
    return Run(best[1], best[0], engine.latency)


@dataclass(frozen=True)
class Transfer:
    """A copy when it has every link to itself.

    ``issue`` cycles in all, then ``payload`` bytes at the engine's rate; ``links``: (name, bytes that cross it).
    """

    instructions: int
    issue: int
    payload: int
    rate: int
    links: tuple[tuple[str, int], ...]
    latency: int

    def busy(self, machine: Machine, shares: Mapping[str, float] | None = None) -> int:
        """Cycles of the engine if each link gives only the share (0 to 1) of its bandwidth that ``shares`` says."""
        slowest = self.payload / self.rate
        for link in machine.links:
            crossing = dict(self.links).get(link.name)
            if crossing:
                slowest = max(slowest, crossing / (link.bytes_per_cycle * (shares or {}).get(link.name, 1.0)))
        return self.issue + ceil(slowest)


def route(machine: Machine, source: Role, target: Role) -> Engine:
    """The engine that copies from one memory to another (the machine's loader guarantees the ways we need)."""
    s, t = machine.role(source).name, machine.role(target).name
    moving = {"copy", "broadcast", "dma"}
    return next(e for e in machine.engines if moving & set(e.classes) and s in e.reads and t in e.writes)


class Transfers:
    """The copies of one machine, each computed once."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._known: dict[tuple[object, ...], Transfer] = {}

    def transfer(self, way: tuple[Role, Role], part: Box, boxes: tuple[Box, Box], dtype: str) -> Transfer:
        """Copy ``part`` of a tensor between dense buffers that hold the first and the second of ``boxes`` of it."""
        key = (way, shape_of(part), shape_of(boxes[0]), shape_of(boxes[1]), dtype)
        if key not in self._known:
            self._known[key] = self._transfer(way, part, boxes, dtype)
        return self._known[key]

    def _transfer(self, way: tuple[Role, Role], part: Box, boxes: tuple[Box, Box], dtype: str) -> Transfer:
        engine = route(self.machine, *way)
        item = DTYPES[dtype]
        loops = _Loops(shape_of(part), (row_major(boxes[0]), row_major(boxes[1])), frozenset()).merged()
        order = sorted(range(len(loops.extents)), key=lambda a: (-loops.strides[0][a], -loops.strides[1][a]))
        times = prod(loops.extents[a] for a in order[:-4])
        inner = order[-4:]
        extents = [loops.extents[a] for a in inner]
        links: list[tuple[str, int]] = []
        latency = engine.latency
        for link in self.machine.links:
            crossed = 0
            for role, direction, walk in zip(way, ("read", "write"), loops.strides, strict=True):
                if self.machine.role(role).name == link.memory and link.direction in (direction, "both"):
                    crossed += burst_bytes(link, *contiguous_runs(extents, [walk[a] * item for a in inner], item))
            if crossed:
                links.append((link.name, crossed * times))
                latency += link.latency
        payload = times * prod(extents) * item
        return Transfer(times, times * engine.issue, payload, engine.bytes_per_cycle, tuple(links), latency)
