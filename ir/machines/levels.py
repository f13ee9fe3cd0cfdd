"""Levels: where each kind of operand lies, from the memory that holds everything to those of a core."""

from __future__ import annotations

from dataclasses import dataclass

from .memories import Memory
from .ways import Role


@dataclass(frozen=True)
class Level:
    """A memory, or the part of it that is for one kind of operand.

    ``base``: the address in the whole memory at which the part begins. ``role``: what tables and messages call the
    level. ``use``: what plans call the buffers in it, if it is a core's (see :class:`~girih.ir.plan.LocalBuffer`).
    """

    role: Role
    memory: Memory
    base: int
    use: str = ""

    def __hash__(self) -> int:
        # Levels are in the keys of what is looked up a million times, and a machine has six.
        return hash(self.role)

    @property
    def name(self) -> str:
        """The name of its memory."""
        return self.memory.name

    @property
    def capacity(self) -> int:
        return self.memory.capacity

    @property
    def alignment(self) -> int:
        return self.memory.alignment


@dataclass(frozen=True)
class Levels:
    """The levels of a machine: three of each core, by what its engines find there, and those outside.

    - ``activations``: the data of a core, which the matrix engine streams and the vector engine reads and writes.
    - ``weights``: stationary operands of the matrix engine.
    - ``sums``: results of the matrix engine, and temporaries of the vector engine.
    - ``exchange``: what the cores load from and store to, where they meet.
    - ``home``: holds everything but constants that have a memory of their own; it is the exchange's memory where the
      cores load from there by themselves.
    - ``constants``: a read-only memory with the homes of constants, or else ``home``. They come through the exchange
      if that is filled by DMA; otherwise the cores load them from there.

    Levels of a core that share a memory divide it. ``of_core`` has them in the order of memories and addresses.
    """

    activations: Level
    sums: Level
    weights: Level
    exchange: Level
    home: Level
    constants: Level
    of_core: tuple[Level, ...]

    @property
    def has_exchange(self) -> bool:
        """Whether a memory on chip stands between the cores and the one that holds everything."""
        return self.exchange.name != self.home.name

    @property
    def homes(self) -> tuple[str, ...]:
        """The names of the memories that have homes: that of all but constants, and that of these, if it is another."""
        return tuple(dict.fromkeys((self.home.name, self.constants.name)))

    @property
    def has_constants(self) -> bool:
        """Whether constants have a memory of their own."""
        return self.constants != self.home

    def home_of(self, *, constant: bool) -> Level:
        """Where a tensor has its home."""
        return self.constants if constant else self.home

    def source_of(self, *, constant: bool) -> Level:
        """Where the cores load a tensor from: constants from their own memory, if no other stands between."""
        return self.constants if constant and self.has_constants and not self.has_exchange else self.exchange
