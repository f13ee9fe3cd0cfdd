"""Each way to break what a plan says about cores and transfers is caught, and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import CheckError
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan, Transfer, WeightStream
from tests.support import graphs
from tests.support.plans.sequential_plans import sequential_plan

MACHINE = load_machine("tiny")
GRAPH = graphs.attention(length=8, dtype="float32")


@cache
def valid() -> Plan:
    return sequential_plan(GRAPH, MACHINE)


def refused(plan: Plan, match: str) -> None:
    with pytest.raises(CheckError, match=match):
        check_plan(plan, GRAPH, MACHINE)


def test_the_plan_is_valid() -> None:
    check_plan(valid(), GRAPH, MACHINE)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda cores: (0,), r"segment 0 has cores for 1 cells, and 2 cells"),
        (lambda cores: (0, 0), r"cells of segment 0 run on cores \(0, 0\), which are not 2 of the 2"),
        (lambda cores: (0, 2), r"cells of segment 0 run on cores \(0, 2\), which are not 2 of the 2"),
        (lambda cores: (-1, 0), r"cells of segment 0 run on cores \(-1, 0\)"),
    ],
)
def test_each_cell_has_a_core(change: Callable[[tuple[int, ...]], tuple[int, ...]], match: str) -> None:
    first, *others = valid().cell_cores
    refused(replace(valid(), cell_cores=(change(first), *others)), match)


def test_each_segment_has_cores() -> None:
    count = len(valid().segments)
    wanted = f"cores for the cells of {count - 1} segments, and {count} segments"
    refused(replace(valid(), cell_cores=valid().cell_cores[1:]), wanted)


@pytest.mark.parametrize("number", range(len(valid().transfers)))
def test_each_transfer_is_needed_once(number: int) -> None:
    plan, transfer = valid(), valid().transfers[number]
    verb = "loads" if transfer.issuers else "stores"
    without = plan.transfers[:number] + plan.transfers[number + 1 :]
    refused(replace(plan, transfers=without), f"{verb} {transfer.tensor}, and has no transfer of it")
    twice = (*plan.transfers, replace(transfer, portion=(1,) * len(transfer.portion)))
    refused(replace(plan, transfers=twice), f"segment {transfer.segment} has two transfers of {transfer.tensor}")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: replace(t, portion=t.portion[1:]), r"dimensions, in portions of"),
        (lambda t: replace(t, portion=(0, *t.portion[1:])), r"in portions of \(0,"),
        (lambda t: replace(t, issuers=(2,)), r"has issuers \(2,\)"),
        (lambda t: replace(t, issuers=(-1,)), r"has issuers \(-1,\)"),
        (lambda t: replace(t, issuers=() if t.issuers else (0,)), r"has issuers \((0,)?\)"),
        (lambda t: replace(t, segment=99), r"there are transfers of segment 99, which does not exist"),
        (lambda t: replace(t, tensor="unheard"), r"has no transfer of it|transfer of unheard"),
    ],
)
def test_each_transfer_makes_sense(change: Callable[[Transfer], Transfer], match: str) -> None:
    plan = valid()
    for number in range(len(plan.transfers)):
        moves = tuple(change(t) if n == number else t for n, t in enumerate(plan.transfers))
        refused(replace(plan, transfers=moves), match)


def test_nothing_else_is_transferred() -> None:
    first, *_, last = valid().transfers
    strange = replace(last, segment=first.segment)
    refused(replace(valid(), transfers=(*valid().transfers, strange)), "which it neither loads nor stores")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda w: replace(w, versions=()), r"goes to versions \(\), and there are 2"),
        (lambda w: replace(w, versions=(0, 2)), r"goes to versions \(0, 2\), and there are 2"),
        (lambda w: replace(w, versions=(-1,)), r"goes to versions \(-1,\)"),
        (lambda w: replace(w, prefetch=-1), r"prefetches -1 tiles"),
        (lambda w: replace(w, prefetch=3), r"prefetches 3 tiles, and (2 versions come|.* comes from)"),
        (
            lambda w: replace(w, versions=(1,), prefetch=2),
            r"prefetches 2 tiles, and (1 versions come|.* comes from)",
        ),
        (
            lambda w: replace(w, versions=(0, 0, 1), prefetch=2),
            r"prefetches 2 tiles, and (1 versions come|.* comes from)",
        ),
        (lambda w: replace(w, issuers=(2,)), r"has issuers \(2,\)"),
        (lambda w: replace(w, issuers=() if w.issuers else (0,)), r"has issuers \((0,)?\)"),
        (lambda w: replace(w, segment=99), r"there are weight streams of segment 99, which does not exist"),
        (lambda w: replace(w, op="unheard"), r"has no weight stream for"),
    ],
)
def test_each_weight_stream_makes_sense(change: Callable[[WeightStream], WeightStream], match: str) -> None:
    plan = valid()
    assert {bool(w.issuers) for w in plan.weight_streams} == {True, False}
    for number in range(len(plan.weight_streams)):
        streams = tuple(change(w) if n == number else w for n, w in enumerate(plan.weight_streams))
        refused(replace(plan, weight_streams=streams), match)


def test_each_operator_on_the_matrix_engine_has_one_weight_stream() -> None:
    plan = valid()
    first = plan.weight_streams[0]
    refused(replace(plan, weight_streams=plan.weight_streams[1:]), f"has no weight stream for {first.op}")
    twice = (*plan.weight_streams, replace(first, prefetch=1))
    refused(replace(plan, weight_streams=twice), f"has two weight streams for {first.op}")
    on_vector = next(i for i, s in enumerate(plan.segments) if s.tiles and s.tiles[0].engine == "vector")
    name = plan.segments[on_vector].ops[0]
    strange = (*plan.weight_streams, WeightStream(on_vector, name, (0,)))
    refused(replace(plan, weight_streams=strange), f"weight stream for {name}, which the matrix engine does not run")
    foreign = (*plan.weight_streams, WeightStream(on_vector, first.op, (0,)))
    refused(replace(plan, weight_streams=foreign), f"weight stream for {first.op}, which it does not run")
