"""Weights that are loaded before what their segment waits for: valid plans that compute the same, some of them sooner."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import CheckError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import Options, plan
from girih.solver.banks.early_weights import cycles_of_segments, with_early_weights
from girih.solver.switches import checked
from tests.support import graphs
from tests.support.numpy_check import check, inputs_of
from tests.support.plans.random_plans import random_plan
from tests.support.random_graphs import random_graph

TINY = load_machine("tiny")


def everywhere(_: int) -> bool:
    return True


@cache
def drawn() -> list[tuple[int, Graph, Plan, Plan]]:
    """Plans drawn at random in which something can be loaded earlier, and with that."""
    plans: list[tuple[int, Graph, Plan, Plan]] = []
    for seed in range(60):
        graph = random_graph(seed, "float32", Random(seed).randint(5, 9))
        before = random_plan(graph, TINY, seed, longest=7)
        depths = {(i, t.op): t.weight_depth for i, s in enumerate(before.segments) for t in s.tiles}
        streams = (
            replace(w, versions=tuple(range(depths[w.segment, w.op])), prefetch=0) for w in before.weight_streams
        )
        before = replace(before, weight_streams=tuple(streams))
        after = with_early_weights(graph, TINY, before, everywhere)
        if after.local != before.local:
            plans.append((seed, graph, before, after))
    return plans


def test_what_is_loaded_earlier_is_the_same() -> None:
    moved = sooner = 0
    for seed, graph, before, after in drawn():
        check_plan(after, graph, TINY)
        check(graph, TINY, after, inputs_of(graph, seed), 2e-5)
        cycles = [simulate(lower(graph, p, TINY), TINY, graph.data, {}, data=False).cycles for p in (before, after)]
        sooner += cycles[1] < cycles[0]
        moved += 1
    assert moved >= 8 and sooner >= 2


def test_shared_memory_holds_the_weights_by_then() -> None:
    refused = 0
    for _, graph, _, after in drawn():
        slots = [step for step, _ in after.slots]
        for buffer in (b for b in after.local if b.use == "weights" and b.op):
            position = after.segments[buffer.segment].ops.index(buffer.op)
            if buffer.live[0] == position or not after.weight_stream[buffer.segment, buffer.op].prefetch:
                continue
            number = next(n for n, s in enumerate(after.steps) if s.segment == buffer.segment)
            slot = slots.index(number) + position
            late = tuple(
                replace(b, live=(slot, b.live[1]))
                if b.tensor == buffer.name and b.fetch and b.live[0] < slot < b.live[1]
                else b
                for b in after.shared
            )
            if late != after.shared:
                with pytest.raises(
                    CheckError, match=f"from slot {slot - position + buffer.live[0]} on, and .* begins after"
                ):
                    check_plan(replace(after, shared=late), graph, TINY)
                refused += 1
    assert refused >= 3


def test_weights_come_before_inputs_in_plans_of_the_search() -> None:
    graph = graphs.dense()
    before = plan(graph, TINY, Options(0.0, disabled=checked(["early-weights"]))).plan
    after = with_early_weights(graph, TINY, before, everywhere)
    moved = [b for b, old in zip(after.local, before.local, strict=True) if b.live != old.live]
    assert moved and all(b.use == "weights" and b.live[0] < b.live[1] - 1 for b in moved)
    check_plan(after, graph, TINY)
    # No two operators hold weights at one position, so that addresses stay as they are.
    positions = [(b.segment, p) for b in after.local if b.use == "weights" for p in range(*b.live)]
    assert len(set(positions)) == len(positions)
    assert with_early_weights(graph, TINY, before, lambda segment: segment not in {b.segment for b in moved}) == before


def test_cycles_of_segments_add_up() -> None:
    graph = graphs.residual()
    planned = plan(graph, TINY, Options(0.0)).plan
    assert len(planned.segments) > 1
    cycles = cycles_of_segments(planned)
    assert sum(cycles) == max(p.stop for p in planned.predictions) and min(cycles) > 0


def test_the_search_takes_it_where_it_saves_cycles() -> None:
    """Cores that wait for one another at each layer, and read weights one by one."""
    machine, graph = load_machine("ascend910"), graphs.dense(4, channels=128, more=32, size=8, batch=1)
    others = ["smaller-memories", "excluded-segments"]
    before, after = (
        plan(graph, machine, Options(5.0, disabled=checked([*off, *others]))).plan for off in (["early-weights"], [])
    )
    check_plan(after, graph, machine)
    use = machine.levels.weights.use
    assert any(b.use == use and b.live[1] > b.live[0] + 1 for b in after.local)
    cycles = [simulate(lower(graph, p, machine), machine, graph.data, {}, data=False).cycles for p in (before, after)]
    assert cycles[1] < 0.97 * cycles[0]
    assert after.cycles_predicted == pytest.approx(cycles[1], rel=0.05)
