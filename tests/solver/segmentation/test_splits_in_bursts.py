"""Splits into pieces that are shorter than a burst of a link cost what the bursts take."""

from __future__ import annotations

from dataclasses import replace

from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Split
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.splits import SegmentSplit
from tests.support import graphs

TINY = load_machine("tiny")


def with_burst(burst: int, memory: str = TINY.levels.exchange.name) -> Machine:
    return replace(TINY, links=tuple(replace(x, burst=burst) if x.memory == memory else x for x in TINY.links))


def cycles(burst: int) -> int:
    """Of an element-wise operator on a row of 64 elements of 4 bytes, halves of which are on two cores."""
    row = graphs.elementwise_chain(1, rows=1, columns=64)
    columns = Candidates(row, with_burst(burst), disabled=frozenset({"fewer-cores"})).columns()
    return next(c.cycles for c in columns if c.split.cores == (Split(1, 2),) and not c.split.instances)


def test_halves_of_rows_cost_whole_bursts() -> None:
    assert cycles(4) == cycles(64) == cycles(128) < cycles(256) < cycles(1024)


def moved(burst: int, dim: int) -> int:
    """Bytes for the input of an element-wise operator on 16 rows of 256 elements of 4 bytes in four instances."""
    machine = with_burst(burst, TINY.levels.home.name)
    candidates = Candidates(graphs.elementwise_chain(1, rows=16, columns=256), machine)
    column = candidates.cheapest(0, 0, (SegmentSplit((Split(dim, 4),), (Split(0, 2),)),))
    assert column is not None
    name = candidates.graph.ops[0].inputs[0]
    return next(4 * moved for tensor, _, moved in column.footprints if tensor == name)


def test_instances_of_short_rows_move_whole_bursts() -> None:
    everything = 16 * 256 * 4
    assert moved(64, 0) == moved(1024, 0) == moved(256, 1) == everything
    # A quarter of a row has 256 bytes, and takes the time of all of it.
    assert moved(1024, 1) == 4 * everything
