"""One tensor: its life over memories and time, each stay and each move, and why it moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.box import intersect, is_empty
from ...ir.plan import Plan, SharedBuffer
from ..compilation import Compilation
from ..cycles.movement import movement
from ..memory_use import kind_of, peak_of, traffic_rows
from ..run.home_lives import home_lives
from ..run.local_lives import local_lives
from ..run.shared_lives import SharedLives, shared_lives
from ..units import plural, share


@dataclass(frozen=True)
class StayRow:
    """One stay in one memory. ``since`` and ``until`` are (operator, step) of the first and the last slot of its life.

    ``segment`` is that of a stay in the cores' memories, ``None`` in a memory of the cluster. ``begin`` and ``end`` are
    cycles of the run, from the first write to the last read on any core; ``None`` where the run does not show them.
    ``box`` is the part of the tensor (empty in memories of cores, which differ in it), ``versions`` how often it is
    held; ``ring_position`` is its position in a circular buffer, ``None`` outside of one.
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


def tensor_details(compilation: Compilation, name: str) -> TensorDetails:
    """All about a tensor of the graph."""
    graph, plan, machine = compilation.graph, compilation.plan, compilation.machine
    tensor, run = graph.tensor[name], compilation.execution
    lives = shared_lives(graph, plan, compilation.program, machine, run.columns, run.slots, run.accesses)
    shared = [number for number, b in enumerate(lives.buffers) if b.tensor == name]
    buffers = [lives.buffers[number] for number in shared]
    local = [b for b in plan.local if b.name == name and b.use != "scratch"]
    rings = [b for b in buffers if _in_ring(b)]
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
        reason=reason or _unmoved(compilation, bool(buffers)),
        again=_again(compilation, buffers),
        circular=1 + max((b.ring_position for b in rings), default=-1),
        stays=(
            *_home_stays(compilation, name),
            *(_shared_stay(plan, lives, number) for number in shared),
            *_local_stays(compilation, name),
        ),
        moves=_moves(compilation, lives, shared),
    )


def _home_stays(compilation: Compilation, name: str) -> Iterator[StayRow]:
    """The home of the tensor, if it has one."""
    graph, plan, machine, run = compilation.graph, compilation.plan, compilation.machine, compilation.execution
    home = machine.levels.home_of(constant=name in graph.constant_names).name
    homes = home_lives(graph, plan, compilation.program, machine, run.columns, compilation.trace.cycles, home)
    last = len(plan.slots) - 1
    for b, begin, end in zip(homes.buffers, homes.begin.tolist(), homes.end.tolist(), strict=True):
        if b.tensor == name:
            box = tuple((span.lo, span.hi) for span in b.box)
            yield StayRow(
                homes.memory, None, b.address, b.bytes, 1, box, _slot(plan, b.live[0]),
                _slot(plan, min(last, b.live[1] - 1)), begin, end, False, False, None,
            )  # fmt: skip


def _shared_stay(plan: Plan, lives: SharedLives, number: int) -> StayRow:
    b, begin, end = lives.buffers[number], int(lives.begin[number]), int(lives.end[number])
    box = tuple((span.lo, span.hi) for span in b.box)
    return StayRow(
        b.memory, None, b.address, b.bytes, 1, box, _slot(plan, b.live[0]), _slot(plan, b.live[1] - 1),
        begin if begin >= 0 else None, end if end >= 0 else None, b.fetch, b.store,
        b.ring_position if _in_ring(b) else None,
    )  # fmt: skip


def _local_stays(compilation: Compilation, name: str) -> Iterator[StayRow]:
    """One for each buffer of the tensor in a core's memory and each step, over all cores and versions together."""
    plan, run = compilation.plan, compilation.execution
    for number, memory in enumerate(compilation.machine.memories):
        if memory.scope != "core" or not any(b.name == name and b.memory == memory.name for b in plan.local):
            continue
        lives = local_lives(plan, compilation.machine, run.columns, run.slots, run.accesses, number)
        spans: dict[tuple[int, int], tuple[int, int]] = {}
        columns = (lives.step, lives.buffer, lives.begin, lives.end)
        for step, buffer, begin, end in zip(*(column.tolist() for column in columns), strict=True):
            b = lives.buffers[buffer]
            if b.name == name and b.use != "scratch":
                known = spans.get((buffer, step), (begin, end))
                spans[buffer, step] = min(known[0], begin), max(known[1], end)
        for (buffer, step), (begin, end) in sorted(spans.items(), key=lambda item: (item[0][0], item[0][1])):
            b = lives.buffers[buffer]
            ops = plan.segments[b.segment].ops
            since, until = ops[max(b.live[0], 0)], ops[min(b.live[1], len(ops)) - 1]
            yield StayRow(
                b.memory, b.segment, b.address, b.bytes, b.depth, (), (since, step), (until, step), begin, end,
                False, False, None,
            )  # fmt: skip


def _in_ring(buffer: SharedBuffer) -> bool:
    return bool(buffer.ring_position or buffer.ring_lead)


def _slot(plan: Plan, slot: int) -> tuple[str, int]:
    step, op = plan.slots[min(slot, len(plan.slots) - 1)]
    return op, step


def _unmoved(compilation: Compilation, shared: bool) -> str:
    """Why a tensor does not pass through main memory."""
    if shared:
        return f"kept on chip: it crosses segments through {compilation.machine.levels.exchange.name}"
    return "kept in the cores: the operators that make and read it are in one segment"


def _again(compilation: Compilation, buffers: Sequence[SharedBuffer]) -> str:
    """Why parts are fetched again: what others took of the shared memory between two stays of the same part."""
    plan, shared = compilation.plan, compilation.machine.levels.exchange.memory
    fetched = sorted((b for b in buffers if b.fetch), key=lambda b: b.live)
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


def _moves(compilation: Compilation, lives: SharedLives, buffers: Sequence[int]) -> tuple[MoveRow, ...]:
    """The transfers that wrote or read these buffers of the shared memory, by what they are and for whom."""
    columns, machine = compilation.execution.columns, compilation.machine
    names = [m.name for m in machine.memories]
    rows = np.unique(lives.access_row[np.isin(lives.access_buffer, buffers)])
    groups: dict[tuple[str, str, str, str], list[tuple[int, int, int]]] = {}
    for row in rows.tolist():
        described = columns.classes[columns.class_of[row]]
        target = next(o.memory for o in described.operands if o.writes)
        source = next(o.memory for o in described.operands if o.reads)
        copied = described.instruction.row.kind
        kind = movement(machine, copied, names[target])
        if kind.startswith("load"):
            kind = "broadcast" if copied == "broadcast" else "load"
        op = compilation.program.ops[columns.op[row]].name
        copy = described.cost.cost.payload, int(columns.start[row]), int(columns.end[row])
        groups.setdefault((kind, op, names[source], names[target]), []).append(copy)
    moves = [
        MoveRow(*key, len(group), sum(c[0] for c in group), min(c[1] for c in group), max(c[2] for c in group))
        for key, group in groups.items()
    ]
    return tuple(sorted(moves, key=lambda move: (move.begin, move.end, move.kind, move.op)))
