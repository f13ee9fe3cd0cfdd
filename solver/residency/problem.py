"""What the shared memory is asked for: the data of the residency model, prepared as integers.

Slots are those of :mod:`girih.ir.plan`. Boxes are hulls over the cores of a step. A tensor that crosses segments falls
into *pieces* that do not overlap: of a batch that is computed image by image, each image is a piece.

Fetched: a box whose home is in main memory (a constant, an input, what the host made, or what was put there), needed
in some slots. Kept: a piece that segments of the NPU make and read, which can stay in the shared memory for its life,
or be stored when it is made and fetched when it is read.
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
from ..cost.local_buffers import is_streamed, lives, round_up, stationary
from ..switches import ALL_ON, Disabled
from .tensor_partition import atoms, disjoint, divided, grouped, hull_of, sliced
from .weight_chunks import Ring, Walk, Walks, chunks, first_use, ring

CHUNKS: tuple[tuple[int, int], ...] = ((600, 1 << 18), (1200, 1 << 19))
LARGEST_CHUNK = 1 << 20
"""Bytes of a chunk of weights, what one fetch decision moves, by the number of uses that chunks may have; at most
an eighth of the memory. Small chunks are easier to place, large ones make small models."""
SMALLEST = 1 << 16
"""Bytes of a part of a result that is worth a decision of its own."""
SLICE = 1 << 18
"""Bytes of data that are fetched by one decision, about: more is cut along the first dimension."""
BUNDLE = 1 << 16
"""Bytes of small constants that are fetched by one decision at most."""


@dataclass(frozen=True)
class Part:
    """A box of a tensor: ``bytes`` in the shared memory, and ``cycles`` of the main memory's link to move it."""

    tensor: str
    box: Box
    bytes: int
    cycles: int


@dataclass(frozen=True)
class Use:
    """A slot that needs the data; when it arrives, ``wait`` cycles of the slot's work are still to be done."""

    slot: int
    wait: int


@dataclass(frozen=True)
class Fetched:
    """Parts that are fetched together, not before slot ``ready``.

    ``piece``: the :class:`Kept` that this reads, if it was stored. ``stream``: the operand that rings may replace.
    """

    parts: tuple[Part, ...]
    uses: tuple[Use, ...]
    ready: int = 0
    piece: int | None = None
    stream: str | None = None

    @cached_property
    def bytes(self) -> int:
        return sum(p.bytes for p in self.parts)

    @cached_property
    def cycles(self) -> int:
        return sum(p.cycles for p in self.parts)


@dataclass(frozen=True)
class Kept:
    """A piece that could be kept in ``live``; ``made``: what each producing slot adds.

    ``stored``: main memory needs it, too. ``may_stay`` is false if it is only there for main memory, or its stores
    would each copy the whole.
    """

    part: Part
    live: tuple[int, int]
    made: tuple[tuple[int, Part], ...]
    stored: bool
    may_stay: bool


@dataclass(frozen=True)
class Demand:
    """The whole problem. ``cycles`` are of each slot's computation; ``rings``: by operand and slot."""

    cycles: tuple[int, ...]
    capacity: int
    fetched: tuple[Fetched, ...]
    kept: tuple[Kept, ...]
    rings: dict[tuple[str, int], tuple[Ring, ...]]
    rate: float
    homes: tuple[str, ...]

    def ring_cycles(self, made: Ring) -> int:
        """Cycles of the main memory's link for all fetches of a ring."""
        return ceil(made.traffic / self.rate)


@dataclass
class _Seen:
    """What the steps read and write of one tensor."""

    reads: list[tuple[int, Box]] = field(default_factory=list[tuple[int, Box]])
    writes: list[tuple[int, Box]] = field(default_factory=list[tuple[int, Box]])
    streams: list[tuple[int, list[Walk]]] = field(default_factory=list[tuple[int, list[Walk]]])
    host_reads: list[int] = field(default_factory=list[int])
    host_writes: list[int] = field(default_factory=list[int])


def link_rate(machine: Machine) -> float:
    """Bytes a cycle between main and shared memory in one direction."""
    main = machine.role("main").name
    links = [ln.bytes_per_cycle for ln in machine.links if ln.memory == main and ln.direction != "write"]
    engine = machine.engine_for("dma").bytes_per_cycle
    return min([*links, *([engine] if engine else [])])


def demand(
    graph: Graph, cells: Cells, machine: Machine, segments: Sequence[Segment], steps: Sequence[Step],
    slot_cycles: Sequence[int], disabled: Disabled = ALL_ON,
) -> Demand:  # fmt: skip
    """Collect and cut everything that crosses segments; ``slot_cycles``: estimated computation of each slot."""
    seen = _look(graph, cells, machine, segments, steps)
    maker = _Maker(graph, machine, tuple(slot_cycles), _streamed(graph, seen), disabled)
    for name, what in seen.items():
        maker.take(name, what)
    return maker.finish(seen)


def _look(
    graph: Graph, cells: Cells, machine: Machine, segments: Sequence[Segment], steps: Sequence[Step]
) -> dict[str, _Seen]:
    """Walk over the steps; tensors in the order of the graph."""
    seen = {t.name: _Seen() for t in graph.tensors}
    walks = Walks(graph, cells)
    base = 0
    for step in steps:
        segment = segments[step.segment]
        ops = tuple(graph.op[n] for n in segment.ops)
        if ops[0].host is not None:
            for name in dict.fromkeys(ops[0].inputs):
                seen[name].host_reads.append(base)
            for name in ops[0].outputs:
                seen[name].host_writes.append(base)
            base += 1
            continue
        there = cells.row(segment, step.instance)
        made = {op.output for op in ops}
        for name, life in lives(graph, segment).items():
            box = hull_of(c.tensors.get(name) for c in there)
            if name not in made and box is not None and not is_streamed(graph, segment, name):
                seen[name].reads.append((base + life.first, box))
        out = {op.name for op in leaving(graph, ops)}
        for position, op in enumerate(ops):
            name = stationary(graph, segment, op)
            if name is not None and is_streamed(graph, segment, name):
                seen[name].streams.append((base + position, walks.of(segment, op, step.instance)))
            box = hull_of(c.owned.get(op.output) for c in there) if op.name in out else None
            if box is not None:
                seen[op.output].writes.append((base + position, box))
        base += len(ops)
    return seen


def _streamed(graph: Graph, seen: dict[str, _Seen]) -> list[int]:
    """Bytes of each operand in each slot that streams it."""
    found: list[int] = []
    for name, what in seen.items():
        for _, walks in what.streams:
            need = hull_of(w.hull for w in walks)
            found.append(0 if need is None else volume(need) * DTYPES[graph.tensor[name].dtype])
    return found


class _Maker:
    """Turns what was seen of each tensor into decisions to be taken."""

    def __init__(
        self, graph: Graph, machine: Machine, cycles: tuple[int, ...], streamed: list[int], disabled: Disabled
    ) -> None:
        self.graph = graph
        self.machine = machine
        self.disabled = disabled
        self.cycles = cycles
        self.memory = machine.role("shared")
        fine = (size for most, size in CHUNKS if sum(-(-s // size) for s in streamed) <= most)
        self.limit = min(LARGEST_CHUNK, self.memory.capacity // 8)
        self.chunk = min(self.limit, next(fine, LARGEST_CHUNK))
        self.rate = link_rate(machine)
        self.fetched: list[Fetched] = []
        self.kept: list[Kept] = []
        self.rings: dict[tuple[str, int], tuple[Ring, ...]] = {}

    def take(self, name: str, seen: _Seen) -> None:
        if name in self.graph.constant_names or name in self.graph.input_tensors or seen.host_writes:
            ready = max(seen.host_writes, default=-1) + 1
            for box, slots in self._read(name, seen.reads):
                self.fetched.append(Fetched((self.part(name, box),), self.uses(slots), ready))
            if seen.streams:
                self._stream(name, seen.streams)
        elif seen.writes:
            self._made(name, seen)

    def _read(self, name: str, reads: Sequence[tuple[int, Box]]) -> list[tuple[Box, list[int]]]:
        """Parts of what cores load, with the slots that need them: no more is there than is needed, and none twice."""
        parts = atoms([box for _, box in reads]) if "load-parts" not in self.disabled else []
        if not parts:
            return grouped(reads)
        most = SLICE // DTYPES[self.graph.tensor[name].dtype]
        return [(part, [s for s, b in reads if overlap(b, part)]) for whole in parts for part in sliced(whole, most)]

    def part(self, name: str, box: Box) -> Part:
        tensor = self.graph.tensor[name]
        size = volume(box) * DTYPES[tensor.dtype]
        return Part(name, box, round_up(size, self.memory.alignment), self._transfer(tensor, box))

    def uses(self, slots: Iterable[int]) -> tuple[Use, ...]:
        return tuple(Use(s, self.cycles[s]) for s in sorted(set(slots)))

    def _transfer(self, tensor: Tensor, box: Box) -> int:
        """Cycles to move a box: whole bursts of each contiguous run."""
        run = DTYPES[tensor.dtype]
        for span, extent in zip(reversed(box), reversed(tensor.shape), strict=True):
            run *= span.size
            if span.size < extent:
                break
        main = self.machine.role("main").name
        burst = max((ln.burst for ln in self.machine.links if ln.memory == main), default=1)
        runs = volume(box) * DTYPES[tensor.dtype] // max(1, run)
        issue = self.machine.engine_for("dma").issue
        return issue + ceil(runs * round_up(run, burst) / self.rate)

    def _stream(self, name: str, streams: list[tuple[int, list[Walk]]]) -> None:
        """Weights: chunks, and rings for slots whose share of them is large."""
        tensor = self.graph.tensor[name]
        for box in chunks(tensor, [w for _, walks in streams for w in walks], self.chunk):
            shares = [(slot, first_use(walks, box)) for slot, walks in streams]
            uses = tuple(Use(s, ceil(self.cycles[s] * (1 - share))) for s, share in shares if share is not None)
            if uses:
                self.fetched.append(Fetched((self.part(name, box),), uses, stream=name))
        for slot, walks in streams if "weight-rings" not in self.disabled else ():
            need = hull_of(w.hull for w in walks)
            if need is None or volume(need) * DTYPES[tensor.dtype] <= self.limit:
                continue
            made = [ring(tensor, walks, self.memory.capacity // n, self.memory.alignment) for n in (4, 16)]
            found = [r for r in made if r is not None and r.phases > 2 and r.bytes <= self.memory.capacity]
            if found:
                self.rings[name, slot] = tuple(dict.fromkeys(found))

    def _made(self, name: str, seen: _Seen) -> None:
        """A result: its parts (see :func:`divided`), or one piece for each group of writes and reads that overlap."""
        must = name in self.graph.output_tensors or bool(seen.host_reads)
        made, taken = ([box for _, box in of] for of in (seen.writes, seen.reads))
        least = SMALLEST // DTYPES[self.graph.tensor[name].dtype]
        whole = must or not taken or "result-parts" in self.disabled
        fine = [] if whole else divided(made, taken, least)
        boxes = fine or disjoint([*made, *taken])
        for box in boxes:
            writes = [(s, intersect(b, box)) for s, b in seen.writes if overlap(b, box)]
            reads = [(s, intersect(b, box)) for s, b in seen.reads if overlap(b, box)]
            if not writes:
                continue
            first, last = min(s for s, _ in writes), max(s for s, _ in (*writes, *reads))
            piece = Kept(
                self.part(name, box),
                (first, last + 1),
                tuple((s, self.part(name, b)) for s, b in writes),
                must,
                bool(reads) and (not must or [b for _, b in writes] == [box]),
            )
            self.kept.append(piece)
            for need in dict.fromkeys(b for _, b in reads):
                slots = [s for s, b in reads if b == need]
                ready = 1 + max((s for s, b in writes if overlap(b, need)), default=-1)
                item = Fetched((self.part(name, need),), self.uses(slots), ready, piece=len(self.kept) - 1)
                self.fetched.append(item)

    def finish(self, seen: dict[str, _Seen]) -> Demand:
        ports = self.graph.input_tensors | self.graph.output_tensors
        homes = tuple(
            name
            for name, s in seen.items()
            if name in ports
            or s.host_reads
            or s.host_writes
            or (name in self.graph.constant_names and (s.reads or s.streams))
        )
        return Demand(
            self.cycles, self.memory.capacity, _bundled(self.fetched), tuple(self.kept), self.rings, self.rate, homes
        )


def _bundled(fetched: list[Fetched]) -> tuple[Fetched, ...]:
    """Small parts that the same slots need become one decision; in the order of their first use."""
    bundles: dict[tuple[tuple[Use, ...], int], list[Part]] = {}
    found: list[Fetched] = []
    for item in fetched:
        if item.piece is not None or item.stream is not None or item.bytes > BUNDLE:
            found.append(item)
            continue
        held = bundles.setdefault((item.uses, item.ready), [])
        if sum(p.bytes for p in held) + item.bytes > BUNDLE:
            found.append(Fetched(tuple(held), item.uses, item.ready))
            held.clear()
        held.extend(item.parts)
    found.extend(Fetched(tuple(parts), uses, ready) for (uses, ready), parts in bundles.items() if parts)
    # Data before weights: local memory is loaded before the first tile; then in the order of the walk.
    return tuple(sorted(found, key=lambda f: (f.uses[0].slot, f.stream is not None, -f.uses[0].wait)))
