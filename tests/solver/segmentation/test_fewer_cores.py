"""Splits over fewer cores than there are."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from girih.ir.load_machine import load_machine
from girih.ir.machines.as_planned import as_planned
from girih.ir.plan import Split
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.splits import SMALL_PART, segment_splits
from tests.support import graphs

SHAPES = st.lists(st.sampled_from([1, 2, 3, 7, 16, 33, 250]), min_size=1, max_size=3).map(tuple)


@given(SHAPES, st.sampled_from([1, 2, 3, 8, 32]))
def test_fewer_cores_add_splits_and_take_none(shape: tuple[int, ...], cores: int) -> None:
    all_cores, fewer = (segment_splits(shape, cores, 4, 2, fewer_cores=f) for f in (False, True))
    assert set(all_cores) <= set(fewer)
    assert len(set(fewer)) == len(fewer)
    for split in set(fewer) - set(all_cores):
        assert split.core_count < cores
        # A half, a quarter … of the cores, at least as many as share it, would have had small parts.
        halves = [cores >> n for n in range(1, cores.bit_length()) if cores >> n >= split.core_count]
        assert any(prod(shape) / number <= SMALL_PART for number in halves)


@given(SHAPES, st.sampled_from([1, 2, 3, 8, 32]))
def test_every_half_of_the_cores_with_small_parts_is_tried(shape: tuple[int, ...], cores: int) -> None:
    """Rows alone, over each number of cores that leaves parts of at most so many elements."""
    found = {split.cores for split in segment_splits(shape, cores, 1, 1)}
    number = cores
    while number > 1 and prod(shape) / (number := number // 2) <= SMALL_PART:
        if number == 1:
            assert () in found
        elif shape[0] >= number:
            assert (Split(0, number),) in found


def test_one_core_may_have_a_small_result_and_not_a_large_one() -> None:
    def counts(*shape: int) -> set[int]:
        return {split.core_count for split in segment_splits(shape, 32)}

    assert {1, 2, 4, 8, 16, 32} <= counts(16, 32)
    assert min(counts(4 * SMALL_PART)) == 4
    assert min(counts(17 * SMALL_PART)) == 32


def test_rows_of_one_core_are_a_segment_where_exchange_costs_more() -> None:
    """Two products of few rows after one another: with fewer cores, the whole chain is a cheaper column."""
    machine = as_planned(load_machine("ascend910"))
    net = graphs.Net("chain", "float16")
    value = net.input("x", 16, 32)
    for number in range(3):
        value = net.matmul(f"fc{number}", value, 32)
    graph = net.graph(value)

    def cheapest(disabled: frozenset[str]) -> int:
        found = Candidates(graph, machine, disabled=disabled).columns()  # type: ignore[arg-type]
        return min(c.cycles for c in found if (c.first, c.last) == (0, len(graph.ops) - 1))

    assert cheapest(frozenset()) < cheapest(frozenset({"fewer-cores"}))
