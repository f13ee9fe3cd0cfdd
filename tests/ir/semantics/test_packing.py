"""Packed operands: every element that is visited is where its strides say, and copies bring what they should."""

from __future__ import annotations

from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from girih.ir.semantics.staging.packing import pack

DIMENSION = st.tuples(st.integers(1, 5), st.integers(-12, 24))


@given(st.lists(DIMENSION, min_size=1, max_size=4))
@example([(3, 2), (2, 3), (4, 1)])
@example([(2, 24), (3, 16), (2, 1)])
@example([(3, -4), (4, 1)])
def test_elements_are_where_the_strides_say(dims: list[tuple[int, int]]) -> None:
    item = 2
    extents, strides = [e for e, _ in dims], [s * item for _, s in dims]
    packed = pack(item, extents, strides)
    low = sum(min(0, s * (e - 1)) for e, s in zip(extents, strides, strict=True))
    # The bytes of the rows, in the order in which they are copied.
    lies = [
        sum(i * stride for i, (stride, _) in zip(at, reversed(packed.rows), strict=True)) + byte
        for at in product(*(range(count) for _, count in reversed(packed.rows)))
        for byte in range(packed.run)
    ]
    assert len(lies) == packed.bytes
    visited: set[int] = set()
    for at in product(*map(range, extents)):
        true = sum(i * s for i, s in zip(at, strides, strict=True)) - low
        inside = packed.first + sum(i * s for i, s in zip(at, packed.strides, strict=True))
        assert lies[inside : inside + item] == list(range(true, true + item))
        visited |= {true, true + 1}
    if packed.exact:
        assert set(lies) == visited and len(lies) == len(visited)
