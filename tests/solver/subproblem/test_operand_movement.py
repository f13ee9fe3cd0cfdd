"""What is decided about cores and transfers: portions, issuers, versions."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from girih.ir.box import Span, full, volume
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.machines.as_planned import as_planned
from girih.ir.machines.shared_banks import ReachedBanks
from girih.ir.semantics.portions import portions
from girih.solver.subproblem.operand_movement import (
    LEAST_PORTION_BYTES,
    MOST_PORTIONS,
    _portion,  # pyright: ignore[reportPrivateUsage]
    portion_extents,
    portions_apart,
)
from tests.support import graphs

TINY = load_machine("tiny")
SHAPES = st.lists(st.sampled_from([1, 2, 3, 7, 13, 64, 197]), min_size=1, max_size=4).map(tuple)


@given(SHAPES, st.sampled_from([1, 2, 4]))
def test_portions_are_runs_of_memory_and_none_is_small(shape: tuple[int, ...], itemsize: int) -> None:
    box = tuple(Span(5, 5 + n) for n in shape)
    sizes = portion_extents(box, itemsize)
    parts = portions(box, sizes)
    assert len(parts) <= MOST_PORTIONS
    largest = max(map(volume, parts)) * itemsize
    assert len(parts) == 1 or 2 * largest >= LEAST_PORTION_BYTES
    # Each is one run of memory: inside of the innermost dimension that is cut all is whole, outside one index is chosen.
    cut = [d for d, (size, extent) in enumerate(zip(sizes, shape, strict=True)) if size < extent]
    assert all(sizes[d] == 1 for d in range(max(cut, default=0)))


def test_large_boxes_come_in_portions() -> None:
    """Else nothing would be gained."""
    assert portion_extents(full((512, 768)), 2) == (64, 768)
    assert portion_extents(full((2, 512, 768)), 2) == (1, 128, 768)
    assert portion_extents(full((1, 8, 8)), 2) == (1, 8, 8)


def test_portions_are_counted_in_bytes() -> None:
    assert portion_extents(full((64, 512)), 2) == portion_extents(full((64, 512)), 4) == (8, 512)
    assert portion_extents(full((64, 512)), 1) == (16, 512)


def test_portions_are_of_the_largest_box() -> None:
    """So that no core has more of them than it may."""
    net = graphs.Net("rows", "float32")
    graph = net.graph(net.elementwise("y", "exp", net.input("x", 72, 512)))
    small, large = (Span(0, 8), Span(0, 512)), (Span(8, 72), Span(0, 512))
    for boxes in ([small, None, large], [large, small]):
        assert _portion(graph, TINY, "x", boxes) == (8, 512)
    assert _portion(graph, TINY, "x", [None]) == (72, 512)


def many_cores() -> Machine:
    """``ascend910``, whose L2 changes banks every 4 KiB here."""
    machine = as_planned(load_machine("ascend910"))
    return replace(
        machine, memories=tuple(replace(m, interleave=4096) if m.name == "L2" else m for m in machine.memories)
    )


def test_cores_that_meet_on_banks_move_as_much_in_a_turn_as_all_banks_hold() -> None:
    """128 KiB of `ascend910`, whatever the part of a single core."""
    machine = many_cores()
    net = graphs.Net("rows", "float32")
    graph = net.graph(net.elementwise("y", "exp", net.input("x", 512, 512)))
    for rows, portions_of_all in ((512, 8), (256, 4), (64, 1), (32, 1)):
        half = rows // 2
        boxes = [(Span(0, half), Span(0, 512)), (Span(half, rows), Span(0, 512))]
        alone, meeting = (_portion(graph, m, "x", boxes) for m in (TINY, machine))
        assert alone == (max(4, half // MOST_PORTIONS), 512)
        assert meeting == (half // portions_of_all, 512)


def test_portions_that_meet_on_few_banks_are_not_made() -> None:
    """32 rows of 2 KiB are in 16 of 32 banks, so that first halves of all groups of cores would meet in 16."""
    machine = many_cores()
    net = graphs.Net("rows", "float16")
    graph = net.graph(net.elementwise("y", "exp", net.input("x", 320, 1024)))
    groups = [(Span(32 * g, 32 * g + 32), Span(0, 1024)) for g in range(8)]
    assert _portion(graph, machine, "x", [box for box in groups for _ in range(4)]) == (32, 1024)
    # 20 banks further, the first quarters of eight groups reach all banks.
    apart = [(Span(40 * g, 40 * g + 32), Span(0, 1024)) for g in range(8)]
    assert _portion(graph, machine, "x", [box for box in apart for _ in range(4)]) == (8, 1024)


@given(st.integers(1, 64), st.integers(1, 32), st.sampled_from([512, 1024, 1 << 12]), st.integers(1, MOST_PORTIONS))
def test_portions_never_cost_much_more_than_none(rows: int, cores: int, width: int, most: int) -> None:
    """By a count of its own: byte after byte, in which bank it is."""
    banks, into = ReachedBanks(32, 4096, 128.0), 128.0
    boxes = tuple((Span(rows * c, rows * c + rows), Span(0, width)) for c in range(cores))

    def cycles(extents: tuple[int, ...]) -> float:
        total = 0.0
        copied = [portions(box, extents) for box in boxes]
        for turn in range(max(map(len, copied))):
            moved = [p[turn] for p in copied if turn < len(p)]
            load = [0] * 32
            for portion in moved:
                for row in range(portion[0].lo, portion[0].hi):
                    for start in range(0, 2 * width, 512):
                        load[(2 * width * row + start) // 4096 % 32] += 512
            total += max(max(load) / 128, max(map(volume, moved)) * 2 / 128)
        return total

    chosen = portions_apart(boxes, (rows * cores, width), 2, most, banks, into)
    assert cycles(chosen) <= 1.1 * cycles((rows, width)) + 1e-6
