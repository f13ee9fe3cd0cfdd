"""What must run and be read at least: nothing that some plan could do without, and no less on plain networks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from random import Random

import numpy as np
import pytest

from girih.ir.bounds.demanded_elements import InBoundsPoints, Points, axis_values_writing, demanded_points, grid_union
from girih.ir.box import Affine, full
from girih.ir.graph import Access, Axis, Graph, Op, Port, Stage, Tensor
from tests.support import graphs
from tests.support.random_graphs import random_graph
from tests.support.sampled import sampled


def counts(graph: Graph) -> dict[str, list[int]]:
    return {name: [p.count for p in points] for name, points in demanded_points(graph).items()}


def inside(
    index: tuple[Affine, ...], extents: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[InBoundsPoints, Access]:
    """Of one read of ``x`` with fill zero, over whole axes."""
    axes = tuple(Axis(f"i{n}", e) for n, e in enumerate(extents))
    read = Access("x", index, 0.0)
    stage = Stage(axes, Access("y", ()), "copy", (read,))
    return InBoundsPoints(stage, tuple(np.arange(e) for e in extents), {"x": shape}), read


def test_products_with_padding_are_not_counted() -> None:
    size, channels = 16, 4
    found = counts(graphs.conv(size=size, channels=channels, out=8, kernel=3))
    # Of three rows (or columns) in each window, the first and the last window see two.
    seen = 3 * size - 2
    assert found["conv"] == [seen * seen * channels * 8, size * size * 8, size * size * 8]


def test_rows_that_a_stride_skips_are_not_counted() -> None:
    net = graphs.Net("skip", "float16")
    x = net.elementwise("first", "exp", net.input("x", 1, 9, 9, 4))
    net.conv("second", x, 4, kernel=1, stride=2)
    assert counts(net.graph())["first"] == [5 * 5 * 4]


def test_parts_that_make_a_whole_are_the_whole() -> None:
    x = Tensor("x", (4, 6), "float16")
    y = Tensor("y", (4, 6), "float16")
    results = [Tensor(f"z{n}", (4, 2), "float16") for n in range(3)]

    def plain(*const: int) -> tuple[Affine, ...]:
        return tuple(Affine(tuple(int(a == d) for a in range(2)), c) for d, c in enumerate(const))

    def copied(tensor: Tensor, source: Access, func: str) -> tuple[Stage, ...]:
        axes = tuple(Axis(f"i{n}", e) for n, e in enumerate(tensor.shape))
        return (Stage(axes, Access(tensor.name, plain(0, 0)), func, (source,)),)

    ops = [Op("exp", (), ("x",), ("y",), (), copied(y, Access("x", plain(0, 0)), "exp"))]
    ops += [
        Op(z.name, (), ("y",), (z.name,), (), copied(z, Access("y", plain(0, 2 * n)), "neg"))
        for n, z in enumerate(results)
    ]

    def port(t: Tensor) -> Port:
        return Port(t.name, t.name, t.shape, t.dtype)

    two, three = (
        Graph("split", (x, y, *results), tuple(ops), (port(x),), tuple(map(port, kept)), ())
        for kept in (results[:2], results)
    )
    assert counts(two)["exp"] == [16]
    assert counts(three)["exp"] == [24]


def test_what_nobody_needs_is_not_counted() -> None:
    net = graphs.Net("dead", "float16")
    x = net.input("x", 4, 8, 8, 16)
    used = net.conv("used", x, 16, kernel=3)
    net.conv("unused", x, 16, kernel=3)
    assert set(demanded_points(net.graph(used))) == {"used"}


def test_elements_that_are_touched() -> None:
    every_other, read = inside((Affine((2, 0)),), (8, 3), (16,))
    assert every_other.touched(read)[1] == 8
    window, read = inside((Affine((2, 1), -1),), (8, 3), (16,))
    assert window.count == 8 * 3 - 1
    assert window.touched(read)[1] == 16
    diagonal, read = inside((Affine((1, 0)), Affine((1, 0))), (8, 3), (8, 8))
    grid, number = diagonal.touched(read)
    assert number == 8
    assert [list(positions) for positions in grid] == [[0], [0]]


def test_unions_that_are_grids() -> None:
    a, b = (np.array([0, 1]), np.array([0])), (np.array([0, 1]), np.array([2, 3]))
    assert [list(p) for p in grid_union(a, b)] == [[0, 1], [0, 2, 3]]
    c = (np.array([5]), np.array([2]))
    assert grid_union(b, c) is b and grid_union(c, b) is b


@pytest.mark.parametrize("seed", sampled(range(300)))
def test_a_grid_of_points_writes_nothing_else(seed: int) -> None:
    rng = Random(seed)
    extents = [rng.randint(1, 4) for _ in range(3)]
    order = rng.sample(range(3), 3)
    split = rng.randint(1, 3)
    index: list[Affine] = []
    shape: list[int] = []
    for axes in (order[:split], order[split:]):
        coeffs, size = [0, 0, 0], 1
        for axis in axes:
            coeffs[axis], size = size, size * extents[axis]
        index.append(Affine(tuple(coeffs)))
        shape.append(size)
    stage = Stage(tuple(Axis(f"i{n}", e) for n, e in enumerate(extents)), Access("y", tuple(index)), "copy", (0.0,))
    target = tuple(np.array(sorted(rng.sample(range(n), rng.randint(1, n)))) for n in shape)
    grid = axis_values_writing(stage, target)
    for point in product(*(map(int, positions) for positions in grid)):
        assert all(i.at(point) in wanted for i, wanted in zip(index, target, strict=True))
    # Exact for the whole, and never empty, for every element is written by some point.
    assert all(len(positions) for positions in grid)
    assert [len(p) for p in axis_values_writing(stage, tuple(np.arange(n) for n in shape))] == extents


@pytest.mark.parametrize("seed", sampled(range(200)))
def test_points_in_bounds_are_those_that_are_counted_one_by_one(seed: int) -> None:
    rng = Random(seed)
    extents = tuple(rng.randint(1, 5) for _ in range(3))
    index = tuple(Affine(tuple(rng.choice([0, 0, 1, 2, -1]) for _ in range(3)), rng.randint(-2, 3)) for _ in range(2))
    shape = (rng.randint(1, 6), rng.randint(1, 6))
    found, read = inside(index, extents, shape)
    at = [tuple(i.at(point) for i in index) for point in product(*map(range, extents))]
    hit = [place for place in at if all(0 <= p < n for p, n in zip(place, shape, strict=True))]
    assert found.count == len(hit)
    if hit:
        grid, number = found.touched(read)
        assert number <= len(set(hit))
        assert set(product(*(map(int, positions) for positions in grid))) <= set(hit)


@pytest.mark.parametrize("seed", sampled(range(60)))
def test_no_more_than_everything(seed: int) -> None:
    graph = random_graph(seed, "float32", 4)
    shapes = {b.name: b.shape for op in graph.ops for b in op.buffers} | {t.name: t.shape for t in graph.tensors}
    for name, points in demanded_points(graph).items():
        for stage, mine in zip(graph.op[name].stages, points, strict=True):
            assert mine == Points(0, {}) or 0 < mine.count <= stage.points
            for tensor, number in mine.elements.items():
                assert 0 <= number <= np.prod([s.size for s in full(shapes[tensor])])


@pytest.mark.parametrize("count", [2, 7])
def test_equal_operators_need_what_each_needs_by_itself(count: int) -> None:
    """Some of them are of more than one use, or of half of one."""
    net = graphs.Net("layers", "float16")
    x = net.input("x", 1, 16, 16, 8)
    first = ""
    for i in range(count):
        y = net.conv(f"a{i}", x, 8, kernel=3)
        x = net.conv(f"b{i}", y, 8, kernel=3, add=x)
        first = first or y
    skipped = net.conv("skipped", x, 8, kernel=1, stride=2)
    for graph in (net.graph(skipped), net.graph(first, skipped), graphs.attention(), random_graph(3, "float16", 5)):
        # A graph of other names for the same is one in which no two operators are equal.
        alone = replace(graph)
        object.__setattr__(alone, "analysis", partial(_Apart, graph))
        shared, each = demanded_points(graph), demanded_points(alone)
        assert shared == each
        assert [p.elements for of in shared.values() for p in of] == [p.elements for of in each.values() for p in of]


class _Apart:
    """As if every operator were alone in its equivalence class."""

    def __init__(self, graph: Graph, _analysis: object) -> None:
        self.class_of = {op.name: number for number, op in enumerate(graph.ops)}
