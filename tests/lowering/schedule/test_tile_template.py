"""Every decision of a tile plan shows in the scheduled TIR."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from girih.lowering.schedule.cell_spec import CellSpec
from girih.lowering.schedule.lower_to_loops import scheduled
from girih.lowering.schedule.prim_func import staged_name
from girih.lowering.schedule.tile_plan import TilePlan
from tests.support.cell_specs import plain, product

STAGED = staged_name(1)


def lines(spec: CellSpec, plan: TilePlan) -> list[str]:
    """The loops and blocks of the scheduled function, as indented as they are deep: ``3 of tile 0`` for a tile loop."""
    text = scheduled(spec, plan)["main"].script().splitlines()
    kept = (line for line in text if re.match(r" *(for|with) ", line))
    return [re.sub(r'T\.serial\((\d+), .*"npu.tile": (-?\d+).*', r"\1 of tile \2", x.rstrip(":")) for x in kept]


def loops(spec: CellSpec, plan: TilePlan) -> list[str]:
    return [line.strip() for line in lines(spec, plan) if line.strip().startswith("for ")]


def extents(found: Sequence[str]) -> list[str]:
    """What follows ``in``."""
    return [line.split(" in ")[1] for line in found]


def test_a_tile_that_is_the_whole_result_leaves_the_loops() -> None:
    assert extents(loops(plain(6, 5), TilePlan((6, 5), (0, 1)))) == ["T.grid(6, 5)"]


def test_sizes_of_tiles_are_extents_of_inner_loops() -> None:
    found = extents(loops(plain(6, 5), TilePlan((4, 3), (0, 1))))
    assert found == ["2 of tile 0", "2 of tile 1", "T.grid(4, 3)"]
    found = extents(loops(plain(6, 5), TilePlan((1, 5), (0, 1))))
    assert found == ["6 of tile 0", "T.grid(1, 5)"]


def test_the_order_of_tiles_is_that_of_the_tile_loops() -> None:
    found = extents(loops(plain(6, 5), TilePlan((2, 3), (1, 0))))
    assert found == ["2 of tile 1", "3 of tile 0", "T.grid(2, 3)"]


def test_stages_that_only_the_result_reads_are_computed_at_its_tiles() -> None:
    blocks = [line.strip() for line in lines(product(8, 6, 4), TilePlan((4, 4), (0, 1), (6,)))]
    assert blocks == [
        "for i0_0 in 2 of tile 0",
        "for ax0, ax1 in T.grid(6, 4)",
        'with T.sblock("b1_global.l1w")',
        "for ax0_init, ax1_init in T.grid(4, 4)",
        'with T.sblock("part0_init")',
        "for ax0, ax1, ax2 in T.grid(4, 4, 6)",
        'with T.sblock("part0_update")',
        "for i0_1, i1 in T.grid(4, 4)",
        'with T.sblock("part1")',
    ]


def test_a_cut_of_the_reduction_is_a_loop_around_the_copy_of_the_weights() -> None:
    found = lines(product(8, 6, 4), TilePlan((4, 4), (0, 1), (3,)))
    (cut,) = (n for n, line in enumerate(found) if "of tile -1" in line)
    assert found[cut].endswith("2 of tile -1")
    deep = len(found[cut]) - len(found[cut].lstrip())
    inside = [x.strip() for x in takewhile(lambda x: len(x) - len(x.lstrip()) > deep, found[cut + 1 :])]
    assert inside == [
        "for ax0, ax1 in T.grid(3, 4)",
        'with T.sblock("b1_global.l1w")',
        "for ax0, ax1, ax2_1 in T.grid(4, 4, 3)",
        'with T.sblock("part0_update")',
    ]
    assert found.index(next(x for x in found if "part0_init" in x)) < cut


def test_degrees_are_annotations_of_the_outermost_tile_loop() -> None:
    plan = TilePlan((4, 2), (1, 0), (3,), (("b2", 2), (STAGED, 3)))
    text = scheduled(product(8, 6, 4), plan)["main"].script()
    annotated = [line for line in text.splitlines() if "npu.degree" in line]
    assert len(annotated) == 1
    assert '"npu.degree:b2": 2' in annotated[0]
    assert f'"npu.degree:{STAGED}": 3' in annotated[0]
    assert '"npu.tile": 1' in annotated[0]


def test_degrees_of_one_tile_are_annotations_of_the_cut_of_its_reduction() -> None:
    plan = TilePlan((8, 4), (0, 1), (2,), ((STAGED, 2),))
    (annotated,) = (x for x in scheduled(product(8, 6, 4), plan)["main"].script().splitlines() if "npu.degree" in x)
    assert '"npu.tile": -1' in annotated
