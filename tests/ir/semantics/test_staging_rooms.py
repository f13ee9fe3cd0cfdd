"""Rooms of a staging memory, against what they promise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from girih.ir.semantics.staging_rooms import StagingRooms


def places(capacity: int, sizes: list[int], alignment: int = 1) -> list[tuple[int, tuple[int, ...]]]:
    rooms = StagingRooms(capacity, alignment)
    return [(place.address, place.taken) for place in map(rooms.open, sizes)]


def test_halves_take_turns() -> None:
    assert places(100, [50, 50, 50, 50]) == [(0, ()), (50, ()), (0, (0,)), (50, (1,))]


def test_small_rooms_follow_one_another() -> None:
    assert places(100, [30, 10, 30, 10, 30], 4) == [(0, ()), (32, ()), (44, ()), (76, ()), (0, (0,))]


def test_a_small_room_does_not_shift_the_halves() -> None:
    assert places(100, [50, 50, 20, 50, 50]) == [(0, ()), (50, ()), (0, (0,)), (50, (1,)), (0, (0, 2))]


def test_all_of_it_takes_everything() -> None:
    assert places(100, [30, 30, 100, 30]) == [(0, ()), (30, ()), (0, (0, 1)), (0, (2,))]


@given(st.integers(1, 64), st.sampled_from([1, 4, 16]), st.lists(st.integers(1, 64), max_size=40))
def test_rooms_lie_inside_and_name_all_whose_bytes_they_take(capacity: int, alignment: int, sizes: list[int]) -> None:
    rooms = StagingRooms(capacity, alignment)
    owner = [-1] * capacity
    for number, size in enumerate(min(size, capacity) for size in sizes):
        place = rooms.copy().open(size)
        assert place == rooms.open(size) and place.number == number
        assert place.address % alignment == 0 and place.address + size <= capacity
        assert set(place.taken) == {o for o in owner[place.address : place.address + size] if o >= 0}
        owner[place.address : place.address + size] = [number] * size
        assert set(rooms.numbers) == {o for o in owner if o >= 0}
