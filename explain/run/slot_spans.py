"""The plan's slots as spans of cycles: as predicted, and as they ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from ...ir.plan import Plan
from ...ir.program import Program
from .execution import Execution


@dataclass(frozen=True)
class SlotSpans:
    """Row i: slot ``slot[i]`` lasts from cycle ``start[i]`` to ``stop[i]``; spans of a ``lane`` do not overlap."""

    slot: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    lane: np.ndarray


def predicted_spans(plan: Plan) -> SlotSpans:
    """When each slot was expected to compute on the busiest core, in the order of the plan's predictions."""
    slot_of = {slot: number for number, slot in enumerate(plan.slots)}
    return _spans((slot_of[p.step, p.op], p.start, p.stop) for p in plan.predictions)


def simulated_spans(plan: Plan, program: Program, execution: Execution) -> SlotSpans:
    """From the start of the first to the end of the last instruction with which any core computed in a slot.

    A slot of the host or the scalar engine lasts as long as its kernel.
    """
    columns, slots = execution.columns, execution.slots
    kind = np.array([c.instruction.row.kind for c in columns.classes] or [""])[columns.class_of]
    rows = np.flatnonzero(np.isin(kind, ("matrix", "vector")) & (slots >= 0))
    numbers, which = np.unique(slots[rows], return_inverse=True)
    start = np.full(len(numbers), np.iinfo(np.int64).max)
    stop = np.zeros(len(numbers), np.int64)
    np.minimum.at(start, which, columns.start[rows])
    np.maximum.at(stop, which, columns.end[rows])
    slot_of = {op: number for number, (_, op) in enumerate(plan.slots)}
    calls = [
        (slot_of[program.ops[columns.op[row]].name], int(columns.start[row]), int(columns.end[row]))
        for row in np.flatnonzero(np.isin(kind, ("host", "scalar")))
    ]
    return _spans([*zip(numbers.tolist(), start.tolist(), stop.tolist(), strict=True), *calls])


def _spans(rows: Iterable[tuple[int, int, int]]) -> SlotSpans:
    ordered = sorted(rows, key=lambda row: (row[1], row[2], row[0]))
    slot, start, stop = np.array(ordered, np.int64).reshape(-1, 3).T
    return SlotSpans(slot, start, stop, lanes(start.tolist(), stop.tolist()))


def lanes(start: Iterable[int], stop: Iterable[int]) -> np.ndarray:
    """The lowest lane that is free for each span, in the order of their starts."""
    ends: list[tuple[int, int]] = []
    free: list[int] = []
    span_lanes: list[int] = []
    for begin, end in zip(start, stop, strict=True):
        while ends and ends[0][0] <= begin:
            heappush(free, heappop(ends)[1])
        lane = heappop(free) if free else len(ends)
        span_lanes.append(lane)
        heappush(ends, (max(end, begin + 1), lane))
    return np.array(span_lanes, np.int64)
