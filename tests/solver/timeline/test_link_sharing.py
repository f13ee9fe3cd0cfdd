"""Transfers that share a link in the predicted timeline."""

from __future__ import annotations

from dataclasses import replace

from girih.ir.load_machine import load_machine
from girih.solver.cost.instructions import Transfer
from girih.solver.timeline.link_sharing import Links

TINY = load_machine("tiny")


def links(rate: float) -> Links:
    return Links(replace(TINY, links=tuple(replace(link, bytes_per_cycle=rate) for link in TINY.links)))


def transfer(rate: int, size: int) -> Transfer:
    return Transfer(1, 0, size, rate, (("ddr", size),), 0)


def test_a_second_transfer_gets_what_the_first_leaves() -> None:
    shared = links(8.0)
    assert shared.body(0.0, transfer(8, 80)) == 10.0
    assert shared.body(0.0, transfer(8, 80)) == 20.0


def test_a_link_may_be_a_million_times_faster_than_an_engine() -> None:
    fast = links(2.0**20)
    assert fast.body(0.0, transfer(1, 100)) == 100.0
    assert fast.body(50.0, transfer(1, 100)) == 150.0
