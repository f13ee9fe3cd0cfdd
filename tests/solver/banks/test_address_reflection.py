"""Address reflection of local memories: plans stay valid, and engines wait less for one another's banks."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.semantics.cell import Cells
from girih.lowering import lower
from girih.solver import Options, plan
from girih.solver.banks.address_reflection import (
    _costs,  # pyright: ignore[reportPrivateUsage]
    _improved,  # pyright: ignore[reportPrivateUsage]
    _total,  # pyright: ignore[reportPrivateUsage]
    reflected,
)
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.timeline.predict import predict
from tests.support import graphs
from tests.support.plans.rough_plans import rough_plan, rough_segment

STCP920 = load_machine("stcp920")


@pytest.mark.parametrize("graph", [graphs.chain(4, batch=8, size=32, channels=64), graphs.attention()])
def test_a_plan_stays_valid(graph: graphs.Graph) -> None:
    """Whatever is turned: addresses stay inside and aligned, nothing meets that did not, and it can be lowered."""
    made = plan(graph, STCP920, Options(timeout=1.0)).plan
    memory = STCP920.levels.activations.memory
    found = reflected(graph, STCP920, made)
    check_plan(found, graph, STCP920)
    for old, new in zip(made.local, found.local, strict=True):
        assert new == replace(old, address=new.address)
        assert new.address in (old.address, memory.capacity - old.address - old.bytes)
        assert old.memory == memory.name or new == old
    lower(graph, found, STCP920)


def odd() -> Machine:
    """With a local memory of a byte more, which no whole alignment fills."""
    memories = tuple(
        replace(m, capacity=m.capacity + 1, banks=1) if STCP920.use_of(m.name) == "local" else m
        for m in STCP920.memories
    )
    return replace(STCP920, memories=memories)


@pytest.mark.parametrize("machine", [STCP920, odd()])
def test_neighbours_that_meet_are_reflected(machine: Machine) -> None:
    """Two segments of which the second loads where the first still works: turned, one can be loaded early."""
    graph = graphs.chain(2, batch=8, size=32, channels=64)
    made = plan(graph, machine, Options(timeout=1.0, strategy="layerwise")).plan
    found = reflected(graph, machine, made)
    turned = {b.segment for old, b in zip(made.local, found.local, strict=True) if b != old}
    assert len(turned) == 1
    check_plan(found, graph, machine)
    lower(graph, found, machine)
    # Once is enough.
    assert reflected(graph, machine, found) == found


def test_what_is_loaded_to_its_place_waits_for_what_lay_there() -> None:
    """The second segment begins with a concatenation, in whose buffer its operands arrive."""
    graph = graphs.dense(1, size=16, channels=128, more=32)
    names = tuple(op.name for op in graph.ops)
    concat = names.index("concat0")
    layers, behind = (rough_segment(graph, STCP920, part, 1) for part in (names[:concat], names[concat:]))
    whole = rough_plan(graph, STCP920, (layers, replace(behind, aliased=("stem", "b0"))))
    timeline = predict(graph, Cells(graph), STCP920, whole, TileWalks(graph, STCP920))
    costs = _costs(graph, STCP920, replace(whole, predictions=timeline.predictions))
    assert costs[0, 1][0] > 0, "rough plans begin at address 0"


def test_fewer_waits_and_none_that_one_reflection_could_avoid() -> None:
    """Against all ways to turn five segments, on random costs."""
    for seed in range(200):
        draw = Random(seed)
        costs = {
            (a, b): (float(draw.randint(0, 9)), float(draw.randint(0, 9)))
            for a, b in product(range(5), repeat=2)
            if a != b and draw.random() < 0.4
        }
        found = _improved([False] * 5, costs)
        best = min(_total(way, costs) for way in product((False, True), repeat=5))
        assert best <= _total(found, costs) <= _total([False] * 5, costs)
        for segment in range(5):
            other = [t ^ (s == segment) for s, t in enumerate(found)]
            assert _total(found, costs) <= _total(other, costs)
