"""The passes over single nests: partition, shift, demand, coordinates of the tile, preprocessing."""

from __future__ import annotations

from girih.lowering.loops.demand import demand
from girih.lowering.loops.nest_tiles import NestTiles
from girih.lowering.loops.partition import partition
from girih.lowering.loops.perfect_nest import PerfectNest
from girih.lowering.loops.preprocess import preprocess
from girih.lowering.loops.shift import shift
from girih.lowering.loops.tile_boxes import accessed_boxes, relative
from tests.support.tir_text import loops, nest, texts

THREE = 'a: T.Buffer((12,), "float32"), b: T.Buffer((12,), "float32"), p: T.Buffer((12,), "float32")'
"""A source, a result and a private buffer."""
RANGED = """
    for i, j in T.grid(6, 5):
        if i > 1 and j < 4 and i + j < 8:
            b[i + j] = a[i]
"""


def bounds(nest: NestTiles) -> list[list[tuple[int, int]]]:
    """For each tile the first value and the end of each loop."""
    tiles = range(len(nest.present))
    return [[(int(a[t]), int(b[t])) for a, b in zip(nest.low, nest.high, strict=True)] for t in tiles]


def test_partition_makes_conditions_on_single_loops_their_bounds() -> None:
    before = nest(RANGED)
    after = partition(before)
    assert texts((before,)) == [
        ["for i0 < 6, i1 < 5: b[i0 + i1] = copy(a[i0]) if i0 - 2 >= 0 and -1*i1 + 3 >= 0 and -1*i0 - 1*i1 + 7 >= 0"]
    ]
    assert bounds(before) == [[(0, 6), (0, 5)]]
    assert bounds(after) == [[(2, 6), (0, 4)]]
    assert texts((after,)) == [["for i0 < 6, i1 < 4: b[i0 + i1] = copy(a[i0]) if -1*i0 - 1*i1 + 7 >= 0"]]


def test_partition_cuts_the_last_tile_and_drops_empty_ones() -> None:
    after = partition(
        nest("""
            for t in T.serial(4, annotations={"npu.tile": 0}):
                for i in range(4):
                    if t * 4 + i < 10:
                        b[t * 4 + i] = a[t * 4 + i]
        """)
    )
    assert after.present.tolist() == [True, True, True, False]
    assert texts((after,))[2] == ["for i0 < 2: b[i0 + 8] = copy(a[i0 + 8])"]


def test_partition_rounds_towards_the_points_that_hold() -> None:
    after = partition(nest("for i in range(12):\n    if 3 * i > 4 and 2 * i < 13:\n        b[i] = a[i]"))
    assert bounds(after) == [[(2, 7)]]


def test_shift_starts_every_loop_at_zero() -> None:
    after = shift(partition(nest(RANGED)))
    assert bounds(after) == [[(0, 4), (0, 4)]]
    assert texts((after,)) == [["for i0 < 4, i1 < 4: b[i0 + i1 + 2] = copy(a[i0 + 2]) if -1*i0 - 1*i1 + 5 >= 0"]]


def private() -> tuple[NestTiles, ...]:
    """Two tiles that compute all of ``p``, whose loops are digits, and read three elements of it."""
    (group,) = loops(
        """
        for t in T.serial(2, annotations={"npu.tile": 0}):
            for i, j in T.grid(3, 4):
                p[i * 4 + j] = a[i * 4 + j]
            for i in range(3):
                b[t * 3 + i] = p[t * 5 + i]
        """,
        THREE,
    ).groups
    return group.nests


def test_demand_narrows_digits_to_what_the_tile_reads() -> None:
    before = private()
    assert [row[0] for row in texts(before)] == ["for i0 < 3, i1 < 4: p[4*i0 + i1] = copy(a[4*i0 + i1])"] * 2
    after = demand(before, {"p": (12,)})
    assert bounds(after[0]) == [[(0, 1), (0, 3)], [(1, 2), (1, 4)]]
    assert bounds(after[1]) == bounds(before[1])


def test_demand_leaves_buffers_that_are_not_private() -> None:
    before = private()
    assert bounds(demand(before, {})[0]) == bounds(before[0])


def test_tiles_that_differ_only_in_place_are_equal_in_their_own_coordinates() -> None:
    before = [shift(n) for n in demand(private(), {"p": (12,)})]
    first, second = texts(tuple(before))
    assert first != second
    boxes = accessed_boxes(before, dict.fromkeys("abp", (12,)))
    assert {name: (box.low.tolist(), box.high.tolist()) for name, box in boxes.items()} == {
        "a": ([[0], [5]], [[3], [8]]),
        "p": ([[0], [5]], [[3], [8]]),
        "b": ([[0], [3]], [[3], [6]]),
    }
    first, second = texts(tuple(relative(n, boxes) for n in before))
    assert first == second == ["for i0 < 3: p[i0] = copy(a[i0])", "for i0 < 3: b[i0] = copy(p[i0])"]


def known(value: str) -> PerfectNest:
    return nest(f"for i in range(4):\n    {value}").at(0)


def test_preprocessing_puts_the_number_for_reads_that_are_outside_everywhere() -> None:
    before = known("b[i] = T.if_then_else(i >= 6, a[i], T.float32(2.0))")
    assert str(before) == "for i0 < 4: b[i0] = copy((a[i0] if i0 - 6 >= 0 else 2))"
    assert str(preprocess(before)) == "for i0 < 4: b[i0] = copy(2)"


def test_preprocessing_drops_sums_of_nothing_and_keeps_other_combinations() -> None:
    outside = "T.if_then_else(i >= 6, a[i], T.float32(0.0))"
    assert preprocess(known(f"b[0] = b[0] + {outside}")) is None
    assert preprocess(known(f"b[0] = b[0] + {outside} * a[i]")) is None
    assert str(preprocess(known(f"b[0] = T.max(b[0], {outside})"))) == "for i0 < 4: b[0] max= copy(0)"


def test_preprocessing_leaves_reads_that_are_inside_somewhere() -> None:
    before = known("b[i] = T.if_then_else(i >= 3, a[i], T.float32(0.0))")
    assert preprocess(before) is before
