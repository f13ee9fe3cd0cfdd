"""A sample of ``benchmarks/mutations.py``: small mistakes in programs that are right, and whether they are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from benchmarks.mutants import MISTAKES, mutate
from benchmarks.mutations import Subject, Verdict, judge, page
from benchmarks.ordering import unordered
from girih.api.exact.evaluate_graph import evaluate_graph, reduce_cuts
from girih.ir.graph import Graph
from girih.ir.isa.table import make
from girih.ir.load_machine import load_machine
from girih.lowering import lower
from tests.support import graphs
from tests.support.numpy_check import inputs_of
from tests.support.plans.sequential_plans import sequential_plan
from tests.support.simulator.programs import TINY, add, move, program, wait

NETWORKS: dict[str, Callable[[], Graph]] = {
    "conv": lambda: graphs.conv(size=9, channels=5, out=7, dtype="float32"),
    "chain": lambda: graphs.chain(3, size=8, channels=6, dtype="float32"),
    "attention": lambda: graphs.attention(batch=1, length=7, width=10, dtype="float32"),
}
TRIED = 4
"""Mistakes of each kind in each program."""


@cache
def subject(name: str) -> Subject:
    graph, machine = NETWORKS[name](), load_machine("tiny")
    inputs = inputs_of(graph)
    plan = sequential_plan(graph, machine)
    exact = evaluate_graph(graph, inputs, cuts=reduce_cuts(plan))
    return Subject.from_program(name, lower(graph, plan, machine), machine, graph, inputs, exact, exact)


def tried(name: str, kind: str) -> list[Verdict]:
    right, rng = subject(name), Random(f"{name} {kind}")
    memories = tuple(m.name for m in right.machine.memories)
    made = (mutate(right.program, kind, rng, memories) for _ in range(TRIED))
    return [judge(right, mutant) for mutant in made if mutant is not None]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", MISTAKES)
def test_every_mistake_that_matters_is_found(name: str, kind: str) -> None:
    for verdict in tried(name, kind):
        assert verdict.is_detected or not verdict.matters, verdict
        assert verdict.found_exactly or not verdict.matters or verdict.change == 0, verdict
        # The sanitizer and the judge of order agree: no race is overlooked, and none is invented.
        if not set(verdict.reported) - {"race"}:
            assert ("race" in verdict.reported) == verdict.race, verdict


def test_the_page_lists_what_survives() -> None:
    text = "shift-address: queue 12 (VME4), 26: vadd.vv op=7 a=IM[0x0]f32(4) -> vadd.vv op=7 a=IM[0x4]f32(4)"
    survivor = Verdict(
        "net", "shift-address", text, (), True, exact_fails=False, check_fails=False, race=False, change=0.001
    )
    told = page([survivor, replace(survivor, exact_fails=True), replace(survivor, bits_differ=False, change=0.0)])
    line = "| net | shift-address | VME4 26 | vadd.vv | a=IM[0x0]f32(4) | a=IM[0x4]f32(4) | "
    assert [row for row in told.splitlines() if row.startswith("| net")] == [f"{line}1.0e-03 |", f"{line}0.0e+00 |"]
    assert "or `--exact`: 1" in told and "Not found: 0" in told and "Without consequences: 1" in told


READ, WRITE = move("mcopy", ("L1", 0), ("LLB", 0), 64), move("mcopy", ("LLB", 4096), ("L1", 32), 64)


def test_the_judge_of_order() -> None:
    assert unordered(program({"MTO0": [READ], "MTI0": [wait(0, 1), WRITE]}), TINY) is None
    assert unordered(program({"MTO0": [READ], "MTI0": [wait(0, 0), WRITE]}), TINY) == ((0, 0), (1, 1))
    assert unordered(program({"MTO0": [READ], "MTI0": [WRITE]}), TINY) is not None
    # Through a third queue, and through a wait that is waited for.
    streams = {"MTO0": [READ], "VME0": [wait(0, 1)], "MTI0": [wait(1, 1), WRITE]}
    assert unordered(program(streams), TINY) is None
    assert unordered(program({**streams, "VME0": [make("wait", 0, {})]}), TINY) is not None
    # Reads of one place need no order; neither do neighbours.
    assert unordered(program({"MTO0": [READ], "VME0": [add(16, dst=8192, a=0, b=0)]}), TINY) is None
    assert unordered(program({"MTO0": [READ], "VME0": [add(16, dst=64, a=128, b=128)]}), TINY) is None
