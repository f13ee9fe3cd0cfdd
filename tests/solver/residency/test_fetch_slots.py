"""Fetch slots: each fetch is issued as early as the link can serve it and the memory has room, and not before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from girih.ir.box import Span
from girih.solver.residency.decisions import Decisions, NoFetch
from girih.solver.residency.evaluation import evaluate_decisions
from girih.solver.residency.fetch_slots import with_fetch_slots
from girih.solver.residency.partition.weight_chunks import ChunkFetch, CircularBuffer
from girih.solver.residency.problem import FetchItem, Intermediate, ResidencyProblem, Use
from tests.support.residency_problems import block

PLENTY = 1000


def item(name: str, size: int, *slots: int, ready: int = 0, remaining: int = 10) -> FetchItem:
    """One byte takes one cycle; so many cycles of each slot's work remain when the data is needed."""
    return FetchItem((block(name, size, size),), tuple(Use(slot, remaining) for slot in slots), ready)


def ring(size: int, count: int = 3) -> CircularBuffer:
    """A circular buffer of so many chunks of ``size`` bytes."""
    return CircularBuffer(tuple(ChunkFetch(p, 0, (Span(0, size),), size) for p in range(count)), 2 * size)


def slots_of(
    cycles: Sequence[int],
    *items: FetchItem,
    room: Sequence[int] | None = None,
    passed_over: int = 0,
    intermediates: Sequence[Intermediate] = (),
    circular: dict[tuple[str, int], CircularBuffer] | None = None,
) -> list[object]:
    """The slots in which the fetches of the items are issued, use by use; nothing is resident or retained.

    They never make the end later than fetches in the slots of their uses do.
    """
    offers = {operand: (buffer,) for operand, buffer in (circular or {}).items()}
    problem = ResidencyProblem(tuple(cycles), PLENTY, items, tuple(intermediates), offers, 1.0, ())
    free = np.array(room or [PLENTY] * len(cycles), dtype=np.int64)
    at_use = tuple(tuple(use.slot for use in item.uses) for item in items)
    late = Decisions((False,) * len(intermediates), at_use, dict.fromkeys(offers, 0))
    decisions = with_fetch_slots(problem, free, late, passed_over)
    assert evaluate_decisions(problem, decisions).objective <= evaluate_decisions(problem, late).objective
    return [source for row in decisions.source for source in row]


def test_a_fetch_begins_while_the_slot_before_works() -> None:
    assert slots_of((10, 10), item("a", 10, 1)) == [0]


def test_nothing_is_issued_before_the_link_can_serve_it() -> None:
    """The first keeps the link busy until its use, and a second would only lie in the memory."""
    assert slots_of((10, 10, 10), item("a", 9, 2), item("b", 20, 2), item("c", 20, 2)) == [0, 0, 2]
    assert slots_of((10, 10, 10), item("a", 15, 2), item("b", 20, 2)) == [0, 1]
    assert slots_of((10, 10, 10), item("a", 10, 2), item("b", 20, 2)) == [0, 1]


def test_stores_come_before_fetches() -> None:
    """The store of what slot 0 wrote takes the link until slot 2 begins."""
    written = block("p", 10, 10)
    spilled = Intermediate(written, (0, 1), ((0, written),), stored=True, may_be_resident=False)
    items = item("a", 10, 1), item("b", 5, 2)
    assert slots_of((10, 10, 10), *items) == [0, 1]
    assert slots_of((10, 10, 10), *items, intermediates=[spilled]) == [0, 2]


def test_what_a_slot_waits_for_gives_time_to_fetch() -> None:
    """Slot 1 waits for a, until 40: b and c are on their way by then."""
    assert slots_of((10, 10, 10), item("a", 30, 1), item("b", 5, 2), item("c", 5, 2)) == [0, 1, 1]


@pytest.mark.parametrize(("size", "slot"), [(4, 0), (5, 1)])
def test_the_last_chunk_of_a_circular_buffer_is_not_delayed(size: int, slot: int) -> None:
    """Slot 0 ends at 14: six cycles are for the chunks, and four of work follow the last of them."""
    assert slots_of((12, 10), item("a", size, 1), circular={("w", 0): ring(2)}) == [slot]


@pytest.mark.parametrize(("size", "slot"), [(24, 0), (25, 1)])
def test_of_several_circular_buffers_the_one_of_least_work_after_its_last_chunk_counts(size: int, slot: int) -> None:
    """Slot 0 ends at 70: 36 cycles are for the chunks, and 20 or 10 of work follow the last of them."""
    beside = {("w", 0): ring(10), ("v", 0): ring(1, count=6)}
    assert slots_of((60, 10), item("a", size, 1), circular=beside) == [slot]


@pytest.mark.parametrize(("room", "slot"), [(4, 0), (3, 1)])
def test_a_fetch_has_room_from_its_slot_on(room: int, slot: int) -> None:
    assert slots_of((10, 10, 10), item("a", 4, 2), room=(room, PLENTY, PLENTY)) == [slot]
    pair = item("a", 4, 1), item("b", 4, 2)
    assert slots_of((10, 10, 10), *pair, room=(PLENTY, 4 + room, PLENTY)) == [0, 2 * slot]
    pair = item("a", 4, 2), item("b", 4, 2)
    assert slots_of((10, 10, 10), *pair, room=(4 + room, PLENTY, PLENTY)) == [0, slot]


@pytest.mark.parametrize("passed_over", [0, 1, 2])
def test_as_many_fetches_that_find_no_room_are_passed_over_as_may_be(passed_over: int) -> None:
    large, larger, small = item("a", 6, 1), item("b", 7, 1), item("c", 5, 1)
    room = (5, PLENTY)
    assert slots_of((10, 10), large, small, room=room, passed_over=passed_over) == [1, 1 if passed_over == 0 else 0]
    sources = slots_of((10, 10), large, larger, small, room=room, passed_over=passed_over)
    assert sources == [1, 1, 0 if passed_over == 2 else 1]


def test_a_fetch_waits_for_its_data_and_for_the_use_before() -> None:
    assert slots_of((10, 10, 10), item("a", 4, 2, ready=1)) == [1]
    assert slots_of((10, 10, 10, 10), item("a", 4, 1, 3)) == [0, 2]


def test_what_needs_no_fetch_gets_none() -> None:
    problem = ResidencyProblem((10, 10, 10), PLENTY, (item("a", 4, 0, 2),), (), {}, 1.0, ())
    decisions = Decisions((), ((0, NoFetch.RETAINED),), {})
    assert with_fetch_slots(problem, np.full(3, PLENTY), decisions, 0) == decisions
