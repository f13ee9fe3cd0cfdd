"""Guarded loops of TIR read as nests: their conditions hold exactly where the guard does."""

from __future__ import annotations

import pytest
from tvm.script import from_source  # pyright: ignore[reportUnknownVariableType]

from girih.ir.errors import GirihError
from girih.lowering.loops.fission import fission
from girih.lowering.loops.perfect_nest import PerfectNest


def guarded(condition: str) -> list[PerfectNest]:
    """The nests of a copy of 6 x 5 elements under a condition on the loops i and j."""
    text = f"""
@T.prim_func
def main(a: T.Buffer((6, 5), "float32"), b: T.Buffer((6, 5), "float32")):
    for i, j in T.grid(6, 5):
        if {condition}:
            b[i, j] = a[i, j]
"""
    (group,) = fission(from_source(text)).groups
    return [nest.at(0) for nest in group.nests]


@pytest.mark.parametrize(
    "guard", ["i < 4", "i <= 3", "i > 1", "2 * i >= j", "i == j", "i + j < 7 and j > 0", "4 > i - j and 3 <= 2 * j"]
)
@pytest.mark.parametrize("hint", [False, True], ids=["plain", "likely"])
def test_conditions_hold_where_the_guard_does(guard: str, *, hint: bool) -> None:
    (nest,) = guarded(f"T.likely({guard})" if hint and " and " not in guard else guard)
    for i in range(6):
        for j in range(5):
            assert all(c.at((i, j)) >= 0 for c in nest.conditions) == eval(guard, {"i": i, "j": j})


@pytest.mark.parametrize(
    "guard", ["T.bitwise_not(i < 4)", "T.if_then_else(i < 4, T.bool(False), T.bool(True))", "i < 4 or j < 2"]
)
def test_what_is_no_conjunction_is_refused(guard: str) -> None:
    """Calls other than ``likely`` too, though their first argument is a comparison."""
    with pytest.raises(GirihError, match="not a conjunction of comparisons"):
        guarded(guard)
