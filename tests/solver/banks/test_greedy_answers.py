"""Addresses without a search: first fit in several orders, conflicts avoided one item at a time, and what is proven."""

from __future__ import annotations

import pytest

from girih.ir.machine import Memory
from girih.solver.banks.first_fit import Item, pack, peak
from girih.solver.banks.problem import BufferRequest
from girih.solver.banks.solve import Placement, PlacementOverflow, place
from girih.solver.cpsat.backend import NO_SEARCH, Budget


def memory(capacity: int, banks: int = 1) -> Memory:
    return Memory("M", "core", capacity, 1, banks, 0)


def side_by_side(*sizes: int) -> tuple[BufferRequest, ...]:
    """Requests that live at one time."""
    return tuple(BufferRequest(name, size, (0, 1)) for name, size in zip("abcdef", sizes, strict=False))


def banks_of(
    requests: tuple[BufferRequest, ...], size: int, *conflicts: tuple[int, int, float]
) -> tuple[int, list[int]]:
    """The conflict without a search in two banks of so many bytes, and the bank of each request, which lies in one."""
    answer = place(requests, memory(2 * size, banks=2), conflicts=conflicts, budget=NO_SEARCH)
    assert isinstance(answer, Placement) and answer.solved.objective == answer.conflict
    assert answer.solved.status == ("feasible" if answer.conflict else "optimal")
    return answer.conflict, [address // size for address in answer.addresses]


def test_pairs_are_kept_apart_without_a_search() -> None:
    assert banks_of(side_by_side(4, 4), 16, (0, 1, 5)) == (0, [0, 1])
    assert banks_of(side_by_side(4, 4, 4), 16, (0, 1, 5), (0, 2, 5)) == (0, [0, 1, 1])


@pytest.mark.parametrize(("with_a", "with_b", "bank"), [(2, 5, 0), (5, 2, 1)])
def test_what_has_to_share_a_bank_does_so_where_it_costs_least(with_a: int, with_b: int, bank: int) -> None:
    requests = side_by_side(4, 4, 4)
    assert banks_of(requests, 16, (0, 1, 9), (0, 2, with_a), (1, 2, with_b)) == (2, [0, 1, bank])


def test_pairs_of_much_weight_come_first_where_that_is_better() -> None:
    """In the order of size, the first three leave no room for the last two but beside one another."""
    conflict, banks = banks_of(side_by_side(6, 3, 2, 2, 2), 8, (0, 1, 1), (3, 4, 20))
    assert conflict == 0 and banks[0] != banks[1] and banks[3] != banks[4]


def test_some_packings_only_the_rounds_find() -> None:
    """What ended above comes first in the next round."""
    lives = [(1, 1, 4), (2, 4, 5), (2, 1, 6), (2, 4, 5), (4, 1, 2), (1, 3, 5)]
    items = [Item(*life) for life in lives]
    assert peak(items, pack(items, 7, rounds=0)) > 7
    assert peak(items, pack(items, 7)) == 7


CIRCLE = tuple(BufferRequest(name, 1, (t, t + 2), again=5 if t == 0 else None) for t, name in enumerate("abcde"))
"""Each of five lives with the one before it and the one after it, the last with the first: two units at any time."""


def test_a_search_proves_that_there_is_no_packing_though_the_load_fits() -> None:
    assert isinstance(place(CIRCLE, memory(3), budget=NO_SEARCH), Placement)
    proven = place(CIRCLE, memory(2), budget=Budget(10.0))
    assert isinstance(proven, PlacementOverflow) and proven.proven
    assert (proven.solved.status, proven.need) == ("infeasible", 3)
    unknown = place(CIRCLE, memory(2), budget=NO_SEARCH)
    assert isinstance(unknown, PlacementOverflow) and not unknown.proven
    assert (unknown.solved.status, unknown.need) == ("unknown", 3)
