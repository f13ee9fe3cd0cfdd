"""Memories, and the links that limit what goes in and out of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from typing import Annotated, Literal

from msgspec import Meta

Scope = Literal["chip", "cluster", "core"]
"""What has one of a memory or an engine."""


@dataclass(frozen=True)
class Memory:
    """One memory."""

    name: Annotated[str, Meta(description="How engines and links refer to it.")]
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
    read_only: Annotated[
        bool,
        Meta(
            description="Whether no engine writes it, as flash: it holds what was there before the run, the constants."
        ),
    ] = False

    @property
    def unit(self) -> int:
        """Bytes at whose multiples it can be divided: whole banks, where there are enough of them."""
        turn = self.interleave * self.banks if self.interleave else self.capacity // self.banks
        aligned = lcm(turn, self.alignment)
        return aligned if 4 * aligned <= self.capacity else self.alignment

    def part(self, begin: int, end: int) -> Memory:
        """The bytes ``begin .. end`` as a memory of its own, with the banks that they lie in."""
        bank = self.capacity // self.banks
        banks = self.banks if self.interleave else max(1, (end - begin) // bank)
        return replace(self, capacity=end - begin, banks=banks)


@dataclass(frozen=True)
class Link:
    """A bandwidth that all transfers of one direction share."""

    name: Annotated[str, Meta(description="How reports call it.")]
    memory: Annotated[
        str | Annotated[tuple[str, ...], Meta(min_length=1, extra_json_schema={"uniqueItems": True})],
        Meta(description="Name of the memory that it limits, or names of several memories behind one port."),
    ]
    direction: Annotated[Literal["read", "write", "both"], Meta(description="Which accesses to the memory it limits.")]
    bytes_per_cycle: Annotated[
        float, Meta(description="Bytes a cycle, shared equally among the transfers in flight in one cluster.")
    ]
    latency: Annotated[int, Meta(description="Cycles that are added once to each transfer.")]
    burst: Annotated[int, Meta(description="Contiguous pieces are rounded up to so many bytes.")] = 1

    @property
    def memories(self) -> tuple[str, ...]:
        """The names of the memories that it limits."""
        return (self.memory,) if isinstance(self.memory, str) else self.memory

    def renamed(self, mark: str) -> Link:
        """The link with a mark behind its name and behind those of its memories."""
        memory = self.memory + mark if isinstance(self.memory, str) else tuple(name + mark for name in self.memory)
        return replace(self, name=self.name + mark, memory=memory)
