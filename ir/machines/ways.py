"""What the compiler uses a machine for: ways from the memories with some roles to those with others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from .engine import Engine
from .memories import Memory, Scope

Role = Literal["main", "shared", "local", "weights", "accumulator", "constants"]
"""What a memory is used for, as tables and messages call it; code asks :class:`~girih.ir.machines.levels.Levels`."""
ROLES: tuple[Role, ...] = tuple(role for role in get_args(Role) if role != "constants")
"""Those that a memory of every machine plays; constants have a memory of their own where one is read-only."""
CORE_ROLES: tuple[Role, ...] = ("local", "accumulator", "weights")
"""Those of the memories of a core."""


@dataclass(frozen=True)
class Way:
    """What the compiler has one engine do: class ``kind``, from all memories of ``reads`` to all of ``writes``.

    ``scope``: of the engine. ``optional``: a machine may do without.
    """

    kind: str
    reads: tuple[Role, ...]
    writes: tuple[Role, ...]
    scope: Scope
    optional: bool = False

    def fits(self, engine: Engine, memories: Mapping[Role, Memory]) -> bool:
        """Whether an engine can go this way; ``memories``: those of the machine, by role."""
        return (
            self.kind in engine.classes
            and self.scope == engine.scope
            and {memories[r].name for r in self.reads} <= set(engine.sources)
            and {memories[r].name for r in self.writes} <= set(engine.writes)
        )


WAYS = (
    Way("matrix", ("local", "accumulator", "weights"), ("accumulator",), "core"),
    Way("vector", ("local", "accumulator"), ("local", "accumulator"), "core"),
    Way("copy", ("shared",), ("local",), "core"),
    Way("copy", ("shared",), ("weights",), "core"),
    Way("copy", ("local",), ("shared",), "core"),
    Way("copy", ("local",), ("weights",), "core", optional=True),
    Way("broadcast", ("shared",), ("local",), "core", optional=True),
    Way("broadcast", ("shared",), ("weights",), "core", optional=True),
    Way("dma", ("main",), ("shared",), "cluster"),
    Way("dma", ("shared",), ("main",), "cluster"),
    Way("dma", ("constants",), ("shared",), "cluster", optional=True),
    Way("host", ("main",), ("main",), "cluster", optional=True),
    Way("scalar", ("main",), ("main",), "cluster", optional=True),
    Way("copy", ("constants",), ("local",), "core", optional=True),
    Way("copy", ("constants",), ("weights",), "core", optional=True),
    Way("broadcast", ("constants",), ("local",), "core", optional=True),
    Way("broadcast", ("constants",), ("weights",), "core", optional=True),
)
"""All that the compiler uses a machine for: each way is the business of the first engine that fits.

Without a way from local to weight memory, products of two activations run on the vector engine; without broadcasts,
each core loads for itself; DMA is not needed where the cores load from the main memory; without host and scalar engine,
operators that no engine of tiles runs are refused.
"""
