"""Tiles of a dimension that several loops write together, like the digits of a number (``64*h + d``).

A tile that begins or ends in the middle of a digit is no box of the loops: it is made of parts that are.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..box import Span
from ..graph import Op

WORTH = 4
"""A part that begins in the middle of a digit has tiles that are boxes if they are no more than so many times smaller
than those of the other parts. Chosen: a tile across two groups took 2.6 times as long as one of one group."""


def is_aligned(coefficients: Sequence[int], size: int, first: int = 0) -> bool:
    """Whether tiles of ``size``, from position ``first`` on, are boxes of the loops that write a dimension with these
    coefficients.

    So they are if the size is a multiple of the largest coefficient that is not above it, and divides the ones above;
    and if what divides what divides ``first``, too.
    """
    below, above = [c for c in coefficients if c <= size], [c for c in coefficients if c > size]
    if not below:
        return True
    begins = first % max(below) == 0 and (not above or first % size == 0)
    return begins and size % max(below) == 0 and all(c % size == 0 for c in above)


def aligned_part(coefficients: Sequence[int], size: int) -> int:
    """The largest divisor of ``size`` whose tiles are boxes of the loops."""
    return next(part for part in range(size, 0, -1) if size % part == 0 and is_aligned(coefficients, part))


def aligned_size(op: Op, dim: int, size: int, spans: Sequence[Span]) -> int:
    """The largest size up to ``size`` whose tiles of a dimension of the result are boxes of every stage's loops.

    ``spans``: the parts of the dimension that are cut into tiles, each from its begin on. Where these begin so that no
    size that is :data:`WORTH` it is one for all, it is one for parts that begin where the loops do.
    """
    written = [
        (tensor == op.output, digits, span) for tensor, digits in _digits(op, dim) for span in dict.fromkeys(spans)
    ]
    crossed = dict.fromkeys((tuple(d if own else _crossed(d, span)), span.lo) for own, d, span in written)

    def largest(by_begin: bool) -> int:
        return next(
            part
            for part in range(size, 0, -1)
            if all(is_aligned(digits, part, first if by_begin else 0) for digits, first in crossed)
        )

    everywhere, begun = largest(by_begin=True), largest(by_begin=False)
    return everywhere if WORTH * everywhere >= begun else begun


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
