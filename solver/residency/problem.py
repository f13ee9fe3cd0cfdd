"""The data of a residency problem, prepared as integers: what passes through the shared memory, and when.

Slots are those of :mod:`girih.ir.plan`: the time indices of the plan, one operator of one step each. Boxes are hulls
over the cores of a step. A tensor that crosses segments is partitioned into blocks that do not overlap: of a batch that
is computed image by image, each image is a block.

A :class:`FetchItem` is in main memory (a constant, an input, a result of the host, or what was stored there) and needed
in some slots. An :class:`Intermediate` is a block that segments of the NPU write and read: it can be resident in the
shared memory for its life, or be stored as it is written and fetched as it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil

from ...ir.box import Box, intersect, overlap, volume
from ...ir.graph import DTYPES, Graph, Tensor
from ...ir.machine import Machine
from ...ir.plan import Segment, Step
from ...ir.semantics.cell import Cells, leaving
from ..cost.local_buffers import is_streamed, lifetimes, round_up, stationary
from ..cost.operator import Rates
from ..switches import ALL_ON, Disabled
from .partition.tensor_partition import (
    common_refinement,
    disjoint_hulls,
    finest_partition,
    hull_of,
    read_groups,
    slices,
)
from .partition.weight_chunks import (
    CircularBuffer,
    StationaryWalk,
    StationaryWalks,
    burst_traffic,
    circular_buffer,
    distinct,
    first_use,
    weight_chunks,
)

LARGEST_CHUNK = 1 << 20
"""Bytes of the largest chunk of weights, which one fetch decision moves; at most an eighth of the shared memory, so
that one can be fetched while several others are in use. Chosen, not measured."""
CHUNKS: tuple[tuple[int, int], ...] = ((200, 1 << 16), (600, 1 << 18), (1200, 1 << 19))
"""(uses, bytes): chunks have so many bytes while no more than so many uses come of it, and :data:`LARGEST_CHUNK`
otherwise. Small chunks pack better and are there sooner, but the model grows with the uses; it solves whole networks up
to some hundred. Without the first pair, where one chunk is a tenth of all that it moves, DLRM takes 3.7 % more cycles
on `stcp920` after 15 s. The others are chosen, not measured."""
SMALLEST_BLOCK = 1 << 16
"""Bytes of the smallest block of an intermediate that is decided separately; a DMA of less is mostly latency. Chosen,
not measured."""
LARGEST_SLICE = 1 << 18
"""Bytes of activations that one fetch decision moves, about; more is sliced along the first dimension. The same as the
smallest chunk of weights, for the same reason."""
LARGEST_BUNDLE = SMALLEST_BLOCK
"""Bytes of small constants that one fetch decision moves at most."""
CIRCULAR_SHARES = (4, 16)
"""Circular buffers are offered with chunks of the shared memory's capacity divided by these: two chunks then take half
or an eighth of it. Chosen, not measured."""


@dataclass(frozen=True)
class TensorBlock:
    """A box of a tensor: ``bytes`` in the shared memory, and ``cycles`` to move it from or to its home."""

    tensor: str
    box: Box
    bytes: int
    cycles: int


@dataclass(frozen=True)
class Use:
    """A slot that needs the data; when it arrives, ``remaining`` cycles of the slot's work are still to be done."""

    slot: int
    remaining: int


@dataclass(frozen=True)
class FetchItem:
    """Blocks that are fetched together, not before slot ``ready``.

    ``intermediate``: the number of the :class:`Intermediate` that this reads, if that was spilled. ``streamed``: the
    operand that a circular buffer may bring instead.
    """

    blocks: tuple[TensorBlock, ...]
    uses: tuple[Use, ...]
    ready: int = 0
    intermediate: int | None = None
    streamed: str | None = None

    @cached_property
    def bytes(self) -> int:
        return sum(block.bytes for block in self.blocks)

    @cached_property
    def cycles(self) -> int:
        return sum(block.cycles for block in self.blocks)

    def earliest(self, k: int) -> int:
        """The first slot in which a fetch for use ``k`` may be issued: before, the use before it has the data."""
        return max(self.ready, self.uses[k - 1].slot + 1 if k else 0)


@dataclass(frozen=True)
class Intermediate:
    """A block that could be resident in the slots ``live`` (first, after the last); ``writes``: what each slot adds.

    ``stored``: main memory needs it, too. ``may_be_resident`` is false if only main memory needs it, or each of its
    stores would copy the whole.
    """

    block: TensorBlock
    live: tuple[int, int]
    writes: tuple[tuple[int, TensorBlock], ...]
    stored: bool
    may_be_resident: bool


@dataclass(frozen=True)
class ResidencyProblem:
    """The whole problem. ``cycles``: computation of each slot; ``capacity``: bytes of the shared memory; ``circular``:
    by streamed operand and slot, the circular buffers on offer; ``rate``: bytes a cycle of fetches of constants;
    ``main_tensors``: those that need an address in main memory whatever is decided; ``host_slots``: first and last slot
    of the kernels that access a tensor there; ``slot_ops``: the operator of each slot."""

    cycles: tuple[int, ...]
    capacity: int
    items: tuple[FetchItem, ...]
    intermediates: tuple[Intermediate, ...]
    circular: dict[tuple[str, int], tuple[CircularBuffer, ...]]
    rate: float
    main_tensors: tuple[str, ...]
    host_slots: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    slot_ops: tuple[str, ...] = ()

    def circular_cycles(self, buffer: CircularBuffer) -> int:
        """Cycles for all fetches of a circular buffer."""
        return ceil(buffer.traffic / self.rate)

    def remaining(self, item: FetchItem, use: Use) -> int:
        """Cycles of the slot's work that remain when the item, or the last chunk of its operand, is needed."""
        return use.remaining if item.streamed is None else self._after_last_chunk[item.streamed, use.slot]

    @cached_property
    def streamed_bytes(self) -> dict[tuple[str, int], int]:
        """By streamed operand and slot, bytes of the items that the slot uses."""
        sizes: dict[tuple[str, int], int] = {}
        for item in self.items:
            if item.streamed is not None:
                for use in item.uses:
                    key = (item.streamed, use.slot)
                    sizes[key] = sizes.get(key, 0) + item.bytes
        return sizes

    @cached_property
    def _after_last_chunk(self) -> dict[tuple[str, int], int]:
        """By streamed operand and slot."""
        least: dict[tuple[str, int], int] = {}
        for item in self.items:
            if item.streamed is not None:
                for use in item.uses:
                    key = (item.streamed, use.slot)
                    least[key] = min(least.get(key, use.remaining), use.remaining)
        return least


@dataclass
class _TensorAccesses:
    """What the steps read and write of one tensor: slots, and boxes or walks of the stationary operand."""

    reads: list[tuple[int, Box]] = field(default_factory=list[tuple[int, Box]])
    writes: list[tuple[int, Box]] = field(default_factory=list[tuple[int, Box]])
    streams: list[tuple[int, list[StationaryWalk]]] = field(default_factory=list[tuple[int, list[StationaryWalk]]])
    host_reads: list[int] = field(default_factory=list[int])
    host_writes: list[int] = field(default_factory=list[int])


def residency_problem(
    graph: Graph, cells: Cells, machine: Machine, segments: Sequence[Segment], steps: Sequence[Step],
    slot_cycles: Sequence[int], disabled: Disabled = ALL_ON,
) -> ResidencyProblem:  # fmt: skip
    """Collect and partition everything that crosses segments; ``slot_cycles``: estimated computation of each slot."""
    accesses = _accesses(graph, cells, segments, steps)
    builder = _Builder(graph, machine, tuple(slot_cycles), _streamed_bytes(graph, accesses), disabled)
    for name, tensor_accesses in accesses.items():
        builder.add(name, tensor_accesses)
    slot_ops = tuple(name for step in steps for name in segments[step.segment].ops)
    return builder.problem(accesses, slot_ops)


def _accesses(
    graph: Graph, cells: Cells, segments: Sequence[Segment], steps: Sequence[Step]
) -> dict[str, _TensorAccesses]:
    """By tensor, in the order of the graph."""
    accesses = {t.name: _TensorAccesses() for t in graph.tensors}
    walks = StationaryWalks(graph, cells)
    base = 0
    for step in steps:
        segment = segments[step.segment]
        ops = tuple(graph.op[n] for n in segment.ops)
        if ops[0].host is not None:
            for name in dict.fromkeys(ops[0].inputs):
                accesses[name].host_reads.append(base)
            for name in ops[0].outputs:
                accesses[name].host_writes.append(base)
            base += 1
            continue
        row = cells.row(segment, step.instance)
        written = {op.output for op in ops}
        for name, life in lifetimes(graph, segment).items():
            box = hull_of(c.tensors.get(name) for c in row)
            if name not in written and box is not None and not is_streamed(graph, segment, name):
                accesses[name].reads.append((base + life.first, box))
        leaves = {op.name for op in leaving(graph, ops)}
        for position, op in enumerate(ops):
            name = stationary(segment, op)
            if name is not None and is_streamed(graph, segment, name):
                accesses[name].streams.append((base + position, walks.by_core(segment, op, step.instance)))
            box = hull_of(c.owned.get(op.output) for c in row) if op.name in leaves else None
            if box is not None:
                accesses[op.output].writes.append((base + position, box))
        base += len(ops)
    return accesses


def _streamed_bytes(graph: Graph, accesses: dict[str, _TensorAccesses]) -> list[int]:
    """Bytes of each operand in each slot that streams it."""
    sizes: list[int] = []
    for name, of_tensor in accesses.items():
        for _, walks in of_tensor.streams:
            need = hull_of(w.hull for w in walks)
            sizes.append(0 if need is None else volume(need) * DTYPES[graph.tensor[name].dtype])
    return sizes


class _Builder:
    """Turns the accesses to each tensor into items and intermediates."""

    def __init__(
        self, graph: Graph, machine: Machine, cycles: tuple[int, ...], streamed: list[int], disabled: Disabled
    ) -> None:
        self.graph = graph
        self.machine = machine
        self.disabled = disabled
        self.cycles = cycles
        self.memory = machine.levels.exchange.memory
        fine = (size for most, size in CHUNKS if sum(-(-s // size) for s in streamed) <= most)
        self.limit = min(LARGEST_CHUNK, self.memory.capacity // 8)
        self.chunk = min(self.limit, next(fine, LARGEST_CHUNK))
        rates = Rates.from_machine(machine)
        self.rate = rates.fetched_constants
        self.burst = rates.fetched_burst
        self._main = rates.main, rates.main_burst
        self.items: list[FetchItem] = []
        self.intermediates: list[Intermediate] = []
        self.circular: dict[tuple[str, int], tuple[CircularBuffer, ...]] = {}

    def add(self, name: str, accesses: _TensorAccesses) -> None:
        if name in self.graph.constant_names or name in self.graph.input_tensors or accesses.host_writes:
            ready = max(accesses.host_writes, default=-1) + 1
            for box, slots in self._read_blocks(name, accesses.reads):
                self.items.append(FetchItem((self.block(name, box),), self.uses(slots), ready))
            if accesses.streams:
                self._add_streamed(name, accesses.streams)
        elif accesses.writes:
            self._add_intermediates(name, accesses)

    def _read_blocks(self, name: str, reads: Sequence[tuple[int, Box]]) -> list[tuple[Box, list[int]]]:
        """Boxes of what cores load, with the slots that need them; they do not overlap."""
        boxes = common_refinement([box for _, box in reads]) if "load-parts" not in self.disabled else []
        if not boxes:
            return read_groups(reads)
        most = LARGEST_SLICE // DTYPES[self.graph.tensor[name].dtype]
        return [(box, [s for s, b in reads if overlap(b, box)]) for whole in boxes for box in slices(whole, most)]

    def block(self, name: str, box: Box) -> TensorBlock:
        tensor = self.graph.tensor[name]
        size = volume(box) * DTYPES[tensor.dtype]
        return TensorBlock(name, box, round_up(size, self.memory.alignment), self._link_cycles(tensor, box))

    def uses(self, slots: Iterable[int]) -> tuple[Use, ...]:
        return tuple(Use(s, self.cycles[s]) for s in sorted(set(slots)))

    def _link_cycles(self, tensor: Tensor, box: Box) -> int:
        """Cycles to move a box: whole bursts of each contiguous run."""
        constant = tensor.name in self.graph.constant_names
        rate, burst = (self.rate, self.burst) if constant else self._main
        levels = self.machine.levels
        engine = self.machine.mover("dma", levels.home_of(constant=constant), levels.exchange)
        return engine.issue + ceil(burst_traffic(tensor, box, burst) / rate)

    def _add_streamed(self, name: str, streams: list[tuple[int, list[StationaryWalk]]]) -> None:
        """Weights: chunks, and circular buffers for slots that read much of them."""
        tensor = self.graph.tensor[name]
        every = distinct(w for _, walks in streams for w in walks)
        for box in weight_chunks(tensor, every, self.chunk, self.burst):
            first = {id(walk): first_use(walk, box) for walk in every}
            shares = [
                (slot, min((s for s in (first[id(w)] for w in walks) if s is not None), default=None))
                for slot, walks in streams
            ]
            uses = tuple(Use(s, ceil(self.cycles[s] * (1 - share))) for s, share in shares if share is not None)
            if uses:
                self.items.append(FetchItem((self.block(name, box),), uses, streamed=name))
        known: dict[tuple[int, ...], tuple[CircularBuffer, ...]] = {}
        for slot, walks in streams if "weight-rings" not in self.disabled else ():
            need = hull_of(w.hull for w in walks)
            if need is None or volume(need) * DTYPES[tensor.dtype] <= self.limit:
                continue
            same = tuple(id(walk) for walk in walks)
            if same not in known:
                known[same] = self._circular_buffers(tensor, walks)
            if known[same]:
                self.circular[name, slot] = known[same]

    def _circular_buffers(self, tensor: Tensor, walks: list[StationaryWalk]) -> tuple[CircularBuffer, ...]:
        """Those that a slot with these walks may use."""
        capacity, alignment = self.memory.capacity, self.memory.alignment
        offers = (circular_buffer(tensor, walks, capacity // share, alignment) for share in CIRCULAR_SHARES)
        useful = (
            offer for offer in offers if offer is not None and offer.ring_positions > 2 and offer.bytes <= capacity
        )
        return tuple(dict.fromkeys(useful))

    def _add_intermediates(self, name: str, accesses: _TensorAccesses) -> None:
        """A result: its finest partition, or a block for each group of writes and reads that overlap."""
        stored = name in self.graph.output_tensors or bool(accesses.host_reads)
        written, read = ([box for _, box in slot_boxes] for slot_boxes in (accesses.writes, accesses.reads))
        least = SMALLEST_BLOCK // DTYPES[self.graph.tensor[name].dtype]
        whole = stored or not read or "result-parts" in self.disabled
        finest = [] if whole else finest_partition(written, read, least)
        boxes = finest or disjoint_hulls([*written, *read])
        for box in boxes:
            writes = [(s, intersect(b, box)) for s, b in accesses.writes if overlap(b, box)]
            reads = [(s, intersect(b, box)) for s, b in accesses.reads if overlap(b, box)]
            if not writes:
                continue
            first, last = min(s for s, _ in writes), max(s for s, _ in (*writes, *reads))
            intermediate = Intermediate(
                self.block(name, box),
                (first, last + 1),
                tuple((s, self.block(name, b)) for s, b in writes),
                stored,
                bool(reads) and (not stored or [b for _, b in writes] == [box]),
            )
            self.intermediates.append(intermediate)
            for need in dict.fromkeys(b for _, b in reads):
                slots = [s for s, b in reads if b == need]
                ready = 1 + max((s for s, b in writes if overlap(b, need)), default=-1)
                number = len(self.intermediates) - 1
                self.items.append(FetchItem((self.block(name, need),), self.uses(slots), ready, intermediate=number))

    def problem(self, accesses: dict[str, _TensorAccesses], slot_ops: tuple[str, ...]) -> ResidencyProblem:
        """The problem of all that was added."""
        ports = self.graph.input_tensors | self.graph.output_tensors
        main_tensors = tuple(
            name
            for name, of_tensor in accesses.items()
            if name in ports
            or of_tensor.host_reads
            or of_tensor.host_writes
            or (name in self.graph.constant_names and (of_tensor.reads or of_tensor.streams))
        )
        return ResidencyProblem(
            self.cycles,
            self.memory.capacity,
            _bundled(self.items),
            tuple(self.intermediates),
            self.circular,
            self.rate,
            main_tensors,
            {name: (min(slots), max(slots)) for name, a in accesses.items() if (slots := a.host_reads + a.host_writes)},
            slot_ops,
        )


def _bundled(items: list[FetchItem]) -> tuple[FetchItem, ...]:
    """Small blocks that the same slots need become one item; in the order of their first use."""
    bundles: dict[tuple[tuple[Use, ...], int], list[TensorBlock]] = {}
    result: list[FetchItem] = []
    for item in items:
        if item.intermediate is not None or item.streamed is not None or item.bytes > LARGEST_BUNDLE:
            result.append(item)
            continue
        bundle = bundles.setdefault((item.uses, item.ready), [])
        if sum(block.bytes for block in bundle) + item.bytes > LARGEST_BUNDLE:
            result.append(FetchItem(tuple(bundle), item.uses, item.ready))
            bundle.clear()
        bundle.extend(item.blocks)
    result.extend(FetchItem(tuple(blocks), uses, ready) for (uses, ready), blocks in bundles.items() if blocks)
    # Data before weights: local memory is loaded before the first tile; then in the order of the walk.
    return tuple(sorted(result, key=lambda i: (i.uses[0].slot, i.streamed is not None, -i.uses[0].remaining)))
