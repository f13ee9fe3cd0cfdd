"""One memory: how full it gets and when, what fills it then, its use over time, and what its banks cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...ir.plan import LocalBuffer, Plan, SharedBuffer
from ..compilation import Compilation
from ..memory_use import memory_rows, peak_of
from ..run.covered_bytes import covered_bytes

_LARGEST = 12
"""Buffers at the peak."""
PERIODS = 60
"""Periods of equal length that the profile divides the run into."""


@dataclass(frozen=True)
class BufferRow:
    """A buffer that lives at the peak; ``since`` and ``until``: (operator, step) of the first and last slot of it.

    In a core's memory the steps are those of the first instance of the segment. ``use``: data, scratch or weights.
    """

    name: str
    op: str
    use: str
    address: int
    bytes: int
    since: tuple[str, int]
    until: tuple[str, int]


@dataclass(frozen=True)
class MemoryDetails:
    """All about one memory (of one core, or of the cluster).

    ``peak`` bytes live at once from the slot (operator ``at``, step ``step``) on, at the predicted ``cycle``;
    ``extent`` is the end of the last buffer; ``activations`` and ``constants`` the peak of either. ``filling`` are the
    largest buffers then, of ``buffers`` that live there. ``profile[i]``: the most bytes that live in the i-th of equal
    periods of the predicted run. ``conflicts`` are the cycles that engines lost in the run because they met at a bank,
    summed over the cores; ``None`` where nothing counts them.
    """

    name: str
    role: str
    scope: str
    capacity: int
    banks: int
    interleave: int
    bytes_per_cycle: int
    peak: int
    extent: int
    activations: int
    constants: int
    at: str
    step: int
    cycle: int
    buffers: int
    filling: tuple[BufferRow, ...]
    period: float
    profile: tuple[int, ...]
    conflicts: int | None


def memory_details(compilation: Compilation, name: str) -> MemoryDetails:
    """All about a memory of the machine."""
    plan, machine = compilation.plan, compilation.machine
    memory = machine.memory[name]
    row = next(r for r in memory_rows(compilation.graph, plan, machine) if r.memory == name)
    lives = _lives(plan, name)
    peak, slot = peak_of((begin, end, b.address, b.bytes) for begin, end, b in lives)
    living = [(begin, end, b) for begin, end, b in lives if begin <= slot < end]
    step, op = plan.slots[min(slot, len(plan.slots) - 1)]
    starts = _starts(plan)
    largest = sorted(living, key=lambda life: (-life[2].bytes, life[2].address))[:_LARGEST]
    return MemoryDetails(
        name=name,
        role=machine.use_of(name),
        scope=memory.scope,
        capacity=memory.capacity,
        banks=memory.banks,
        interleave=memory.interleave,
        bytes_per_cycle=memory.bytes_per_cycle,
        peak=peak,
        extent=row.extent,
        activations=row.activations,
        constants=row.constants,
        at=op,
        step=step,
        cycle=starts[slot] if slot < len(starts) else 0,
        buffers=len(living),
        filling=tuple(_buffer(plan, *life) for life in largest),
        period=plan.cycles_predicted / PERIODS,
        profile=_profile(plan, lives, starts),
        conflicts=compilation.trace.counters.get(f"{name.lower()}_conflict"),
    )


def _lives(plan: Plan, name: str) -> list[tuple[int, int, LocalBuffer | SharedBuffer]]:
    """(first slot, slot after the last, buffer): a core's buffers once for each step of their segment."""
    lives: list[tuple[int, int, LocalBuffer | SharedBuffer]] = [(*b.live, b) for b in plan.shared if b.memory == name]
    local: dict[int, list[LocalBuffer]] = {}
    for b in plan.local:
        if b.memory == name:
            local.setdefault(b.segment, []).append(b)
    first = 0
    for step in plan.steps:
        length = len(plan.segments[step.segment].ops)
        lives += [(first + max(0, b.live[0]), first + min(length, b.live[1]), b) for b in local.get(step.segment, ())]
        first += length
    return lives


def _starts(plan: Plan) -> list[int]:
    """The predicted cycle at which each slot begins to compute; one without a prediction begins with the one before."""
    predicted = {(p.step, p.op): p.start for p in plan.predictions}
    starts: list[int] = []
    for slot in plan.slots:
        before = starts[-1] if starts else 0
        starts.append(max(before, predicted.get(slot, before)))
    return starts


def _profile(
    plan: Plan, lives: Sequence[tuple[int, int, LocalBuffer | SharedBuffer]], starts: Sequence[int]
) -> tuple[int, ...]:
    """For each period, the most bytes that live in a slot of it."""
    used = _used(lives, len(starts))
    profile = [0] * PERIODS
    bounds = [*starts, max(plan.cycles_predicted, starts[-1] if starts else 0)]
    width = max(1.0, plan.cycles_predicted / PERIODS)
    for bytes_, (begin, end) in zip(used, pairwise(bounds), strict=True):
        for period in range(int(begin / width), min(PERIODS, max(int(begin / width) + 1, -int(-end // width)))):
            profile[period] = max(profile[period], bytes_)
    return tuple(profile)


def _used(lives: Sequence[tuple[int, int, LocalBuffer | SharedBuffer]], slots: int) -> list[int]:
    """Bytes of the buffers that live in each slot; those that share bytes count once."""
    rows = [(begin, end, b.address, b.bytes) for begin, end, b in lives if begin < end]
    times, levels = covered_bytes(*np.array(rows, np.int64).reshape(-1, 4).T)
    return levels[np.searchsorted(times, np.arange(slots), side="right") - 1].tolist()


def _buffer(plan: Plan, begin: int, end: int, b: LocalBuffer | SharedBuffer) -> BufferRow:
    since, until = ((plan.slots[slot][1], plan.slots[slot][0]) for slot in (begin, max(begin, end - 1)))
    if isinstance(b, LocalBuffer):
        return BufferRow(b.name, b.op, b.use, b.address, b.bytes, since, until)
    return BufferRow(b.tensor, "", "data", b.address, b.bytes, since, until)
