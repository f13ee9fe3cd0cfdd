"""Valid plans of a small graph, and the means to break one place of them and to see it refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.checks.plan_facts import Facts, Geometry
from girih.ir.errors import CheckError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import LocalBuffer, Plan, Segment, SharedBuffer, Step, Tile
from tests.support.graphs import residual
from tests.support.plans.rough_plans import rough_plan, wide

STCP = load_machine("stcp920")
TINY = load_machine("tiny")


@cache
def graph() -> Graph:
    return residual(1, batch=2, size=8)


@cache
def valid() -> Plan:
    """Four segments, the first in two instances."""
    return rough_plan(graph(), STCP, group=2, instances=2)


@cache
def layerwise() -> Plan:
    return rough_plan(graph(), STCP, group=1, layerwise=True)


@cache
def ring() -> tuple[Graph, Plan]:
    made, segment = wide()
    return made, rough_plan(made, TINY, (segment,), (Step(0, 0),))


def refused(plan: Plan, match: str = "", graph_: Graph | None = None) -> None:
    with pytest.raises(CheckError, match=match):
        check_plan(plan, graph_ or graph(), TINY if plan.machine == "tiny" else STCP)


@cache
def geometry() -> Geometry:
    return Geometry(graph())


def refused_by(check: Callable[[Facts], None], plan: Plan, match: str) -> None:
    """One part of the checker alone, with the geometry of before: for the tests that break many buffers."""
    facts = Facts(plan, STCP, geometry())
    with pytest.raises(CheckError, match=match):
        check(facts)


def with_segment(plan: Plan, index: int, change: Callable[[Segment], Segment]) -> Plan:
    return replace(plan, segments=tuple(change(s) if i == index else s for i, s in enumerate(plan.segments)))


def with_tile(plan: Plan, op: str, change: Callable[[Tile], Tile]) -> Plan:
    return replace(
        plan,
        segments=tuple(replace(s, tiles=tuple(change(t) if t.op == op else t for t in s.tiles)) for s in plan.segments),
    )


def with_local(plan: Plan, number: int, change: Callable[[LocalBuffer], LocalBuffer]) -> Plan:
    return replace(plan, local=tuple(change(b) if i == number else b for i, b in enumerate(plan.local)))


def with_shared(plan: Plan, number: int, change: Callable[[SharedBuffer], SharedBuffer]) -> Plan:
    return replace(plan, shared=tuple(change(b) if i == number else b for i, b in enumerate(plan.shared)))
