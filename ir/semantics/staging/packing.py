"""A strided operand packed: the rows that it visits one behind the other, as it lies in a staging memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod


@dataclass(frozen=True)
class PackedArray:
    """Rows of ``run`` bytes, of which ``rows`` gives (stride where it lies, number), the innermost first.

    ``strides`` are those of the operand in the packed array; ``first``: where its first element is in it, in bytes.
    With ``exact`` the packed array has what the operand visits and nothing else.
    """

    run: int
    rows: tuple[tuple[int, int], ...]
    strides: tuple[int, ...]
    first: int
    exact: bool

    @property
    def bytes(self) -> int:
        return self.run * prod(count for _, count in self.rows)


def pack(item: int, extents: Sequence[int], strides: Sequence[int]) -> PackedArray:
    """The array with these extents and byte strides, of elements of ``item`` bytes, packed.

    Dimensions that share rows, as those of a window do, become one, at their greatest common stride. Where they share
    parts of rows, everything from the first to the last byte is one row.
    """
    dims = sorted((abs(s), e, d) for d, (e, s) in enumerate(zip(extents, strides, strict=True)) if e > 1 and s)
    run, exact = item, True
    levels: list[tuple[int, int, list[int]]] = []  # stride, number, dimensions
    within: list[int] = []
    for stride, extent, dim in dims:
        reach = stride * (extent - 1)
        if not levels and stride <= run:
            run += reach
            within.append(dim)
            continue
        span = levels[-1][0] * (levels[-1][1] - 1) + _row(run, levels[:-1]) if levels else run
        if stride >= span:
            levels.append((stride, extent, [dim]))
            continue
        last, number, members = levels.pop()
        common = gcd(last, stride)
        if common < _row(run, levels):
            return _whole(item, extents, strides)
        exact &= common == last
        levels.append((common, ((number - 1) * last + reach) // common + 1, [*members, dim]))
    packed = [0] * len(extents)
    for dim in within:
        packed[dim] = strides[dim]
    step = run
    for stride, number, members in levels:
        for dim in members:
            packed[dim] = strides[dim] // stride * step
        step *= number
    rows = tuple((stride, number) for stride, number, _ in levels)
    return PackedArray(run, rows, tuple(packed), _first(extents, packed), exact)


def _row(run: int, levels: Sequence[tuple[int, int, list[int]]]) -> int:
    """Bytes from the first to the last of one position of the next dimension."""
    return run + sum(stride * (number - 1) for stride, number, _ in levels)


def _whole(item: int, extents: Sequence[int], strides: Sequence[int]) -> PackedArray:
    moving = [s if e > 1 else 0 for e, s in zip(extents, strides, strict=True)]
    run = item + sum(abs(s) * (e - 1) for e, s in zip(extents, moving, strict=True))
    return PackedArray(run, (), tuple(moving), _first(extents, moving), exact=False)


def _first(extents: Sequence[int], strides: Sequence[int]) -> int:
    """Where the first element is, counted from the lowest one."""
    return sum(-s * (e - 1) for e, s in zip(extents, strides, strict=True) if s < 0)
