"""Which results are made again: the model against every choice, and whole plans with and without it."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest

from girih.api.exact import evaluate_graph, reduce_cuts
from girih.ir.box import Span, full
from girih.ir.checks.check_plan import check_plan
from girih.ir.codec import from_json, to_json
from girih.ir.errors import CheckError
from girih.ir.graph import Graph, Host
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan, Prediction, Rematerialisation, Segment, SharedBuffer, Step
from girih.ir.semantics.rematerialise import planned_graph, with_reruns
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.cpsat.backend import Budget, solve
from girih.solver.loop import local_search as refine
from girih.solver.options import Options
from girih.solver.residency.rematerialisation.model import build
from girih.solver.residency.rematerialisation.problem import Pair, RematerialisationProblem, rematerialisation_problem
from girih.solver.residency.rematerialisation.solve import (
    choose_rematerialisations,
    rematerialised_segments,
    second_runs,
)
from girih.solver.switches import checked
from tests.support import graphs
from tests.support.cpsat import unhurried


def least(data: RematerialisationProblem) -> int:
    """The objective of the best of all choices."""
    best = 0
    for chosen in product((False, True), repeat=len(data.work)):
        made = {pair for pair, yes in zip(data.work, chosen, strict=True) if yes}
        if any(all((t, k) in made for k in ks) for t, ks in data.last.items()):
            continue
        brought = {(u, k) for t, k in made for u in data.missing[t, k]} - made
        stays = {t for t, _ in brought}
        unmoved = {t for t in data.stored if t not in stays and all(p in made for p in data.fetched if p[0] == t)}
        cost = sum(data.work[p] - data.fetched.get(p, 0) for p in made)
        cost += sum(data.bring[p] for p in brought) - sum(data.stored[t] for t in unmoved)
        best = min(best, cost)
    return best


def drawn(random: Random) -> RematerialisationProblem:
    """Spilled results 0, 1, ... of which each may be made of those before it."""
    names = [f"t{i}" for i in range(random.randint(1, 4))]
    segments = range(5, 5 + random.randint(1, 3))
    pairs = [(t, k) for t in names for k in segments if random.random() < 0.6][:9]
    spilled = [p for p in pairs if random.random() < 0.7]
    missing: dict[Pair, tuple[str, ...]] = {}
    for t, k in pairs:
        earlier = [*names[: names.index(t)], "x"]
        missing[t, k] = tuple(u for u in earlier if random.random() < 0.5)
    return RematerialisationProblem(
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
    """Without rematerialisation, and with it."""
    with unhurried():
        without = plan(skip(), MACHINE, replace(OPTIONS, disabled=checked(["rematerialisation"]))).plan
        return without, plan(skip(), MACHINE, OPTIONS).plan


def test_a_spilled_result_is_rematerialised_where_that_is_faster(plans: tuple[Plan, Plan]) -> None:
    without, made = plans
    graph = skip()
    assert without.rematerialised == () and made.rematerialised == (Rematerialisation("t", ("last",)),)
    assert made.cycles_predicted < 0.95 * without.cycles_predicted
    assert made.graph_sha256 == without.graph_sha256 == graph.digest
    assert made.lower_bound_cycles == without.lower_bound_cycles
    told = [s for s in made.solved if s.model == "rematerialisation"]
    assert [s.status for s in told] == ["optimal"] and told[0].objective == told[0].bound
    assert from_json(to_json(made), Plan) == made
    check_plan(made, graph, MACHINE)


def test_the_program_computes_the_same_and_is_faster(plans: tuple[Plan, Plan]) -> None:
    graph = skip()
    given = {"x": np.random.default_rng(0).standard_normal((1, 32, 32, 4)).astype(np.float32)}
    cycles: list[int] = []
    for made in plans:
        trace = simulate(lower(graph, made, MACHINE), MACHINE, graph.data, given)
        expected = evaluate_graph(planned_graph(graph, made), given, cuts=reduce_cuts(made))
        assert trace.summary.violation_count == 0
        assert all(np.array_equal(trace.outputs[name], array) for name, array in expected.items())
        cycles.append(trace.summary.cycles)
    assert cycles[1] < 0.95 * cycles[0]


def test_a_plan_is_none_without_its_rematerialisations(plans: tuple[Plan, Plan]) -> None:
    _, made = plans
    with pytest.raises(CheckError, match=r"t\.rerun1|has an operator|the graph has"):
        check_plan(replace(made, rematerialised=()), skip(), MACHINE)
    with pytest.raises(CheckError, match="there is no operator nobody"):
        check_plan(replace(made, rematerialised=(Rematerialisation("nobody", ("last",)),)), skip(), MACHINE)


def test_what_is_not_spilled_is_not_decided(plans: tuple[Plan, Plan]) -> None:
    without, _ = plans
    graph = skip()
    kept = replace(without, shared=tuple(replace(b, store=False) for b in without.shared))
    assert choose_rematerialisations(graph, MACHINE, kept, 0) is None
    assert rematerialisation_problem(graph, MACHINE, kept).work == {}


def chain() -> Graph:
    """x → a → t → c → d → e, where e adds t."""
    net = graphs.Net(dtype="float32")
    a = net.conv("a", net.input("x", 1, 8, 8, 4), 8)
    t = net.conv("t", a, 16)
    d = net.conv("d", net.conv("c", t, 16), 16)
    net.conv("e", d, 16, add=t)
    return net.graph()


RUNS = (("a", "t"), ("c",), ("d", "e"))


def told(
    graph: Graph, shared: Sequence[SharedBuffer], runs: Sequence[tuple[str, ...]] = RUNS, cycles: int = 100
) -> RematerialisationProblem:
    """The problem of a plan with these segments, of one instance each, and these buffers; an operator takes cycles."""
    segments = tuple(Segment(run, (), (), ()) for run in runs)
    steps = tuple(Step(n, 0) for n in range(len(segments)))
    times = tuple(Prediction(n, op, 0, cycles) for n, run in enumerate(runs) for op in run)
    made = Plan("solver", "tiny", "", 0, segments, steps, (), tuple(shared), False, 0, 0, "", times, ())
    return rematerialisation_problem(graph, load_machine("tiny"), made)


def buffer(graph: Graph, name: str, first: int, last: int, *, fetch: bool = False, store: bool = False) -> SharedBuffer:
    tensor = graph.tensor[name]
    return SharedBuffer(name, full(tensor.shape), "LLB", 0, tensor.bytes, (first, last), fetch, store)


def spilled(graph: Graph) -> list[SharedBuffer]:
    """t is stored by slot 1, and fetched in slot 3, for slot 4."""
    return [buffer(graph, "t", 1, 2, store=True), buffer(graph, "t", 3, 5, fetch=True)]


def test_what_a_plan_moves_is_what_can_be_saved() -> None:
    graph = chain()
    size = {name: tensor.bytes // 8 for name, tensor in graph.tensor.items()}
    data = told(graph, spilled(graph))
    assert data.fetched == {("t", 2): size["t"]} and data.stored == {"t": size["t"]}
    # a may be made again as well; x, an input, and weights are brought; a is not stored so far.
    assert data.work == {("t", 2): 100, ("a", 2): 100}
    assert data.missing == {("t", 2): ("a", "t.w", "t.b"), ("a", 2): ("x", "a.w", "a.b")}
    assert data.bring == {
        ("a", 2): 2 * size["a"], ("t.w", 2): size["t.w"], ("t.b", 2): size["t.b"],
        ("x", 2): size["x"], ("a.w", 2): size["a.w"], ("a.b", 2): size["a.b"],
    }  # fmt: skip
    # c reads the first run.
    assert data.last == {}


def test_half_of_it_takes_half_the_work() -> None:
    graph = chain()
    box = (Span(0, 1), Span(0, 4), *full(graph.tensor["t"].shape)[2:])
    store, fetch = spilled(graph)
    data = told(graph, [store, replace(fetch, box=box, bytes=fetch.bytes // 2)])
    assert data.work["t", 2] == 50


def test_what_is_there_need_not_be_brought() -> None:
    graph = chain()
    data = told(graph, [*spilled(graph), buffer(graph, "a", 0, 4), buffer(graph, "t.w", 0, 5)])
    assert data.missing == {("t", 2): ("t.b",)}
    # Not if it leaves before the segment begins.
    data = told(graph, [*spilled(graph), buffer(graph, "a", 0, 3)])
    assert data.missing["t", 2] == ("a", "t.w", "t.b")


def test_no_more_than_three_in_a_row() -> None:
    net = graphs.Net(dtype="float32")
    t = net.input("x", 1, 8, 8, 4)
    for name in ("k", "l", "m", "t"):
        t = net.conv(name, t, 8)
    net.conv("e", net.conv("c", t, 8), 8, add=t)
    graph = net.graph()
    shared = [buffer(graph, "t", 3, 4, store=True), buffer(graph, "t", 5, 6, fetch=True)]
    data = told(graph, shared, (("k", "l", "m", "t"), ("c",), ("e",)))
    assert data.work.keys() == {("t", 2), ("m", 2), ("l", 2)}


def test_a_fetch_that_segments_share_saves_nothing() -> None:
    graph = chain()
    shared = [buffer(graph, "t", 1, 2, store=True), buffer(graph, "t", 2, 5, fetch=True)]
    data = told(graph, shared)
    assert data.fetched == {} and data.stored == {} and data.work == {}


def test_an_output_is_stored_in_any_case() -> None:
    graph = chain()
    out = replace(graph.outputs[0], name="also", tensor="t")
    data = told(replace(graph, outputs=(*graph.outputs, out)), spilled(graph))
    assert data.fetched and data.stored == {}


def test_the_last_reader_keeps_the_first_run() -> None:
    graph = chain()
    shared = [
        buffer(graph, "t", 1, 2, store=True), buffer(graph, "t", 2, 3, fetch=True), buffer(graph, "t", 3, 5, fetch=True)
    ]  # fmt: skip
    data = told(graph, shared)
    assert data.last == {"t": (1, 2)}
    found = solve(build(data)[0], budget=Budget(5.0, 0.5))
    assert found.objective == least(data)


@pytest.mark.parametrize("name", ["t", "e"])
def test_the_host_makes_nothing_again(name: str) -> None:
    graph = chain()
    ops = tuple(replace(op, host=Host("", "")) if op.name == name else op for op in graph.ops)
    runs = (("a",), ("t",), ("c",), ("d",), ("e",))
    data = told(replace(graph, ops=ops), spilled(graph), runs)
    assert data.work == {}


def test_an_interrupt_keeps_what_is_rematerialised(monkeypatch: pytest.MonkeyPatch, plans: tuple[Plan, Plan]) -> None:
    _, made = plans
    monkeypatch.setattr(refine, "mirror", lambda *_: signal.raise_signal(signal.SIGINT))  # pyright: ignore[reportUnknownLambdaType]
    with unhurried():
        planned = plan(skip(), MACHINE, OPTIONS)
    assert planned.log.status == "interrupted"
    assert planned.plan.rematerialised == made.rematerialised
    check_plan(planned.plan, skip(), MACHINE)


def test_a_chain_runs_again_from_its_end() -> None:
    graph = chain()
    wanted = (Rematerialisation("t", ("e",)), Rematerialisation("a", ("t.rerun1",)))
    assert second_runs(graph, wanted) == (("t.rerun1", "t"), ("a.rerun1", "a"))
    found = rematerialised_segments(graph, [Segment(run, (), (), ()) for run in RUNS], wanted)
    assert [s.ops for s in found] == [("a", "t"), ("c",), ("d", "a.rerun1", "t.rerun1", "e")]
    assert [op.name for op in with_reruns(graph, wanted).ops] == [n for s in found for n in s.ops]


def test_where_it_runs_again() -> None:
    """Before the first of its readers in their segment, whatever the order of that."""
    graph = skip()
    segments = (Segment(("t", "c0", "c1"), (), (), ()), Segment(("c2", "c3", "last"), (), (), ()))
    wanted = (
        Rematerialisation("c0", ("c1",)),
        Rematerialisation("t", ("last",)),
        Rematerialisation("t", ("c0.rerun1",)),
    )
    # c0 may run again within its own segment as well, if its first run had another reader.
    with pytest.raises(CheckError):
        rematerialised_segments(graph, segments, wanted)
    found = rematerialised_segments(graph, segments, wanted[1:2])
    assert [s.ops for s in found] == [("t", "c0", "c1"), ("c2", "c3", "t.rerun1", "last")]
    assert [op.name for op in with_reruns(graph, wanted[1:2]).ops] == [n for s in found for n in s.ops]
