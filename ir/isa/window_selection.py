"""Combinations as window instructions: which loops one of them takes, and the cycles of all.

Prediction and emission share this, so that what is emitted is what was counted on.

A sum of products, a sum or a maximum over reduced loops can go to an instruction of rule `window`: two dimensions of
its source, each walked by an output loop and a kernel loop, and one or two loops along the lanes: channels, and
positions that have the same kernel, as many channels would leave a part of the lanes empty. Loops that are left over
repeat it. Positions that may be out of bounds are the instruction's business in the dimensions that it knows; where
nothing can be, any loop with a stride of its own can be a dimension. Strides are in any unit, the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod

import numpy as np

from ..box import Span
from ..machine import Engine
from .loop_bounds import Dimension
from .timing import divided, vector_body, write_apart

MOST_STEP = (1 << 16) - 1
"""The largest stride or dilation that an instruction holds."""


@dataclass(frozen=True)
class Combination:
    """Loops that combine ``source`` (times ``factor``, if there is one) into ``target``; strides by loop.

    Loops with no stride in the target are reduced.
    """

    extents: tuple[int, ...]
    target: tuple[int, ...]
    source: tuple[int, ...]
    factor: tuple[int, ...] | None
    guards: tuple[Dimension, ...]


@dataclass(frozen=True)
class Slot:
    """A dimension of an instruction: its loops (``None``: extent one), their steps, and the pitch of a position.

    ``guard``: the one that it looks after, if any.
    """

    out: int | None
    kernel: int | None
    stride: int
    dilation: int
    pitch: int
    guard: int | None

    @cached_property
    def loops(self) -> tuple[int, ...]:
        return tuple(a for a in (self.out, self.kernel) if a is not None)


EMPTY = Slot(None, None, 1, 1, 0, None)


@dataclass(frozen=True)
class WindowForm:
    """``instructions`` that take ``busy`` cycles in all, each over the loops of two slots and of the lanes.

    Along the lanes is ``lane``, once for each point of ``beside`` if there is one. Of several engines that share them,
    ``instructions`` and ``busy`` are of the one that has the most to do.
    """

    busy: int
    instructions: int
    row: Slot
    column: Slot
    lane: int | None
    beside: int | None = None

    @property
    def loops(self) -> tuple[int, ...]:
        return (*self.row.loops, *self.column.loops, *(a for a in (self.beside, self.lane) if a is not None))


def window_mnemonic(func: str, combine: str, reads: int) -> str | None:
    """The instruction that combines ``func`` of so many tensors over windows."""
    known = {("mul", "sum", 2): "vdwconv.vv", ("copy", "sum", 1): "vpool.sum", ("copy", "max", 1): "vpool.max"}
    return known.get((func, combine, reads))


@dataclass(frozen=True)
class WindowPart:
    """Instructions for all points of a nest, or for ``only`` some values of a loop, which ``nest`` counts from 0.

    ``source`` is the number of the operand, among those that are read, whose windows the instructions visit.
    """

    source: int
    nest: Combination
    form: WindowForm
    only: tuple[int, Span] | None = None


def cheapest_parts(
    engine: Engine,
    extents: tuple[int, ...],
    strides: tuple[tuple[int, ...], ...],
    guards: tuple[tuple[Dimension, ...], ...],
    dtypes: Sequence[str],
    below: int,
) -> tuple[WindowPart, ...]:
    """The cheapest way to do all loops, if it takes fewer than ``below`` cycles; empty if none does.

    At once, or in three parts: the positions of one loop from which nothing out of bounds is seen, and those before and
    behind them. The instructions of the former need not look after that dimension, so that the loop can be along the
    lanes, of which the channels may fill a part alone. ``strides`` are those of what is written, and of each operand
    that is read; ``guards`` and ``dtypes`` are of these.
    """
    whole = cheapest(engine, extents, guards, strides, dtypes, below)
    best: tuple[WindowPart, ...] = ()
    if whole is not None:
        best, below = (whole,), whole.form.busy
    for loop, inner in _inner(extents, strides[0], guards):
        spans = [s for s in (inner, Span(0, inner.lo), Span(inner.hi, extents[loop])) if s.size]
        parts: list[WindowPart] = []
        budget = below
        for span in spans:
            part = cheapest(engine, *_restricted(extents, guards, loop, span), strides, dtypes, budget)
            if part is None:
                break
            budget -= part.form.busy
            parts.append(replace(part, only=(loop, span)))
        if len(parts) == len(spans):
            best, below = tuple(parts), below - budget
    return best


def _inner(
    extents: tuple[int, ...], target: tuple[int, ...], guards: tuple[tuple[Dimension, ...], ...]
) -> Iterator[tuple[int, Span]]:
    """Loops of the result that alone decide, with reduced ones, whether a dimension is in bounds; and where it is."""
    for guard in (g for of_read in guards for g in of_read):
        outs = [a for a in guard.loops if target[a]]
        if len(outs) != 1 or guard.coeffs[outs[0]] < 0:
            continue
        (loop,) = outs
        steps = [guard.coeffs[a] * (extents[a] - 1) for a in guard.loops if a != loop]
        low = guard.const + sum(min(0, s) for s in steps)
        high = guard.const + sum(max(0, s) for s in steps)
        step = guard.coeffs[loop]
        inner = Span(max(0, -(low // step)), min(extents[loop], (guard.bound - 1 - high) // step + 1))
        if 1 < inner.size < extents[loop]:
            yield loop, inner


def _restricted(
    extents: tuple[int, ...], guards: tuple[tuple[Dimension, ...], ...], loop: int, span: Span
) -> tuple[tuple[int, ...], tuple[tuple[Dimension, ...], ...]]:
    """Extents and guards for some values of a loop; without the guards that nothing is left for."""
    kept = tuple(span.size if a == loop else e for a, e in enumerate(extents))
    points = tuple(Span(0, e) for e in kept)
    moved = tuple(tuple(replace(g, const=g.const + g.coeffs[loop] * span.lo) for g in gs) for gs in guards)
    return kept, tuple(tuple(g for g in gs if g.may_leave(points)) for gs in moved)


def cheapest(
    engine: Engine,
    extents: tuple[int, ...],
    guards: tuple[tuple[Dimension, ...], ...],
    strides: tuple[tuple[int, ...], ...],
    dtypes: Sequence[str],
    below: int,
) -> WindowPart | None:
    """The cheapest instructions that do all loops, if they take fewer than ``below`` cycles."""
    best: WindowPart | None = None
    target, *reads = strides
    for source, walk in enumerate(reads):
        others = [n for n in range(len(reads)) if n != source]
        if any(guards[n] for n in others):
            continue
        nest = Combination(extents, target, walk, reads[others[0]] if others else None, guards[source])
        form = _cheapest(engine, nest, dtypes[source], below)
        if form is not None:
            best, below = WindowPart(source, nest, form), form.busy
    return best


def _cheapest(engine: Engine, nest: Combination, dtype: str, below: int) -> WindowForm | None:
    if dtype not in (engine.lanes or {}):
        return None
    points = prod(nest.extents)
    slots: list[Slot] | None = None
    best: WindowForm | None = None
    for beside, lane in _lanes(nest, alone=engine.count == 1):
        extents = [1 if a is None else nest.extents[a] for a in (beside, lane)]
        along = prod(extents)
        # However the other loops are dealt with, each of their points is a step.
        body = vector_body(engine, (points // along, along), dtype)
        if body // engine.count + engine.issue >= below:
            continue
        slots = _slots(nest) if slots is None else slots
        row, column, points_of_both = _largest_pair(nest, [s for s in slots if not {lane, beside} & {*s.loops}])
        instructions = points // along // points_of_both
        kernel = prod(nest.extents[s.kernel] for s in (row, column) if s.kernel is not None)
        outs = [nest.extents[s.out] for s in (row, column) if s.out is not None]
        row, column = sorted((row, column), key=lambda s: -abs(s.pitch))
        form = WindowForm(0, 0, row, column, lane, beside)
        times, busy = divided(
            engine, instructions, (*outs, *extents),
            lambda part, kernel=kernel: vector_body(engine, (kernel, *part[:-2], part[-2] * part[-1]), dtype),
            apart=write_apart(nest.extents, nest.target, form.loops),
        )  # fmt: skip
        if busy < below:
            below, best = busy, replace(form, busy=busy, instructions=times)
    return best


def _lanes(nest: Combination, *, alone: bool) -> Iterator[tuple[int | None, int | None]]:
    """Loops that may be along the lanes: of positions beside one another, or none, and of channels.

    What may be out of bounds is looked after outside of the lanes. Positions are beside one another only where each
    lane has its own element of the source, and each channel its own weights: other contractions have no such channels.
    Nor are they for an engine that is not ``alone``: several that share instructions wait for each other's parts, of
    which estimates of columns and tiles know nothing (decision 0024 has the cycles).
    """
    guarded = {a for g in nest.guards for a in g.loops}
    spatial = [a for a, s in enumerate(nest.target) if s and a not in guarded]
    yield from ((None, a) for a in (*spatial, None))
    if not alone:
        return
    moving = [a for a in spatial if nest.source[a]]
    positions = [a for a in moving if not (nest.factor and nest.factor[a])]
    channels = moving if nest.factor is None else [a for a in moving if nest.factor[a]]
    yield from ((beside, a) for a in channels for beside in positions if beside != a)


def _largest_pair(nest: Combination, slots: Sequence[Slot]) -> tuple[Slot, Slot, int]:
    """The two slots with the most points, either of which may be empty, and how many points they have.

    They share no loop; and of a guard, an instruction can look after one slot alone.
    """
    sizes = [prod(nest.extents[a] for a in slot.loops) for slot in slots]
    best, most = (EMPTY, EMPTY), 1
    for slot, size in zip(slots, sizes, strict=True):
        if size > most:
            best, most = (EMPTY, slot), size
    for i, (one, size) in enumerate(zip(slots, sizes, strict=True)):
        for other, beside in zip(slots[i + 1 :], sizes[i + 1 :], strict=True):
            apart = one.guard is None or one.guard != other.guard
            if size * beside > most and apart and set(one.loops).isdisjoint(other.loops):
                best, most = (one, other), size * beside
    return *best, most


def _slots(nest: Combination) -> list[Slot]:
    """Every dimension that an instruction could have."""
    owners = {a: [number for number, g in enumerate(nest.guards) if g.coeffs[a]] for a in range(len(nest.extents))}
    # A loop of the kernel finds its weights wherever they are, but those of an output are the same for all outputs.
    outs = [a for a, s in enumerate(nest.target) if s and not (nest.factor and nest.factor[a])]
    kernels = [a for a, s in enumerate(nest.target) if not s]
    slots: list[Slot] = []
    for out in (*outs, None):
        for kernel in (*kernels, None):
            slot = _slot(nest, owners, out, kernel)
            if slot is not None:
                slots.append(slot)
    return slots


def _slot(nest: Combination, owners: dict[int, list[int]], out: int | None, kernel: int | None) -> Slot | None:
    """A loop of a guard must be in that dimension alone, and both loops in the same."""
    loops = [a for a in (out, kernel) if a is not None]
    if not loops or any(owners[a] != owners[loops[0]] or len(owners[a]) > 1 for a in loops):
        return None
    guard = owners[loops[0]][0] if owners[loops[0]] else None
    pitch = _pitch(nest, loops) if guard is None else nest.guards[guard].pitch
    if not pitch or any(guard is not None and nest.source[a] != nest.guards[guard].coeffs[a] * pitch for a in loops):
        return None
    stride, dilation = (1 if a is None else nest.source[a] // pitch for a in (out, kernel))
    fits = 0 < stride <= MOST_STEP and 0 < dilation <= MOST_STEP
    if guard is None and out is not None and kernel is not None:
        # Loops of two dimensions of the source can make one if nothing lies between the positions that they visit.
        fits = fits and (
            (dilation == 1 and stride <= nest.extents[kernel]) or (stride == 1 and dilation <= nest.extents[out])
        )
    return Slot(out, kernel, stride, dilation, pitch, guard) if fits else None


def _pitch(nest: Combination, loops: list[int]) -> int:
    """The largest step that every loop takes a multiple of, in its direction."""
    size = gcd(*(nest.source[a] for a in loops))
    return -size if nest.source[loops[0]] < 0 else size


def overwrites(part: WindowPart, combine: str) -> bool:
    """Whether the first instruction at each place of the target can overwrite what is there.

    Where it sees nothing it writes 0: that is a sum of nothing, but no maximum.
    """
    for number, guard in enumerate(part.nest.guards):
        slot = next((s for s in (part.form.row, part.form.column) if s.guard == number), None)
        if slot is None or (combine != "sum" and not _sees(part.nest, guard, slot)):
            return False
    return True


def _sees(nest: Combination, guard: Dimension, slot: Slot) -> bool:
    """Whether some position of the kernel is in bounds, wherever the other loops are."""
    at = np.array([[guard.const]])
    for a in guard.loops:
        steps = np.arange(nest.extents[a]) * guard.coeffs[a]
        if a == slot.kernel:
            at = (at[:, :, None] + steps).reshape(len(at), -1)
        else:
            at = (at[:, None, :] + steps[:, None]).reshape(-1, at.shape[1])
    return bool(((at >= 0) & (at < guard.bound)).any(axis=1).all())
