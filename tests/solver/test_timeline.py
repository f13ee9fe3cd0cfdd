"""The predicted timeline against the simulator, and what it must not depend on."""

from __future__ import annotations

from dataclasses import replace

import graphs
import plans
import pytest

from girih.ir.cell import Cells
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver.timeline import Timeline, predict
from girih.solver.walk import Walks

DTYPE = {"tiny": "float32", "stcp920": "float16"}
GRAPHS = {"matmul": graphs.matmul, "conv": graphs.conv, "residual": graphs.residual, "attention": graphs.attention}


def timeline(graph: Graph, machine: Machine, plan: Plan) -> Timeline:
    return predict(graph, Cells(graph), machine, plan, Walks(graph, machine))


@pytest.mark.parametrize("target", DTYPE)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("barrier", [True, False])
def test_predicted_cycles_are_near_the_simulated_ones(target: str, name: str, barrier: bool) -> None:
    machine = load_machine(target)
    graph = GRAPHS[name](dtype=DTYPE[target])
    plan = plans.plain_plan(graph, machine, depth=1 if barrier else 2, barrier=barrier)
    predicted = timeline(graph, machine, plan).cycles
    simulated = simulate(lower(graph, plan, machine), machine, graph.data, {}, data=False).summary.cycles
    assert abs(predicted - simulated) <= 0.1 * simulated, (predicted, simulated)


def test_slots_follow_one_another_behind_barriers() -> None:
    machine = load_machine("tiny")
    graph = graphs.residual(dtype="float32")
    found = timeline(graph, machine, plans.plain_plan(graph, machine))
    assert [p.op for p in found.predictions][:1] == ["stem"]
    for before, after in zip(found.predictions, found.predictions[1:], strict=False):
        assert before.start <= before.stop <= after.start
    assert found.predictions[-1].stop <= found.cycles


def test_without_barriers_it_is_never_slower() -> None:
    machine = load_machine("tiny")
    graph = graphs.chain(dtype="float32")
    plan = plans.plain_plan(graph, machine)
    with_barriers, without = timeline(graph, machine, plan), timeline(graph, machine, replace(plan, barrier=False))
    assert without.cycles <= with_barriers.cycles


def test_more_versions_are_never_slower() -> None:
    machine = load_machine("tiny")
    graph = graphs.conv(size=32, channels=16, out=32, dtype="float32")
    one, two = (plans.plain_plan(graph, machine, depth=d, barrier=False) for d in (1, 2))
    sizes = two.segments[0].tiles[0].sizes
    tile = replace(one.segments[0].tiles[0], sizes=sizes)
    assert timeline(graph, machine, two).cycles <= timeline(graph, machine, one).cycles * 1.05, tile
