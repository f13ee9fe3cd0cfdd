"""What a memory must have around it to play a role: what engines read it, write it, and copy to it and from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal

from .engine import Engine, Side
from .hardware import Hardware
from .memories import Memory
from .staging_memories import staged_in, stopped_at
from .ways import CORE_ROLES, Role

Requirement = tuple[bool, str]
"""Whether it is met, and what is said where it is not."""
_VERBS: dict[Side, tuple[str, str]] = {
    "reads": ("reads it", "does not read it"),
    "weights": ("has it in its weights", "does not have it in its weights"),
    "writes": ("writes it", "does not write it"),
}


@dataclass(frozen=True)
class Candidate:
    """A memory that might play a role, and what of the machine stands against it, as sentences."""

    memory: Memory
    lacks: tuple[str, ...]


@dataclass(frozen=True)
class ComputingEngines:
    """The matrix and the vector engine of a core that roles are derived for; ``None`` where there is none."""

    matrix: Engine | None
    vector: Engine | None


def computing_engines(hardware: Hardware) -> list[ComputingEngines]:
    """Each matrix engine of a core with each vector engine, in the order of the file.

    Of several with the same memories, the first.
    """

    def distinct_engines(kind: str) -> list[Engine | None]:
        by_memories: dict[tuple[tuple[str, ...], ...], Engine] = {}
        for engine in hardware.engines:
            if kind in engine.classes and engine.scope == "core":
                by_memories.setdefault((engine.reads, engine.weights, engine.writes), engine)
        return [*by_memories.values()] or [None]

    return [ComputingEngines(*pair) for pair in product(distinct_engines("matrix"), distinct_engines("vector"))]


def candidates(
    hardware: Hardware,
    role: Role,
    known: Mapping[Role, Memory],
    *,
    staged: bool = False,
    computing: ComputingEngines | None = None,
) -> list[Candidate]:
    """Every memory of the scope for a role, and what stands against it; ``known``: the roles that come before.

    ``staged``: engines may have operands in a memory of their own, to which and from which others copy.
    ``computing``: the engines that the role is for; otherwise those with which the least stands against each memory.
    """
    choices = computing_engines(hardware) if computing is None else [computing]
    around = [_Surroundings(hardware, known, staged, choice) for choice in choices]
    near = role in CORE_ROLES
    return [
        min((_candidate(a, role, m) for a in around), key=lambda candidate: len(candidate.lacks))
        for m in hardware.memories
        if (m.scope == "core") == near
    ]


def _candidate(around: _Surroundings, role: Role, m: Memory) -> Candidate:
    written = () if role == "constants" else ((not m.read_only, "it is read-only"),)
    return Candidate(m, tuple(text for met, text in (*written, *_REQUIRED[role](around, m)) if not met))


@dataclass(frozen=True)
class _Surroundings:
    """What is around the memories of a machine of which some roles are ``known``."""

    hardware: Hardware
    known: Mapping[Role, Memory]
    staged: bool
    computing: ComputingEngines

    @property
    def far(self) -> list[Memory]:
        return [m for m in self.hardware.memories if m.scope != "core"]

    def reached(self, kind: Literal["matrix", "vector"], side: Side, m: Memory) -> Requirement:
        """That the computing engine of a class has a memory on a side."""
        engine: Engine | None = getattr(self.computing, kind)
        others = [e for e in self.hardware.engines if kind in e.classes and e.scope == "core"]
        does, does_not = _VERBS[side]
        if engine is None or not any(self.has(e, side, m) for e in others):
            return False, f"no {kind} engine of a core {does}"
        return self.has(engine, side, m), f"{engine.name} {does_not}"

    def has(self, engine: Engine, side: Side, m: Memory) -> bool:
        return m.name in getattr(engine, side) or (
            self.staged and staged_in(self.hardware, engine, side, m, self.known) is not None
        )

    def copies(self, source: Memory, target: Memory) -> bool:
        """At once."""
        return self.hardware.copies("copy", source, target)

    def moves(self, source: Memory, target: Memory) -> bool:
        """At once or, where that counts, by two copies."""
        stopped = self.staged and stopped_at(self.hardware, source, target) is not None
        return stopped or self.copies(source, target)

    def by_vector(self, m: Memory) -> tuple[Requirement, ...]:
        return self.reached("vector", "reads", m), self.reached("vector", "writes", m)

    def crosses(self, m: Memory, other: Memory | None) -> tuple[bool, bool]:
        """Whether DMA moves data from a memory to another and back, or they are one."""
        if other is None or m == other:
            return other is not None, other is not None
        return self.hardware.copies("dma", m, other), self.hardware.copies("dma", other, m)


def _local(around: _Surroundings, m: Memory) -> tuple[Requirement, ...]:
    return (
        around.reached("matrix", "reads", m),
        *around.by_vector(m),
        (any(around.copies(f, m) for f in around.far), "nothing copies from a memory outside of the core"),
        (any(around.moves(m, f) for f in around.far), "nothing copies to a memory outside of the core"),
    )


def _accumulator(around: _Surroundings, m: Memory) -> tuple[Requirement, ...]:
    matrix = around.computing.matrix
    return (matrix is not None and m.name in matrix.writes, "no matrix engine writes it"), *around.by_vector(m)


def _weights(around: _Surroundings, m: Memory) -> tuple[Requirement, ...]:
    return (around.reached("matrix", "weights", m),)


def _shared(around: _Surroundings, m: Memory) -> tuple[Requirement, ...]:
    local = around.known.get("local")
    return (
        (local is not None and around.copies(m, local), "no core copies from it to its local memory"),
        (local is not None and around.moves(local, m), "no core copies to it from its local memory"),
    )


def _main(around: _Surroundings, m: Memory) -> tuple[Requirement, ...]:
    reads, writes = around.crosses(m, around.known.get("shared"))
    return (reads, "no DMA reads it"), (writes, "no DMA writes it")


def _constants(around: _Surroundings, m: Memory) -> tuple[Requirement, ...]:
    known = around.known
    shared = known.get("shared")
    if shared is not None and shared != known.get("main"):
        filled = around.hardware.copies("dma", m, shared)
        return (m.read_only, "it is not read-only"), (filled, f"no DMA of the cluster copies from it to {shared.name}")
    targets = [memory for role, memory in known.items() if role in ("local", "weights")]
    return (
        (m.read_only, "it is not read-only"),
        (shared is not None, "no memory is shared"),
        (all(around.copies(m, t) for t in targets), "no core copies from it to where it needs them"),
    )


_REQUIRED: dict[Role, Callable[[_Surroundings, Memory], tuple[Requirement, ...]]] = {
    "local": _local,
    "accumulator": _accumulator,
    "weights": _weights,
    "shared": _shared,
    "main": _main,
    "constants": _constants,
}
