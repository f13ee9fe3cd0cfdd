"""What is made or loaded in place: as much as fits, as the prediction and the simulator have it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan, Segment, Split, Step
from girih.ir.semantics.cell import Cells
from girih.ir.semantics.concat_aliasing import possible_aliases
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.banks.placement import LocalOverflow, LocalPlaces, Placing
from girih.solver.banks.solve import PlacementOverflow
from girih.solver.cost.local_buffers import data_buffers
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.cpsat.backend import Budget
from girih.solver.options import Options
from girih.solver.subproblem.concat_aliasing import with_inside
from girih.solver.timeline.predict import predict
from tests.support import graphs
from tests.support.concatenations import STCP, planned, segment_of
from tests.support.plans.rough_plans import rough_plan, rough_segment


def with_room(capacity: int) -> Machine:
    memories = tuple(replace(m, capacity=capacity) if STCP.use_of(m.name) == "local" else m for m in STCP.memories)
    return replace(STCP, memories=memories)


def peak(graph: Graph, segment: Segment) -> int:
    """The most bytes of data at once, each tensor with its buffer."""
    buffers = data_buffers(graph, Cells(graph), STCP, 0, segment)
    return max(sum(b.bytes for b in buffers if b.live[0] <= p < b.live[1]) for p in range(len(segment.ops)))


def chosen(graph: Graph, segment: Segment, machine: Machine = STCP) -> Segment:
    return with_inside(graph, Cells(graph), machine, segment)


def test_where_there_is_room_everything_is_made_in_place() -> None:
    graph = graphs.dense(3)
    segment = segment_of(graph)
    assert chosen(graph, segment) == segment
    assert set(segment.aliased) == set(possible_aliases(graph, graph.ops)) != set()


def test_what_is_chosen_fits_and_nothing_that_is_larger_would() -> None:
    """A block under many cuts: with less and less memory, less and less is made in place, and in the end nothing."""
    graph = graphs.dense(4, size=24, channels=32, more=16)
    segment = replace(segment_of(graph), instances=(Split(1, 4), Split(2, 4)), cores=(Split(0, 2),))
    apart, all_inside = peak(graph, replace(segment, aliased=())), peak(graph, segment)
    found: list[int] = []
    for capacity in range(max(apart, all_inside) + 1024, min(apart, all_inside) // 2, -1024):
        made = chosen(graph, segment, with_room(capacity))
        assert not made.aliased or peak(graph, made) <= capacity
        found.append(len(made.aliased))
    assert found[0] == len(segment.aliased)
    assert found[-1] == 0
    assert found == sorted(found, reverse=True)
    assert len(set(found)) > 2


def test_nothing_is_aliased_into_the_result_of_a_host_operator() -> None:
    graph = graphs.dense(1)
    segment = segment_of(graph)
    hosted = replace(graph, ops=tuple(replace(op, host="x") if op.name == "stem" else op for op in graph.ops))
    bare = replace(segment, ops=("stem",), tiles=(), aliased=())
    assert chosen(hosted, bare) == bare


def timed(graph: Graph, made: Plan) -> tuple[int, int]:
    """Predicted and simulated cycles."""
    timeline = predict(graph, Cells(graph), STCP, made, TileWalks(graph, STCP))
    trace = simulate(lower(graph, made, STCP), STCP, graph.data, {}, data=False)
    return timeline.cycles, trace.summary.cycles


@pytest.mark.parametrize("instances", [1, 2])
def test_it_is_faster_and_the_prediction_knows(instances: int) -> None:
    graph = graphs.dense(4, size=16, channels=64, more=32)
    segment = segment_of(graph, instances=instances)
    apart, inside = (timed(graph, planned(graph, replace(segment, aliased=p))) for p in ((), segment.aliased))
    for predicted, simulated in (apart, inside):
        assert abs(predicted - simulated) <= 0.05 * simulated, (predicted, simulated)
    assert inside[0] < apart[0] and inside[1] < apart[1], (apart, inside)


@pytest.mark.parametrize("instances", [1, 2])
def test_what_is_loaded_to_its_place_is_there_sooner_and_the_prediction_knows(instances: int) -> None:
    """The layers are a segment, and the concatenation with what reads it another one, which loads all operands."""
    graph = graphs.dense(1, size=16, channels=128, more=32)
    names = tuple(op.name for op in graph.ops)
    concat = names.index("concat0")
    layers, behind = (rough_segment(graph, STCP, part, instances) for part in (names[:concat], names[concat:]))
    steps = tuple(Step(s, i) for s in range(2) for i in range(instances))

    def cycles(*aliased: str) -> tuple[int, int]:
        return timed(graph, rough_plan(graph, STCP, (layers, replace(behind, aliased=aliased)), steps))

    apart, one, both = cycles(), cycles("b0"), cycles("stem", "b0")
    for predicted, simulated in (apart, one, both):
        assert abs(predicted - simulated) <= 0.05 * simulated, (predicted, simulated)
    assert both[0] < one[0] <= apart[0] and both[1] < one[1] <= apart[1], (apart, one, both)


def test_the_matrix_engine_waits_for_what_lies_in_its_place() -> None:
    """It reads a concatenation that no engine makes: what it is made of has to be there."""
    graph = graphs.dense(2, size=16, channels=64, more=32)
    last = [op.name for op in graph.ops][-2:]
    assert last == ["concat1", "last"]
    made = planned(graph, segment_of(graph, instances=1))
    timeline = predict(graph, Cells(graph), STCP, made, TileWalks(graph, STCP))
    by_op = {p.op: p for p in timeline.predictions}
    assert by_op["last"].start >= by_op["b1"].start + (by_op["b1"].stop - by_op["b1"].start) // 2
    assert by_op["concat1"].stop >= by_op["b1"].stop
    assert by_op["concat1"].start == by_op["concat1"].stop


def test_what_cannot_be_placed_gets_its_own_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the buffers do not fit with tensors inside others, the same segments are tried without."""
    machine, graph = load_machine("tiny"), graphs.dense(2, size=8, dtype="float32")
    options = Options(timeout=1.0)
    assert any(s.aliased for s in plan(graph, machine, options).plan.segments)
    place = Placing.local
    refused: list[tuple[str, ...]] = []

    def local(self: Placing, index: int, segment: Segment, budget: Budget) -> LocalPlaces | LocalOverflow:
        found = place(self, index, segment, budget)
        if not segment.aliased or not isinstance(found, LocalPlaces):
            return found
        refused.append(segment.ops)
        memory = self.machine.levels.activations.memory
        overflow = PlacementOverflow(memory.capacity + 32, memory.capacity, ("x",), (0, 1), True, found.solved[0])
        return LocalOverflow(index, segment.ops[0], self.machine.levels.activations, overflow)

    monkeypatch.setattr(Placing, "local", local)
    found = plan(graph, machine, options)
    check_plan(found.plan, graph, machine)
    assert refused
    assert not any(s.aliased for s in found.plan.segments)
    assert not any(run.note.startswith("cut") and run.model == "segmentation" for run in found.log.runs)
    assert set(refused) & {s.ops for s in found.plan.segments}
