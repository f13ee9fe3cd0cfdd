"""The text of a plan has every decision on a line of its own, whatever the names."""

from __future__ import annotations

from dataclasses import replace

from girih.explain.plan_text import plan_text
from girih.ir.load_machine import load_machine
from tests.support import graphs
from tests.support.plans.rough_plans import rough_plan, wide
from tests.support.plans.sequential_plans import sequential_plan

TINY = load_machine("tiny")


def test_names_stay_in_their_lines() -> None:
    plan = sequential_plan(graphs.attention(length=8), TINY)
    strange = "\n  1: not\x1ca segment\u2028\x1b[31m"
    transfers = (replace(plan.transfers[0], tensor=strange), *plan.transfers[1:])
    tiles = (replace(plan.segments[0].tiles[0], op=strange),)
    segments = (replace(plan.segments[0], ops=(strange,), tiles=tiles), *plan.segments[1:])
    text = plan_text(replace(plan, transfers=transfers, segments=segments))
    assert len(text.splitlines()) == len(plan_text(plan).splitlines())
    assert all(line.isprintable() for line in text.splitlines())


def test_each_decision_changes_the_text() -> None:
    graph, segment = wide()
    plan = rough_plan(graph, TINY, (segment,))
    (stream,), transfer = plan.weight_streams, plan.transfers[0]
    ahead = tuple(replace(b, ring_lead=0) if b.ring_position else b for b in plan.shared)
    others = [
        replace(plan, cell_cores=((1, 0),)),
        replace(plan, barrier=True),
        replace(plan, shared=ahead),
        replace(plan, transfers=(replace(transfer, portion=(1, 1)), *plan.transfers[1:])),
        replace(plan, transfers=(replace(transfer, issuers=(1,)), *plan.transfers[1:])),
        *(replace(plan, weight_streams=(replace(stream, **c),)) for c in (
            {"versions": (1,)}, {"prefetch": 1 - min(1, stream.prefetch)}, {"issuers": (1, 1)},
        )),
    ]  # fmt: skip
    assert len({plan_text(p) for p in (plan, *others)}) == 1 + len(others)
