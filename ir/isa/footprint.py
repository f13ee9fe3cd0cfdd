"""Which bytes an instruction touches: each operand as a strided array at its true place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from ..graph import DTYPES
from .row import Row
from .table import DTYPE_NAMES, ROWS, Instruction


class Strided(NamedTuple):
    """An array in a memory: ``start`` is the byte address of its first element, ``strides`` are in bytes.

    ``low`` and ``high`` bound the bytes that it covers, half-open; ``memory`` and ``dtype`` are the operand's codes.
    """

    name: str
    reads: bool
    writes: bool
    memory: int
    dtype: int
    start: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    low: int
    high: int

    @property
    def itemsize(self) -> int:
        return DTYPES[DTYPE_NAMES[self.dtype]]

    @property
    def bytes(self) -> int:
        """Bytes of all elements; a dimension with stride 0 counts once."""
        return self.itemsize * prod(e for e, s in zip(self.extents, self.strides, strict=True) if s or not e)


@dataclass(frozen=True)
class Taps:
    """The input positions that windows visit in one dimension, as a lattice with the widest exact step.

    Position ``origin + step * r`` for ``0 <= r < length``; output i meets kernel element j at
    ``r = i * stride + j * dilation``. Those with ``first <= r < last`` are in bounds.
    """

    origin: int
    step: int
    length: int
    stride: int
    dilation: int
    first: int
    last: int


WINDOW = (("oh", "kh", "sh", "dh", "h0", "H"), ("ow", "kw", "sw", "dw", "w0", "W"))
"""Of each of its two dimensions, the fields that say what a window visits: the arguments of :func:`taps`."""


@lru_cache(maxsize=4096)
def taps(outputs: int, kernel: int, stride: int, dilation: int, origin: int, bound: int) -> Taps:
    """The lattice of one dimension of a window; ``bound`` is the extent of the input, ``origin`` h0 or w0."""
    step = gcd(stride if outputs > 1 else 0, dilation if kernel > 1 else 0) or 1
    length = ((outputs - 1) * stride + (kernel - 1) * dilation) // step + 1 if outputs and kernel else 0
    first = min(length, max(0, -(origin // step)))
    last = max(first, min(length, -((origin - bound) // step)))
    return Taps(origin, step, length, stride // step, dilation // step, first, last)


def overlaps_itself(at: Strided) -> bool:
    """Whether two of the elements share a byte."""
    if not all(at.extents):
        return False
    run, apart = at.itemsize, list[tuple[int, int]]()
    for stride, extent in sorted((abs(s), e) for s, e in zip(at.strides, at.extents, strict=True) if e > 1):
        if stride == run and not apart:
            run *= extent
        else:
            apart.append((stride, extent))
    span = run
    for stride, extent in apart:
        if stride < span:
            break
        span += stride * (extent - 1)
    else:
        return False
    if run * prod(e for _, e in apart) > at.high - at.low:
        return True
    starts = np.zeros(1, np.int64)
    for stride, extent in apart:
        starts = (starts[:, None] + np.arange(extent) * stride).reshape(-1)
    return bool((np.diff(np.sort(starts)) < run).any())


def footprint(instruction: Instruction) -> tuple[Strided, ...]:
    """Every operand, in the order of the row; an operand with an extent of 0 touches nothing.

    Of an operand whose entries another one picks, it is the whole: which of them are meant is known in a run alone.
    """
    row = ROWS[instruction.mnemonic]
    if not row.operands:
        return ()
    values = instruction.values
    position = row.position
    accumulates = "acc" in position and bool(values[position["acc"]])
    return tuple(_operand(row, values, number, accumulates) for number in range(len(row.operands)))


def _operand(row: Row, values: tuple[int | float, ...], number: int, accumulates: bool) -> Strided:
    operand, position = row.operands[number], row.position
    at = position[f"{operand.name}.mem"]
    memory, dtype, start, *strides = (int(v) for v in values[at : at + 3 + len(operand.dims)])
    extents = [int(values[position[dim]]) for dim in operand.dims]
    if operand.window:
        for dim, names in enumerate(WINDOW):
            lattice = taps(*(int(values[position[name]]) for name in names))
            start += strides[dim] * (lattice.origin + lattice.step * lattice.first)
            extents[dim] = lattice.last - lattice.first
            strides[dim] *= lattice.step
    if not all(extents):
        start = int(values[at + 2])
    low = high = start
    if all(extents):
        high += DTYPES[DTYPE_NAMES[dtype]] if dtype < len(DTYPE_NAMES) else 1
        for extent, stride in zip(extents, strides, strict=True):
            if stride < 0:
                low += stride * (extent - 1)
            else:
                high += stride * (extent - 1)
    reads = "r" in operand.access or (accumulates and operand.access == "w")
    return Strided(
        operand.name, reads, "w" in operand.access, memory, dtype, start, tuple(extents), tuple(strides), low, high
    )
