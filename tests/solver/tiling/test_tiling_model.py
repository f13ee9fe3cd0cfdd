"""Tiles: the model finds what trying everything finds, what it claims of buffers and loads is so, and it gives up
only where nothing fits."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from girih.ir.box import Box, full, shape_of
from girih.ir.graph import Graph, Op
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Segment, Split, Tile
from girih.ir.semantics.cell import Cells, tile_boxes
from girih.solver.cost.local_buffers import scratch_bytes, weight_size
from girih.solver.cost.operator import EngineWork, Weights
from girih.solver.cost.scratch import ScratchBytes
from girih.solver.cost.smallest_tile import smallest_tile
from girih.solver.cpsat.backend import Budget, solve
from girih.solver.tiling.candidates import Shape, chains, useful_sizes
from girih.solver.tiling.model import build
from girih.solver.tiling.problem import ShapeTable, TilingProblem
from girih.solver.tiling.solve import ATTEMPTS, Caps, Choice, TileOverflow, Tiler, hint
from tests.support import graphs
from tests.support.machines import without_fill


@pytest.fixture(scope="module")
def machine() -> Machine:
    return without_fill(load_machine("stcp920"))


def small(machine: Machine, **capacities: int) -> Machine:
    """The machine with other capacities, by role."""
    memories = tuple(replace(m, capacity=capacities.get(machine.use_of(m.name), m.capacity)) for m in machine.memories)
    return replace(machine, memories=memories)


def box_of(graph: Graph, index: int = 0) -> Box:
    return full(graph.tensor[graph.ops[index].output].shape)


def only(graph: Graph, machine: Machine, weights: Weights | None = None, caps: Caps | None = None) -> Choice:
    found = Tiler(graph, machine).tile(graph.ops[0], [box_of(graph)], weights or Weights(8, 8), caps or Caps())
    assert isinstance(found, Choice)
    return found


def best_by_trying(problem: TilingProblem) -> int:
    return min(
        int(problem.cycles[a, b])
        for a, shape in enumerate(problem.shapes)
        for b, mode in enumerate(problem.modes)
        if problem.fits(shape, mode)
    )


CASES = {
    "conv": graphs.conv(batch=1, size=14, channels=64, out=96),
    "wide conv": graphs.conv(batch=1, size=7, channels=512, out=64),
    "pointwise": graphs.conv(batch=2, size=28, channels=128, out=256, kernel=1),
    "product": graphs.matmul(m=128, k=768, n=768),
    "prime product": graphs.matmul(m=101, k=509, n=251),
}


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("capacity", [262144, 32768])
def test_the_model_is_as_good_as_trying_everything(machine: Machine, name: str, capacity: int) -> None:
    graph = CASES[name]
    tight = small(machine, accumulator=capacity, weights=capacity)
    tiler = Tiler(graph, tight)
    problem = tiler.problem(tiler.cost(graph.ops[0]), [box_of(graph)], Weights(8, 8), (capacity, capacity))
    assert problem is not None
    model, _, _, _ = build(problem, set())
    solution = solve(model, budget=Budget(30.0))
    assert solution.status == "optimal"
    assert solution.objective == best_by_trying(problem)
    choice = only(graph, tight)
    assert (choice.cycles, choice.status) == (best_by_trying(problem), "optimal")
    first = hint(problem, set())
    assert first is not None
    assert problem.fits(problem.shapes[first[0]], problem.modes[first[1]])


def loads_by_walking(graph: Graph, tile: Tile, box: Box) -> int:
    """How often weights are loaded, from the walk over all tiles with a ring of versions."""
    op = graph.ops[0]
    ring: list[tuple[object, ...] | None] = [None] * tile.weight_depth
    counter = loaded = 0
    axes = op.stages[0].axes
    extents = [a.extent for a in axes if a.reduce]
    cuts = tile_boxes(full(tuple(extents)), tile.reduce, tuple(range(len(extents))))
    for part in tile_boxes(box, tile.sizes, tile.order):
        for cut in cuts:
            key = (part[-1], cut)
            if key not in ring:
                ring[counter % tile.weight_depth] = key
                counter += 1
                loaded += 1
    return loaded


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("reduce", [(256,), (100,), (64,)])
@pytest.mark.parametrize("versions", [1, 2, 3])
def test_loads_are_those_of_the_walk(order: tuple[int, int], reduce: tuple[int], versions: int) -> None:
    graph = graphs.matmul(m=96, k=256, n=64)
    tile = Tile("matmul", (40, 32), order, reduce, "matrix", 2, versions)
    counts = (3, 2)
    changes = counts[1] if order == (1, 0) else prod(counts)
    shape = Shape(tile.sizes, order, prod(counts), changes, counts[1], EngineWork(), ScratchBytes(), 32)
    reduce_tiles = -(-256 // reduce[0])
    assert ShapeTable([shape]).loads(reduce_tiles, versions)[0] == loads_by_walking(graph, tile, box_of(graph))


def test_weights_stay_while_rows_change(machine: Machine) -> None:
    """All weights of a column tile fit, but not those of all columns: columns must be the outer loop."""
    graph = graphs.matmul(m=512, k=512, n=512)
    choice = only(graph, small(machine, accumulator=32768, weights=131072))
    tile = choice.tile
    assert tile.sizes[0] < 512
    assert tile.sizes[1] < 512
    assert tile.order == (1, 0)
    assert loads_by_walking(graph, tile, box_of(graph)) == -(-512 // tile.sizes[1]) * -(-512 // tile.reduce[0])


def test_engines_overlap_where_it_pays(machine: Machine) -> None:
    graph = graphs.conv(batch=1, size=28, channels=128, out=128)
    choice = only(graph, machine)
    count = prod(-(-e // s) for e, s in zip(shape_of(box_of(graph)), choice.tile.sizes, strict=True))
    assert count >= 2
    assert choice.tile.depth >= 2, "only the result of the contraction is held in versions"
    assert choice.tile.engine == "matrix"


def test_a_softmax_is_not_cut_along_its_rows(machine: Machine) -> None:
    net = graphs.Net()
    net.softmax("softmax", net.input("x", 12, 128, 128))
    graph = net.graph()
    tile = only(graph, machine).tile
    assert tile.sizes[-1] == 128
    assert tile.engine == "vector"
    assert tile.reduce == ()


def test_caps_are_kept(machine: Machine) -> None:
    graph = graphs.conv(batch=1, size=28, channels=128, out=128)
    caps = Caps(sums=20000, weights=10000)
    tile = only(graph, machine, caps=caps).tile
    op, boxes = graph.ops[0], [box_of(graph)]
    assert scratch_bytes(graph, machine, op, tile, boxes).total(tile.depth) <= 20000
    assert tile.weight_depth * weight_size(graph, op, tile, boxes) <= 10000


def test_a_single_element_is_tried_before_giving_up(machine: Machine) -> None:
    net = graphs.Net()
    net.softmax("softmax", net.input("x", 2, 1000))
    graph = net.graph()
    row = 1000 * 4 * 2 + 2 * 64
    choice = Tiler(graph, small(machine, accumulator=row + 1024)).tile(graph.ops[0], [box_of(graph)], Weights())
    assert isinstance(choice, Choice)
    assert choice.tile.sizes[0] == 1


def test_what_cannot_fit_is_named(machine: Machine) -> None:
    net = graphs.Net()
    net.softmax("softmax", net.input("x", 2, 1000))
    graph = net.graph()
    found = Tiler(graph, small(machine, accumulator=4096)).tile(graph.ops[0], [box_of(graph)], Weights())
    assert isinstance(found, TileOverflow)
    assert (found.op, found.level.name, found.capacity) == ("softmax", "IM", 4096)
    assert found.need >= 8000
    assert "softmax" in str(found.error())


def test_a_segment_gets_a_tile_for_each_operator_that_fits_all_cells(machine: Machine) -> None:
    graph = graphs.residual(2, size=24, channels=64)
    ops = tuple(op.name for op in graph.ops[:7])
    segment = Segment(ops, (Split(1, 3),), (Split(0, 2), Split(2, 4)), ())
    cells = Cells(graph)
    tiled = Tiler(graph, machine).segment(segment, cells)
    assert not isinstance(tiled, TileOverflow)
    made, choices = tiled
    assert tuple(t.op for t in made.tiles) == ops
    for tile, choice in zip(made.tiles, choices, strict=True):
        op = graph.op[tile.op]
        boxes = [cells.cell(segment, i, c).ops[op.name].tensors[op.output] for i in range(3) for c in range(8)]
        used = scratch_bytes(graph, machine, op, tile, boxes).total(tile.depth)
        assert used <= machine.levels.sums.capacity
        assert choice.bound <= choice.cycles


def test_equal_operators_share_an_answer(machine: Machine) -> None:
    graph = graphs.chain(3, channels=32)
    tiler = Tiler(graph, machine)
    tiles = [tiler.tile(op, [box_of(graph)], Weights(8, 8)) for op in graph.ops]
    assert all(isinstance(t, Choice) for t in tiles)
    assert len({replace(t.tile, op="") for t in tiles if isinstance(t, Choice)}) == 1
    assert [t.tile.op for t in tiles if isinstance(t, Choice)] == [op.name for op in graph.ops]


def test_sizes_need_not_divide() -> None:
    assert useful_sizes(10) == [10, 5, 4, 3, 2, 1]
    assert useful_sizes(100, 32) == [100, 64, 32]
    assert (1, 5, 3) in chains([4, 10, 3])
    assert chains([]) == [()]


def test_the_smallest_tile_is_tried_at_last(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all that seemed to fit does not in some cell."""
    graph = graphs.matmul(m=64, k=64, n=64)
    tiler = Tiler(graph, machine)
    tried: list[tuple[int, ...]] = []

    def fits(op: Op, tile: Tile, *_: object) -> bool:
        tried.append(tile.sizes)
        return tile.sizes == (1, 1)

    monkeypatch.setattr(tiler, "fits_everywhere", fits)
    choice = tiler.tile(graph.ops[0], [box_of(graph)], Weights())
    assert isinstance(choice, Choice)
    assert choice.tile.sizes == (1, 1) and len(tried) == ATTEMPTS + 1


def test_the_smallest_tile_is_that_of_its_engine(machine: Machine) -> None:
    """The matrix engine has rooms of its own, and one weight at a time."""
    graph = graphs.matmul(m=16, k=16, n=16)
    for role, level in (("accumulator", machine.levels.sums), ("weights", machine.levels.weights)):
        found = Tiler(graph, small(machine, **{role: 32})).tile(graph.ops[0], [box_of(graph)], Weights())
        assert isinstance(found, TileOverflow)
        assert (found.level.name, found.capacity) == (level.name, 32)
        tile = smallest_tile(graph.ops[0], graph, "matrix", box_of(graph))
        buffers = scratch_bytes(graph, machine, graph.ops[0], tile, [box_of(graph)])
        assert found.need == (buffers.total(1) if role == "accumulator" else level.alignment)
