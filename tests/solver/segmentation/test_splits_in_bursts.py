"""Splits into pieces that are shorter than a burst of the link cost what the bursts take."""

from __future__ import annotations

from dataclasses import replace

from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Split
from girih.solver.segmentation.candidates import Candidates
from tests.support import graphs

TINY = load_machine("tiny")


def with_burst(burst: int) -> Machine:
    exchange = TINY.levels.exchange.name
    return replace(TINY, links=tuple(replace(x, burst=burst) if x.memory == exchange else x for x in TINY.links))


def cycles(burst: int) -> int:
    """Of an element-wise operator on a row of 64 elements of 4 bytes, halves of which are on two cores."""
    columns = Candidates(graphs.elementwise_chain(1, rows=1, columns=64), with_burst(burst)).columns()
    return next(c.cycles for c in columns if c.split.cores == (Split(1, 2),) and not c.split.instances)


def test_halves_of_rows_cost_whole_bursts() -> None:
    assert cycles(4) == cycles(64) == cycles(128) < cycles(256) < cycles(1024)
