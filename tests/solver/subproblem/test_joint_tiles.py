"""Tiles chosen for each other: better by the judge, as good as enumeration, within limits, and remembered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import pytest

from girih.frontend import import_onnx
from girih.frontend.for_machine import fitted
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Segment, Split
from girih.models import build
from girih.solver.cost.local_buffers import all_cells, targets
from girih.solver.options import Options
from girih.solver.subproblem import tile_descent
from girih.solver.subproblem.joint_tiles import JointTiles, KnownJointTiles, Refined
from girih.solver.subproblem.plan_builder import Infeasibility
from girih.solver.subproblem.subproblem import Subproblem
from girih.solver.subproblem.tile_descent import Descents
from girih.solver.subproblem.tiling_alternatives import TilingCuts
from girih.solver.subproblem.time_budget import rounds, searching
from girih.solver.tiling.solve import Caps, Tiler
from tests.support import graphs

MACHINE = load_machine("ascend310")
NO_CUTS = TilingCuts()
ITERATION = searching(rounds(20.0)).iteration(1)


@dataclass(frozen=True)
class Case:
    """A graph on a machine, with what tiles its segments."""

    graph: Graph
    machine: Machine
    subproblem: Subproblem
    tiler: Tiler

    def tiled(self, segment: Segment, cuts: TilingCuts = NO_CUTS) -> Segment:
        """The segment with the tiles that the tiling model chooses for each operator by itself."""
        answer = self.tiler.segment(segment, self.subproblem.cells, cuts.cap, leads=False)
        assert isinstance(answer, tuple)
        return answer[0]

    def cycles(self, segment: Segment) -> int:
        cycles = self.subproblem.builder.on_cores(segment, 1, range(len(segment.ops)))
        assert cycles is not None
        return cycles

    def joint(self) -> JointTiles:
        return JointTiles(self.descents())

    def descents(self) -> Descents:
        return Descents(self.graph, self.subproblem.cells, self.subproblem.builder.on_cores)


def case(graph: Graph, machine: Machine = MACHINE) -> Case:
    return Case(graph, machine, Subproblem(graph, machine, Options(), lambda _: None), Tiler(graph, machine))


@pytest.fixture(scope="module")
def block() -> tuple[Case, Segment]:
    """An inverted bottleneck of MobileNet-V2: a product, a depthwise convolution on the vector engine, a product."""
    imported = import_onnx(build("mobilenet-v2", size=64), precision="fp16", batch=1)
    graph = fitted(imported, MACHINE, divides=True)
    ops = tuple(op.name for op in graph.ops if op.name.startswith("features.4."))
    root = graph.tensor[graph.op[ops[-1]].output]
    setup = case(graph)
    return setup, setup.tiled(Segment(ops, (), (Split(1, 2),) if root.shape[1] > 1 else (), ()))


def refined(case: Case, joint: JointTiles, segment: Segment, cuts: TilingCuts = NO_CUTS) -> Refined:
    return joint.refined(case.tiler, segment, cuts.cap, lambda: False)


def test_what_is_chosen_together_is_better_than_what_is_chosen_alone(block: tuple[Case, Segment]) -> None:
    setup, segment = block
    better = refined(setup, setup.joint(), segment)
    assert setup.cycles(better.segment) < 0.99 * setup.cycles(segment)
    assert tuple(choice.tile for choice in better.choices) == better.segment.tiles
    # Alone, some of them would take longer than the best.
    assert any(choice.cycles > choice.bound for choice in better.choices)


def test_it_is_as_good_as_all_combinations(block: tuple[Case, Segment], monkeypatch: pytest.MonkeyPatch) -> None:
    setup, segment = block
    monkeypatch.setattr(tile_descent, "MOST_TRIED_TILES", 4)
    candidates = setup.descents().candidates(setup.tiler, segment, {})
    ways = product(*([own.tile, *(choice.tile for choice in others)] for own, others in candidates))
    judged = (setup.subproblem.builder.on_cores(replace(segment, tiles=tiles), 1, range(3)) for tiles in ways)
    best = min(cycles for cycles in judged if cycles is not None)
    assert setup.cycles(refined(setup, setup.joint(), segment).segment) <= 1.01 * best


def test_equal_segments_share_the_answer() -> None:
    graph = graphs.chain(3, batch=2, size=16, channels=32, kernel=1)
    setup = case(graph)
    first, second = (setup.tiled(Segment((op.name,), (), (Split(0, 2),), ())) for op in graph.ops[:2])
    joint = setup.joint()
    one = refined(setup, joint, first)
    predicted = joint.predicted
    assert predicted > 0
    two = refined(setup, joint, second)
    assert joint.predicted == predicted
    assert two.segment.ops == second.ops and [t.op for t in two.segment.tiles] == list(second.ops)
    assert [t.cut for t in one.segment.tiles] == [t.cut for t in two.segment.tiles]
    assert joint.known(second, {}) == two


def test_nothing_is_known_of_other_splits(block: tuple[Case, Segment]) -> None:
    setup, segment = block
    joint = setup.joint()
    refined(setup, joint, segment)
    assert joint.known(segment, {}) is not None
    assert joint.known(replace(segment, cores=()), {}) is None
    assert joint.known(segment, {segment.ops[0]: Caps(sums=4096)}) is None


def test_caps_bind(block: tuple[Case, Segment]) -> None:
    setup, segment = block
    op = setup.graph.op[segment.ops[0]]
    boxes = targets(all_cells(setup.subproblem.cells, segment), op)
    free = setup.tiler.scratch(op, segment.tiles[0], boxes)
    cuts = TilingCuts().capped({op.name: Caps(sums=free // 4)})
    tight = setup.tiled(segment.bare, cuts)
    better = refined(setup, setup.joint(), tight, cuts)
    assert setup.tiler.scratch(op, replace(better.segment.tiles[0], depth=1), boxes) <= free // 4


def test_what_is_over_leaves_the_tiles_as_they_are(block: tuple[Case, Segment]) -> None:
    setup, segment = block
    joint = setup.joint()
    left = joint.refined(setup.tiler, segment, {}, lambda: True)
    assert left.segment == segment and joint.predicted == 0
    # It is no answer for another time.
    assert joint.known(segment, {}) is None
    assert refined(setup, joint, segment).segment != segment


def test_other_searches_know_what_was_found(block: tuple[Case, Segment]) -> None:
    setup, segment = block
    shared: KnownJointTiles = {}
    first, second = (JointTiles(setup.descents(), shared) for _ in range(2))
    assert refined(setup, first, segment) == refined(setup, second, segment)
    assert first.predicted > 0 and second.predicted == 0


def test_what_was_found_once_is_an_alternative_of_equal_segments(block: tuple[Case, Segment]) -> None:
    setup, segment = block
    subproblem = setup.subproblem
    before = subproblem.tiles((segment.bare,), TilingCuts(), ITERATION)
    assert not isinstance(before, Infeasibility)
    joint = subproblem.joint_tiles(before[0].segment, TilingCuts(), ITERATION, lambda: False)
    assert [t.cut for t in joint.segment.tiles] != [t.cut for t in before[0].segment.tiles]
    after = subproblem.tiles((segment.bare,), TilingCuts(), ITERATION)
    assert not isinstance(after, Infeasibility)
    assert [t.cut for t in after[0].segment.tiles] == [t.cut for t in joint.segment.tiles]


def test_long_segments_are_predicted_around_an_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphs.chain(10, batch=1, size=16, channels=32, kernel=1)
    setup = case(graph)
    segment = setup.tiled(Segment(tuple(op.name for op in graph.ops), (), (Split(1, 2),), ()))
    windows: list[tuple[int, range]] = []

    def judge(segment: Segment, instances: int, window: range) -> int | None:
        windows.append((instances, window))
        return setup.subproblem.builder.on_cores(segment, instances, window)

    refined(setup, JointTiles(Descents(graph, setup.subproblem.cells, judge)), segment)
    assert len(segment.ops) > tile_descent.LONG
    assert {instances for instances, _ in windows} == {1}
    assert max(len(window) for _, window in windows) == 2 * tile_descent.NEIGHBOURS + 1


def test_a_window_is_a_part_of_the_whole(block: tuple[Case, Segment]) -> None:
    setup, segment = block
    judge = setup.subproblem.builder.on_cores
    whole = judge(segment, 1, range(3))
    parts = [judge(segment, 1, range(i, i + 1)) for i in range(3)]
    assert whole is not None
    assert all(part is not None and 0 < part < whole for part in parts)
