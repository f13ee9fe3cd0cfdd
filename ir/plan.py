"""Every scheduling decision, and what it was predicted to cost.

Time in a plan is counted in *slots*: the plan's steps run in order, a step runs the operators of its segment in
order, and each (step, operator) is one slot. Slots order the program; the hardware overlaps whatever does not depend
on one another. Lifetimes are half-open spans of slots.

A *segment* is a run of consecutive operators that exchange data in a core's local memory, in any order that they can
run in. It is split into instances, that run one after the other, and each instance into cells, that run on the cores
side by side (see :mod:`girih.ir.semantics.cell`). What enters or leaves a segment goes through the shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from .box import Box
from .notebook.fragments import html_table, paragraph


@dataclass(frozen=True)
class Split:
    """Cut dimension ``dim`` of the output of a segment's last operator into ``parts`` nearly equal parts."""

    dim: int
    parts: int


TileCut = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Sizes, order and reduced extents of a :class:`Tile`."""


@dataclass(frozen=True)
class Tile:
    """How one operator runs on one core, for its box of the output.

    ``sizes``: extent of a tile in each dimension of the output (the last tile of a dimension can be smaller).
    ``order``: the output's dimensions from the outermost tile loop to the innermost. ``reduce``: for the anchor
    (see :attr:`girih.ir.graph.Op.contraction`), extent of a tile along each of its reduce axes, in the order of
    the stage's axes; empty without an anchor. ``engine``: "matrix" or "vector", what runs the anchor. The private
    buffers that the matrix engine reads or writes are held ``depth`` times in the accumulator memory, the stationary
    operand ``weight_depth`` times in the weight memory, so that consecutive tiles overlap.
    """

    op: str
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    reduce: tuple[int, ...] = ()
    engine: str = "vector"
    depth: int = 1
    weight_depth: int = 1

    @property
    def cut(self) -> TileCut:
        """What decides the part of each tile, whatever runs it and however often it is held."""
        return self.sizes, self.order, self.reduce


@dataclass(frozen=True)
class Segment:
    """Consecutive operators, how their work is cut, and how each is tiled.

    ``ops`` are a run of the graph's operators, whose last is the root operator, in an order in which they can run.
    ``instances`` are cut first and run one after the other (row-major over the splits); ``cores`` cut each instance
    over the cores (row-major; the product is at most the machine's number of cores). A host operator is a segment of
    its own without splits or tiles. ``aliased`` are tensors that are made or loaded where their concatenation lies:
    they have no local buffer of their own and are not copied (see :mod:`girih.ir.semantics.concat_aliasing`).
    """

    ops: tuple[str, ...]
    instances: tuple[Split, ...]
    cores: tuple[Split, ...]
    tiles: tuple[Tile, ...]
    aliased: tuple[str, ...] = ()

    @cached_property
    def tile(self) -> dict[str, Tile]:
        return {t.op: t for t in self.tiles}

    @property
    def bare(self) -> Segment:
        """The operators and how they are cut, nothing else."""
        return Segment(self.ops, self.instances, self.cores, ())


@dataclass(frozen=True)
class Step:
    """One instance of one segment, on all cores."""

    segment: int
    instance: int


@dataclass(frozen=True)
class LocalBuffer:
    """A place in a core-scoped memory, at the same address on every core, for every step of one segment.

    ``use`` is "data" (``name`` is a graph tensor: this cell's box of it, row-major, in local memory, or the room of all
    that lies inside it; or, with a ``depth`` above 1, so many tiles of a constant whose rows the matrix engine reads
    tile by tile, see :mod:`girih.ir.semantics.row_stream`), "scratch" (a private buffer or unconverted result of
    ``op``, one tile of it, ``depth`` versions one after the other, in accumulator memory) or "weights" (a tile of the
    stationary operand ``name`` of ``op``, ``depth`` versions, in weight memory). ``bytes`` is for all versions, each a
    multiple of the memory's alignment. ``live`` is the span of positions in the segment's operator list during which
    the contents matter. No two share bytes while they live, but for a result at the address of an input that it
    replaces element by element (see :mod:`girih.ir.semantics.in_place`), where the life of the one ends, and for
    private buffers of one operator with equal addresses, sizes and depths, where the last stage that touches the one
    comes before the first of the other.
    """

    segment: int
    op: str
    name: str
    use: str
    memory: str
    address: int
    bytes: int
    depth: int
    live: tuple[int, int]


@dataclass(frozen=True)
class SharedBuffer:
    """A box of a graph tensor in a cluster-scoped memory, row-major, during ``live`` (slots).

    In the main memory it is the tensor's home: the whole tensor. Homes of constants, inputs and outputs live in all
    slots, that of a result at least from the first slot that writes it to the last that reads it; what was in its bytes
    before is then gone. In the shared memory: ``fetch`` copies the box from its home in main memory when slot
    ``live[0]`` begins; ``store`` copies it there when the slot that makes it ends.
    What a core loads or stores may lie in several of them (see :func:`girih.ir.box.spread`), but for tiles of weights.

    ``ring_position`` is for constants that do not fit at once and pass through a circular buffer: all their buffers
    live in the one slot that uses them, and are fetched in the order of the list, each when the first tile needs the
    position ``ring_lead`` before its own, or when the slot begins if there is none; in the list, neither positions nor
    those that fetch them go back. Two of them whose positions differ by more than the lead of the later may share
    addresses: the later is fetched after the last tile that uses the earlier.
    """

    tensor: str
    box: Box
    memory: str
    address: int
    bytes: int
    live: tuple[int, int]
    fetch: bool = False
    store: bool = False
    ring_position: int = 0
    ring_lead: int = 0

    @property
    def opens_with_slot(self) -> bool:
        """Whether its lifetime begins with that of its first slot, and not when the tiles reach it."""
        return self.ring_position <= self.ring_lead


@dataclass(frozen=True)
class Transfer:
    """How a segment moves a tensor between the shared memory and the local memories of its cores.

    A box is moved in portions, one copy for each, in row-major order; ``portion`` is the extent of one in each
    dimension (the last of a dimension can be smaller). Portions of several tensors that one slot loads come evenly
    interleaved, and what several cores load alike is one broadcast (see :mod:`girih.ir.semantics.portions`).
    ``issuers`` says which of its receivers issues each broadcast of the tensor: the n-th to the same receivers, over
    all steps of the segment, is issued by receiver ``issuers[n % len(issuers)]``, counted modulo their number. A result
    has none: each core stores its own.
    """

    segment: int
    tensor: str
    portion: tuple[int, ...]
    issuers: tuple[int, ...] = ()


@dataclass(frozen=True)
class WeightStream:
    """How tiles of the stationary operand of ``op`` come to the weight memory, each as one copy.

    ``versions``: the versions of the buffer that successive tiles are brought to, in turn, from the first one in each
    slot; a tile that a version still holds is not brought again. A constant comes from the shared memory: ``prefetch``
    tiles, the first of them, are brought in the slot in which the life of their buffer begins, before the data that
    this slot loads, and each broadcast is issued as by :class:`Transfer`. What is no constant comes from the core's own
    local memory (0, and no issuers).
    """

    segment: int
    op: str
    versions: tuple[int, ...]
    prefetch: int = 0
    issuers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Prediction:
    """When a slot is expected to compute on the busiest core, in cycles from the start."""

    step: int
    op: str
    start: int
    stop: int


@dataclass(frozen=True)
class Solved:
    """What one model answered: all values are of the model's own objective; ``None`` where it has none."""

    model: str
    status: str
    objective: float | None
    bound: float | None
    unit: str


@dataclass(frozen=True)
class QueueOrder:
    """The order in which a queue issues its instructions, if it is not that of the operators.

    ``queue``: its name, such as MME0. ``runs``: (first, count) of instructions that follow each other as they do
    without an order, in which the first instruction of the queue is 0.
    """

    queue: str
    runs: tuple[tuple[int, int], ...]

    @property
    def places(self) -> list[int]:
        """The instructions in their order, by their places without one."""
        return [first + i for first, count in self.runs for i in range(count)]


@dataclass(frozen=True)
class Plan:
    """The whole answer of the solver; the lowering takes no decision beyond it.

    ``graph_sha256`` is :attr:`girih.ir.graph.Graph.digest` of the network that it is for. ``cell_cores`` has, for each
    segment, the core that runs each cell of an instance, in the order of the cells; none on the host. There is one of
    ``transfers`` for each tensor that a segment loads into local memories or stores from them, and one of
    ``weight_streams`` for each operator whose contraction runs on the matrix engine.
    """

    strategy: str
    machine: str
    graph_sha256: str
    seed: int
    segments: tuple[Segment, ...]
    cell_cores: tuple[tuple[int, ...], ...]
    steps: tuple[Step, ...]
    local: tuple[LocalBuffer, ...]
    shared: tuple[SharedBuffer, ...]
    transfers: tuple[Transfer, ...]
    weight_streams: tuple[WeightStream, ...]
    barrier: bool
    """Whether each slot waits for the one before it to end (no overlap between kernels)."""
    cycles_predicted: int
    lower_bound_cycles: int
    lower_bound_reason: str
    predictions: tuple[Prediction, ...]
    solved: tuple[Solved, ...]
    cycles_simulated: int | None = None
    """What a simulation of the plan took, if the search had it simulated."""
    order: tuple[QueueOrder, ...] = ()
    """Of queues that issue their instructions in another order than that of steps, operators and tiles."""

    @property
    def cycles(self) -> int:
        """What the plan is known to take: by its simulation, or else by prediction."""
        return self.cycles_predicted if self.cycles_simulated is None else self.cycles_simulated

    @property
    def cycles_text(self) -> str:
        """The predicted cycles, and the simulated ones if there are any."""
        simulated = "" if self.cycles_simulated is None else f", {self.cycles_simulated:,} simulated"
        return f"{self.cycles_predicted:,} cycles predicted{simulated}"

    @property
    def unjudged(self) -> Plan:
        """The plan without its lower bound and its simulated cycles: what a changed plan begins with."""
        return replace(self, lower_bound_cycles=0, lower_bound_reason="", cycles_simulated=None)

    @cached_property
    def transfer(self) -> dict[tuple[int, str], Transfer]:
        """By segment and tensor."""
        return {(t.segment, t.tensor): t for t in self.transfers}

    @cached_property
    def weight_stream(self) -> dict[tuple[int, str], WeightStream]:
        """By segment and operator."""
        return {(w.segment, w.op): w for w in self.weight_streams}

    @cached_property
    def slots(self) -> tuple[tuple[int, str], ...]:
        """(step, operator) of each slot, in order."""
        return tuple((s, op) for s, step in enumerate(self.steps) for op in self.segments[step.segment].ops)

    def __str__(self) -> str:
        return (
            f"plan ({self.strategy}) for {self.machine}: {len(self.segments)} segments, {len(self.steps)} steps, "
            f"{self.cycles_text}, at least {self.lower_bound_cycles:,}"
        )

    def _repr_html_(self) -> str:
        rows = [
            (
                index,
                segment.ops[0],
                segment.ops[-1],
                len(segment.ops),
                "x".join(f"{s.parts}@{s.dim}" for s in segment.instances) or "1",
                "x".join(f"{s.parts}@{s.dim}" for s in segment.cores) or "1",
            )
            for index, segment in enumerate(self.segments)
        ]
        return paragraph(str(self)) + html_table(("segment", "from", "to", "operators", "instances", "cores"), rows)
