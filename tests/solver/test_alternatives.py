"""What the models could have decided for an operator: the plan's own answer is among it, at the models' own costs."""

from __future__ import annotations

from functools import lru_cache

import pytest

from girih.frontend import import_onnx
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.semantics.cell import Cells
from girih.models import build
from girih.solver import plan
from girih.solver.model_alternatives import ModelAlternative, ModelAlternatives
from girih.solver.options import Options, Planned, Strategy
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.segment_alternatives import SegmentAlternatives
from girih.solver.switches import checked
from girih.solver.tiling.solve import Tiler
from girih.solver.tiling.tile_alternatives import TileAlternative, TileAlternatives
from tests.support.cpsat import unhurried

MACHINE = load_machine("tiny")
ALONE = checked(["joint-tiles"])
"""Each tile is the best by the tiling model, and not one that was chosen for others."""


@lru_cache(maxsize=2)
def planned(network: str, strategy: Strategy = "solver", batch: int = 1) -> tuple[Graph, Planned]:
    graph = import_onnx(build(network).SerializeToString(deterministic=True), batch=batch)
    with unhurried():
        return graph, plan(graph, MACHINE, Options(timeout=6.0, strategy=strategy, disabled=ALONE))


def tiles(network: str, strategy: Strategy = "solver", batch: int = 1) -> dict[str, tuple[TileAlternative, ...]]:
    graph, answer = planned(network, strategy, batch)
    alternatives = TileAlternatives(Tiler(graph, MACHINE), Cells(graph), answer.plan)
    return {op.name: alternatives.for_operator(op.name) for op in graph.ops if op.host is None}


@pytest.mark.parametrize(
    ("network", "strategy", "batch"),
    [("tiny-transformer", "solver", 1), ("tiny-cnn", "solver", 2), ("tiny-cnn", "layerwise", 1)],
)
def test_tiles_of_the_plan_cost_what_the_model_said(network: str, strategy: Strategy, batch: int) -> None:
    """Where the model was searched: a hint has the most versions that fit, which are not always the best."""
    _, answer = planned(network, strategy, batch)
    chosen = [next(t for t in listed if t.chosen) for listed in tiles(network, strategy, batch).values()]
    tiling = next(s for s in answer.plan.solved if s.model == "tiling")
    assert sum(t.cycles or 0 for t in chosen) == tiling.objective
    by_name = {tile.op: tile for segment in answer.plan.segments for tile in segment.tiles}
    assert all(t.tile.cut == by_name[t.tile.op].cut for t in chosen)


def test_another_tile_is_dearer_or_has_no_room() -> None:
    for listed in tiles("tiny-transformer").values():
        assert sum(t.chosen for t in listed) == 1
        (chosen,) = (t for t in listed if t.chosen)
        own = chosen.cycles
        assert own is not None
        for other in listed:
            assert bool(other.why_not) != other.chosen
            if other.cycles is not None and other.cycles < own and other.tile.engine == chosen.tile.engine:
                assert "bytes" in other.why_not or "cells" in other.why_not
    assert any(len(listed) > 3 for listed in tiles("tiny-transformer").values())


def test_what_is_cheaper_by_itself_than_a_tile_that_was_chosen_for_others_is_told() -> None:
    graph = import_onnx(build("tiny-cnn").SerializeToString(deterministic=True), batch=1)
    with unhurried():
        answer = plan(graph, MACHINE, Options(timeout=6.0))
    alternatives = TileAlternatives(Tiler(graph, MACHINE), Cells(graph), answer.plan)
    cheaper = 0
    for listed in (alternatives.for_operator(op.name) for op in graph.ops if op.host is None):
        (chosen,) = (t for t in listed if t.chosen)
        assert all(bool(t.why_not) != t.chosen for t in listed)
        cheaper += any(
            t.why_not.startswith("no plan with it") for t in listed if (t.cycles or 0) < (chosen.cycles or 0)
        )
    assert cheaper


def test_of_another_engine_the_best_tile_is_listed() -> None:
    graph, _ = planned("tiny-transformer")
    for name, listed in tiles("tiny-transformer").items():
        engines = [t.tile.engine for t in listed if not t.chosen]
        (own,) = (t.tile.engine for t in listed if t.chosen)
        other = {"matrix": "vector", "vector": "matrix"}[own]
        assert engines.count(other) == (graph.op[name].contraction is not None), name


def test_segments_cost_what_the_columns_say() -> None:
    graph, answer = planned("tiny-transformer")
    candidates = Candidates(graph, MACHINE)
    of_plan = SegmentAlternatives(candidates, answer.plan)
    columns = candidates.columns()
    for segment in answer.plan.segments:
        listed = of_plan.for_operator(segment.ops[0])
        (own,) = (a for a in listed if a.chosen)
        assert sorted(own.ops) == sorted(segment.ops) and own.why_not == ""
        assert (own.column.split.instances, own.column.split.cores) == (segment.instances, segment.cores)
        same = [
            c for c in columns if (c.first, c.last, c.split) == (own.column.first, own.column.last, own.column.split)
        ]
        assert all(c.cycles == own.column.cycles for c in same)
        assert len(listed) > 1 and all(a.why_not for a in listed if not a.chosen)


def test_alternatives_are_the_same_each_time() -> None:
    graph, answer = planned("tiny-transformer")
    both: list[tuple[ModelAlternative, ...]] = []
    for _ in range(2):
        both.append(
            ModelAlternatives(graph, MACHINE, answer.plan, Options(timeout=6.0)).for_operator(graph.ops[3].name)
        )
    assert both[0] == both[1]
    decisions = [a.decision for a in both[0]]
    assert decisions == sorted(decisions, key=["tile", "split of its segment", "other segments"].index)
    assert sum(a.chosen for a in both[0]) == 2


def test_a_plan_of_rules_has_alternatives_too() -> None:
    """Its tiles and segments need not be candidates of the models."""
    graph, answer = planned("tiny-cnn", "graphturbo")
    alternatives = ModelAlternatives(graph, MACHINE, answer.plan, Options(strategy="graphturbo"))
    for op in graph.ops:
        if op.host is None:
            assert sum(a.chosen for a in alternatives.for_operator(op.name) if a.decision == "tile") == 1
