"""Graphs and plans grown and drawn at random, against the graph's own meaning in numpy."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from girih.api.exact.evaluate_graph import evaluate_graph, reduce_cuts, sums_in_parts
from girih.ir.box import Affine
from girih.ir.checks.check_graph import check_graph
from girih.ir.graph import Access, Axis, Graph, Op, Port, Stage, Tensor
from girih.ir.load_machine import load_machine
from girih.lowering import lower
from tests.support.numpy_check import check, error, inputs_of, run
from tests.support.plans.random_plans import random_plan
from tests.support.random_graphs import random_graph
from tests.support.sampled import sampled

TARGETS = {"stcp920": ("float16", 4e-3), "tiny": ("float32", 2e-5)}


@pytest.mark.parametrize("seed", sampled(range(140)))
def test_any_plan_computes_any_graph(seed: int) -> None:
    rng = Random(seed)
    target = rng.choice(list(TARGETS))
    dtype, tolerance = TARGETS[target]
    graph, machine = random_graph(seed, dtype, rng.randint(1, 5)), load_machine(target)
    check_graph(graph)
    check(graph, machine, random_plan(graph, machine, seed, longest=4), inputs_of(graph, seed), tolerance)


@pytest.mark.parametrize("seed", sampled(range(200, 280)))
def test_every_element_is_the_same_where_sums_are_whole(seed: int) -> None:
    """Whatever else differs is told: sums that a program rounds in parts of its own making."""
    rng = Random(seed)
    target = rng.choice(list(TARGETS))
    graph, machine = random_graph(seed, TARGETS[target][0], rng.randint(1, 5)), load_machine(target)
    plan, inputs = random_plan(graph, machine, seed, longest=4), inputs_of(graph, seed)
    program, cuts = lower(graph, plan, machine), reduce_cuts(plan)
    outputs = run(graph, machine, program, inputs).outputs
    same = all(error(outputs[name], array) == 0 for name, array in evaluate_graph(graph, inputs, cuts=cuts).items())
    assert same or sums_in_parts(graph, program, cuts), graph


@pytest.mark.parametrize("tiles", [1, 8])
@pytest.mark.parametrize("combine", ["max", "min", "sum"])
def test_windows_that_see_nothing(combine: str, tiles: int) -> None:
    """They yield what lies outside, in a tile of their own or together with others."""
    fill = {"max": -inf, "min": inf, "sum": 0.0}[combine]
    x, y = Tensor("x", (3, 5), "float32"), Tensor("y", (12, 5), "float32")
    source = Access("x", (Affine((1, 0, 2), -5), Affine((0, 1, 0))), fill)
    target = Access("y", (Affine((1, 0, 0)), Affine((0, 1, 0))))
    axes = (Axis("i", 12), Axis("j", 5), Axis("k", 3, True))
    op = Op("pool", (), ("x",), ("y",), (), (Stage(axes, target, "copy", (source,), combine),))
    ports = [(Port(t.name, t.name, t.shape, t.dtype),) for t in (x, y)]
    graph, machine = Graph("pool", (x, y), (op,), *ports, ()), load_machine("tiny")
    check_graph(graph)
    for seed in range(4):
        check(graph, machine, random_plan(graph, machine, seed, tiles=tiles), inputs_of(graph, seed), 1e-6)
