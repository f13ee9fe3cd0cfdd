"""Cycles that parts of an operator take on each engine: what the lowering will emit, without emitting it.

A stage over a box of points becomes vector instructions of up to three loops, a contraction becomes matrix
instructions of up to two row loops, one column loop and three reduced loops, a copy has up to four. A combination that
is not a matrix product goes to whatever is cheapest: element by element, along the lanes, or over windows
(:mod:`girih.ir.isa.window_selection`, which the lowering asks as well). Neighbouring loops
that every operand sees as one merge first; loops that are left over repeat the instruction. The cheapest assignment of
loops is assumed to be found. Durations of single instructions are those of :mod:`girih.ir.isa.timing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, prod

from ...ir.box import Affine, Box, Span, is_empty, shape_of
from ...ir.graph import DTYPES, Access, Stage, contraction_axes
from ...ir.isa.scalar_functions import ELEMENTS
from ...ir.isa.timing import burst_bytes, contiguous_runs, matrix_body, vector_body
from ...ir.isa.window_selection import Guard, cheapest_parts, overwrites, visited, window_mnemonic
from ...ir.machine import Engine, Machine, Role

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
    """Loops of a nest: ``strides[operand][loop]`` in elements; ``clipped`` loops decide together what is in bounds.

    ``guards`` are the dimensions in which they do, for each operand that is read. ``cut``: bounds keep some elements of
    what is written from being visited.
    """

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    clipped: frozenset[int] = frozenset()
    guards: tuple[tuple[Guard, ...], ...] = ()
    cut: bool = False

    @property
    def partial(self) -> bool:
        return self.cut or bool(self.clipped)

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
            tuple(tuple(replace(g, coeffs=tuple(g.coeffs[a] for a in axes)) for g in gs) for gs in self.guards),
            self.cut,
        )


def row_major(box: Box) -> tuple[int, ...]:
    """Strides in elements of a dense array with the box's extents."""
    strides: list[int] = []
    step = 1
    for lo, hi in reversed(box):
        strides.append(step)
        step *= hi - lo if lo < hi else 0
    return tuple(reversed(strides))


def _walk(access: Access, box: Box, loops: int) -> tuple[int, ...]:
    strides = [0] * loops
    for index, step in zip(access.index, row_major(box), strict=True):
        for axis, coeff in enumerate(index.coeffs):
            if coeff:
                strides[axis] += coeff * step
    return tuple(strides)


def _loops(stage: Stage, points: Box, layout: Layout, bounded: bool = False) -> _Loops:
    """Loops are cut where they find nothing in bounds, unless instructions know the bounds."""
    accesses = [stage.write, *(r for r in stage.factors if r.tensor in layout)]
    strides = tuple(_walk(access, layout[access.tensor][0], len(stage.axes)) for access in accesses)
    box = points if bounded else _visited(stage, accesses[1:], points, layout)
    leaving = [_leaving(access, box, layout) for access in accesses[1:]]
    clipped = {a for found in leaving for i, _ in found for a, c in enumerate(i.coeffs) if c and box[a].size > 1}
    guards = tuple(_guards(access, found, box, layout) for access, found in zip(accesses[1:], leaving, strict=True))
    cut = any(i != p and not axis.reduce for i, p, axis in zip(box, points, stage.axes, strict=True))
    return _Loops(shape_of(box), strides, frozenset(clipped), guards, cut)


def _visited(stage: Stage, reads: Sequence[Access], points: Box, layout: Layout) -> Box:
    dimensions = [
        (Affine(i.coeffs, i.const + sum(c * p.lo for c, p in zip(i.coeffs, points, strict=True)) - span.lo), span.size)
        for read in reads
        for i, span in _leaving(read, points, layout)
    ]
    if not dimensions:
        return points
    spans = visited(shape_of(points), [a.reduce for a in stage.axes], dimensions)
    return tuple(Span(p.lo + s.lo, p.lo + s.hi) for p, s in zip(points, spans, strict=True))


def _leaving(access: Access, points: Box, layout: Layout) -> list[tuple[Affine, Span]]:
    """The dimensions that some points read out of bounds."""
    found: list[tuple[Affine, Span]] = []
    if access.fill is None or is_empty(points):
        return found
    for index, span in zip(access.index, layout[access.tensor][0], strict=True):
        reached = index.over(points)
        if reached.lo < span.lo or reached.hi > span.hi:
            found.append((index, span))
    return found


def _guards(access: Access, leaving: list[tuple[Affine, Span]], points: Box, layout: Layout) -> tuple[Guard, ...]:
    """These dimensions, with positions counted from the first point and from the buffer's corner."""
    if not leaving:
        return ()
    corner = tuple(Span(p.lo, p.lo + 1) for p in points)
    box = layout[access.tensor][0]
    return tuple(
        Guard(index.coeffs, index.over(corner).lo - span.lo, span.size, pitch)
        for index, span, pitch in zip(access.index, box, row_major(box), strict=True)
        if (index, span) in leaving
    )


def vector_run(engine: Engine, stage: Stage, points: Box, layout: Layout) -> Run:
    """The vector instructions for ``points`` of one stage (0 of them for an empty box)."""
    if is_empty(points):
        return Run(0, 0, 0)
    loops = _loops(stage, points, layout)
    dtype = layout[stage.write.tensor][1]
    special = ELEMENTS[stage.func].special
    if stage.combine is None:
        best = _spatial(engine, loops.merged(), dtype, special) if 0 not in loops.extents else (0, 0)
        if loops.partial:
            best = _sum(best, _fill(engine, stage, points, layout))
        return Run(*best, engine.latency)
    fill = _fill(engine, stage, points, layout)
    if 0 in loops.extents:
        return Run(*fill, engine.latency)
    folded = stage.func == "copy" or (stage.func == "mul" and stage.combine == "sum")
    if not folded:
        # The function first, into a temporary, then its combination.
        first = _spatial(engine, loops.merged(), "float32", special)
        return Run(*_sum(first, _reduction(engine, loops.merged(), dtype, "float32", fill)[1:]), engine.latency)
    reads = [layout[r.tensor][1] for r in stage.factors if r.tensor in layout]
    merged = loops.merged()
    below, count, busy = _reduction(engine, merged, dtype, reads[0] if reads else dtype, fill, stage.start is not None)
    window = _window(engine, stage, merged, reads, fill, below)
    return Run(*(window or (count, busy)), engine.latency)


def _sum(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]


def _fill(engine: Engine, stage: Stage, points: Box, layout: Layout) -> tuple[int, int]:
    """Setting what the stage writes to one value, or to what it starts from."""
    axes = [a for a, axis in enumerate(stage.axes) if not axis.reduce]
    accesses = [stage.write] if stage.start is None else [stage.write, stage.start]
    walks = [_walk(access, layout[access.tensor][0], len(stage.axes)) for access in accesses]
    loops = _Loops(tuple(points[a].size for a in axes), tuple(tuple(w[a] for a in axes) for w in walks))
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


def _window(
    engine: Engine, stage: Stage, loops: _Loops, reads: Sequence[str], fill: tuple[int, int], below: int
) -> tuple[int, int] | None:
    """(instructions, busy cycles) by instructions that visit windows, if these alone take less than ``below``."""
    combine = stage.combine or ""
    if window_mnemonic(stage.func, combine, len(reads)) is None or len(reads) != len(stage.operands):
        return None
    parts = [p.found for p in cheapest_parts(engine, loops.extents, loops.strides, loops.guards, reads, below)]
    if not parts:
        return None
    replaces = stage.start is None and not loops.cut and all(overwrites(p.nest, p.window, combine) for p in parts)
    first = (0, 0) if replaces else fill
    return _sum((sum(p.window.instructions for p in parts), sum(p.window.busy for p in parts)), first)


def _reduction(
    engine: Engine, loops: _Loops, dtype: str, source: str, fill: tuple[int, int], started: bool = False
) -> tuple[int, int, int]:
    """Accumulate over the outer loops, or fold the last loop of each.

    After a fill, if not everything is in bounds or the sum has ``started`` from something.

    Returns (busy cycles without the fill, instructions, busy cycles).
    """
    spatial = [a for a, s in enumerate(loops.strides[0]) if s]
    reduced = [a for a in range(len(loops.extents)) if a not in spatial]
    outside = prod(loops.extents[a] for a in reduced)
    repeats, busy = _spatial(engine, _Loops(tuple(loops.extents[a] for a in spatial), ((),)), dtype, False)
    fill = fill if started or loops.partial else (0, 0)
    options = [(outside * busy, outside * repeats)]
    for lane in reduced:
        if lane in loops.clipped:
            continue
        rest = outside // loops.extents[lane]
        for chosen in combinations(spatial, min(2, len(spatial))):
            times = rest * prod(loops.extents[a] for a in spatial if a not in chosen)
            shape = [*(loops.extents[a] for a in chosen), loops.extents[lane]]
            cost = times * (engine.issue + vector_body(engine, shape, source))
            options.append((cost, times))
    busy, count = min(options)
    return busy, *_sum((count, busy), fill)


def matrix_run(engine: Engine, stage: Stage, points: Box, layout: Layout, dtype: str) -> Run:
    """The matrix instructions for ``points`` of a contraction whose operands have ``dtype``."""
    if is_empty(points):
        return Run(0, 0, 0)
    roles = contraction_axes(stage)
    loops = _loops(stage, points, layout, bounded=True)

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
        loops = _Loops(shape_of(part), (row_major(boxes[0]), row_major(boxes[1]))).merged()
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
