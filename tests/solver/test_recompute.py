"""Which results are made again: the model against every choice, and whole plans with and without it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import graphs
import numpy as np
import pytest

from girih.api.exact import evaluate, reduce_cuts
from girih.ir.codec import from_json, to_json
from girih.ir.errors import CheckError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan, Recomputation, Segment
from girih.ir.plan_check import check_plan
from girih.ir.recompute import followed, recompute
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import plan, refine
from girih.solver.cp import Budget, solve
from girih.solver.options import Options
from girih.solver.recompute import Pair, Problem, again, build, problem, recomputations


def least(data: Problem) -> int:
    """The objective of the best of all choices."""
    best = 0
    for chosen in product((False, True), repeat=len(data.work)):
        made = {pair for pair, yes in zip(data.work, chosen, strict=True) if yes}
        if any(all((t, k) in made for k in ks) for t, ks in data.last.items()):
            continue
        brought = {(u, k) for t, k in made for u in data.missing[t, k]} - made
        unmoved = {t for t in data.stored if all(p in made for p in data.fetched if p[0] == t)}
        cost = sum(data.work[p] - data.fetched.get(p, 0) for p in made)
        cost += sum(data.bring[p] for p in brought) - sum(data.stored[t] for t in unmoved)
        best = min(best, cost)
    return best


def drawn(random: Random) -> Problem:
    """Spilled results 0, 1, ... of which each may be made of those before it."""
    names = [f"t{i}" for i in range(random.randint(1, 4))]
    segments = range(5, 5 + random.randint(1, 3))
    pairs = [(t, k) for t in names for k in segments if random.random() < 0.6][:9]
    spilled = [p for p in pairs if random.random() < 0.7]
    missing: dict[Pair, tuple[str, ...]] = {}
    for t, k in pairs:
        earlier = [*names[: names.index(t)], "x"]
        missing[t, k] = tuple(u for u in earlier if random.random() < 0.5)
    return Problem(
        work={p: random.randint(0, 20) for p in pairs},
        fetched={p: random.randint(1, 30) for p in spilled},
        stored={t: random.randint(1, 30) for t in dict.fromkeys(t for t, _ in spilled) if random.random() < 0.8},
        missing=missing,
        bring={(u, k): random.randint(0, 30) for (_, k), us in missing.items() for u in us},
        last={
            t: ks
            for t in dict.fromkeys(t for t, _ in pairs)
            if random.random() < 0.5 and (ks := tuple(k for u, k in pairs if u == t))
        },
    )


def test_the_model_finds_the_best_of_all_choices() -> None:
    gains = 0
    for seed in range(150):
        data = drawn(Random(seed))
        if not data.work:
            continue
        found = solve(build(data)[0], budget=Budget(5.0, 0.5))
        assert found.status == "optimal"
        assert found.objective == least(data), seed
        gains += found.objective < 0
    assert gains > 50


def skip(size: int = 32, wide: int = 32) -> Graph:
    """A cheap, large result, convolutions that fill the memories, and a sum with it at the end."""
    net = graphs.Net(dtype="float32")
    t = y = net.conv("t", net.input("x", 1, size, size, 4), wide)
    for number in range(4):
        y = net.conv(f"c{number}", y, wide, kernel=3)
    net.conv("last", y, wide, add=t)
    return net.graph()


def small(shared: int) -> Machine:
    machine = load_machine("tiny")
    memories = tuple(replace(m, capacity=shared) if m.role == "shared" else m for m in machine.memories)
    return replace(machine, memories=memories)


MACHINE = small(96 << 10)
OPTIONS = Options(timeout=6.0)


@pytest.fixture(scope="module")
def plans() -> tuple[Plan, Plan]:
    """Without recomputation, and with it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refine, "recomputed", lambda below, *_: below)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        without = plan(skip(), MACHINE, OPTIONS).plan
    return without, plan(skip(), MACHINE, OPTIONS).plan


def test_a_spilled_result_is_made_again_where_that_is_faster(plans: tuple[Plan, Plan]) -> None:
    without, made = plans
    graph = skip()
    assert without.recomputed == () and made.recomputed == (Recomputation("t", ("last",)),)
    assert made.cycles_predicted < 0.95 * without.cycles_predicted
    assert made.graph_sha256 == without.graph_sha256 == graph.digest
    assert made.lower_bound_cycles == without.lower_bound_cycles
    told = [s for s in made.solved if s.model == "recomputation"]
    assert [s.status for s in told] == ["optimal"] and told[0].objective == told[0].bound
    assert from_json(to_json(made), Plan) == made
    check_plan(made, graph, MACHINE)


def test_the_program_computes_the_same_and_is_faster(plans: tuple[Plan, Plan]) -> None:
    graph = skip()
    given = {"x": np.random.default_rng(0).standard_normal((1, 32, 32, 4)).astype(np.float32)}
    cycles: list[int] = []
    for made in plans:
        trace = simulate(lower(graph, made, MACHINE), MACHINE, graph.data, given)
        expected = evaluate(followed(graph, made), given, cuts=reduce_cuts(made))
        assert trace.summary.violation_count == 0
        assert all(np.array_equal(trace.outputs[name], array) for name, array in expected.items())
        cycles.append(trace.summary.cycles)
    assert cycles[1] < 0.95 * cycles[0]


def test_a_plan_is_none_without_its_recomputations(plans: tuple[Plan, Plan]) -> None:
    _, made = plans
    with pytest.raises(CheckError, match=r"t\.again1|has an operator|the graph has"):
        check_plan(replace(made, recomputed=()), skip(), MACHINE)
    with pytest.raises(CheckError, match="no such operator"):
        check_plan(replace(made, recomputed=(Recomputation("nobody", ("last",)),)), skip(), MACHINE)


def test_what_is_not_spilled_is_not_decided(plans: tuple[Plan, Plan]) -> None:
    without, _ = plans
    graph = skip()
    kept = replace(without, shared=tuple(replace(b, store=False) for b in without.shared))
    assert recomputations(graph, MACHINE, kept, 0) is None
    assert problem(graph, MACHINE, kept).work == {}
    assert problem(graph, MACHINE, without).fetched.keys() <= problem(graph, MACHINE, without).work.keys()


def test_where_it_runs_again() -> None:
    """Before the first of its readers in their segment, whatever the order of that."""
    graph = skip()
    segments = (Segment(("t", "c0", "c1"), (), (), ()), Segment(("c2", "c3", "last"), (), (), ()))
    wanted = (Recomputation("c0", ("c1",)), Recomputation("t", ("last",)), Recomputation("t", ("c0.again1",)))
    # c0 may run again within its own segment as well, if its first run had another reader.
    with pytest.raises(CheckError):
        again(graph, segments, wanted)
    found = again(graph, segments, wanted[1:2])
    assert [s.ops for s in found] == [("t", "c0", "c1"), ("c2", "c3", "t.again1", "last")]
    assert [op.name for op in recompute(graph, wanted[1:2]).ops] == [n for s in found for n in s.ops]
