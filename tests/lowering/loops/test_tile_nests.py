"""From a lowered function to the tiles of the plan: their order, turns and versions, and classes of equal nests."""

from __future__ import annotations

import pytest

from girih.ir.box import Affine
from girih.ir.errors import GirihError
from girih.lowering.loops.tile_nests import TiledOperator, tile_nests
from girih.lowering.schedule.cell_spec import CellSpec
from girih.lowering.schedule.stage_spec import SUMS_SCOPE
from girih.lowering.schedule.tile_plan import TilePlan
from tests.support.cell_specs import copy, plain, view
from tests.support.tir_text import function

SCOPED = 'b0: T.Buffer((4, 6), "float32", scope="global.l1"), b1: T.Buffer((24,), "float32", scope="global.l1")'
ROUNDS = """
    for i in T.serial(4, annotations={"npu.tile": 0}):
        for j in T.serial(2, annotations={"npu.tile": 0}):
            for k in range(3):
                b1[i * 6 + j * 3 + k] = b0[i, j * 3 + k]
"""
FLAT = CellSpec((view(4, 6), view(24)), (copy("part0", (4, 6), 0, 1, (Affine((6, 1)),)),), output=1, contraction=None)


def corners(tiled: TiledOperator, buffer: str) -> list[list[int]]:
    return tiled.boxes[buffer].low.tolist()


def nests(tiled: TiledOperator, tile: int) -> list[str]:
    return [str(nest) for nest in tiled.classes[tiled.class_of[tile]].nests]


@pytest.mark.parametrize(
    ("order", "places"), [((0, 1), [[0, 0], [0, 3], [4, 0], [4, 3]]), ((1, 0), [[0, 0], [4, 0], [0, 3], [4, 3]])]
)
def test_tiles_come_in_the_order_of_the_plan(order: tuple[int, int], places: list[list[int]]) -> None:
    """Whatever the order of the loops."""
    text = """
        for i in T.serial(2, annotations={"npu.tile": 0}):
            for j in T.serial(2, annotations={"npu.tile": 1}):
                for k, l in T.grid(4, 3):
                    if i * 4 + k < 6 and j * 3 + l < 5:
                        b1[i * 4 + k, j * 3 + l] = b0[i * 4 + k, j * 3 + l]
    """
    both = ", ".join(f'b{n}: T.Buffer((6, 5), "float32", scope="global.l1")' for n in range(2))
    tiled = tile_nests(function(text, both), plain(6, 5), TilePlan((4, 3), order))
    assert corners(tiled, "b1") == corners(tiled, "b0") == places
    assert nests(tiled, 0) == ["for i0 < 4, i1 < 3: b1[i0, i1] = copy(b0[i0, i1])"]
    assert nests(tiled, 3) == ["for i0 < 2, i1 < 2: b1[i0, i1] = copy(b0[i0, i1])"]


def test_several_rounds_make_up_a_tile_that_cuts_digits() -> None:
    tiled = tile_nests(function(ROUNDS, SCOPED), FLAT, TilePlan((9,), (0,)))
    assert corners(tiled, "b1") == [[0], [9], [18]]
    assert nests(tiled, 0) == [
        "for i0 < 3: b1[i0] = copy(b0[0, i0])",
        "for i0 < 3: b1[i0 + 3] = copy(b0[0, i0 + 3])",
        "for i0 < 3: b1[i0 + 6] = copy(b0[1, i0])",
    ]
    assert len(nests(tiled, 2)) == 2


def test_rounds_that_lie_alike_are_of_one_class() -> None:
    tiled = tile_nests(function(ROUNDS, SCOPED), FLAT, TilePlan((3,), (0,)))
    assert len(tiled.class_of) == 8
    assert len(tiled.classes) == 1
    assert corners(tiled, "b0") == [[i, j] for i in range(4) for j in (0, 3)]


def test_loops_that_write_parts_of_the_result_share_its_tiles() -> None:
    text = """
        for t in T.serial(2, annotations={"npu.tile": 0}):
            for i in range(4):
                if t * 4 + i < 6:
                    b1[t * 4 + i] = b0[t * 4 + i]
        for t in T.serial(2, annotations={"npu.tile": 0}):
            for i in range(4):
                if 2 <= t * 4 + i:
                    b1[t * 4 + i + 4] = b0[t * 4 + i - 2]
    """
    scoped = 'b0: T.Buffer((6,), "float32", scope="global.l1"), b1: T.Buffer((12,), "float32", scope="global.l1")'
    parts = tuple(copy(f"part{n}", (6,), 0, 1, (Affine((1,), 6 * n),)) for n in range(2))
    tiled = tile_nests(function(text, scoped), CellSpec((view(6), view(12)), parts, 1, None), TilePlan((4,), (0,)))
    assert corners(tiled, "b1") == [[0], [4], [8]]
    assert [len(nests(tiled, tile)) for tile in range(3)] == [1, 2, 1]
    assert nests(tiled, 1) == ["for i0 < 2: b1[i0] = copy(b0[i0 + 4])", "for i0 < 2: b1[i0 + 2] = copy(b0[i0])"]


def test_versions_are_noted_and_go_from_the_index() -> None:
    text = """
        b2 = T.alloc_buffer((2, 4), "float32", scope="local.im")
        for t in T.serial(3, annotations={"npu.tile": 0, "npu.degree:b2": 2}):
            for i in range(4):
                b2[t % 2, i] = b0[t * 4 + i]
            for i in range(4):
                b1[t * 4 + i] = b2[t % 2, i]
    """
    scoped = ", ".join(f'b{n}: T.Buffer((12,), "float32", scope="global.l1")' for n in range(2))
    straight = (Affine((1,)),)
    stages = copy("part0", (12,), 0, 2, straight), copy("part1", (12,), 2, 1, straight)
    spec = CellSpec((view(12), view(12), view(12, scope=SUMS_SCOPE)), stages, 1, None)
    tiled = tile_nests(function(text, scoped), spec, TilePlan((4,), (0,), (), (("b2", 2),)))
    assert {name: versions.tolist() for name, versions in tiled.versions.items()} == {"b2": [0, 1, 0]}
    assert tiled.class_of == (0, 0, 0)
    assert nests(tiled, 1) == ["for i0 < 4: b2[i0] = copy(b0[i0])", "for i0 < 4: b1[i0] = copy(b2[i0])"]


def test_buffers_without_room_in_the_plan_are_refused() -> None:
    text = """
        extra = T.alloc_buffer((24,), "float32", scope="global.l1")
        for i, j in T.grid(4, 6):
            extra[i * 6 + j] = b0[i, j]
        for i in range(24):
            b1[i] = extra[i]
    """
    with pytest.raises(GirihError, match=r"the schedule allocates extra in global\.l1,"):
        tile_nests(function(text, SCOPED), FLAT, TilePlan((24,), (0,)))


def test_loops_over_tiles_that_write_nothing_of_the_result_are_refused() -> None:
    text = """
        for t in T.serial(4, annotations={"npu.tile": 0}):
            for j in range(6):
                b0[t, j] = T.float32(0.0)
        for i in range(24):
            b1[i] = b1[i] + T.float32(1.0)
    """
    with pytest.raises(GirihError, match="loops over tiles that write nothing of the result"):
        tile_nests(function(text, SCOPED), FLAT, TilePlan((24,), (0,)))
