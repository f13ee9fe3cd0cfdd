"""Tiles of a dimension that several loops write together, like the digits of a number (``64*h + d``).

A tile that begins or ends in the middle of a digit is no box of the loops: it is made of parts that are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from ..box import Span
from ..graph import Op

WORTH = 2
"""Tiles that are boxes in all parts may be so many times smaller than those that are in the part they are judged by.
Chosen: 34 channels of 68 pay in ShuffleNet, where a tile across two groups took 2.6 times as long as one of one group;
1 of 32 does not."""


def is_aligned(coefficients: Sequence[int], size: int, first: int = 0) -> bool:
    """Whether tiles of ``size``, from position ``first`` on, are boxes of the loops that write a dimension with these
    coefficients.

    The size must be a multiple of the largest coefficient that is not above it, and divide the ones above; so must
    ``first`` be a multiple of that coefficient, and of the size if there are larger ones. Where the last tile ends is
    not looked at.
    """
    below, above = [c for c in coefficients if c <= size], [c for c in coefficients if c > size]
    if not below:
        return True
    begins = first % max(below) == 0 and (not above or first % size == 0)
    return begins and size % max(below) == 0 and all(c % size == 0 for c in above)


def aligned_part(coefficients: Sequence[int], size: int) -> int:
    """The largest divisor of ``size`` whose tiles are boxes of the loops."""
    return next(part for part in range(size, 0, -1) if size % part == 0 and is_aligned(coefficients, part))


def aligned_size(op: Op, dim: int, size: int, span: Span, others: Sequence[Span] = ()) -> int:
    """The largest size up to ``size`` whose tiles of a dimension of the result are boxes of every stage's loops.

    ``span`` is the part of the dimension that is cut into tiles, from its begin on, and ``others`` are those of other
    cores. If what is right for all of them is less than one part in :data:`WORTH` of what is right for a part like
    ``span`` that begins where the loops do, it is the latter.
    """
    written = _digits(op, dim)
    # Kernels are made for any begin: the result itself is cut by all of its digits.
    always = [digits for tensor, digits in written if tensor == op.output]
    alone = [*always, *(_crossed(digits, span) for _, digits in written)]
    begins: dict[tuple[int, ...], int] = {}
    for _, digits in written:
        for part in (span, *others):
            crossed = tuple(_crossed(digits, part))
            begins[crossed] = gcd(begins.get(crossed, 0), part.lo)

    def aligned(part: int) -> bool:
        return all(is_aligned(digits, part, first) for digits, first in begins.items())

    most = next(part for part in range(size, 0, -1) if all(is_aligned(digits, part) for digits in alone))
    smaller = range(most, (most - 1) // WORTH, -1)
    return next((part for part in smaller if all(is_aligned(d, part) for d in always) and aligned(part)), most)


def _digits(op: Op, dim: int) -> list[tuple[str, list[int]]]:
    """By the tensor that a stage writes, the coefficients of the loops that write the dimension of the result, or of
    what becomes the result element by element.

    Groups of a convolution are digits of its sums, to which a bias is added: by one loop over all channels.
    """
    followed = {(op.output, dim)}
    written: list[tuple[str, list[int]]] = []
    for stage in reversed(op.stages):
        for number, index in enumerate(stage.write.index):
            if (stage.write.tensor, number) not in followed:
                continue
            digits = [c for c in index.coeffs if c]
            written.append((stage.write.tensor, digits))
            if digits == [1] and not index.const:
                followed |= {
                    (r.tensor, place) for r in stage.reads for place, read in enumerate(r.index) if read == index
                }
    return written


def _crossed(digits: Sequence[int], span: Span) -> list[int]:
    """Those digits of which a span has several values: a span within one group crosses no border of groups."""
    return [c for c in digits if span.lo // c != (span.hi - 1) // c]
