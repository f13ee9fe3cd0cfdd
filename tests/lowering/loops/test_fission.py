"""Loop fission and if promotion: what becomes of loops and conditions around several statements."""

from __future__ import annotations

import pytest

from girih.ir.errors import GirihError
from tests.support.tir_text import loops, texts


def test_a_loop_around_several_statements_is_unrolled() -> None:
    (group,) = loops("""
        for i in range(2):
            b[i] = a[i]
            for j in range(3):
                b[i + j] = a[j]
    """).groups
    assert texts(group.nests) == [
        [
            "for i0 < 1: b[0] = copy(a[0])",
            "for i0 < 3: b[i0] = copy(a[i0])",
            "for i0 < 1: b[1] = copy(a[1])",
            "for i0 < 3: b[i0 + 1] = copy(a[i0])",
        ]
    ]


def test_a_condition_around_statements_is_promoted_into_each() -> None:
    (group,) = loops("""
        for t in T.serial(2, annotations={"npu.tile": 0}):
            if t < 1:
                for i in range(4):
                    b[i] = a[i]
                for i in range(4):
                    if i > 1:
                        b[i + 6] = a[i]
    """).groups
    first, second = texts(group.nests)
    assert first == ["for i0 < 4: b[i0] = copy(a[i0])", "for i0 < 4: b[i0 + 6] = copy(a[i0]) if i0 - 2 >= 0"]
    assert second == [
        "for i0 < 4: b[i0] = copy(a[i0]) if -1 >= 0",
        "for i0 < 4: b[i0 + 6] = copy(a[i0]) if -1 >= 0 and i0 - 2 >= 0",
    ]


def test_conditions_between_loops_are_promoted_into_the_nest() -> None:
    (group,) = loops("""
        for i in range(6):
            if i < 4:
                for j in range(5):
                    if j > 1:
                        b[i + j] = a[j]
    """).groups
    assert texts(group.nests) == [["for i0 < 6, i1 < 5: b[i0 + i1] = copy(a[i1]) if -1*i0 + 3 >= 0 and i1 - 2 >= 0"]]


def test_tile_loops_become_tiles_and_what_is_around_them_runs_once() -> None:
    (group,) = loops("""
        for t in T.serial(2, annotations={"npu.tile": 0}):
            b[t] = a[t]
            for u in T.serial(2, annotations={"npu.tile": 1}):
                for i in range(3):
                    b[6 * t + 3 * u + i] = a[i]
            b[11 - t] = a[t]
    """).groups
    assert texts(group.nests) == [
        ["for i0 < 1: b[0] = copy(a[0])", "for i0 < 3: b[i0] = copy(a[i0])"],
        ["for i0 < 3: b[i0 + 3] = copy(a[i0])", "for i0 < 1: b[11] = copy(a[0])"],
        ["for i0 < 1: b[1] = copy(a[1])", "for i0 < 3: b[i0 + 6] = copy(a[i0])"],
        ["for i0 < 3: b[i0 + 9] = copy(a[i0])", "for i0 < 1: b[10] = copy(a[1])"],
    ]


def test_tile_loops_side_by_side_are_refused() -> None:
    with pytest.raises(GirihError, match="two loops over tiles stand side by side"):
        loops("""
            for t in T.serial(2, annotations={"npu.tile": 0}):
                for u in T.serial(2, annotations={"npu.tile": 0}):
                    b[t + u] = a[u]
                for u in T.serial(2, annotations={"npu.tile": 0}):
                    b[t + u + 6] = a[u]
        """)
