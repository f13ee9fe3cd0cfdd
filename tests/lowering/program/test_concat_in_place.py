"""Concatenations made in place, under any cut and any tiles, compute what the graph says; and copy nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from girih.ir.load_machine import load_machine
from girih.lowering import lower
from tests.support import graphs
from tests.support.concatenations import STCP, block, planned, segment_of
from tests.support.numpy_check import check, inputs_of
from tests.support.plans.random_plans import random_plan
from tests.support.sampled import sampled

TARGETS = {"stcp920": ("float16", 4e-3), "tiny": ("float32", 2e-5)}


def mixed(dtype: str, seed: int) -> graphs.Net:
    """Concatenations of concatenations along any dimension, of parts that others read as well."""
    rng = Random(seed)
    net = graphs.Net("mixed", dtype)
    made = [net.elementwise("first", "abs", net.input("x", 2, rng.randint(2, 6), 5, rng.randint(3, 9)))]
    for i in range(4):
        a = rng.choice(made)
        b = net.elementwise(f"b{i}", rng.choice(["neg", "abs"]), rng.choice([x for x in made if _alike(net, a, x)]))
        made.append(net.concat(f"concat{i}", *rng.sample([a, b], 2), dim=rng.randint(1, 3)))
    net.elementwise("last", "neg", made[-1])
    return net


def _alike(net: graphs.Net, a: str, b: str) -> bool:
    return net.tensors[a].shape == net.tensors[b].shape


@pytest.mark.parametrize("seed", sampled(range(24)))
def test_a_dense_block_is_right_under_any_plan(seed: int) -> None:
    target = ("stcp920", "tiny")[seed % 2]
    dtype, tolerance = TARGETS[target]
    graph, machine = graphs.dense(2, size=6, dtype=dtype), load_machine(target)
    check(graph, machine, random_plan(graph, machine, seed, longest=9), inputs_of(graph, seed), tolerance)


@pytest.mark.parametrize("seed", sampled(range(40)))
def test_concatenations_of_concatenations_are_right(seed: int) -> None:
    target = ("stcp920", "tiny")[seed % 2]
    dtype, tolerance = TARGETS[target]
    graph, machine = mixed(dtype, seed).graph(), load_machine(target)
    plan = random_plan(graph, machine, seed, longest=9)
    check(graph, machine, plan, inputs_of(graph, seed), tolerance)


def test_what_is_aliased_is_not_copied() -> None:
    graph = block()
    found: list[Counter[str]] = []
    for parts in ((), segment_of(graph).aliased):
        program = lower(graph, planned(graph, replace(segment_of(graph), aliased=parts)), STCP)
        found.append(Counter(program.ops[i.op].name for s in program.streams for i in s if i.row.kind == "vector"))
    apart, inside = found
    assert apart["concat0"] > 0 and apart["concat1"] > 0
    assert inside["concat0"] == inside["concat1"] == 0
    assert {n: c for n, c in inside.items() if n[0] == "r"} == {n: c for n, c in apart.items() if n[0] == "r"}
