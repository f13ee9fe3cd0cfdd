"""Cycles that parts of an operator take on each engine: what the lowering will emit, without emitting it.

A stage over a box of points becomes vector or matrix instructions. The selectors in
:mod:`girih.ir.isa` choose the loops of an instruction, for the lowering as well: :mod:`~girih.ir.isa.vector_selection`,
:mod:`~girih.ir.isa.window_selection`, :mod:`~girih.ir.isa.matrix_selection`. Loops that are left over repeat it.
Durations of single instructions are those of :mod:`girih.ir.isa.timing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod
from typing import NamedTuple

from ...ir.box import Box, Span, full, is_empty, shape_of
from ...ir.graph import DTYPES, Access, Stage
from ...ir.isa.loop_bounds import Dimension, clip, in_bounds, merge_loops
from ...ir.isa.matrix_selection import matrix_parts
from ...ir.isa.scalar_functions import ELEMENTS
from ...ir.isa.timing import bank_cycles, matrix_fill, matrix_traffic
from ...ir.isa.vector_selection import VectorForm, elementwise_form, reduction_form
from ...ir.isa.window_selection import WindowPart, cheapest_parts, overwrites, window_mnemonic
from ...ir.machine import Engine, Memory
from .instruction_shape import InstructionShape, Operands, contraction_shape, vector_shape, window_shape
from .staged_run import StagedRun

StageBuffers = Mapping[str, tuple[Box, str, Memory]]
"""Of each buffer that a stage touches: the box of the tensor that it holds, row-major, its dtype, and its memory."""


@dataclass(frozen=True)
class EngineTime:
    """What instructions take of one engine: ``busy`` cycles in all; the last result is visible ``latency`` later.

    ``fill``: of the busy cycles, those in which the array of a matrix engine is filled and drained. ``sums``: cycles
    that the memory of a matrix engine's results takes to write them once. ``traffic``: of each operand, its tensor and
    the bytes that its memory serves; ``unlimited``: busy cycles if banks served all that is asked of them, which is the
    pace at which instructions ask. ``shapes``: the instructions, if these were asked for; ``staged``: with operands
    that are staged, also their copies.
    """

    instructions: int
    busy: int
    latency: int
    fill: int = 0
    sums: int = 0
    traffic: tuple[tuple[str, float], ...] = ()
    unlimited: int = 0
    shapes: tuple[InstructionShape, ...] = ()
    staged: tuple[StagedRun, ...] = ()

    def then(self, other: EngineTime) -> EngineTime:
        """These instructions and others of the same operands, before anything is staged."""
        served = dict(self.traffic)
        for tensor, of_other in other.traffic:
            served[tensor] = served.get(tensor, 0.0) + of_other
        return EngineTime(
            self.instructions + other.instructions,
            self.busy + other.busy,
            self.latency,
            self.fill + other.fill,
            self.sums + other.sums,
            tuple(served.items()),
            self.unlimited + other.unlimited,
            self.shapes + other.shapes,
        )


def element_strides(box: Box) -> tuple[int, ...]:
    """Strides in elements of a dense array with the box's extents."""
    strides: list[int] = []
    step = 1
    for lo, hi in reversed(box):
        strides.append(step)
        step *= hi - lo if lo < hi else 0
    return tuple(reversed(strides))


def access_strides(access: Access, box: Box, loops: int) -> tuple[int, ...]:
    """By how many elements of the dense array ``box`` an operand moves in each of the loops of its stage."""
    strides = [0] * loops
    for index, step in zip(access.index, element_strides(box), strict=True):
        for axis, coeff in index.terms:
            strides[axis] += coeff * step
    return tuple(strides)


@dataclass(frozen=True)
class _Nest:
    """Loops of a stage, as far as they find something in bounds, merged where every operand sees two as one.

    ``strides[operand][loop]`` in elements, the written operand first; ``guards``: the dimensions that each operand that
    is read may leave. ``covered``: every element of what is written is visited.
    """

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    guards: tuple[tuple[Dimension, ...], ...]
    covered: bool

    @property
    def guarded(self) -> frozenset[int]:
        return frozenset(a for dimensions in self.guards for g in dimensions for a in g.loops)

    @property
    def partial(self) -> bool:
        """Whether some elements of what is written are not, so that they must be set before."""
        return not self.covered or bool(self.guarded)

    def elements(self, operand: int, form: VectorForm) -> int:
        """How many elements instructions take of an operand: one that stays where it is, once in each of them."""
        moving = self.strides[operand]
        return prod(e for a, e in enumerate(self.extents) if moving[a] or a not in form.loops)


def _dimensions(access: Access, points: Box, layout: StageBuffers) -> tuple[Dimension, ...]:
    """All dimensions of an operand, over loops that count from the first of ``points``."""
    box = layout[access.tensor][0]
    return tuple(
        Dimension(
            index.coeffs,
            index.const - span.lo + sum([c * points[axis].lo for axis, c in index.terms]),
            span.size,
            pitch,
        )
        for index, span, pitch in zip(access.index, box, element_strides(box), strict=True)
    )


def _nest(stage: Stage, points: Box, layout: StageBuffers) -> _Nest | None:
    """The loops of a stage over ``points``; ``None`` if nothing is in bounds."""
    reads = [r for r in stage.factors if r.tensor in layout]
    strides = [access_strides(access, layout[access.tensor][0], len(stage.axes)) for access in (stage.write, *reads)]
    if all(r.fill is None for r in reads):
        extents, kept = merge_loops(shape_of(points), strides)
        return _Nest(extents, tuple(tuple([s[a] for a in kept]) for s in strides), ((),) * len(reads), True)
    bounded = [_dimensions(r, points, layout) if r.fill is not None else () for r in reads]
    clipped = clip(shape_of(points), [a.reduce for a in stage.axes], bounded)
    if clipped.empty:
        return None
    extents, kept = merge_loops(clipped.extents, strides, clipped.guarded)
    return _Nest(
        extents,
        tuple(tuple(s[a] for a in kept) for s in strides),
        tuple(tuple(g.renumbered(kept) for g in guards) for guards in clipped.guards),
        clipped.covered,
    )


def vector_run(engine: Engine, stage: Stage, points: Box, layout: StageBuffers, *, shaped: bool = False) -> EngineTime:
    """The vector instructions for ``points`` of one stage: 0 of them for an empty box.

    ``shaped``: with the shapes of the instructions.
    """
    if is_empty(points):
        return EngineTime(0, 0, 0)
    nest = _nest(stage, points, layout)
    filling = _Filling(engine, stage, points, layout)
    if nest is None:
        instructions, busy = filling.time
        of_fill = (filling.shape(),) if shaped else ()
        return EngineTime(instructions, busy, engine.latency, unlimited=busy, shapes=of_fill)
    dtype = layout[stage.write.tensor][1]
    special = ELEMENTS[stage.func].special
    reads = [r for r in stage.factors if r.tensor in layout]
    dtypes = [layout[r.tensor][1] for r in reads]
    steps = prod(nest.extents)
    walks = list(zip((stage.write.tensor, *(r.tensor for r in reads)), nest.strides, strict=True))

    def shapes(form: VectorForm, operands: Operands, *, filled: bool, adds: bool = False) -> list[InstructionShape]:
        if not shaped:
            return []
        return [*([filling.shape()] if filled else ()), vector_shape(form, nest.extents, operands, adds=adds)]

    if stage.combine is None:
        form = elementwise_form(engine, nest.extents, dtype, target=nest.strides[0], special=special)
        operands = enumerate((stage.write, *reads))
        demands = [_demand(access, points, layout, nest.elements(o, form)) for o, access in operands]
        emitted = shapes(form, walks, filled=nest.partial)
        return _limited(engine, _sum(form, filling if nest.partial else None), demands, emitted)
    started = stage.start is not None
    if stage.func != "copy" and (stage.func, stage.combine) != ("mul", "sum"):
        # The function first, into a temporary, then its combination.
        first = elementwise_form(engine, nest.extents, "float32", target=nest.strides[0], special=special)
        form = _reduction(engine, nest, dtype, "float32")
        sources = [_demand(r, points, layout, nest.elements(o + 1, first)) for o, r in enumerate(reads)]
        instructions, busy = _sum(first, filling if nest.partial else None)
        emitted = [
            *shapes(first, [("", nest.strides[0]), *walks[1:]], filled=nest.partial),
            *shapes(form, walks[:1], filled=False),
        ]
        return _limited(engine, (instructions + form.instructions, busy + form.busy), sources, emitted)
    form = _reduction(engine, nest, dtype, dtypes[0] if dtypes else dtype)
    parts = _window(engine, stage, nest, dtypes, form.busy)
    visited = [steps if parts else nest.elements(o + 1, form) for o in range(len(reads))]
    sources = [_demand(read, points, layout, elements) for read, elements in zip(reads, visited, strict=True)]
    filled = started or nest.partial
    if parts:
        replaces = stage.start is None and nest.covered and all(overwrites(p, stage.combine) for p in parts)
        instructions, busy = (0, 0) if replaces else filling.time
        window = instructions + sum(p.form.instructions for p in parts), busy + sum(p.form.busy for p in parts)
        emitted = [window_shape(part, walks, adds=not replaces) for part in parts] if shaped else []
        return _limited(engine, window, sources, [*([filling.shape()] if shaped and not replaces else ()), *emitted])
    if form.folds:
        # What the lanes fold is written once in each instruction, and read before if something is there.
        sums = _demand(stage.write, points, layout, (2 if filled else 1) * nest.elements(0, form))
        emitted = shapes(form, walks, filled=filled, adds=filled)
        return _limited(engine, _sum(form, filling if filled else None), [*sources, sums], emitted)
    # One instruction for each point of the reduction reads and writes all sums.
    sums = _demand(stage.write, points, layout, 2 * steps)
    emitted = shapes(form, walks, filled=filled, adds=True)
    return _limited(engine, _sum(form, filling if filled else None), [*sources, sums], emitted)


def _limited(
    engine: Engine, form: tuple[int, int], demands: Sequence[_Demand], shapes: Sequence[InstructionShape] = ()
) -> EngineTime:
    """(instructions, busy cycles) at the pace of the banks that serve them."""
    instructions, unlimited = form
    issue = instructions * engine.issue
    busy = issue + max(unlimited - issue, ceil(_bank_cycles(demands)))
    traffic = _traffic(demands)
    return EngineTime(instructions, busy, engine.latency, 0, 0, traffic, unlimited, tuple(shapes))


def _sum(form: VectorForm, filling: _Filling | None) -> tuple[int, int]:
    instructions, busy = filling.time if filling else (0, 0)
    return form.instructions + instructions, form.busy + busy


@dataclass(frozen=True)
class _Filling:
    """Instructions that set what a stage writes to one value, or to what it starts from; most stages need none."""

    engine: Engine
    stage: Stage
    points: Box
    layout: StageBuffers

    @cached_property
    def time(self) -> tuple[int, int]:
        """Instructions, and their busy cycles."""
        form, _, _ = self._walked
        return form.instructions, form.busy

    def shape(self) -> InstructionShape:
        return vector_shape(*self._walked)

    @cached_property
    def _walked(self) -> tuple[VectorForm, tuple[int, ...], Operands]:
        """The instructions, the extents of their loops, and what walks them."""
        stage, layout = self.stage, self.layout
        axes = [a for a, axis in enumerate(stage.axes) if not axis.reduce]
        accesses = [stage.write] if stage.start is None else [stage.write, stage.start]
        walks = [access_strides(access, layout[access.tensor][0], len(stage.axes)) for access in accesses]
        extents, kept = merge_loops([self.points[a].size for a in axes], [[w[a] for a in axes] for w in walks])
        target = [walks[0][axes[k]] for k in kept]
        form = elementwise_form(self.engine, extents, layout[stage.write.tensor][1], target=target)
        operands = [(a.tensor, [w[axes[k]] for k in kept]) for a, w in zip(accesses, walks, strict=True)]
        return form, extents, operands


def _reduction(engine: Engine, nest: _Nest, dtype: str, source: str) -> VectorForm:
    reduced = [a for a, stride in enumerate(nest.strides[0]) if not stride]
    lanes = [a for a in reduced if a not in nest.guarded]
    return reduction_form(engine, nest.extents, reduced, lanes, (dtype, source), nest.strides[0])


def _window(engine: Engine, stage: Stage, nest: _Nest, reads: Sequence[str], below: int) -> tuple[WindowPart, ...]:
    """Instructions that visit windows, if these alone take less than ``below``; none if not."""
    combine = stage.combine or ""
    if window_mnemonic(stage.func, combine, len(reads)) is None or len(reads) != len(stage.operands):
        return ()
    return cheapest_parts(engine, nest.extents, nest.strides, nest.guards, reads, below)


def matrix_run(
    engine: Engine, stage: Stage, points: Box, layout: StageBuffers, dtype: str, *, accumulates: bool = False,
    staged: bool = False, shaped: bool = False,
) -> EngineTime:  # fmt: skip
    """The matrix instructions for ``points`` of a contraction whose operands have ``dtype``.

    ``accumulates``: they add to what is there. Where memories serve less than the array wants, it goes at their pace.
    ``staged``: those of a machine with staging memories; ``shaped``: with the shapes of the instructions.
    """
    if is_empty(points):
        return EngineTime(0, 0, 0)
    loops = len(stage.axes)
    strides = tuple(
        access_strides(access, layout[access.tensor][0], loops) if access.tensor in layout else (0,) * loops
        for access in (stage.write, *stage.factors)
    )
    left_operand = stage.factors[0]
    dimensions = _dimensions(left_operand, points, layout) if left_operand.tensor in layout else ()
    extents = shape_of(points)
    leaving = [d for d in dimensions if left_operand.fill is not None and d.may_leave(full(extents))]
    guarded = {a for d in leaving for a in d.loops}
    if any(not span.size for span in in_bounds(extents, [axis.reduce for axis in stage.axes], leaving)):
        return EngineTime(0, 0, 0)  # this part of the kernel finds nothing but padding
    operands = [(a.tensor, w) for a, w in zip((stage.write, *stage.factors), strides, strict=True)]
    if stage.start is not None:
        operands.append((stage.start.tensor, access_strides(stage.start, layout[stage.start.tensor][0], loops)))
    total = EngineTime(0, 0, engine.latency)
    parts = matrix_parts(engine, dtype, extents, strides, dimensions, guarded, started=accumulates, staged=staged)
    for part in parts:
        form, adds = part.form, accumulates or not part.first
        inside = tuple(Span(p.lo + s.lo, p.lo + s.hi) for p, s in zip(points, part.spans, strict=True))
        sums, of_left, of_right, of_start = matrix_traffic(engine, *form.shape)
        served = [(stage.write, sums * (2 if adds else 1)), (left_operand, of_left), (stage.factors[1], of_right)]
        if stage.start is not None and part.first:
            served.append((stage.start, of_start))
        demands = [
            _demand(access, inside, layout, elements * form.instructions)
            for access, elements in served
            if access.tensor in layout
        ]
        issue = form.issued * engine.issue
        busy = issue + max(form.busy - issue, ceil(_bank_cycles(demands)))
        run = EngineTime(
            form.issued,
            busy,
            engine.latency,
            form.instructions * matrix_fill(engine, *form.shape) // engine.count,
            ceil(_bank_cycles([_demand(stage.write, inside, layout, sums * form.instructions)])),
            _traffic(demands),
            form.busy,
            (contraction_shape(form, busy, engine, operands, adds=adds),) if shaped else (),
        )
        total = run if not total.instructions else total.then(run)
    return total


class _Demand(NamedTuple):
    """Of an operand: its tensor, the memory, the bytes that it serves, and those from the first to the last of them."""

    tensor: str
    memory: Memory
    served: float
    covered: int


def _bank_cycles(demands: Iterable[_Demand]) -> float:
    return bank_cycles((d.memory, d.served, d.covered) for d in demands)


def _traffic(demands: Iterable[_Demand]) -> tuple[tuple[str, float], ...]:
    return tuple((d.tensor, d.served) for d in demands)


def _demand(access: Access, points: Box, layout: StageBuffers, elements: int) -> _Demand:
    """What an operand of so many ``elements`` asks of its memory."""
    box, dtype, memory = layout[access.tensor]
    first_to_last = 1
    for index, span, step in zip(access.index, box, element_strides(box), strict=True):
        covered = index.over(points)
        first_to_last += max(0, min(covered.hi, span.hi) - max(covered.lo, span.lo) - 1) * step
    return _Demand(access.tensor, memory, float(elements * DTYPES[dtype]), first_to_last * DTYPES[dtype])
