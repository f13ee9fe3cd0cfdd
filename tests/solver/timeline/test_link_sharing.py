"""Transfers that share a link in the predicted timeline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.box import Span
from girih.ir.load_machine import load_machine
from girih.ir.plan import SharedBuffer
from girih.solver.cost.copy_time import CopyTime
from girih.solver.timeline import link_sharing
from girih.solver.timeline.link_sharing import DmaQueue, Horizon, Links, Reached
from tests.support.machines import kinds_of

TINY = load_machine("tiny")


def links(rate: float, delays: list[tuple[DmaQueue, float, float]] | None = None) -> Links:
    """Links of equal rates; ``delays`` hears of the delays of DMA."""
    machine = replace(TINY, links=tuple(replace(link, bytes_per_cycle=rate) for link in TINY.links))
    return Links(machine, lambda *delay: delays.append(delay) if delays is not None else None, {})


def transfer(rate: int, size: int, link: str = "ddr") -> CopyTime:
    return CopyTime(1, 0, size, rate, ((link, size),), 0)


def test_a_second_transfer_gets_what_the_first_leaves() -> None:
    shared = links(8.0)
    assert shared.body(0.0, transfer(8, 80)) == 10.0
    assert shared.body(0.0, transfer(8, 80)) == 20.0


def test_a_link_may_be_a_million_times_faster_than_an_engine() -> None:
    fast = links(2.0**20)
    assert fast.body(0.0, transfer(1, 100)) == 100.0
    assert fast.body(50.0, transfer(1, 100)) == 150.0


def test_the_load_of_a_link_is_forgotten_but_for_the_last_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is older counts as the oldest that is remembered."""
    monkeypatch.setattr(link_sharing, "REMEMBERED", 4)
    shared = links(8.0)
    for start in (0.0, 20.0, 40.0):
        assert shared.body(start, transfer(8, 80)) == start + 10.0
    # It was free from 10 to 20, and is taken to be as busy before 20 as from there to 30.
    assert shared.body(5.0, transfer(8, 80)) == 40.0


def test_dma_that_runs_ahead_yields_to_stores_of_cores() -> None:
    # Two cores store 60 bytes each at up to 6 a cycle, beside a fetch of 6 a cycle: of 9, each gets 3.
    delays: list[tuple[DmaQueue, float, float]] = []
    shared = links(9.0, delays)
    assert shared.body(0.0, transfer(6, 600, "llb-write"), queue="dma in") == 100.0
    assert shared.body(10.0, transfer(6, 60, "llb-write"), copies=2, simultaneous=2) == 30.0
    # The fetch did 3 of 6 bytes a cycle for 20 cycles.
    assert delays == [("dma in", 10.0, 10.0)]
    # If only one at a time is that far, it gets 4.5 of 9, and the fetch loses a quarter of its 6.
    delays.clear()
    assert shared.body(40.0, transfer(6, 60, "llb-write"), copies=2, simultaneous=1) == pytest.approx(40 + 120 / 4.5)
    assert delays == [("dma in", 40.0, pytest.approx(120 / 4.5 / 4))]


def test_stores_of_cores_do_not_keep_dma_from_its_share() -> None:
    delays: list[tuple[DmaQueue, float, float]] = []
    shared = links(9.0, delays)
    assert shared.body(0.0, transfer(6, 90, "llb-write"), copies=2, simultaneous=2) == 20.0
    assert shared.body(0.0, transfer(6, 120, "llb-write"), queue="dma in") == 30.0
    assert delays == []


def test_dma_keeps_its_share_while_cores_load_for_themselves() -> None:
    # Two cores load 80 bytes each at up to 8 a cycle, beside a fetch of 2 a cycle, which is less than a third of 8.
    delays: list[tuple[DmaQueue, float, float]] = []
    shared = links(8.0, delays)
    assert shared.body(0.0, transfer(2, 200, "llb-read"), queue="dma out") == 100.0
    assert shared.body(0.0, transfer(8, 60, "llb-read")) == 10.0
    assert shared.body(0.0, transfer(8, 60, "llb-read")) == 20.0
    assert delays == []


def test_cores_share_a_port_that_main_memory_has_with_the_shared_one() -> None:
    # Of 9 bytes a cycle, DMA has 6 and each of two cores and DMA a third: a core takes the 3 that are left.
    rom = kinds_of(TINY)["main memory with constants"]
    port = Links(replace(rom, links=tuple(replace(x, bytes_per_cycle=9.0) for x in rom.links)), lambda *_: None, {})
    assert port.body(0.0, transfer(6, 600, "port"), queue="dma in") == 100.0
    assert port.body(10.0, transfer(6, 60, "port")) == 30.0


def test_fetches_and_spills_share_main_memory() -> None:
    delays: list[tuple[DmaQueue, float, float]] = []
    shared = links(8.0, delays)
    assert shared.body(0.0, transfer(8, 800), queue="dma in") == 100.0
    assert shared.body(20.0, transfer(8, 80), queue="dma out") == 40.0
    assert delays == [("dma in", 20.0, 10.0)]


def test_an_engine_sees_its_own_results_at_once() -> None:
    horizon = Horizon()
    horizon.note(10.0, "A")
    horizon.note(30.0, "B")
    horizon.note(20.0, "A")
    assert [horizon.seen_by(engine) for engine in ("A", "B", "C", None)] == [30.0, 20.0, 30.0, 30.0]
    horizon.note(40.0, None)
    assert [horizon.seen_by(engine) for engine in ("A", "B", None)] == [40.0, 40.0, 40.0]


def crowded() -> Links:
    """Links to a shared memory of 8 banks of 4 bytes a cycle, that take turns every 64 bytes."""
    memories = tuple(
        replace(m, banks=8, interleave=64, bytes_per_cycle=4) if m.name == "LLB" else m for m in TINY.memories
    )
    fast = tuple(replace(link, bytes_per_cycle=100.0) for link in TINY.links)
    return Links(replace(TINY, memories=memories, links=fast), lambda *_: None, {})


@pytest.mark.parametrize(
    ("reached", "cycles"),
    [
        # All eight banks give 32 bytes a cycle, of which 24 bytes at once are moved.
        (None, 512 / 24),
        (((0, 512),), 512 / 24),
        # One bank gives 4, and so do two of which one has most.
        (((0, 64),), 512 / 4),
        (((0, 64), (0, 64)), 512 / 4),
        (((0, 80),), 512 / 4 * 64 / 80),
        # Other copies reach another bank meanwhile.
        (((0, 64), (64, 128)), 512 / 8),
    ],
)
def test_the_fullest_bank_of_what_moves_decides(reached: Reached | None, cycles: float) -> None:
    shared = crowded()
    assert shared.crowded and not links(8.0).crowded
    buffer = SharedBuffer("x", (Span(0, 512),), "LLB", 0, 512, (0, 1))
    move = CopyTime(1, 0, 512, 24, (), 0, (("LLB", 512),))
    assert shared.body(0.0, move, buffer, reached=reached) == pytest.approx(cycles)
