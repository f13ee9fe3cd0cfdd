"""Rooms of a staging memory, against what they promise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from girih.ir.machine import Memory
from girih.ir.semantics.staging.staging_rooms import StagingRooms, layout


def places(capacity: int, sizes: list[int], alignment: int = 1) -> list[tuple[int, tuple[int, ...]]]:
    rooms = StagingRooms(capacity, alignment)
    return [(place.address, place.overlapped) for place in map(rooms.open, sizes)]


def test_halves_take_turns() -> None:
    assert places(100, [50, 50, 50, 50]) == [(0, ()), (50, ()), (0, (0,)), (50, (1,))]


def test_small_rooms_follow_one_another() -> None:
    assert places(100, [30, 10, 30, 10, 30], 4) == [(0, ()), (32, ()), (44, ()), (76, ()), (0, (0,))]


def test_a_small_room_does_not_shift_the_halves() -> None:
    assert places(100, [50, 50, 20, 50, 50]) == [(0, ()), (50, ()), (0, (0,)), (50, (1,)), (0, (2,))]


def test_all_of_it_takes_everything() -> None:
    assert places(100, [30, 30, 100, 30]) == [(0, ()), (30, ()), (0, (0, 1)), (0, (2,))]


def test_a_room_of_which_bytes_were_taken_is_gone() -> None:
    # The last room lies where the rest of the first one was: who took the first half of it waits for that already.
    assert places(100, [60, 30, 30, 30]) == [(0, ()), (60, ()), (0, (0,)), (30, ())]


def test_a_room_at_a_larger_alignment_leaves_a_gap() -> None:
    rooms = StagingRooms(100, 1)
    assert [rooms.open(size, alignment).address for size, alignment in ((10, 1), (10, 25), (10, 1), (30, 25))] == [
        0, 25, 35, 50,
    ]  # fmt: skip


@given(
    st.integers(1, 64), st.sampled_from([1, 4, 16]),
    st.lists(st.tuples(st.integers(1, 64), st.sampled_from([1, 8])), max_size=40),
)  # fmt: skip
def test_rooms_lie_inside_and_name_all_whose_bytes_they_take(
    capacity: int, alignment: int, asked: list[tuple[int, int]]
) -> None:
    rooms = StagingRooms(capacity, alignment)
    owner, left = [-1] * capacity, set[int]()
    for number, (size, multiple) in enumerate((min(size, capacity), multiple) for size, multiple in asked):
        place = rooms.copy().open(size, multiple)
        assert place == rooms.open(size, multiple) and place.number == number
        assert place.address % max(alignment, multiple) == 0 and place.address + size <= capacity
        assert set(place.overlapped) == {o for o in owner[place.address : place.address + size] if o >= 0}
        owner = [-1 if o in place.overlapped else o for o in owner]
        owner[place.address : place.address + size] = [number] * size
        left = left.difference(place.overlapped) | {number}
        assert left == {o for o in owner if o >= 0}


def memory(*, banks: int, interleave: int = 0) -> Memory:
    return Memory("UB", "core", 1024, 16, banks=banks, interleave=interleave)


def test_operands_that_lie_apart_meet_on_no_bank() -> None:
    room = layout((200, 20, 40), memory(banks=8), apart=True)
    # A bank has 128 bytes: the first operand is in two of them.
    assert (room.offsets, room.bytes, room.alignment) == ((0, 256, 384), 432, 128)


def test_others_follow_one_another() -> None:
    for room in (
        layout((200, 20, 40), memory(banks=8), apart=False),
        layout((200, 20, 40), memory(banks=4), apart=True),
        layout((200, 20, 40), memory(banks=8, interleave=32), apart=True),
    ):
        assert (room.offsets, room.bytes, room.alignment) == ((0, 208, 240), 288, 16)
    assert layout((200,), memory(banks=8), apart=True).alignment == 16


def test_rooms_that_lie_apart_count_whole_banks() -> None:
    apart, plain = (layout((300, 20), memory(banks=8), apart=apart) for apart in (True, False))
    assert apart.bytes == 384 + 32 and plain.bytes == 304 + 32
    # Half of the memory is 4 banks, a third are 2.
    assert apart.fits(1024, 2) and not apart.fits(1024, 3) and plain.fits(1024, 3)
