"""The state of one cluster's memories, for all replicas at once, and which of their bytes were ever written."""

from __future__ import annotations

from bisect import bisect_right
from math import prod
from typing import NamedTuple

import numpy as np

from ...ir.graph import DTYPES
from ...ir.isa.footprint import Strided
from ...ir.isa.table import DTYPE_NAMES
from ...ir.program import Placed

_DTYPES = tuple(np.dtype(name) for name in DTYPE_NAMES)
Picks = tuple[int, np.ndarray]
"""An axis (after that of the replicas), and (replicas, ...) indices as NumPy picks along it."""

_WRITTEN = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFFFFFF, 8: 0xFFFFFFFFFFFFFFFF}
"""An element of this many bytes of the mask, all of them written."""


class MemoryContents:
    """One memory: bytes for each replica and, if ``tracked``, a mask of the bytes written, which replicas share."""

    def __init__(self, size: int, replicas: int, *, tracked: bool) -> None:
        # Zeroed pages cost nothing until they are touched.
        self.bytes = np.zeros((replicas, size), np.uint8)
        self.tracked = tracked
        self.mask = np.zeros(size if tracked else 0, np.uint8)
        self._written: set[tuple[object, ...]] = set()

    def view(self, at: Strided, base: int) -> np.ndarray:
        """(replicas, *extents) elements of an operand whose base address is ``base``."""
        size = self.bytes.shape[1]
        return np.ndarray(
            (len(self.bytes), *at.extents), _DTYPES[at.dtype], self.bytes, base + at.start, (size, *at.strides)
        )

    def _mask(self, at: Strided, base: int) -> np.ndarray:
        """The mask of the operand's elements; a broadcast dimension is there once."""
        extents = tuple(e if s else 1 for e, s in zip(at.extents, at.strides, strict=True))
        return np.ndarray(extents, f"u{at.itemsize}", self.mask, base + at.start, at.strides)

    def is_written(self, at: Strided, base: int, picks: Picks | None = None) -> bool:
        """Whether something wrote every byte of the operand, or of the entries that are picked; without mask: yes."""
        if not self.tracked or at.low == at.high:
            return True
        full = _WRITTEN[at.itemsize]
        if picks is not None:
            whole = np.broadcast_to(self._mask(at, base), at.extents)
            axis, entries = picks
            return all(bool((np.take_along_axis(whole, indices, axis - 1) == full).all()) for indices in entries)
        # What was once written stays written, so that one look is enough.
        key = (base, at.start, at.extents, at.strides, at.dtype)
        if key in self._written:
            return True
        if int(self._mask(at, base).min()) != full:
            return False
        self._written.add(key)
        return True

    def mark(self, at: Strided, base: int, picks: Picks | None = None) -> None:
        """Every byte of the operand, or of the entries that are picked, is written now."""
        if not self.tracked:
            return
        if picks is not None:
            axis, entries = picks
            for indices in entries:
                np.put_along_axis(self._mask(at, base), indices, _WRITTEN[at.itemsize], axis - 1)
            return
        key = (base, at.start, at.extents, at.strides, at.dtype)
        if key not in self._written:
            self._written.add(key)
            self._mask(at, base)[...] = _WRITTEN[at.itemsize]


class Located(NamedTuple):
    """An operand of an instruction that runs: its memory and base address, and what is picked of it."""

    store: MemoryContents
    at: Strided
    base: int
    picks: Picks | None = None

    def view(self) -> np.ndarray:
        return self.store.view(self.at, self.base)

    def is_written(self) -> bool:
        return self.store.is_written(self.at, self.base, self.picks)

    def mark(self) -> None:
        self.store.mark(self.at, self.base, self.picks)


class MainStore(MemoryContents):
    """The main memory: constants are the user's own arrays, one for all replicas, until something is written there."""

    def __init__(self, size: int, replicas: int, *, tracked: bool) -> None:
        super().__init__(size, replicas, tracked=tracked)
        self._starts: list[int] = []
        self._constants: list[np.ndarray] = []

    def place_constant(self, address: int, data: np.ndarray) -> None:
        """``data`` (its bytes, one-dimensional) is at ``address``; constants do not overlap."""
        at = bisect_right(self._starts, address)
        self._starts.insert(at, address)
        self._constants.insert(at, data)

    def _constant(self, low: int, high: int) -> int | None:
        """The constant that holds all these bytes."""
        at = bisect_right(self._starts, low) - 1
        return at if at >= 0 and high <= self._starts[at] + len(self._constants[at]) else None

    def _dissolve(self, low: int, high: int) -> None:
        """Copy every constant that overlaps these bytes into each replica's memory."""
        at = max(0, bisect_right(self._starts, low) - 1)
        while at < len(self._starts) and self._starts[at] < high:
            start, data = self._starts[at], self._constants[at]
            if start + len(data) <= low:
                at += 1
                continue
            self.bytes[:, start : start + len(data)] = data
            self.mask[start : start + len(data)] = 0xFF  # of no length where nothing is tracked
            del self._starts[at], self._constants[at]

    def view(self, at: Strided, base: int) -> np.ndarray:
        low, high = base + at.low, base + at.high
        if low < high:
            number = None if at.writes else self._constant(low, high)
            if number is not None:
                offset, data = base + at.start - self._starts[number], self._constants[number]
                return np.ndarray((len(self.bytes), *at.extents), _DTYPES[at.dtype], data, offset, (0, *at.strides))
            self._dissolve(low, high)
        return super().view(at, base)

    def is_written(self, at: Strided, base: int, picks: Picks | None = None) -> bool:
        if not self.tracked or self._constant(base + at.low, base + at.high) is not None:
            return True
        self._dissolve(base + at.low, base + at.high)
        return super().is_written(at, base, picks)


def dense(placed: Placed, memory: int, *, writes: bool = False) -> Strided:
    """A dense tensor as an operand with base address 0."""
    code, elements = DTYPE_NAMES.index(placed.dtype), prod(placed.shape)
    size = DTYPES[placed.dtype]
    low, high = placed.address, placed.address + elements * size
    return Strided(placed.tensor, not writes, writes, memory, code, low, (elements,), (size,), low, high)
