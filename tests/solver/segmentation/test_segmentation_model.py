"""Segmentation: cells as arrays agree with cells one by one, the model finds what trying everything finds, and its
answers are segments that fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, product

import numpy as np
import pytest

from girih.frontend import import_onnx
from girih.ir.box import volume
from girih.ir.errors import InfeasibleError
from girih.ir.graph import DTYPES, Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Segment, Split
from girih.ir.semantics.cell import Cells, OpBoxesCache, count, followed_dims, shard
from girih.ir.semantics.in_place import replaced
from girih.solver.baselines.layerwise import layerwise_segments
from girih.solver.cost.local_buffers import data_buffers, round_up
from girih.solver.cpsat.backend import Budget, solve
from girih.solver.segmentation.batched_cells import all_cells, batched_cells, owned_boxes, representative_cells
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.column_cost import Column
from girih.solver.segmentation.inter_segment import (
    WEIGHT_PARTS,
    ResidentSet,
    activation_costs,
    activations,
    least_main_traffic,
    main_traffic,
    shared_bytes,
)
from girih.solver.segmentation.model import SegmentationModel
from girih.solver.segmentation.problem import SegmentationProblem
from girih.solver.segmentation.shortest_path import Boundaries, PathCosts, path_bounds, recombined
from girih.solver.segmentation.solve import Segmentation, segment
from girih.solver.segmentation.splits import SegmentSplit, core_splits, instance_splits, segment_splits
from girih.solver.tiling.solve import TileOverflow, Tiler
from tests.support import graphs
from tests.support.onnx_models import Model


@pytest.fixture(scope="module")
def tiny() -> Machine:
    return load_machine("tiny")


@pytest.fixture(scope="module")
def stcp() -> Machine:
    return load_machine("stcp920")


def with_capacity(machine: Machine, **capacities: int) -> Machine:
    memories = tuple(replace(m, capacity=capacities.get(machine.use_of(m.name), m.capacity)) for m in machine.memories)
    return replace(machine, memories=memories)


# Cuts and cells.


def test_cores_are_used() -> None:
    assert (Split(0, 8),) in core_splits((8, 56, 56, 64), 8)
    assert (Split(0, 2), Split(1, 4)) in core_splits((2, 56, 56, 64), 8)
    assert core_splits((1, 1, 1), 8) == [()]
    assert (Split(1, 7),) in core_splits((1, 7), 8)


def test_no_part_is_for_nothing() -> None:
    parts = [s[0].parts for s in instance_splits((56,), 32, 8) if s]
    assert parts == [2, 4, 8, 14, 28]
    assert all(c.instance_count * c.core_count <= 56 for c in segment_splits((56,), 8))


def test_thirds_are_equal_parts() -> None:
    def parts(extent: int, *, thirds: bool) -> list[int]:
        return [s[0].parts for s in instance_splits((extent,), 32, 8, thirds=thirds) if s]

    assert parts(12, thirds=True) == [2, 3, 4, 6, 12]
    assert parts(12, thirds=False) == [2, 4, 6]
    assert parts(3, thirds=True) == [2, 3]
    assert parts(24, thirds=True) == [2, 3, 4, 6, 8, 12, 24]
    # Nothing else changes: where parts were not equal, or there are many.
    for extent in (8, 14, 56, 197, 250, 768, 1000):
        assert parts(extent, thirds=True) == parts(extent, thirds=False)
    # Three images, each by itself on all cores.
    alone = SegmentSplit((Split(0, 3), Split(2, 2)), (Split(1, 8),))
    assert alone in segment_splits((3, 250, 20, 256), 8)
    assert alone not in segment_splits((3, 250, 20, 256), 8, thirds=False)


@pytest.mark.parametrize(
    "cut",
    [
        SegmentSplit((Split(0, 2), Split(2, 3)), (Split(1, 4), Split(2, 2))),
        SegmentSplit((Split(1, 5),), (Split(1, 2),)),
        SegmentSplit((), (Split(0, 2),)),
        SegmentSplit((Split(0, 2),), (Split(3, 2), Split(1, 5))),
        SegmentSplit((Split(3, 2), Split(0, 2)), (Split(3, 3),)),
        SegmentSplit((Split(1, 13),), (Split(2, 5), Split(3, 4))),
        SegmentSplit((), (Split(1, 13), Split(3, 8))),
    ],
)
def test_shares_are_those_of_cells(cut: SegmentSplit) -> None:
    graph = graphs.chain(2, batch=2, size=13, channels=8)
    ops = graph.ops
    made = Segment(tuple(o.name for o in ops), cut.instances, cut.cores, ())
    follow = followed_dims(OpBoxesCache(graph), ops)[ops[0].name]
    shape = graph.tensor[ops[0].output].shape
    there = owned_boxes(batched_cells([cut], [all_cells(cut)]), shape, follow)
    cores = count(cut.cores)
    for i in range(count(cut.instances)):
        for c in range(cores):
            own = shard(shape, made, i, c, follow)
            assert there.present[i * cores + c] == (own is not None)
            assert own is None or there.box(i * cores + c) == own


def peak_by_cells(graph: Graph, machine: Machine, column: Column) -> int:
    """The peak of local memory from single cells, tensor by tensor."""
    ops = [op.name for op in graph.ops[column.first : column.last + 1]]
    made = Segment(tuple(ops), column.split.instances, column.split.cores, ())
    tiled = Tiler(graph, machine).segment(made, Cells(graph))
    assert not isinstance(tiled, TileOverflow)
    buffers = data_buffers(graph, Cells(graph), machine, 0, tiled[0])
    # A result that takes the place of an input counts from the next position on.
    late = replaced(graph, [graph.op[n] for n in ops])
    return max(sum(b.bytes for b in buffers if b.live[0] + (b.name in late) <= p < b.live[1]) for p in range(len(ops)))


def test_peaks_are_those_of_cells(tiny: Machine) -> None:
    graph = graphs.residual(1, size=12, channels=16)
    made = Candidates(graph, tiny)
    columns = made.columns()
    for column in columns[:: max(1, len(columns) // 12)]:
        exact = made.exact_local_bytes(column)
        assert exact == peak_by_cells(graph, tiny, column)
        assert column.local_bytes <= exact <= 1.1 * column.local_bytes


def test_representatives_are_cells_of_the_cut() -> None:
    cut = SegmentSplit((Split(1, 14),), (Split(0, 2), Split(2, 4)))
    assert set(representative_cells(cut, (2, 56, 30, 8))) <= set(all_cells(cut))


# Candidates.


def test_only_runs_that_lead_to_their_last_operator(tiny: Machine) -> None:
    net = graphs.Net()
    x = net.input("x", 2, 8, 8, 8)
    left, right = net.conv("left", x, 8), net.conv("right", x, 8)
    net.elementwise("join", "add", left, right)
    runs = {(c.first, c.last) for c in Candidates(net.graph(), tiny).columns()}
    assert runs == {(0, 0), (1, 1), (2, 2), (1, 2), (0, 2)}


def test_equal_layers_have_equal_columns(stcp: Machine) -> None:
    graph = graphs.residual(4, channels=32)
    made = Candidates(graph, stcp, longest=3)
    position = {op.name: i for i, op in enumerate(graph.ops)}
    one, other = (made.ending(position[name]) for name in ("c1", "c2"))
    moved = position["c2"] - position["c1"]
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert (b.first - a.first, b.cycles, b.split) == (moved, a.cycles, a.split)
        assert [sizes for _, *sizes in a.footprints] == [sizes for _, *sizes in b.footprints]
        inside = {n for op in graph.ops[b.first : b.last + 1] for n in (*op.inputs, op.output)}
        assert {name for name, *_ in b.footprints} <= inside


def test_weights_are_counted_once_and_again(stcp: Machine) -> None:
    graph = graphs.matmul(m=512, k=256, n=128)
    weights = sum(graph.tensor[n].bytes for n in graph.constant_names)
    for column in Candidates(graph, stcp).columns():
        assert column.weight_bytes == weights
        rows_cut = any(s.dim == 0 for s in column.split.instances)
        assert (column.refetched_bytes > 0) == rows_cut


def test_what_never_fits_is_named(tiny: Machine) -> None:
    net = graphs.Net("huge", "float32")
    net.softmax("softmax", net.input("x", 4, 40000))
    with pytest.raises(InfeasibleError, match=r"softmax.*L1.*more than"):
        segment(net.graph(), tiny)


# The shortest path.


def columns_at_random(rng: np.random.Generator, boundaries: int) -> tuple[Boundaries, PathCosts]:
    runs = [(a, b) for a in range(boundaries) for b in range(a + 1, boundaries + 1) for _ in range(2)]
    made = [Column(a, b - 1, SegmentSplit((), ()), 0, 0, 0, 0, (), 0, ()) for a, b in runs]
    core, main, ahead = (rng.integers(0, 100, len(runs)).tolist() for _ in range(3))
    return Boundaries(made, boundaries), PathCosts(
        core, main, ahead, [(c + m) / 10 for c, m in zip(core, main, strict=True)]
    )


def all_paths(boundaries: Boundaries, at: int = 0) -> Iterator[tuple[int, ...]]:
    if at == boundaries.count:
        yield ()
    for j in boundaries.leaving[at]:
        for rest in all_paths(boundaries, boundaries.end[j]):
            yield (j, *rest)


@pytest.mark.parametrize("seed", range(8))
def test_path_bounds_are_exact_and_never_too_high(seed: int) -> None:
    boundaries, costs = columns_at_random(np.random.default_rng(seed), 5)
    found = path_bounds(boundaries, costs)
    assert found is not None
    times = {p: costs.cost(p) for p in all_paths(boundaries)}
    assert found.bound == pytest.approx(min(times.values()))
    assert costs.cost(found.paths[0]) == pytest.approx(found.bound)
    for j in range(len(boundaries.start)):
        through = min(t for p, t in times.items() if j in p)
        assert found.bound - 1e-6 <= found.through[j] <= through + 1e-6


def test_recombined_paths_are_paths_and_no_worse() -> None:
    boundaries, costs = columns_at_random(np.random.default_rng(0), 5)
    paths = list(all_paths(boundaries))
    made = recombined(boundaries, costs, paths[:3], 4)
    assert set(made) <= set(paths)
    assert costs.cost(made[0]) <= min(costs.cost(p) for p in paths[:3])


def test_no_path_has_no_bounds() -> None:
    assert path_bounds(Boundaries([], 2), PathCosts([], [], [], [])) is None


# The model.


def best_by_trying(problem: SegmentationProblem) -> int:
    best: int | None = None
    for path in all_paths(problem.boundaries):
        names = sorted({i.name for j in path for i in problem.costs[j] if i.can_reside})
        for kept in chain.from_iterable(combinations(names, n) for n in range(len(names) + 1)):
            residence = ResidentSet(frozenset(kept), tuple(0 for _ in path))
            if all(fits(problem, j, residence) for j in path):
                objective = problem.answer(path, residence).objective
                best = objective if best is None else min(best, objective)
    assert best is not None
    return best


def fits(problem: SegmentationProblem, j: int, residence: ResidentSet) -> bool:
    held = sum(
        i.resident_bytes if i.can_reside and i.name in residence.resident else i.staged_bytes for i in problem.costs[j]
    )
    return held + min(problem.reserve, problem.columns[j].weight_bytes) <= problem.capacity


@pytest.mark.parametrize("shared", [262144, 40000, 20000])
def test_the_model_is_as_good_as_trying_everything(tiny: Machine, shared: int) -> None:
    graph = graphs.chain(4, batch=2, size=12, channels=8)
    machine = with_capacity(tiny, shared=shared)
    columns = [c for c in Candidates(graph, machine, longest=2).columns() if not c.refetched_bytes]
    kept: dict[tuple[int, int], list[Column]] = {}
    for column in columns:
        kept.setdefault((column.first, column.last), []).append(column)
    problem = SegmentationProblem([c for some in kept.values() for c in some[:2]], graph, machine)
    model = SegmentationModel(problem, range(len(problem.columns)))
    solution = solve(model.model, budget=Budget(60.0))
    assert solution.status == "optimal"
    best = best_by_trying(problem)
    # The model rounds each term up by itself.
    assert solution.objective is not None
    assert best - 1 <= solution.objective <= best * 1.001 + 100


@pytest.mark.parametrize("capacity", [2000, 8000, 15000, 30000, 60000, 1 << 40])
def test_the_least_that_moves_is_the_least(tiny: Machine, capacity: int) -> None:
    """Of all sets of resident activations, with as many parts of the weights as then fit."""
    graph = graphs.residual(1, size=12, channels=16)
    known = activations(graph)
    reserve = 1000
    for column in Candidates(graph, tiny).columns()[::7]:
        costs = activation_costs(column, known)
        names = [i.name for i in costs if i.can_reside]
        residents = chain.from_iterable(combinations(names, n) for n in range(len(names) + 1))
        traffic = [
            main_traffic(column, costs, frozenset(resident), pinned)
            for resident, pinned in product(residents, range(WEIGHT_PARTS + 1))
            if shared_bytes(column, costs, frozenset(resident), pinned, reserve) <= capacity
        ]
        assert least_main_traffic(column, costs, capacity, reserve) == min(traffic, default=None)


def check(graph: Graph, machine: Machine, found: Segmentation) -> None:
    """The segments are the operators in order, lead to their last one, and fit local memory in every cell."""
    assert [name for s in found.segments for name in s.ops] == [op.name for op in graph.ops]
    cells = Cells(graph)
    for made in found.segments:
        for name in made.ops[:-1]:
            assert any(c.name in made.ops for c in graph.consumers[graph.op[name].output])
        assert count(made.cores) <= machine.cores
        for i in range(count(made.instances)):
            for c in range(count(made.cores)):
                largest = max(
                    round_up(volume(box) * DTYPES[graph.tensor[name].dtype], 64)
                    for name, box in cells.cell(made, i, c).tensors.items()
                    if name not in graph.constant_names
                )
                assert largest <= machine.levels.activations.capacity
    assert found.solved.bound is not None
    assert found.solved.objective is not None
    assert found.solved.bound <= found.solved.objective


@pytest.mark.parametrize("name", ["residual", "attention", "chain"])
def test_segmentations_are_valid(tiny: Machine, stcp: Machine, name: str) -> None:
    graph = {"residual": graphs.residual(2), "attention": graphs.attention(), "chain": graphs.chain(5)}[name]
    for machine in (tiny, stcp):
        check(graph, machine, segment(graph, machine))


def test_fusing_pays_where_shared_memory_is_small(stcp: Machine) -> None:
    graph = graphs.chain(4, batch=8, size=56, channels=64)
    small = segment(graph, with_capacity(stcp, shared=1 << 21))
    assert len(small.segments) < 4


def test_the_same_inputs_give_the_same_segments(stcp: Machine) -> None:
    graph = graphs.residual(2, batch=8, size=28)
    one, other = (segment(graph, stcp, seed=3) for _ in range(2))
    assert one.segments == other.segments
    assert one.solved == other.solved


def test_layerwise_is_one_segment_for_each_operator(tiny: Machine) -> None:
    graph = graphs.residual(2, batch=2, size=24)
    made = layerwise_segments(graph, tiny)
    assert [s.ops for s in made] == [(op.name,) for op in graph.ops]


def test_layerwise_takes_host_operators_as_they_are(tiny: Machine) -> None:
    m = Model()
    graph = import_onnx(m.build(m.node("Add", m.input("x", 2, 5, kind="i"), m.constant("one", 1))))
    assert graph.ops[0].host is not None
    assert [s.ops for s in layerwise_segments(graph, tiny)] == [(graph.ops[0].name,)]


def test_a_network_of_one_number() -> None:
    net = graphs.Net(dtype="float32")
    net.softmax("s", net.input("x", 1))
    graph = net.graph()
    assert segment(graph, load_machine("tiny")).segments


def test_columns_that_do_not_fit_in_all_cells_are_removed(tiny: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that were chosen at once and whatever contains them, until what is chosen fits."""
    graph = graphs.chain(6)
    before = segment(graph, tiny)
    assert sum(len(s.ops) > 1 for s in before.segments) > 1 and not before.note
    exact = Candidates.exact_local_bytes

    def larger(candidates: Candidates, column: Column) -> int:
        return candidates.capacity + 1 if column.first < column.last else exact(candidates, column)

    monkeypatch.setattr(Candidates, "exact_local_bytes", larger)
    after = segment(graph, tiny)
    assert [s.ops for s in after.segments] == [(op.name,) for op in graph.ops]
    assert after.note.endswith("columns did not fit in all their cells")
    monkeypatch.setattr(Candidates, "exact_local_bytes", lambda candidates, _: candidates.capacity + 1)
    with pytest.raises(InfeasibleError, match="operator conv"):
        segment(graph, tiny)
