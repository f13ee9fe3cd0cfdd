"""An accelerator, as data: memories, engines, links and their timing.

A machine is clusters of cores of engines. A batch is divided over the clusters, which run the same program on their
own data; everything else speaks of one cluster. Nothing in the code names a chip: what an engine may read, write and
run is in its machine file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Scope = Literal["chip", "cluster", "core"]
Role = Literal["main", "shared", "local", "weights", "accumulator"]


@dataclass(frozen=True)
class Memory:
    """One memory. ``role`` tells what the compiler uses it for.

    main: holds everything, far away (DDR). shared: on chip, seen by all cores of a cluster. local: a core's data.
    weights: a core's stationary operands of the matrix engine. accumulator: the matrix engine's results and the
    vector engine's temporaries.
    ``capacity`` in bytes; addresses are multiples of ``alignment`` bytes. Bank of address a: (a // interleave) % banks
    when ``interleave`` > 0, else a // (capacity // banks). ``bytes_per_cycle`` is what one bank serves in a cycle, to
    all engines together.
    """

    name: str
    role: Role
    scope: Scope
    capacity: int
    alignment: int
    banks: int = 1
    interleave: int = 0
    bytes_per_cycle: int = 64


@dataclass(frozen=True)
class Engine:
    """One kind of engine, with an in-order queue for each instance (one a core, or one a cluster).

    ``classes`` are the instruction classes it runs: matrix, vector, copy, broadcast, dma, host. ``lanes`` gives, by
    dtype, elements a cycle (vector: of the destination's dtype; matrix: rows x columns x 1 multiply-accumulates, of
    the operands' dtype). ``issue`` is the cost of each instruction in cycles, ``latency`` the fill time of its
    pipeline, ``special`` the factor by which special functions are slower. ``fill``: cycles in which the array of a
    matrix engine is filled and drained for each block of rows x columns results of an instruction, on top of its
    products; an output-stationary array that finishes a block before the next begins has rows + columns - 2 (Samajdar
    et al., ISPASS 2020), one that overlaps them has 0. Copy engines move up to ``bytes_per_cycle``.
    """

    name: str
    scope: Scope
    classes: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    issue: int
    latency: int
    rows: int = 0
    columns: int = 0
    fill: int = 0
    rate: dict[str, float] | None = None
    lanes: dict[str, int] | None = None
    special: int = 1
    bytes_per_cycle: int = 0
    queue_depth: int = 0

    def rate_of(self, dtype: str) -> float | None:
        """The ``rate`` at which operands of ``dtype`` are multiplied, uint8 at that of int8; ``None``: not at all."""
        return (self.rate or {}).get("int8" if dtype == "uint8" else dtype)


@dataclass(frozen=True)
class Link:
    """A bandwidth that all transfers of one direction share.

    ``memory`` is the memory whose ``direction`` ("read", "write" or "both") it limits; ``bytes_per_cycle`` are shared
    equally among the transfers in flight in one cluster; ``latency`` in cycles is added once to each transfer;
    ``burst``: contiguous pieces are rounded up to this many bytes.
    """

    name: str
    memory: str
    direction: Literal["read", "write", "both"]
    bytes_per_cycle: float
    latency: int
    burst: int = 1


@dataclass(frozen=True)
class Way:
    """What the compiler has one engine do: class ``kind``, from all memories of ``reads`` to all of ``writes``.

    ``scope``: of the engine. ``by_several_cores``: only where a cluster has several.
    """

    kind: str
    reads: tuple[Role, ...]
    writes: tuple[Role, ...]
    scope: Scope
    by_several_cores: bool = False

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
)
"""All that the compiler uses a machine for: each way is the business of the first engine that fits."""


@dataclass(frozen=True)
class Machine:
    """A whole accelerator. ``frequency`` in Hz; ``cores`` is cores a cluster."""

    name: str
    description: str
    frequency: float
    clusters: int
    cores: int
    memories: tuple[Memory, ...]
    engines: tuple[Engine, ...]
    links: tuple[Link, ...]

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

    def mover(self, kind: str, source: str, target: str) -> Engine:
        """The engine that moves data (``kind``: copy, broadcast, dma) from one memory to another, by their names."""
        return self._movers[kind, source, target]

    def __str__(self) -> str:
        rows = [f"{self.name}: {self.clusters} clusters x {self.cores} cores at {self.frequency / 1e9:g} GHz"]
        rows += [f"  {m.name:6} {m.role:11} {m.scope:7} {m.capacity:>12,} B" for m in self.memories]
        rows += [f"  {e.name:6} {e.scope:7} {', '.join(e.classes)}" for e in self.engines]
        return "\n".join(rows)
