"""The graph view of a net agrees with a search through the net, whatever changes and goes."""

from __future__ import annotations

import random

import pytest

from girih.frontend.net.dataflow import Dataflow
from girih.frontend.net.net import Info, Loop, Net, NetStep, Ref
from girih.ir.errors import CheckError


def _loop(target: str, sources: list[str]) -> Loop:
    return Loop({}, Ref(target, ()), "copy", tuple(Ref(s, ()) for s in sources))


def _net(rng: random.Random, count: int) -> Net:
    steps: list[NetStep] = []
    for i in range(count):
        sources = rng.sample([f"t{j}" for j in range(i)], min(i, rng.randint(0, 3)))
        steps.append(NetStep(f"s{i}", (), ("", i), (f"t{i}",), [_loop(f"t{i}", sources)]))
    return Net({f"t{i}": Info((), "float32") for i in range(count)}, {}, steps)


@pytest.mark.parametrize("seed", range(20))
def test_queries_agree_with_a_search(seed: int) -> None:
    rng = random.Random(seed)
    steps = _net(rng, 12).steps
    flow = Dataflow(steps)
    left = list(steps)
    for turn in range(20):
        step = rng.choice(left)
        if turn % 4 == 3:
            flow.remove(step)
            left.remove(step)
        elif turn % 4 == 2:
            step.outputs = (f"u{turn}",)
            step.loops = [_loop(f"u{turn}", [r.tensor for r in step.loops[0].reads])]
            flow.update(step)
        else:
            step.loops = [_loop(step.output, rng.sample([f"t{i}" for i in range(12)], 2))]
            flow.update(step)
        names = [f"t{i}" for i in range(12)] + [f"u{i}" for i in range(20)]
        for name in names:
            assert flow.readers(name) == [s for s in left if name in s.inputs]
            assert flow.reader_count(name) == len(flow.readers(name))
            assert flow.writer(name) is next((s for s in left if name in s.outputs), None)
    assert flow.operations == left
    assert [flow.contains(s) for s in steps] == [s in left for s in steps]


@pytest.mark.parametrize("seed", range(20))
def test_orders_and_ancestors_agree_with_a_search(seed: int) -> None:
    rng = random.Random(seed)
    steps = _net(rng, 30).steps
    needed = {"t29", "t17"}
    for step in reversed(steps):
        if step.output in needed:
            needed.update(step.inputs)
    assert Dataflow(steps).upstream(["t29", "t17"]) == [s for s in steps if s.output in needed]
    shuffled = rng.sample(steps, len(steps))
    left, ordered = list(shuffled), list[NetStep]()
    while left:
        written = {s.output for s in ordered}
        ordered.append(next(s for s in left if written.issuperset(s.inputs)))
        left.remove(ordered[-1])
    assert Dataflow(shuffled).topological_order() == ordered


def test_contraction_is_a_step_that_computes_both() -> None:
    steps = [
        NetStep(f"s{i}", (), ("", i), (f"t{i}",), [_loop(f"t{i}", r)])
        for i, r in enumerate(["x", ["t0", "y"], ["t1", "x"]])
    ]
    flow = Dataflow(steps)
    flow.contract(steps[1], steps[2])
    assert flow.readers("t0") == flow.readers("y") == [steps[2]]
    assert flow.readers("x") == [steps[0], steps[2]]
    assert flow.writer("t1") is None and flow.readers("t1") == []


def test_cycles_are_named() -> None:
    steps = [
        NetStep("a", (), ("", 0), ("t0",), [_loop("t0", ["t1"])]),
        NetStep("b", (), ("", 1), ("t1",), [_loop("t1", ["t0"])]),
    ]
    with pytest.raises(CheckError, match="cycle through t"):
        Dataflow(steps).topological_order()
