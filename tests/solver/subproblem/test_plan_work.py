"""What is counted of a plan is what its prediction goes through."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.semantics.cell import Cells
from girih.solver import plan
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.options import Options, Strategy
from girih.solver.subproblem.plan_work import plan_work
from girih.solver.timeline import predict as timeline
from girih.solver.timeline.predict import predict
from girih.solver.timeline.streams.weight_buffer import WeightBuffer
from tests.support import graphs


def without_broadcasts(machine: Machine) -> Machine:
    engines = (replace(e, classes=tuple(c for c in e.classes if c != "broadcast")) for e in machine.engines)
    return replace(machine, engines=tuple(engines))


STCP920 = load_machine("stcp920")


@pytest.mark.parametrize("machine", [STCP920, without_broadcasts(STCP920)], ids=["broadcasts", "copies"])
@pytest.mark.parametrize("strategy", ["solver", "layerwise"])
@pytest.mark.parametrize("graph", [graphs.chain(3, batch=4), graphs.attention()], ids=["chain", "attention"])
def test_products_are_those_of_the_prediction(
    monkeypatch: pytest.MonkeyPatch, graph: Graph, strategy: Strategy, machine: Machine
) -> None:
    chosen = plan(graph, machine, Options(2.0, strategy=strategy)).plan
    products = 0
    release = WeightBuffer.release

    def counted(self: WeightBuffer, lane: int, begun: float, ended: float, visible: float) -> None:
        nonlocal products
        products += 1
        release(self, lane, begun, ended, visible)

    monkeypatch.setattr(WeightBuffer, "release", counted)
    monkeypatch.setattr(timeline, "REPLAYS", 0)
    cells = Cells(graph)
    predict(graph, cells, machine, chosen, TileWalks(graph, machine))
    work = plan_work(graph, cells, machine, chosen)
    assert work.slots == len(chosen.slots)
    assert work.products == products > 0
