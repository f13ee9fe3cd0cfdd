"""A machine as its file describes it: a graph of memories and engines, with the links that limit it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from msgspec import Meta

from .engine import Engine
from .memories import Link, Memory


@dataclass(frozen=True)
class Hardware:
    """What there is; what it is used for is derived (:mod:`girih.ir.machines.derivation`)."""

    name: Annotated[str, Meta(description="How reports call the machine.")]
    description: Annotated[str, Meta(description="One line for lists of machines.")]
    frequency: Annotated[float, Meta(description="Clock in Hz.")]
    clusters: Annotated[int, Meta(description="Clusters of the chip; the batch is divided over them.")]
    cores: Annotated[int, Meta(description="Cores of each cluster.")]
    memories: Annotated[
        tuple[Memory, ...],
        Meta(description="What each is used for follows from the engines that read and write it."),
    ]
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

    def copier(self, kind: str, source: Memory, target: Memory) -> Engine | None:
        """The first engine that moves data (``kind``: copy, broadcast, dma) from one memory to another."""
        scope = "cluster" if kind == "dma" else "core"
        able = (e for e in self.engines if kind in e.classes and e.scope == scope)
        return next((e for e in able if source.name in e.reads and target.name in e.writes), None)

    def copies(self, kind: str, source: Memory, target: Memory) -> bool:
        """Whether an engine moves data so."""
        return self.copier(kind, source, target) is not None

    def is_loaded(self, memory: Memory) -> bool:
        """Whether a core copies to one of its memories from outside."""
        return any(self.copies("copy", far, memory) for far in self.memories if far.scope != "core")
