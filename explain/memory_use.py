"""How full each memory gets and when, and which tensors are moved to and from main memory, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from ..ir.box import volume
from ..ir.graph import DTYPES, Graph, Op
from ..ir.machine import Levels, Machine, Memory
from ..ir.plan import LocalBuffer, Plan, SharedBuffer

FULL = 0.85
"""A memory is full from this share of its bytes on: below, a larger one is not what helps."""


@dataclass(frozen=True)
class Peak:
    """Where a memory is fullest: ``bytes`` are in use from slot ``slot`` of the plan on (-1: it is never used).

    ``buffers`` are the numbers of the buffers that live then, the largest first. ``bytes`` can be less than their sum:
    what several share counts once.
    """

    bytes: int
    slot: int
    buffers: tuple[int, ...]


@dataclass(frozen=True)
class MemoryRow:
    """One memory (of one core or cluster): the most bytes that are in use at once, when, and the highest address used.

    ``buffers`` counts those in the plan; ``at`` is the operator (and step or segment) at which the peak is reached.
    ``activations`` is the peak of what depends on the network's inputs (tensors, private buffers), and ``constants``
    that of the network's constants. The two may be at different times, so that their sum is at least ``peak``.
    """

    memory: str
    role: str
    capacity: int
    peak: int
    share: float
    extent: int
    buffers: int
    at: str
    activations: int
    constants: int


@dataclass(frozen=True)
class TrafficRow:
    """One tensor that is moved between main memory and chip, in one cluster: bytes each way, and why.

    kind: input, output, constant or activation. ``host`` are bytes that the host reads and writes in main memory.
    """

    tensor: str
    kind: str
    bytes: int
    fetched: int
    stored: int
    host: int
    reason: str


def memory_rows(graph: Graph, plan: Plan, machine: Machine) -> tuple[MemoryRow, ...]:
    """One row for each memory, in the machine's order."""
    constants = graph.constant_names
    rows: list[MemoryRow] = []
    for memory in machine.memories:
        buffers = [b for b in (*plan.shared, *plan.local) if b.memory == memory.name]
        peak = plan_peak(plan, buffers)
        row = MemoryRow(
            memory=memory.name,
            role=machine.use_of(memory.name),
            capacity=memory.capacity,
            peak=peak.bytes,
            share=peak.bytes / memory.capacity,
            extent=max((b.address + b.bytes for b in buffers), default=0),
            buffers=len(buffers),
            at=_place(plan, peak, memory),
            activations=plan_peak(plan, [b for b in buffers if name_of(b) not in constants]).bytes,
            constants=plan_peak(plan, [b for b in buffers if name_of(b) in constants]).bytes,
        )
        rows.append(row)
    return tuple(rows)


def name_of(buffer: LocalBuffer | SharedBuffer) -> str:
    """The name of the tensor, or of the private buffer of an operator, that a buffer of the plan holds."""
    return buffer.tensor if isinstance(buffer, SharedBuffer) else buffer.name


def plan_peak(plan: Plan, buffers: Sequence[LocalBuffer | SharedBuffer]) -> Peak:
    """Where buffers of one memory take most of it; those of a core count in the first step of their segment.

    Of several slots with as many bytes it is the first.
    """
    begins: dict[int, int] = {}
    slot = 0
    for step in plan.steps:
        begins.setdefault(step.segment, slot)
        slot += len(plan.segments[step.segment].ops)
    lives: list[tuple[int, int]] = []
    for buffer in buffers:
        begin = begins[buffer.segment] if isinstance(buffer, LocalBuffer) else 0
        lives.append((begin + buffer.live[0], begin + buffer.live[1]))
    most, at = peak_of((*live, b.address, b.bytes) for live, b in zip(lives, buffers, strict=True))
    if not most:
        return Peak(0, -1, ())
    living = [number for number, (begin, end) in enumerate(lives) if begin <= at < end]
    return Peak(most, at, tuple(sorted(living, key=lambda number: (-buffers[number].bytes, number))))


def _place(plan: Plan, peak: Peak, memory: Memory) -> str:
    if peak.slot < 0:
        return ""
    step, op = plan.slots[peak.slot]
    return f"{op}, segment {plan.steps[step].segment}" if memory.scope == "core" else f"{op}, step {step}"


def peak_of(occupied: Iterable[tuple[int, int, int, int]]) -> tuple[int, int]:
    """(most bytes at once, first moment of it) of ``(start, stop, address, bytes)``, half-open in time.

    Bytes that buffers share (in-place results, regions of a circular buffer) count once.
    """
    best = moment = 0
    live: list[tuple[int, int, int, int]] = []
    for time, begun in groupby(sorted(occupied), key=itemgetter(0)):
        live = [b for b in (*live, *begun) if b[1] > time]
        if (used := _covered((address, address + size) for _, _, address, size in live)) > best:
            best, moment = used, time
    return best, moment


def _covered(ranges: Iterable[tuple[int, int]]) -> int:
    """Bytes in at least one of the half-open ranges."""
    total = end = 0
    for start, stop in sorted(ranges):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def traffic_rows(graph: Graph, plan: Plan, machine: Machine) -> tuple[TrafficRow, ...]:
    """One row for each tensor that is moved to or from main memory, most bytes first."""
    shared = machine.levels.exchange.memory
    buffers = [b for b in plan.shared if b.memory == shared.name]
    hosts = [op for op in graph.ops if op.host]
    fetched: dict[str, int] = {}
    stored: dict[str, int] = {}
    for buffer in buffers:
        size = volume(buffer.box) * DTYPES[graph.tensor[buffer.tensor].dtype]
        if buffer.fetch:
            fetched[buffer.tensor] = fetched.get(buffer.tensor, 0) + size
        if buffer.store:
            stored[buffer.tensor] = stored.get(buffer.tensor, 0) + size
    by_host = _host_bytes(graph, hosts)
    rows = [
        TrafficRow(
            tensor=name,
            kind=kind_of(graph, name),
            bytes=graph.tensor[name].bytes,
            fetched=fetched.get(name, 0),
            stored=stored.get(name, 0),
            host=by_host.get(name, 0),
            reason=_reason(graph, plan, name, fetched.get(name, 0), hosts, (buffers, shared.capacity), machine.levels),
        )
        for name in dict.fromkeys((*fetched, *stored, *by_host))
    ]
    return tuple(sorted(rows, key=lambda r: (-(r.fetched + r.stored + r.host), r.tensor)))


def _host_bytes(graph: Graph, hosts: Sequence[Op]) -> dict[str, int]:
    moved: dict[str, int] = {}
    for op in hosts:
        for name in (*dict.fromkeys(op.inputs), *op.outputs):
            moved[name] = moved.get(name, 0) + graph.tensor[name].bytes
    return moved


def kind_of(graph: Graph, tensor: str) -> str:
    """input, output, constant or activation."""
    if tensor in graph.constant_names:
        return "constant"
    if tensor in graph.input_tensors:
        return "input"
    return "output" if tensor in graph.output_tensors else "activation"


def _reason(
    graph: Graph, plan: Plan, tensor: str, fetched: int, hosts: Sequence[Op],
    shared: tuple[Sequence[SharedBuffer], int], levels: Levels,
) -> str:  # fmt: skip
    """Why a tensor is moved; ``shared`` are the buffers of the shared memory, and its capacity."""
    size = graph.tensor[tensor].bytes
    touching = [op.name for op in hosts if tensor in (*op.inputs, *op.outputs)]
    if touching:
        return f"the host runs {touching[0]}" + (f" and {len(touching) - 1} more" if touching[1:] else "")
    times = f", fetched {fetched / size:.1f} times" if size and fetched > 1.01 * size else ""
    kind = kind_of(graph, tensor)
    if kind == "constant":
        return f"constants begin in {levels.constants.name if levels.has_constants else 'main memory'}{times}"
    if kind in ("input", "output"):
        return f"{kind}s of the network are in main memory{times}"
    if plan.strategy == "layerwise":
        return f"strategy {plan.strategy} passes every result through main memory{times}"
    used, capacity = _use_during_life(graph, plan, tensor, shared[0]), shared[1]
    return f"not kept on chip: other buffers take up to {used / capacity:.0%} of the shared memory meanwhile{times}"


def _use_during_life(graph: Graph, plan: Plan, tensor: str, buffers: Sequence[SharedBuffer]) -> int:
    """The most bytes that others use in the shared memory from the first production of a tensor to its last use."""
    names = {graph.producer[tensor].name, *(op.name for op in graph.consumers[tensor])}
    slots = [i for i, (_, op) in enumerate(plan.slots) if op in names]
    if not slots:
        return 0
    first, last = slots[0], slots[-1] + 1
    clipped = (
        (max(b.live[0], first), min(b.live[1], last), b.address, b.bytes)
        for b in buffers
        if b.tensor != tensor and b.live[0] < last and b.live[1] > first
    )
    return peak_of(clipped)[0]
