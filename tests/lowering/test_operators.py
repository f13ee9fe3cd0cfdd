"""Each class of operator as an ONNX model, cut by plans drawn at random, against the graph's own meaning in numpy."""

from __future__ import annotations

from zlib import crc32

import pytest

from girih.frontend import import_onnx
from girih.ir.load_machine import load_machine
from tests.support.numpy_check import check, inputs_of
from tests.support.operators.lowered.all_cases import CASES
from tests.support.plans.random_plans import random_plan
from tests.support.sampled import sampled_pairs

TARGETS = {"stcp920": ("fp16", 2e-3), "tiny": ("as-is", 2e-5)}
"""Precision and tolerance, relative to the largest number of an output."""


@pytest.mark.parametrize(("name", "target"), sampled_pairs([*CASES], [*TARGETS], 2))
def test_any_plan_computes_the_graph(name: str, target: str) -> None:
    precision, tolerance = TARGETS[target]
    graph = import_onnx(CASES[name](), precision=precision)  # type: ignore[arg-type]
    machine = load_machine(target)
    seed = crc32(name.encode())
    check(graph, machine, random_plan(graph, machine, seed, longest=4, tiles=4), inputs_of(graph, seed), tolerance)
