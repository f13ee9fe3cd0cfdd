"""An accelerator, as data: memories, engines, links and their timing.

A machine is clusters of cores of engines. A batch is divided over the clusters, which run the same program on their
own data; everything else speaks of one cluster. Nothing in the code names a chip: what an engine may read, write and
run is in its machine file.
"""

from __future__ import annotations

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

    def engine_for(self, kind: str) -> Engine:
        """The first engine that runs instructions of class ``kind``."""
        return next(e for e in self.engines if kind in e.classes)

    def __str__(self) -> str:
        rows = [f"{self.name}: {self.clusters} clusters x {self.cores} cores at {self.frequency / 1e9:g} GHz"]
        rows += [f"  {m.name:6} {m.role:11} {m.scope:7} {m.capacity:>12,} B" for m in self.memories]
        rows += [f"  {e.name:6} {e.scope:7} {', '.join(e.classes)}" for e in self.engines]
        return "\n".join(rows)
