"""Machines whose main memory is a small arena: homes share addresses, and programs are right to the bit."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

import girih
from girih.api.options import Strategy
from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import InfeasibleError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan, SharedBuffer
from girih.ir.semantics.cell import Cells
from girih.lowering import lower
from girih.lowering.program.dependences import LiveBuffer
from girih.lowering.program.program_builder import ProgramBuilder
from girih.models import build
from girih.solver import plan
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.options import Options
from girih.solver.residency import homes
from girih.solver.timeline.predict import predict
from tests.support.graphs import branches
from tests.support.machines import kinds_of, with_capacity
from tests.support.numpy_check import check, inputs_of, run
from tests.support.onnx_models import Model
from tests.support.plans.random_plans import random_plan
from tests.support.random_graphs import random_graph
from tests.support.sampled import sampled

TINY = load_machine("tiny")
KINDS = {"fetched from": TINY, **{k: kinds_of(TINY)[k] for k in ("shared memory", "main memory to write")}}
"""Machines with a shared memory before main memory, and two that load from main memory."""


@cache
def network(name: str) -> bytes:
    return build(name).SerializeToString(deterministic=True)


def compiled(name: str, machine: Machine, strategy: Strategy) -> girih.Compiled:
    return girih.compile(network(name), target=machine, batch=2, strategy=strategy, solver_timeout=1, cache=False)


def homes_of(planned: Plan, machine: Machine) -> list[SharedBuffer]:
    return [b for b in planned.shared if b.memory == machine.levels.home.name]


def are_shared(buffers: list[SharedBuffer]) -> bool:
    return any(
        a.address < b.address + b.bytes and b.address < a.address + a.bytes
        for i, a in enumerate(buffers)
        for b in buffers[:i]
    )


def with_less(machine: Machine, planned: Plan) -> Machine:
    """One alignment less of main memory than the homes of a plan take side by side."""
    home = machine.levels.home
    need = max(b.address + b.bytes for b in homes_of(planned, machine))
    return with_capacity(machine, home.name, need - home.alignment)


@pytest.mark.parametrize("name", ["tiny-cnn", "tiny-transformer"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_arena_that_homes_have_to_share(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = KINDS[kind]
    smaller = with_less(machine, compiled(name, machine, "layerwise").plan)
    compilation = compiled(name, smaller, "layerwise")
    assert are_shared(homes_of(compilation.plan, smaller))
    result = compilation.run(check="exact")
    assert 0.88 <= compilation.plan.cycles_predicted / result.cycles <= 1.08

    def all_the_time(
        graph: Graph, machine: Machine, buffers: list[SharedBuffer], *_: object
    ) -> homes.Homes:  # the way it would be without lifetimes
        raise InfeasibleError(f"{len(buffers)} homes do not fit side by side")

    monkeypatch.setattr(homes, "_sharing", all_the_time)
    with pytest.raises(InfeasibleError, match="homes do not fit side by side"):
        compiled(name, smaller, "layerwise")


@pytest.mark.parametrize("strategy", ["graphturbo", "solver"])
def test_strategies_that_keep_more_on_the_cores_share_what_is_left(strategy: Strategy) -> None:
    machine = KINDS["main memory to write"]
    smaller = with_less(machine, compiled("tiny-cnn", machine, strategy).plan)
    compilation = compiled("tiny-cnn", smaller, strategy)
    compilation.run(check="exact")
    assert are_shared(homes_of(compilation.plan, smaller)) or len(compilation.plan.segments) < 4


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_of_the_host_write_to_homes_that_others_had(kind: str) -> None:
    model = Model()
    x = model.input("x", "N", 32)
    for number in range(3):
        x = model.node("CumSum", model.node("Relu", x), model.constant(f"axis{number}", 1), name=f"running{number}")
    data = model.build(model.node("Relu", x)).SerializeToString()

    def made_for(machine: Machine) -> girih.Compiled:
        return girih.compile(data, target=machine, batch=16, strategy="layerwise", solver_timeout=1, cache=False)

    machine = with_less(KINDS[kind], made_for(KINDS[kind]).plan)
    compilation = made_for(machine)
    assert are_shared(homes_of(compilation.plan, machine))
    compilation.run(check="exact")


def loose(machine: Machine) -> tuple[Graph, Machine, Plan]:
    """Branches that share homes, and that nothing but these puts in an order."""
    graph = branches(length=4, rows=64)
    smaller = with_less(machine, plan(graph, machine, Options(1.0, "layerwise")).plan)
    planned = replace(plan(graph, smaller, Options(1.0, "layerwise")).plan, barrier=False)
    check_plan(planned, graph, smaller)
    return graph, smaller, planned


@pytest.mark.parametrize("kind", KINDS)
def test_writes_wait_for_the_reads_of_what_was_there(kind: str) -> None:
    graph, machine, planned = loose(KINDS[kind])
    check(graph, machine, planned, inputs_of(graph), 0.0)


@pytest.mark.parametrize("kind", ["shared memory", "main memory to write"])
def test_the_waits_are_the_timelines_too(kind: str) -> None:
    graph, machine, planned = loose(KINDS[kind])
    predicted = predict(graph, Cells(graph), machine, planned, TileWalks(graph, machine)).cycles
    simulated = run(graph, machine, lower(graph, planned, machine), inputs_of(graph)).summary.cycles
    assert abs(predicted - simulated) <= 0.02 * simulated


@pytest.mark.parametrize("kind", ["shared memory", "main memory to write"])
def test_without_these_waits_there_are_races(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above cannot pass by luck."""

    def open_home(self: ProgramBuilder, home: SharedBuffer) -> None:
        area = LiveBuffer(self.layout.memory[home.memory], -1, home.address, home.bytes)
        self.home_areas[home.tensor] = self.shared_areas[home] = area

    graph, machine, planned = loose(KINDS[kind])
    monkeypatch.setattr(ProgramBuilder, "open_home", open_home)
    violations = run(graph, machine, lower(graph, planned, machine), inputs_of(graph)).violations
    assert violations and {v.kind for v in violations} == {"race"}


@pytest.mark.parametrize("seed", sampled(range(400, 424)))
def test_any_plan_that_shares_homes(seed: int) -> None:
    graph = random_graph(seed, "float32", 6 + seed % 7)
    check(graph, TINY, random_plan(graph, TINY, seed, longest=2), inputs_of(graph, seed), 2e-5)


def test_some_of_these_share() -> None:
    plans = [random_plan(random_graph(s, "float32", 6 + s % 7), TINY, s, longest=2) for s in range(400, 424)]
    assert sum(are_shared(homes_of(planned, TINY)) for planned in plans) >= 6
