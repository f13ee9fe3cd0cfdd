"""Contractions on the vector engine: right to the bit in every type, quicker where rows are few, and none if off."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

import girih
from girih import models
from girih.frontend import import_onnx
from girih.frontend.import_network import Precision
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machines.as_planned import as_planned
from girih.ir.plan import Plan
from girih.solver import plan
from girih.solver.options import Options, Strategy
from girih.solver.switches import Switch
from tests.support.quantised_networks import Kind, quantised
from tests.support.small_models import SMALL


def on_vector(graph: Graph, made: Plan) -> list[str]:
    """The contractions that the vector engine runs."""
    tiles = [tile for segment in made.segments for tile in segment.tiles]
    return [t.op for t in tiles if t.engine == "vector" and graph.op[t.op].contraction is not None]


@pytest.mark.parametrize(
    ("machine", "integers", "name", "within"),
    [
        ("gaudi", False, "dlrm", 0.08),
        ("gaudi", False, "tiny-transformer", 0.08),
        ("stcp920", False, "tiny-transformer", 0.03),
        ("stcp920", True, "dlrm", 0.03),
        ("stcp920-2", False, "tiny-transformer", 0.03),
    ],
)
def test_results_are_right_and_cycles_as_predicted(
    machine: str, integers: bool, name: str, within: float, tmp_path: Path
) -> None:
    target = as_planned(load_machine(machine))
    model = models.build(name, **SMALL[name])
    if integers:
        model = quantised(model, Kind(), tmp_path)
    types = target.engine_for("matrix").rate or {}
    narrowed: Precision = "fp16" if "float16" in types else "bf16"
    compiled = girih.compile(
        model.SerializeToString(deterministic=True), target=target, batch=1, solver_timeout=5, cache=False,
        precision="as-is" if integers else narrowed,
    )  # fmt: skip
    assert on_vector(compiled.graph, compiled.plan)
    result = compiled.run(check="exact")
    assert abs(compiled.plan.cycles_predicted - result.cycles) <= within * result.cycles
    assert result.cycles >= compiled.plan.lower_bound_cycles


MACHINE = load_machine("stcp920")


@lru_cache(maxsize=2)
def few_rows(name: str) -> Graph:
    model = models.build(name, **SMALL[name]).SerializeToString(deterministic=True)
    return import_onnx(model, batch=1, precision="fp16")


def planned(name: str, *disabled: Switch) -> Plan:
    return plan(few_rows(name), MACHINE, Options(timeout=5.0, disabled=frozenset(disabled))).plan


def test_switched_off_the_matrix_engine_runs_all_and_takes_longer() -> None:
    graph = few_rows("tiny-transformer")
    either, matrix = planned("tiny-transformer"), planned("tiny-transformer", "vector-contractions")
    assert on_vector(graph, either) and not on_vector(graph, matrix)
    assert either.cycles_predicted < 0.9 * matrix.cycles_predicted


def test_what_only_the_cores_gain_is_left_to_the_matrix_engine() -> None:
    """Of a network that waits for its weights: the cores would take less time, and all of it more."""
    assert planned("dlrm").cycles_predicted <= planned("dlrm", "vector-contractions").cycles_predicted


@pytest.mark.parametrize("strategy", ["graphturbo", "layerwise"])
def test_strategies_without_models_leave_all_to_the_matrix_engine(strategy: Strategy) -> None:
    graph = few_rows("tiny-transformer")
    assert not on_vector(graph, plan(graph, MACHINE, Options(timeout=1.0, strategy=strategy)).plan)
