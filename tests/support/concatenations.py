"""Dense blocks whose concatenations are made in place: graphs, segments and whole plans."""

from __future__ import annotations

from dataclasses import replace

from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan, Segment, Step
from girih.ir.semantics.cell import count
from girih.ir.semantics.concat_aliasing import possible_aliases
from tests.support import graphs
from tests.support.plans.rough_plans import rough_plan, rough_segment

STCP = load_machine("stcp920")


def block() -> Graph:
    return graphs.dense(2, size=8)


def segment_of(graph: Graph, *, instances: int = 2) -> Segment:
    """All of it, with everything inside that can be."""
    made = rough_segment(graph, STCP, tuple(op.name for op in graph.ops), instances)
    return replace(made, aliased=tuple(possible_aliases(graph, graph.ops)))


def planned(graph: Graph, segment: Segment) -> Plan:
    steps = tuple(Step(0, i) for i in range(count(segment.instances)))
    return rough_plan(graph, STCP, (segment,), steps)
