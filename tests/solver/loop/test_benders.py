"""The loop among the models: plans that pass the checker, cuts that go up, and an end in any case."""

from __future__ import annotations

import itertools
import signal
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.codec import from_json, sha256, to_json
from girih.ir.errors import InfeasibleError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan, Segment, Solved, Split, Tile
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.banks.placement import LocalOverflow, LocalPlaces, Placing
from girih.solver.banks.solve import PlacementOverflow
from girih.solver.baselines.graphturbo import Heuristics
from girih.solver.cpsat.backend import NO_SEARCH, Budget
from girih.solver.cpsat.log import Record
from girih.solver.effort import NO_EFFORT, InfeasibleSearchError
from girih.solver.loop import benders, excluded_segments, master, search, single_operators
from girih.solver.loop.incumbent import Incumbent
from girih.solver.loop.master import Cuts
from girih.solver.loop.referee import Referee
from girih.solver.loop.spending import Spending
from girih.solver.options import Options, Planned, Progress, Strategy
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.solve import BendersCut, Segmentation
from girih.solver.subproblem import time_budget
from girih.solver.subproblem.plan_builder import Infeasibility, PlanBuilder
from girih.solver.subproblem.subproblem import Subproblem
from girih.solver.subproblem.tiling_alternatives import TiledSegment, TilingAlternatives, TilingCuts
from girih.solver.subproblem.time_budget import (
    ENUMERATION_SECONDS,
    ITERATION_SECONDS,
    SEARCHED,
    WALL_CLOCK_FACTOR,
    rounds,
)
from tests.support import graphs

GRAPHS = {
    "matmul": lambda dtype: graphs.matmul(dtype=dtype),
    "residual": lambda dtype: graphs.residual(dtype=dtype),
    "attention": lambda dtype: graphs.attention(dtype=dtype),
    "dense": lambda dtype: graphs.dense(dtype=dtype),
}
DTYPE = {"tiny": "float32", "stcp920": "float16"}
QUICK = Options(timeout=1.0)


def with_memory(machine: Machine, name: str, capacity: int) -> Machine:
    memories = tuple(replace(m, capacity=capacity) if m.name == name else m for m in machine.memories)
    return replace(machine, memories=memories)


def cuts(planned: Planned) -> list[str]:
    return [f"{run.model}: {run.note}" for run in planned.log.runs if run.note.startswith("cut")]


@pytest.mark.parametrize("target", DTYPE)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("strategy", ["solver", "layerwise"])
def test_a_plan_comes_out_and_can_be_followed(target: str, name: str, strategy: str) -> None:
    machine = load_machine(target)
    graph = GRAPHS[name](DTYPE[target])
    planned = plan(graph, machine, replace(QUICK, strategy=strategy))  # type: ignore[arg-type]
    found = planned.plan
    check_plan(found, graph, machine)
    assert found.strategy == strategy and found.barrier == (strategy == "layerwise")
    assert found.cycles_predicted >= found.lower_bound_cycles > 0
    # The plan can be the heuristic's, which has answers of its own.
    models = {run.model.partition(":")[0] for run in planned.log.runs}
    assert {"tiling", "pipeline", "residency", "banks"} <= models
    answered = {s.model.partition(":")[0] for s in found.solved}
    assert answered and answered <= models
    assert "pipeline" not in answered or {"tiling", "pipeline", "residency", "banks"} <= answered
    assert from_json(to_json(found), Plan) == found
    trace = simulate(lower(graph, found, machine), machine, graph.data, {}, data=False)
    assert trace.summary.violation_count == 0
    assert abs(trace.summary.cycles - found.cycles_predicted) <= 0.1 * trace.summary.cycles


def test_layerwise_is_what_the_solver_beats() -> None:
    machine = load_machine("tiny")
    graph = graphs.residual(dtype="float32")
    solver, layerwise = (plan(graph, machine, replace(QUICK, strategy=s)).plan for s in ("solver", "layerwise"))
    assert all(len(s.ops) == 1 for s in layerwise.segments)
    assert solver.cycles_predicted < layerwise.cycles_predicted


def test_the_same_inputs_give_the_same_plan() -> None:
    machine = load_machine("tiny")
    hashes = {sha256(plan(graphs.attention(dtype="float32"), machine, QUICK).plan) for _ in range(2)}
    assert len(hashes) == 1


def test_the_clock_does_not_end_the_first_round(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, graph = load_machine("tiny"), graphs.residual(3, batch=4, size=24, dtype="float32")
    options = Options(timeout=0.1)
    quiet = plan(graph, machine, options)
    # Long beyond the timeout from the beginning, but no longer than a first round of so many operators may take.
    monkeypatch.setattr(
        Record, "seconds", WALL_CLOCK_FACTOR * 0.9 * (ENUMERATION_SECONDS + ITERATION_SECONDS) * len(graph.ops)
    )
    busy = plan(graph, machine, options)
    assert quiet.log.status == busy.log.status == "budget"
    assert busy.plan == quiet.plan
    assert [run.model for run in busy.log.runs] == [run.model for run in quiet.log.runs]
    assert [run.model for run in busy.log.runs].count("plan") > 1


def test_more_time_gives_no_worse_plan_here() -> None:
    machine = load_machine("stcp920")
    graph = graphs.residual()
    short, long = (plan(graph, machine, Options(timeout=t)).plan for t in (1.0, 8.0))
    assert long.cycles_predicted <= short.cycles_predicted


def test_shared_memory_that_is_too_small_makes_tiles_smaller() -> None:
    """Whole weights do not fit beside the data; the cut asks tiling for finer ones, and those pass through a ring."""
    machine = with_memory(load_machine("tiny"), "LLB", 30720)
    graph = graphs.chain(dtype="float32", channels=32)
    planned = plan(graph, machine, QUICK)
    assert any(line.startswith("tiling: cut") for line in cuts(planned))
    assert any(b.ring_position > 1 for b in planned.plan.shared)
    check_plan(planned.plan, graph, machine)


def test_a_column_that_cannot_be_placed_is_not_chosen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Banks refuse segments of more than two operators; segmentation finds another way, and asks for none twice."""
    asked: list[Segment] = []
    place, choose = Placing.local, master.segment

    def chosen(*args: Any, **options: Any) -> Segmentation:
        made = choose(*args, **options)
        asked.extend(s for s in made.segments if len(s.ops) > 2)
        return made

    def local(self: Placing, index: int, segment: Segment, budget: Budget) -> LocalPlaces | LocalOverflow:
        if len(segment.ops) <= 2:
            return place(self, index, segment, budget)
        memory = self.machine.levels.activations.memory
        solved = Solved("banks:L1", "infeasible", None, None, "bytes")
        overflow = PlacementOverflow(memory.capacity + 32, memory.capacity, ("x",), (0, 1), True, solved)
        return LocalOverflow(index, segment.ops[0], self.machine.levels.activations, overflow)

    monkeypatch.setattr(search._Search, "_graphturbo", lambda *_: None)  # pyright: ignore[reportPrivateUsage]
    machine = load_machine("tiny")
    graph = graphs.chain(3, dtype="float32")
    # With it, segments of two operators and one are best.
    options = replace(QUICK, disabled=frozenset(("output-stores",)))
    assert any(len(s.ops) > 2 for s in plan(graph, machine, options).plan.segments)
    monkeypatch.setattr(Placing, "local", local)
    monkeypatch.setattr(master, "segment", chosen)
    planned = plan(graph, machine, options)
    assert max(len(s.ops) for s in planned.plan.segments) <= 2
    assert any(line.startswith("segmentation: cut") for line in cuts(planned))
    assert len(asked) == len(set(asked)) > 0


def test_no_plan_at_all_names_the_operator_and_the_bytes() -> None:
    machine = with_memory(load_machine("tiny"), "IM", 512)
    with pytest.raises(InfeasibleError, match=r"softmax.*IM"):
        plan(graphs.attention(dtype="float32", length=128), machine, QUICK)


def test_main_memory_that_is_too_small_is_reported_at_once() -> None:
    with pytest.raises(InfeasibleError, match=r"bytes of DDR, [\d,]+ more than the 1,024 there are"):
        plan(graphs.chain(dtype="float32"), with_memory(load_machine("tiny"), "DDR", 1024), QUICK)


def interrupted(graph: Graph, after: str) -> tuple[list[Progress], Planned]:
    heard: list[Progress] = []

    def listen(news: Progress) -> None:
        heard.append(news)
        if news.model == after and not any(n.status == "stop" for n in heard):
            heard.append(Progress(after, "stop", None, None, 0.0))
            signal.raise_signal(signal.SIGINT)

    return heard, plan(graph, load_machine("tiny"), Options(timeout=30.0), listen)


def test_an_interrupt_keeps_the_best_plan() -> None:
    graph = graphs.residual(dtype="float32")
    heard, planned = interrupted(graph, "plan")
    assert planned.log.status == "interrupted"
    assert sum(n.model == "plan" for n in heard) == 2
    check_plan(planned.plan, graph, load_machine("tiny"))


def test_an_interrupt_before_the_first_plan_is_passed_on() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(graphs.residual(dtype="float32"), "tiling")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_each_segment_takes_the_tiles_that_take_less_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two tilings, told apart by their tile, the second takes two of five segments less time."""
    graph, machine = graphs.residual(), load_machine("stcp920")
    # No two of them are equal.
    parts = [Segment((op.name,), (), (Split(0, n),), ()) for n, op in enumerate(graph.ops[:5], 1)]
    eager, patient = (
        [TiledSegment(replace(p, tiles=(Tile(p.ops[0], (size,), (0,)),)), ()) for p in parts] for size in (1, 2)
    )
    # The fourth cannot be patient, nor the fifth eager; the third takes as long with either.
    cycles = {
        1: dict(zip(parts, (7, 3, 9, 5, None), strict=True)),
        2: dict(zip(parts, (5, 4, 9, None, 9), strict=True)),
    }

    def on_cores(_: PlanBuilder, segment: Segment) -> int | None:
        return cycles[segment.tiles[0].sizes[0]][segment.bare]

    monkeypatch.setattr(PlanBuilder, "on_cores", on_cores)
    subproblem = Subproblem(graph, machine, QUICK, lambda _: None)
    alternatives = TilingAlternatives(graph, machine, subproblem.cells, subproblem.builder, 0)
    better = alternatives.quickest(patient, [patient, eager])
    assert better == [patient[0], eager[1], patient[2], eager[3], patient[4]]
    assert alternatives.quickest(patient, [patient]) == patient


def refused(*_: object, **__: object) -> NoReturn:
    raise InfeasibleSearchError("no segments", NO_EFFORT)


def test_where_no_segments_are_feasible_each_operator_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master, "segment", refused)
    monkeypatch.setattr(Heuristics, "plan", refused)
    machine, graph = load_machine("tiny"), graphs.chain(dtype="float32")
    found = plan(graph, machine, QUICK).plan
    check_plan(found, graph, machine)
    assert all(len(s.ops) == 1 for s in found.segments)


def test_a_gap_is_searched_while_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the iterations, segmentation must do without one segment of the best plan at a time."""
    excluded: list[tuple[BendersCut, ...]] = []
    choose = master.segment

    def chosen(*args: Any, **options: Any) -> Segmentation:
        excluded.append(tuple(cut for cut in options["cuts"] if cut.cycles is None))
        return choose(*args, **options)

    monkeypatch.setattr(master, "segment", chosen)
    monkeypatch.setattr(excluded_segments, "FRUITLESS", 0)
    monkeypatch.setattr(time_budget, "SEARCHES", (2.0,))
    planned = plan(
        graphs.chain(dtype="float32"),
        load_machine("tiny"),
        Options(timeout=20.0, disabled=frozenset({"smaller-memories"})),
    )
    assert planned.plan.cycles_predicted > planned.plan.lower_bound_cycles
    diverted = [cuts for cuts in excluded if cuts]
    assert diverted and len({cuts[-1] for cuts in diverted}) == len(diverted)


def test_changes_of_a_plan_come_before_searches_of_models() -> None:
    graph, machine = graphs.chain(2, dtype="float32"), load_machine("tiny")
    runs = plan(graph, machine, Options(timeout=6.0)).log.runs
    first = next(number for number, run in enumerate(runs) if run.searches)
    before = [run for run in runs[:first] if run.model == "plan"]
    assert any("iteration 1" in run.note for run in before)


def test_a_round_of_hints_has_iterations_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each round begins without what the one before has learned."""
    beyond: list[bool] = []
    begun: list[tuple[bool, Cuts]] = []
    cut = BendersCut(("nothing",))

    def iterate(self: Any) -> None:
        begun.append((self._round.hints, self.decomposition.cuts))
        self.decomposition.cuts = Cuts((cut,))

    def step(self: Any, *_: object) -> None:
        beyond.append(self._round.hints)

    monkeypatch.setattr(search._Search, "_iterate", iterate)  # pyright: ignore[reportPrivateUsage]
    for name in ("_divert", "_compete"):
        monkeypatch.setattr(search._Search, name, step)  # pyright: ignore[reportPrivateUsage]
    plan(graphs.chain(dtype="float32"), load_machine("tiny"), Options(timeout=20.0))
    assert begun == [(True, Cuts()), (False, Cuts())]
    assert beyond == [False] * 3


def test_models_are_searched_where_hints_find_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the timeout pays for nothing more; single operators are the last resort."""
    searched: list[bool] = []
    monkeypatch.setattr(Heuristics, "plan", refused)
    monkeypatch.setattr(Spending, "spent", 1e9)

    def segment(*_: Any, budget: Budget, **__: Any) -> NoReturn:
        searched.append(budget != NO_SEARCH)
        raise InfeasibleSearchError("no segments", NO_EFFORT)

    monkeypatch.setattr(master, "segment", segment)
    planned = plan(graphs.chain(dtype="float32"), load_machine("tiny"), Options(timeout=20.0))
    assert all(len(s.ops) == 1 for s in planned.plan.segments)
    assert searched[:2] == [False, True]


def test_strategies_without_a_search_search_the_models_of_tiles() -> None:
    graph, machine = graphs.chain(4, dtype="float32"), load_machine("tiny")
    short, long = (plan(graph, machine, Options(timeout, strategy="layerwise")) for timeout in (2.0, 60.0))
    assert sum(run.searches for run in long.log.runs) >= sum(run.searches for run in short.log.runs) > 0


def test_where_nothing_is_searched_no_round_comes_before() -> None:
    assert [r.hints for r in rounds(20.0)] == [True, False, False, False]
    assert not any(r.hints for r in (*rounds(20.0, SEARCHED), *rounds(1.0)))
    hints, searches = (r.iteration(1) for r in rounds(20.0)[:2])
    for model in ("segmentation", "tiling", "residency", "banks"):
        assert hints.budget(model, 1.0) == NO_SEARCH != searches.budget(model, 1.0)


def test_what_was_not_searched_came_to_no_limit() -> None:
    graph, machine = graphs.chain(2, dtype="float32"), load_machine("tiny")
    runs = plan(graph, machine, Options(timeout=5.0, disabled=SEARCHED)).log.runs
    assert any(run.model == "residency" and run.gap for run in runs)
    assert not any(run.limited or run.searches for run in runs)


def test_who_has_only_hints_is_told_that_models_can_be_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, machine = graphs.chain(4, dtype="float32"), load_machine("tiny")
    monkeypatch.setattr(Spending, "spent", 1e9)
    planned = plan(graph, machine, Options(timeout=20.0))
    assert not any(run.searches for run in planned.log.runs)
    assert planned.log.unpaid[-1] == "searches of the constraint models"


def test_only_a_simulation_that_is_too_dear_is_one_for_a_longer_timeout() -> None:
    graph, machine = graphs.residual(1), load_machine("tiny")
    incumbent = Incumbent(Record(60.0, None), (0, ""), Referee(graph, 60.0, None))
    incumbent.referee.used_up = True
    steps = search._Search(graph, machine, Options(), incumbent, rounds(20.0)[1:])  # pyright: ignore[reportPrivateUsage]
    assert steps.ending() == ("exhausted", ())
    incumbent.referee.unpaid = True
    assert steps.ending() == ("budget", ("a simulation of what is predicted to be as good or better",))


def refused_operators(monkeypatch: pytest.MonkeyPatch, options: Options, over: bool) -> list[str]:
    """The cuts of a search in which no segments of single operators fit, and whose clock ended it or not."""
    graph, machine = graphs.residual(1), load_machine("tiny")
    record = Record(60.0, None)
    incumbent = Incumbent(record, (0, ""), Referee(graph, options.timeout, None))
    steps = search._Search(graph, machine, options, incumbent, rounds(1.0))  # pyright: ignore[reportPrivateUsage]
    infeasibility = Infeasibility(0, "op", machine.levels.activations, 200, 100, "no room")
    monkeypatch.setattr(steps.decomposition, "evaluate", lambda *_: infeasibility)
    monkeypatch.setattr(record, "over", lambda: over)
    monkeypatch.setattr(steps.master, "smaller_tiles", lambda *_: None)
    with pytest.raises(InfeasibleError):
        single_operators.plan_single_operators(steps.decomposition, rounds(1.0)[0].iteration(0))
    return [run.model for run in record.log().runs if run.note.startswith("cut")]


def test_single_operators_stop_with_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(refused_operators(monkeypatch, QUICK, over=False)) > 1
    assert len(refused_operators(monkeypatch, QUICK, over=True)) == 1


@pytest.mark.parametrize("strategy", ["solver", "layerwise"])
def test_cuts_of_single_operators_bear_the_name_of_their_strategy(
    monkeypatch: pytest.MonkeyPatch, strategy: Strategy
) -> None:
    assert set(refused_operators(monkeypatch, replace(QUICK, strategy=strategy), over=True)) == {strategy}


def test_caps_leave_room_for_the_smallest_tile() -> None:
    graph, machine = graphs.matmul(dtype="float32"), with_memory(load_machine("tiny"), "L1W", 256)
    chosen = master.Master(graph, machine, Candidates(graph, machine), 0)
    cuts: TilingCuts | None = TilingCuts()
    caps: list[int | None] = []
    while cuts is not None:
        cuts = chosen.smaller_tiles(cuts, Infeasibility(0, "matmul", machine.levels.weights, 300, 256, "too large"))
        caps.append(None if cuts is None else cuts.cap["matmul"].weights)
    assert caps == [64, None], "sixteen bytes are less than one number takes, at an alignment of 32"
    under_a_cap = Infeasibility(0, "matmul", machine.levels.weights, 100, 64, "too large")
    assert chosen.smaller_tiles(TilingCuts(), under_a_cap) is None


def test_single_operators_are_tiled_without_the_caps_of_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[TilingCuts] = []
    graph, machine = graphs.chain(dtype="float32"), load_machine("tiny")

    def evaluated(self: Any, segments: tuple[Segment, ...], *_: object) -> Infeasibility:
        seen.append(self.cuts.tiling)
        return Infeasibility(0, segments[0].ops[0], machine.levels.weights, 20000, 16384, "too large")

    monkeypatch.setattr(benders.Decomposition, "evaluate", evaluated)
    monkeypatch.setattr(Heuristics, "plan", refused)
    with pytest.raises(InfeasibleError, match=r"no plan of chain .* no proof that there is none; .* too large"):
        plan(graph, machine, QUICK)
    lifted = [now for before, now in itertools.pairwise(seen) if before.cap and not now.cap]
    assert lifted == [TilingCuts()]
