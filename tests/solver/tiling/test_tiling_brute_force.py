"""Tiling against brute force on small spaces: every shape with every mode, walked tile by tile.

What fits is found out here without the arrays of the solver: the buffers of each tile and each reduce tile, one box
after the other. The price is the formula of :mod:`girih.solver.tiling.model`, written once more with scalars.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import ceil, prod
from random import Random

import pytest

from girih.ir.box import Box, Span, full, intersect, volume
from girih.ir.graph import DTYPES, Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.semantics.cell import tile_boxes
from girih.ir.semantics.region import op_boxes
from girih.solver.cost.operator import Weights
from girih.solver.tiling.candidates import Shape, reductions, tile_shapes
from girih.solver.tiling.problem import DEPTHS, WEIGHT_DEPTHS, Mode
from girih.solver.tiling.solve import Choice, TileOverflow, Tiler
from tests.support import graphs
from tests.support.sampled import sampled

ENDLESS = 1 << 40
TINY = load_machine("tiny")


def round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def drawn(rng: Random) -> Graph:
    """A graph of one small operator."""
    net = graphs.Net("drawn", "float32")
    match rng.choice(["conv", "depthwise", "matmul", "product", "softmax", "add"]):
        case "conv":
            size, channels = rng.randint(2, 6), rng.randint(1, 9)
            x = net.input("x", rng.randint(1, 2), size, size, channels)
            net.conv("op", x, rng.randint(1, 20), kernel=rng.choice([1, 3]), stride=rng.choice([1, 2]))
        case "depthwise":
            net.depthwise("op", net.input("x", 1, rng.randint(2, 6), rng.randint(2, 6), rng.randint(1, 12)))
        case "matmul":
            net.matmul("op", net.input("x", rng.randint(1, 20), rng.randint(1, 30)), rng.randint(1, 40), relu=True)
        case "product":
            heads, m, k, n = (rng.randint(1, e) for e in (3, 10, 12, 12))
            net.product("op", net.input("x", heads, m, k), net.input("y", heads, k, n))
        case "softmax":
            net.softmax("op", net.input("x", rng.randint(1, 8), rng.randint(1, 40)))
        case _:
            net.elementwise("op", "exp", net.input("x", rng.randint(1, 12), rng.randint(1, 50)))
    return net.graph()


class Brute:
    """All shapes and modes of the one operator of a graph."""

    def __init__(self, graph: Graph, machine: Machine, weights: Weights) -> None:
        self.graph, self.machine, self.weights = graph, machine, weights
        self.tiler = Tiler(graph, machine)
        self.op = graph.ops[0]
        self.cost = self.tiler.cost(self.op)
        self.box = full(graph.tensor[self.op.output].shape)
        self.matrix = self.cost.contraction is not None

    def shapes(self, *, all_sizes: bool) -> list[Shape]:
        return tile_shapes(self.op, self.graph, self.cost, [self.box], ENDLESS, all_sizes=all_sizes)

    def modes(self) -> list[Mode]:
        return [
            Mode(cut, depth, versions)
            for cut in reductions(self.op, self.cost, op_boxes(self.op, self.graph.tensor, self.box))
            for depth in (DEPTHS if self.matrix and self.op.buffers else (1,))
            for versions in (WEIGHT_DEPTHS if self.matrix else (1,))
        ]

    @cache  # noqa: B019 - lives as long as its test
    def scratch(self, sizes: tuple[int, ...], depth: int) -> int:
        """Bytes of the private buffers, each as large as the largest tile needs it.

        ``depth`` versions of what the matrix engine touches, and the most of all others that live in one stage.
        """
        most: dict[str, int] = {}
        for tile in tile_boxes(self.box, sizes, tuple(range(len(sizes)))):
            parts = op_boxes(self.op, self.graph.tensor, tile).tensors
            for buffer in self.op.buffers:
                if buffer.name in parts:
                    size = volume(parts[buffer.name]) * DTYPES[buffer.dtype]
                    most[buffer.name] = max(most.get(buffer.name, 0), size)
        need = {n: round_up(size, self.machine.levels.sums.alignment) for n, size in most.items()}
        touched = [{s.write.tensor, *(r.tensor for r in s.reads)} for s in self.op.stages]
        by_matrix = touched[self.op.contraction] if self.matrix and self.op.contraction is not None else set[str]()
        live: list[set[str]] = [
            {n for n in need if any(n in t for t in touched[: i + 1]) and any(n in t for t in touched[i:])} - by_matrix
            for i in range(len(touched))
        ]
        return depth * sum(need[n] for n in need if n in by_matrix) + max(sum(need[n] for n in of) for of in live)

    @cache  # noqa: B019
    def weight(self, sizes: tuple[int, ...], reduce: tuple[int, ...]) -> int:
        """Bytes of the largest tile of the stationary operand."""
        assert self.op.contraction is not None
        stage = self.op.stages[self.op.contraction]
        right = stage.reads[1]
        axes = [a for a, axis in enumerate(stage.axes) if axis.reduce]
        cuts = tile_boxes(full(tuple(stage.axes[a].extent for a in axes)), reduce, tuple(range(len(axes))))
        whole = full(self.graph.tensor[right.tensor].shape)
        most = 0
        for tile in tile_boxes(self.box, sizes, tuple(range(len(sizes)))):
            points = list(op_boxes(self.op, self.graph.tensor, tile).points[self.op.contraction])
            for cut in cuts:
                for axis, span in zip(axes, cut, strict=True):
                    points[axis] = Span(span.lo, span.hi)
                part: Box = intersect(tuple(index.over(tuple(points)) for index in right.index), whole)
                most = max(most, volume(part))
        size = most * DTYPES[self.graph.tensor[right.tensor].dtype]
        return round_up(size, self.machine.levels.weights.alignment)

    def fits(self, shape: Shape, mode: Mode) -> bool:
        if self.scratch(shape.sizes, mode.depth) > self.machine.levels.sums.capacity:
            return False
        if not self.matrix:
            return True
        return (
            mode.weight_depth * self.weight(shape.sizes, mode.reduction.sizes) <= self.machine.levels.weights.capacity
        )

    def cycles(self, shape: Shape, mode: Mode) -> int:
        """C_ab."""
        vector, tiles = shape.work.vector, shape.tiles
        if not self.matrix:
            return ceil(vector + vector / tiles)
        r, d, w = mode.reduction.count, mode.depth, mode.weight_depth
        issue = shape.work.matrix_instructions * self.cost.matrix.issue
        matrix = shape.work.matrix + (r - 1) * (issue + shape.work.matrix_fill)
        matrix = max(matrix, r * issue + (2 * r - 1) * shape.work.sums)
        size = shape.columns * mode.reduction.points * self.cost.element
        held = shape.sets if shape.sets * r <= w else shape.changes
        number = (tiles if r > w else held) * r
        busy, full_ = (float(x) for x in self.weights.load(size, self.tiler.rates, self.crossing(shape, size)))
        serial = (matrix + vector + tiles * self.cost.latency) / d
        time = max(matrix, vector, serial, number * busy, (matrix + number * full_) / w)
        first = full_ if 2 * size * w > self.machine.levels.weights.capacity else 0.0
        return ceil(time + vector / tiles + first)

    def crossing(self, shape: Shape, size: int) -> float:
        """Bytes of whole bursts for a tile of weights: of each row, unless it has all columns."""
        assert self.op.contraction is not None
        stage = self.op.stages[self.op.contraction]
        weights = self.graph.tensor[stage.reads[1].tensor]
        columns = weights.elements // prod(axis.extent for axis in stage.axes if axis.reduce)
        piece = size if shape.columns >= columns else shape.columns * self.cost.element
        source = self.machine.levels.exchange.name
        burst = max(x.burst for x in self.machine.links if x.memory == source and x.direction == "read")
        return size / piece * (-(-piece // burst) * burst) if piece else 0.0

    def best(self, *, all_sizes: bool) -> int | None:
        """The least price of what fits; ``None`` if nothing does."""
        found = [
            self.cycles(shape, mode)
            for shape in self.shapes(all_sizes=all_sizes)
            for mode in self.modes()
            if self.fits(shape, mode)
        ]
        return min(found, default=None)


def case(seed: int) -> Brute:
    rng = Random(seed)
    graph = drawn(rng)
    sizes = {
        "accumulator": rng.choice([32, 96, 256, 512, 1000, 4096]),
        "weights": rng.choice([32, 96, 200, 512, 1000, 4096]),
    }
    memories = tuple(replace(m, capacity=sizes.get(TINY.use_of(m.name), m.capacity), banks=1) for m in TINY.memories)
    return Brute(graph, replace(TINY, memories=memories), Weights(rng.choice([1, 2]), 1))


@pytest.mark.parametrize("seed", sampled(range(120)))
def test_the_choice_is_the_best_of_all_that_fit(seed: int) -> None:
    brute = case(seed)
    choice = brute.tiler.tile(brute.op, [brute.box], brute.weights)
    best = brute.best(all_sizes=False)
    if best is None:
        best = brute.best(all_sizes=True)
    if isinstance(choice, TileOverflow):
        assert best is None, f"something fits, and takes {best} cycles"
        return
    assert best is not None
    assert isinstance(choice, Choice)
    assert choice.bound <= best
    assert choice.cycles == best, f"{choice.tile} takes {choice.cycles}, and {best} could be had"
    assert choice.status == "optimal"
    tile = choice.tile
    assert brute.scratch(tile.sizes, tile.depth) <= brute.machine.levels.sums.capacity
    if brute.matrix:
        assert tile.weight_depth * brute.weight(tile.sizes, tile.reduce) <= brute.machine.levels.weights.capacity


def test_the_cases_are_of_every_kind() -> None:
    """Some fit at once, some only as single elements, some not at all; and some need the model."""
    kinds: dict[str, int] = {}
    for seed in range(120):
        brute = case(seed)
        choice = brute.tiler.tile(brute.op, [brute.box], brute.weights)
        kind = (
            "none" if isinstance(choice, TileOverflow) else "model" if choice.effort.deterministic_seconds else "bound"
        )
        kinds[kind] = kinds.get(kind, 0) + 1
    assert len(kinds) == 3
    assert min(kinds.values()) >= 3
