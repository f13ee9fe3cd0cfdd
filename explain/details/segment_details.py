"""One segment: its operators and splits, what it takes and loses, what it moves, and how full memories get."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ...ir.plan import Split
from ...ir.semantics.kernel_engine import kernel_engine
from ..compilation import Compilation
from ..cycles.losses import losses
from ..memory_use import plan_peak
from ..plan_tables import SegmentRow, predicted, segment_rows

_LARGEST_LOSSES = 4


@dataclass(frozen=True)
class SegmentOperatorRow:
    """An operator: ``predicted`` cycles of all its slots, and ``cycles``, ``lost`` ones and ``losses`` of the run."""

    name: str
    engine: str
    predicted: int
    cycles: float
    lost: float
    losses: str


@dataclass(frozen=True)
class SegmentTransferRow:
    """A tensor that enters or leaves the segment through shared memory, in portions of this shape."""

    tensor: str
    direction: str
    bytes: int
    portion: tuple[int, ...]


@dataclass(frozen=True)
class SegmentRoomRow:
    """A core's memory: the most bytes that live at once, and the operator at which they do."""

    memory: str
    peak: int
    capacity: int
    at: str


@dataclass(frozen=True)
class SegmentDetails:
    """All about one segment. ``row`` is its row in the report; ``cores`` the core of each cell of an instance.

    ``steps`` are its instances as numbers in the order of the plan, each with its predicted first and last cycle.
    ``cycles`` and ``work`` are those of ``resource``, the resource with the most work, in the run, and ``losses`` the
    largest ones as a sentence. ``loads``: cycles that the segment alone would keep engines and links busy.
    """

    row: SegmentRow
    instances: tuple[Split, ...]
    splits: tuple[Split, ...]
    cell_cores: tuple[int, ...]
    aliased: tuple[str, ...]
    steps: tuple[tuple[int, int, int], ...]
    resource: str
    cycles: float
    work: float
    losses: str
    loads: tuple[tuple[str, float], ...]
    operators: tuple[SegmentOperatorRow, ...]
    transfers: tuple[SegmentTransferRow, ...]
    rooms: tuple[SegmentRoomRow, ...]


def segment_details(compilation: Compilation, index: int) -> SegmentDetails:
    """All about a segment of the plan."""
    graph, plan, machine = compilation.graph, compilation.plan, compilation.machine
    breakdown, segment = compilation.breakdown, plan.segments[index]
    whole = next(row for row in breakdown.segments_of(breakdown.bounding) if row.segment == index)
    by_op = {row.op: row for row in breakdown.operators if row.segment == index}
    cycles = predicted(plan)
    loads: dict[str, float] = defaultdict(float)
    for op in segment.ops:
        for name, amount in compilation.loads.get(op, {}).items():
            loads[name] += amount
    spans: dict[int, list[int]] = defaultdict(list)
    for p in plan.predictions:
        spans[p.step] += [p.start, p.stop]
    operators: list[SegmentOperatorRow] = []
    for op in segment.ops:
        row, tile = by_op[op], segment.tile.get(op)
        operator = graph.op[op]
        engine = kernel_engine(graph, operator, machine)[0] if operator.host else tile.engine if tile else ""
        operators.append(
            SegmentOperatorRow(op, engine, cycles.get((index, op), 0), row.cycles, row.lost, losses(row, machine))
        )
    results = {name for op in segment.ops for name in graph.op[op].outputs}
    return SegmentDetails(
        row=segment_rows(plan, compilation.loads)[index],
        instances=segment.instances,
        splits=segment.cores,
        cell_cores=plan.cell_cores[index],
        aliased=segment.aliased,
        steps=tuple(
            (number, min(spans.get(number, [0])), max(spans.get(number, [0])))
            for number, step in enumerate(plan.steps)
            if step.segment == index
        ),
        resource=breakdown.bounding,
        cycles=whole.cycles,
        work=whole.work or 0.0,
        losses=losses(whole, machine, _LARGEST_LOSSES),
        loads=tuple(sorted(((n, c) for n, c in loads.items() if c), key=lambda load: (-load[1], load[0]))),
        operators=tuple(operators),
        transfers=tuple(
            SegmentTransferRow(
                t.tensor, "store" if t.tensor in results else "load", graph.tensor[t.tensor].bytes, t.portion
            )
            for t in plan.transfers
            if t.segment == index
        ),
        rooms=_rooms(compilation, index),
    )


def _rooms(compilation: Compilation, index: int) -> tuple[SegmentRoomRow, ...]:
    plan = compilation.plan
    rows: list[SegmentRoomRow] = []
    for memory in compilation.machine.memories:
        buffers = [b for b in plan.local if b.segment == index and b.memory == memory.name]
        if buffers:
            peak = plan_peak(plan, buffers)
            at = plan.slots[peak.slot][1] if peak.slot >= 0 else ""
            rows.append(SegmentRoomRow(memory.name, peak.bytes, memory.capacity, at))
    return tuple(rows)
