"""Tiles of a dimension that several loops write together, like the digits of a number (``64*h + d``).

A tile that begins or ends in the middle of a digit is no box of the loops: it is made of parts that are.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Op


def is_aligned(coefficients: Sequence[int], size: int) -> bool:
    """Whether tiles of ``size`` are boxes of the loops that write a dimension with these coefficients.

    So they are if the size is a multiple of the largest coefficient that is not above it, and divides the ones above.
    """
    below = [c for c in coefficients if c <= size]
    return not below or (size % max(below) == 0 and all(c % size == 0 for c in coefficients if c > size))


def aligned_part(coefficients: Sequence[int], size: int) -> int:
    """The largest divisor of ``size`` whose tiles are boxes of the loops."""
    return next(part for part in range(size, 0, -1) if size % part == 0 and is_aligned(coefficients, part))


def aligned_size(op: Op, dim: int, size: int) -> int:
    """The largest size up to ``size`` whose tiles of a dimension of the result are boxes of every stage's loops."""
    written = _digits(op, dim)
    return next(part for part in range(size, 0, -1) if all(is_aligned(digits, part) for digits in written))


def _digits(op: Op, dim: int) -> list[list[int]]:
    """The coefficients of the loops of each stage that writes a dimension of the result, or what becomes of it element
    by element: groups of a convolution are digits of its sums, to which a bias is added."""
    followed = {(op.output, dim)}
    written: list[list[int]] = []
    for stage in reversed(op.stages):
        for index in (index for d, index in enumerate(stage.write.index) if (stage.write.tensor, d) in followed):
            written.append([c for c in index.coeffs if c])
            if written[-1] == [1] and not index.const:
                followed |= {
                    (read.tensor, d) for read in stage.reads for d, source in enumerate(read.index) if source == index
                }
    return written
