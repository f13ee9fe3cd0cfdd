"""One tensor: its life over memories and time, each stay and each move, and why it moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.box import intersect, is_empty
from ...ir.plan import LocalBuffer, Plan
from ..compilation import Compilation
from ..memory_use import kind_of, peak_of, traffic_rows
from ..units import plural, share
from .shared_stays import Copy, Stay


@dataclass(frozen=True)
class StayRow:
    """One stay in one memory. ``since`` and ``until`` are (operator, step) of the first and the last slot of its life.

    In a core's memory a stay repeats in each instance of ``segment`` (``None``: a cluster's memory), and the steps are
    the first and the last of them. ``begin`` and ``end`` are cycles of the run: from the first write to the last read;
    ``None`` in memories of cores, and where no transfer is known. ``box`` is the part of the tensor, ``versions`` how
    often it is held; ``ring_position`` is its position in a circular buffer, ``None`` outside of one.
    """

    memory: str
    segment: int | None
    address: int
    bytes: int
    versions: int
    box: tuple[tuple[int, int], ...]
    since: tuple[str, int]
    until: tuple[str, int]
    begin: int | None
    end: int | None
    fetched: bool
    stored: bool
    ring_position: int | None


@dataclass(frozen=True)
class MoveRow:
    """All transfers of a kind (fetch, load, broadcast, store, spill) for one operator, between the same memories.

    ``bytes`` counts what a broadcast reads, once; ``begin`` and ``end`` are cycles of the run.
    """

    kind: str
    op: str
    source: str
    target: str
    copies: int
    bytes: int
    begin: int
    end: int


@dataclass(frozen=True)
class TensorDetails:
    """All about one tensor. ``made_by`` is empty for inputs and constants; ``read_by`` are operators.

    ``segments`` are those whose cores hold it. ``reason`` says why it is moved, or why not. ``circular`` is the number
    of positions of its circular buffer, 0 if it has none.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    made_by: str
    read_by: tuple[str, ...]
    segments: tuple[int, ...]
    reason: str
    again: str
    circular: int
    stays: tuple[StayRow, ...]
    moves: tuple[MoveRow, ...]


def tensor_details(compilation: Compilation, name: str, every: Sequence[Stay]) -> TensorDetails:
    """All about a tensor of the graph; ``every``: the stays of all tensors in shared memory."""
    graph, plan, machine = compilation.graph, compilation.plan, compilation.machine
    tensor = graph.tensor[name]
    stays = [stay for stay in every if stay.buffer.tensor == name]
    local = [b for b in plan.local if b.name == name and b.use != "scratch"]
    homes = [b for b in plan.shared if b.tensor == name and b.memory == machine.role("main").name]
    last = (plan.slots[-1][1], len(plan.steps) - 1)
    rows = [
        StayRow(
            b.memory, None, b.address, b.bytes, 1, tuple((s.lo, s.hi) for s in b.box), _slot(plan, b.live[0]), last,
            0, compilation.trace.cycles, False, False, None,
        )
        for b in homes
    ]  # fmt: skip
    rows += [_shared(plan, stay) for stay in stays]
    rows += [_local(plan, b) for b in local]
    rings = [stay.buffer for stay in stays if stay.buffer.ring_position or stay.buffer.ring_lead]
    reason = next((row.reason for row in traffic_rows(graph, plan, machine) if row.tensor == name), "")
    producer = graph.producer.get(name)
    return TensorDetails(
        name=name,
        kind=kind_of(graph, name),
        shape=tensor.shape,
        dtype=tensor.dtype,
        bytes=tensor.bytes,
        made_by=producer.name if producer else "",
        read_by=tuple(op.name for op in graph.consumers[name]),
        segments=tuple(sorted({b.segment for b in local})),
        reason=reason or _unmoved(compilation, name, bool(stays)),
        again=_again(compilation, stays),
        circular=1 + max((b.ring_position for b in rings), default=-1),
        stays=tuple(rows),
        moves=_moves([copy for stay in stays for copy in (*stay.writes, *stay.reads)]),
    )


def _slot(plan: Plan, slot: int) -> tuple[str, int]:
    step, op = plan.slots[min(slot, len(plan.slots) - 1)]
    return op, step


def _shared(plan: Plan, stay: Stay) -> StayRow:
    b = stay.buffer
    ring = b.ring_position if b.ring_position or b.ring_lead else None
    return StayRow(
        b.memory, None, b.address, b.bytes, 1, tuple((s.lo, s.hi) for s in b.box), _slot(plan, b.live[0]),
        _slot(plan, b.live[1] - 1), stay.begin, stay.end, b.fetch, b.store, ring,
    )  # fmt: skip


def _local(plan: Plan, b: LocalBuffer) -> StayRow:
    ops = plan.segments[b.segment].ops
    steps = [number for number, step in enumerate(plan.steps) if step.segment == b.segment]
    first, last = max(b.live[0], 0), min(b.live[1], len(ops)) - 1
    return StayRow(
        b.memory, b.segment, b.address, b.bytes, b.depth, (), (ops[first], steps[0]), (ops[last], steps[-1]),
        None, None, False, False, None,
    )  # fmt: skip


def _unmoved(compilation: Compilation, name: str, shared: bool) -> str:
    """Why a tensor does not pass through main memory."""
    if shared:
        return f"kept on chip: it crosses segments through {compilation.machine.role('shared').name}"
    return "kept in the cores: the operators that make and read it are in one segment"


def _again(compilation: Compilation, stays: Sequence[Stay]) -> str:
    """Why parts are fetched again: what others took of the shared memory between two stays of the same part."""
    plan, shared = compilation.plan, compilation.machine.role("shared")
    fetched = sorted((stay.buffer for stay in stays if stay.buffer.fetch), key=lambda b: b.live)
    gaps: list[tuple[int, int]] = []
    for number, b in enumerate(fetched):
        before = [
            e.live[1] for e in fetched[:number] if e.live[1] <= b.live[0] and not is_empty(intersect(e.box, b.box))
        ]
        if before:
            gaps.append((max(before), b.live[0]))
    if not gaps:
        return ""
    first, last = max(gaps, key=lambda gap: gap[1] - gap[0])
    used, _ = peak_of(
        (max(b.live[0], first), min(b.live[1], last), b.address, b.bytes)
        for b in plan.shared
        if b.memory == shared.name and b.live[0] < last and b.live[1] > first
    )
    steps = [plan.slots[min(slot, len(plan.slots) - 1)][0] for slot in (first, last)]
    largest = max(b.bytes for b in fetched)
    parts = plural(len(gaps), "part")
    return (
        f"{parts} fetched again, because an instance that runs later needs what gave way: between steps {steps[0]} and "
        f"{steps[1]}, others take up to {share(used, shared.capacity)} of {shared.name}; {largest:,} bytes more of it "
        "could keep the largest part, and fewer instances need each part less often"
    )


def _moves(copies: Sequence[Copy]) -> tuple[MoveRow, ...]:
    groups: dict[tuple[str, str, str, str], list[Copy]] = {}
    for copy in dict.fromkeys(copies):
        groups.setdefault((copy.kind, copy.op, copy.source, copy.target), []).append(copy)
    rows = [
        MoveRow(*key, len(group), sum(c.bytes for c in group), min(c.begin for c in group), max(c.end for c in group))
        for key, group in groups.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.begin, row.end, row.kind, row.op)))
