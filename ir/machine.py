"""An accelerator, as data: memories, engines, links and their timing.

A machine is clusters of cores of engines. A batch is divided over the clusters, which run the same program on their
own data; everything else speaks of one cluster. Nothing in the code names a chip: what an engine may read, write and
run is in its machine file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from msgspec import Meta

Scope = Literal["chip", "cluster", "core"]

_CLASS = Meta(extra_json_schema={"enum": ["matrix", "vector", "copy", "broadcast", "dma", "host", "scalar"]})
"""For editors alone: what else a file says is told with the place and the known ones (:mod:`.checks.check_machine`)."""
Role = Literal["main", "shared", "local", "weights", "accumulator"]


@dataclass(frozen=True)
class Memory:
    """One memory."""

    name: Annotated[str, Meta(description="How engines and links refer to it.")]
    role: Annotated[
        Role,
        Meta(
            description="What the compiler uses it for; exactly one memory has each role. main: holds everything, far "
            "away (DDR). shared: on chip, seen by all cores of a cluster. local: a core's data. weights: a core's "
            "stationary operands of the matrix engine. accumulator: the matrix engine's results and the vector "
            "engine's temporaries."
        ),
    ]
    scope: Annotated[Scope, Meta(description="What has one of it: the chip, each cluster, or each core.")]
    capacity: Annotated[int, Meta(description="Bytes.")]
    alignment: Annotated[
        int, Meta(description="Addresses are multiples of so many bytes: a power of two of at least 8.")
    ]
    banks: Annotated[int, Meta(description="Number of banks.")] = 1
    interleave: Annotated[
        int,
        Meta(
            description="Bytes after which the next bank follows. The bank of address a is (a // interleave) % banks; "
            "with 0 it is a // (capacity // banks)."
        ),
    ] = 0
    bytes_per_cycle: Annotated[
        int, Meta(description="Bytes that one bank serves in a cycle, to all engines together.")
    ] = 64


@dataclass(frozen=True)
class Engine:
    """One kind of engine, with an in-order queue for each instance (one a core, or one a cluster)."""

    name: Annotated[str, Meta(description="How reports and queues call it; a core's number follows.")]
    scope: Annotated[Scope, Meta(description="What has one of it: each cluster, or each core.")]
    classes: Annotated[
        tuple[Annotated[str, _CLASS], ...],
        Meta(description="The instruction classes that it runs: matrix, vector, copy, broadcast, dma, host, scalar."),
    ]
    reads: Annotated[tuple[str, ...], Meta(description="Names of the memories that it reads.")]
    writes: Annotated[tuple[str, ...], Meta(description="Names of the memories that it writes.")]
    issue: Annotated[int, Meta(description="Cycles that issuing an instruction takes.")]
    latency: Annotated[int, Meta(description="Cycles from the end of an instruction to when its result is visible.")]
    rows: Annotated[int, Meta(description="Rows of the array of a matrix engine.")] = 0
    columns: Annotated[int, Meta(description="Columns of the array of a matrix engine.")] = 0
    fill: Annotated[
        int,
        Meta(
            description="Cycles in which the array of a matrix engine is filled and drained for each block of rows x "
            "columns results of an instruction, on top of its products; an output-stationary array that finishes a "
            "block before the next begins has rows + columns - 2 (Samajdar et al., ISPASS 2020), one that overlaps "
            "them has 0."
        ),
    ] = 0
    rate: Annotated[
        dict[str, float] | None,
        Meta(
            description="Of a matrix engine, by dtype of its operands: the factor by which it multiplies faster than "
            "rows x columns multiply-accumulates a cycle. A dtype that is absent is not multiplied."
        ),
    ] = None
    lanes: Annotated[
        dict[str, int] | None,
        Meta(description="Of a vector engine, by dtype of the result: elements a cycle."),
    ] = None
    special: Annotated[
        int,
        Meta(
            description="Of a vector or scalar engine: the factor by which special functions (such as exp) are slower."
        ),
    ] = 1
    operations_per_cycle: Annotated[
        float | None,
        Meta(
            description="Of a scalar engine: operations a cycle (loads, stores, arithmetic, comparisons, and two for "
            "each iteration of a loop)."
        ),
    ] = None
    bytes_per_cycle: Annotated[int, Meta(description="Of an engine that moves data: bytes a cycle, at most.")] = 0
    queue_depth: Annotated[int, Meta(description="Without effect: queues have as much room as they need.")] = 0

    def rate_of(self, dtype: str) -> float | None:
        """The ``rate`` at which operands of ``dtype`` are multiplied, uint8 at that of int8; ``None``: not at all."""
        return (self.rate or {}).get("int8" if dtype == "uint8" else dtype)


@dataclass(frozen=True)
class Link:
    """A bandwidth that all transfers of one direction share."""

    name: Annotated[str, Meta(description="How reports call it.")]
    memory: Annotated[str, Meta(description="Name of the memory that it limits.")]
    direction: Annotated[Literal["read", "write", "both"], Meta(description="Which accesses to the memory it limits.")]
    bytes_per_cycle: Annotated[
        float, Meta(description="Bytes a cycle, shared equally among the transfers in flight in one cluster.")
    ]
    latency: Annotated[int, Meta(description="Cycles that are added once to each transfer.")]
    burst: Annotated[int, Meta(description="Contiguous pieces are rounded up to so many bytes.")] = 1


@dataclass(frozen=True)
class Way:
    """What the compiler has one engine do: class ``kind``, from all memories of ``reads`` to all of ``writes``.

    ``scope``: of the engine. ``by_several_cores``: only where a cluster has several. ``optional``: a machine may do
    without.
    """

    kind: str
    reads: tuple[Role, ...]
    writes: tuple[Role, ...]
    scope: Scope
    by_several_cores: bool = False
    optional: bool = False

    def fits(self, engine: Engine, memories: Mapping[Role, str]) -> bool:
        """Whether an engine can go this way; ``memories``: their names by role."""
        return (
            self.kind in engine.classes
            and self.scope == engine.scope
            and {memories[r] for r in self.reads} <= set(engine.reads)
            and {memories[r] for r in self.writes} <= set(engine.writes)
        )


WAYS = (
    Way("matrix", ("local", "accumulator", "weights"), ("accumulator",), "core"),
    Way("vector", ("local", "accumulator"), ("local", "accumulator"), "core"),
    Way("copy", ("shared",), ("local",), "core"),
    Way("copy", ("shared",), ("weights",), "core"),
    Way("copy", ("local",), ("shared",), "core"),
    Way("copy", ("local",), ("weights",), "core"),
    Way("broadcast", ("shared",), ("local",), "core", by_several_cores=True),
    Way("broadcast", ("shared",), ("weights",), "core", by_several_cores=True),
    Way("dma", ("main",), ("shared",), "cluster"),
    Way("dma", ("shared",), ("main",), "cluster"),
    Way("host", ("main",), ("main",), "cluster"),
    Way("scalar", ("main",), ("main",), "cluster", optional=True),
)
"""All that the compiler uses a machine for: each way is the business of the first engine that fits."""


@dataclass(frozen=True)
class Machine:
    """A whole accelerator."""

    name: Annotated[str, Meta(description="How reports call the machine.")]
    description: Annotated[str, Meta(description="One line for lists of machines.")]
    frequency: Annotated[float, Meta(description="Clock in Hz.")]
    clusters: Annotated[int, Meta(description="Clusters of the chip; the batch is divided over them.")]
    cores: Annotated[int, Meta(description="Cores of each cluster.")]
    memories: Annotated[tuple[Memory, ...], Meta(description="Exactly one memory of each role.")]
    engines: Annotated[
        tuple[Engine, ...], Meta(description="The first whose class, scope and memories fit does a task.")
    ]
    links: Annotated[tuple[Link, ...], Meta(description="Bandwidths that transfers share.")]

    @cached_property
    def memory(self) -> dict[str, Memory]:
        return {m.name: m for m in self.memories}

    @cached_property
    def engine(self) -> dict[str, Engine]:
        return {e.name: e for e in self.engines}

    def role(self, role: Role) -> Memory:
        """The memory that plays ``role``; the loader guarantees exactly one of each."""
        return next(m for m in self.memories if m.role == role)

    @cached_property
    def ways(self) -> dict[Way, Engine]:
        """The engine of each way that has one; the loader guarantees those that the machine needs."""
        memories: dict[Role, str] = {m.role: m.name for m in self.memories}
        fitting = {way: [e for e in self.engines if way.fits(e, memories)] for way in WAYS}
        return {way: engines[0] for way, engines in fitting.items() if engines}

    @cached_property
    def _engines(self) -> dict[str, Engine]:
        return {way.kind: engine for way, engine in reversed(self.ways.items())}

    @cached_property
    def _movers(self) -> dict[tuple[str, str, str], Engine]:
        roles = {m.role: m.name for m in self.memories}
        return {(w.kind, roles[w.reads[0]], roles[w.writes[0]]): engine for w, engine in self.ways.items()}

    def engine_for(self, kind: str) -> Engine:
        """The engine that runs instructions of class ``kind``: matrix, vector, host or, the first of several, dma."""
        return self._engines[kind]

    @property
    def scalar(self) -> Engine | None:
        """The scalar engine of a cluster, if it has one."""
        return self._engines.get("scalar")

    def mover(self, kind: str, source: str, target: str) -> Engine:
        """The engine that moves data (``kind``: copy, broadcast, dma) from one memory to another, by their names."""
        return self._movers[kind, source, target]

    def __str__(self) -> str:
        rows = [f"{self.name}: {self.clusters} clusters x {self.cores} cores at {self.frequency / 1e9:g} GHz"]
        rows += [f"  {m.name:6} {m.role:11} {m.scope:7} {m.capacity:>12,} B" for m in self.memories]
        rows += [f"  {e.name:6} {e.scope:7} {', '.join(e.classes)}" for e in self.engines]
        return "\n".join(rows)
