"""Loop collapse: loops over bytes that every access sees as one become one."""

from __future__ import annotations

from girih.ir.box import Affine
from girih.lowering.loops.axes import ByteAccess, ByteNest, merged


def nest(extents: tuple[int, ...], *strides: tuple[int, ...], conditions: tuple[Affine, ...] = ()) -> ByteNest:
    accesses = tuple(ByteAccess("ab"[n], 64 * n, walk) for n, walk in enumerate(strides))
    return ByteNest(extents, accesses, conditions)


def test_dense_loops_become_one() -> None:
    assert merged(nest((3, 4, 5), (80, 20, 4), (80, 20, 4))) == nest((60,), (4,), (4,))


def test_a_gap_in_one_access_keeps_loops_apart() -> None:
    assert merged(nest((3, 4, 5), (80, 20, 4), (96, 20, 4))) == nest((3, 20), (80, 4), (96, 4))


def test_loops_of_one_point_go() -> None:
    assert merged(nest((3, 1, 5), (40, 7, 4), (24, 0, 4))) == nest((3, 5), (40, 4), (24, 4))


def test_loops_that_repeat_an_access_become_one() -> None:
    assert merged(nest((3, 4), (16, 4), (0, 0))) == nest((12,), (4,), (0,))


def test_a_condition_keeps_its_loop_apart() -> None:
    condition = Affine((1, 0, -1), 1)
    after = merged(nest((3, 4, 5), (80, 20, 4), (80, 20, 4), conditions=(condition,)))
    assert after == nest((3, 4, 5), (80, 20, 4), (80, 20, 4), conditions=(condition,))
    condition = Affine((1, 0, 0), -1)
    after = merged(nest((3, 4, 5), (80, 20, 4), (80, 20, 4), conditions=(condition,)))
    assert after == nest((3, 20), (80, 4), (80, 4), conditions=(Affine((1, 0), -1),))
