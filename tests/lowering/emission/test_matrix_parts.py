"""Products with padding are left out where that saves cycles: as predicted, each other product once, and right."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from girih.api.exact.evaluate_graph import evaluate_graph, reduce_cuts, sums_in_parts
from girih.ir.box import Affine, full
from girih.ir.graph import Access, Constant, Graph
from girih.ir.isa.loop_bounds import Dimension
from girih.ir.isa.matrix_selection import MatrixPart, matrix_parts
from girih.ir.isa.timing import instruction_cost, matrix_shape
from girih.ir.load_machine import load_machine
from girih.ir.machine import Engine
from girih.ir.plan import Plan, Step
from girih.ir.semantics.cell import Cells
from girih.lowering import lower
from girih.solver.cost.tile_walk import TileWalks
from tests.support import graphs, odd_graphs
from tests.support.numpy_check import check, inputs_of, run
from tests.support.plans.rough_plans import rough_plan, rough_segment
from tests.support.sampled import sampled_pairs

STCP = load_machine("stcp920")
ARRAY = STCP.engine_for("matrix")
SMALL = replace(ARRAY, rows=4, columns=8, fill=0, issue=1)


def parts(
    engine: Engine,
    images: int,
    size: int,
    channels: int,
    kernel: int,
    stride: int,
    *,
    started: bool = False,
    staged: bool = False,
) -> tuple[tuple[MatrixPart, ...], tuple[Dimension, ...], tuple[int, ...]]:
    """Of a convolution of square images with half padding: also the dimensions of what it reads, and all extents."""
    pad = kernel // 2
    inner = (size + 2 * pad - kernel) // stride + 1
    extents = (images, inner, inner, 32, kernel, kernel, channels)
    row, image, kernels = size * channels, size * size * channels, channels * 32
    target = (inner * inner * 32, inner * 32, 32, 1, 0, 0, 0)
    left = (image, stride * row, stride * channels, 0, row, channels, 1)
    right = (0, 0, 0, 1, kernel * kernels, kernels, 32)
    dimensions = (
        Dimension((1, 0, 0, 0, 0, 0, 0), 0, images, image),
        Dimension((0, stride, 0, 0, 1, 0, 0), -pad, size, row),
        Dimension((0, 0, stride, 0, 0, 1, 0), -pad, size, channels),
        Dimension((0, 0, 0, 0, 0, 0, 1), 0, channels, 1),
    )
    guarded = {1, 2, 4, 5} if pad else set[int]()
    strides = (target, left, right)
    found = matrix_parts(engine, "int8", extents, strides, dimensions, guarded, started=started, staged=staged)
    return found, dimensions, extents


def times_of(found: tuple[MatrixPart, ...], extents: tuple[int, ...]) -> NDArray[np.int64]:
    """How often each product is done."""
    times = np.zeros(extents, dtype=np.int64)
    for part in found:
        times[tuple(slice(s.lo, s.hi) for s in part.spans)] += 1
    return times


def reached_once(found: tuple[MatrixPart, ...], results: tuple[int, ...]) -> bool:
    """Whether each result is in one of the parts that are first, which come before the others."""
    times = np.zeros(results, dtype=np.int64)
    for part in found:
        if part.first:
            times[tuple(slice(s.lo, s.hi) for s in part.spans[: len(results)])] += 1
    return bool((times == 1).all()) and [p.first for p in found] == sorted((p.first for p in found), reverse=True)


def in_bounds(extents: tuple[int, ...], dimensions: tuple[Dimension, ...]) -> NDArray[np.bool_]:
    """Which products are not with padding."""
    points = np.indices(extents, sparse=True)
    inside = np.ones(extents, dtype=np.bool_)
    for d in dimensions:
        at = d.const + sum(c * p for c, p in zip(d.coeffs, points, strict=True))
        inside &= (at >= 0) & (at < d.bound)
    return inside


def test_rows_that_see_padding_are_left_out_where_blocks_become_fewer() -> None:
    """Of 14 x 14 results, 196 fill four blocks of 64 rows, and 13 x 14 fill three."""
    found, _, _ = parts(ARRAY, 1, 14, 256, 3, 1)
    blocks = 4 + 3 + 3
    assert [p.form.busy for p in found] == [ARRAY.issue + b * (3 * 256 // 2 + ARRAY.fill) for b in (4, 3, 3)]
    assert sum(p.form.busy for p in found) == 3 * ARRAY.issue + blocks * (384 + ARRAY.fill)
    assert found[0].spans[4] == (1, 2), "the middle row of the kernel comes first, as it reaches everything"
    for size in (7, 56):  # one block with and without a row of 7, and 49 of 50 with and without one of 56
        assert len(parts(ARRAY, 1, size, 256, 3, 1)[0]) == 1


def test_engines_that_share_the_work_or_stage_do_all_at_once() -> None:
    assert len(parts(replace(ARRAY, count=2), 1, 14, 256, 3, 1)[0]) == 1
    assert len(parts(ARRAY, 1, 14, 256, 3, 1, staged=True)[0]) == 1


@pytest.mark.parametrize(
    ("kernel", "stride", "size", "images"), [*product((1, 3, 5, 7), (1, 2, 3), (3, 6, 9, 14), (1, 3))]
)
@pytest.mark.parametrize("started", [False, True])
def test_every_product_that_counts_is_in_one_part(
    kernel: int, stride: int, size: int, images: int, *, started: bool
) -> None:
    """On an array so small that parts pay nearly everywhere."""
    small = replace(SMALL, columns=32)
    found, dimensions, extents = parts(small, images, size, 8, kernel, stride, started=started)
    times = times_of(found, extents)
    assert (times[in_bounds(extents, dimensions)] == 1).all()
    assert times.max() == 1
    assert started or reached_once(found, extents[:4])
    (whole,), _, _ = parts(small, images, size, 8, kernel, stride, staged=True)
    assert sum(p.form.busy for p in found) <= whole.form.busy
    assert len(found) == 1 or sum(p.form.busy for p in found) < whole.form.busy


def planned(graph: Graph, sizes: tuple[int, ...], reduce: tuple[int, ...]) -> tuple[Plan, int]:
    """A plan for the operator of ``graph`` on one core, and the cycles of the matrix engine that are predicted, if banks
    serve all that it asks of them."""
    op = graph.ops[0]
    segment = rough_segment(graph, STCP, (op.name,))
    tile = replace(segment.tiles[0], sizes=sizes, reduce=reduce)
    segment = replace(segment, cores=(), tiles=(tile,))
    walk = TileWalks(graph, STCP).walk(op, tile, Cells(graph).cell(segment, 0, 0))
    cycles = sum(work.unlimited for number in walk.timing for work in walk.timings[number].products)
    return rough_plan(graph, STCP, (segment,), (Step(0, 0),)), cycles


def of_integers(graph: Graph) -> Graph:
    """A convolution without bias, of 8-bit integers, with what is positive of its sums as its result."""
    (op,) = graph.ops
    product, last = op.stages[0], op.stages[-1]
    image, weights = (access.tensor for access in product.factors)
    dtypes = {image: "int8", weights: "int8", op.output: "int32"}
    tensors = tuple(replace(graph.tensor[name], dtype=dtype) for name, dtype in dtypes.items())
    data = np.random.default_rng(0).integers(-9, 9, graph.tensor[weights].shape, dtype=np.int8)
    sums = replace(op.buffers[0], dtype="int32")
    positive = replace(last, operands=(replace(last.reads[0], tensor=sums.name), *last.operands[1:]))
    return replace(
        graph,
        tensors=tensors,
        ops=(replace(op, inputs=(image, weights), buffers=(sums,), stages=(product, positive)),),
        inputs=tuple(replace(port, dtype="int8") for port in graph.inputs),
        outputs=tuple(replace(port, dtype="int32") for port in graph.outputs),
        constants=(Constant(weights, hashlib.sha256(data.tobytes()).hexdigest()),),
        data={weights: data},
    )


def assert_as_predicted(graph: Graph, sizes: tuple[int, ...], reduce: tuple[int, ...]) -> int:
    """Also that the results are right; returns how many products the instructions do."""
    plan, cycles = planned(graph, sizes, reduce)
    program = lower(graph, plan, STCP)
    emitted = [i for stream in program.streams for i in stream if i.row.kind == "matrix"]
    assert sum(instruction_cost(STCP, ARRAY, i).busy for i in emitted) == cycles
    check(graph, STCP, plan, inputs_of(graph), 2e-3 if graph.outputs[0].dtype == "float16" else 0.0)
    return sum(prod(matrix_shape(i)) for i in emitted)


@pytest.mark.parametrize("reduce", [(3, 3, 64), (3, 3, 32), (1, 3, 64), (2, 3, 64), (1, 1, 64)])
@pytest.mark.parametrize(("size", "stride", "sizes"), [
    (14, 1, (1, 14, 14, 32)), (14, 1, (2, 14, 14, 32)), (28, 2, (1, 14, 14, 32)), (14, 1, (1, 7, 14, 32)),
    (13, 1, (1, 13, 13, 32)), (9, 1, (2, 9, 9, 32)), (15, 2, (2, 8, 8, 32)), (15, 1, (1, 5, 15, 32)),
])  # fmt: skip
def test_programs_are_right_and_take_what_is_predicted(
    size: int, stride: int, sizes: tuple[int, ...], reduce: tuple[int, ...]
) -> None:
    graph = graphs.conv(batch=2, size=size, channels=64, out=64, kernel=3, stride=stride)
    floats = assert_as_predicted(graph, sizes, reduce)
    integers = assert_as_predicted(of_integers(graph), sizes, reduce)
    assert integers <= floats


def test_sums_of_integers_alone_are_in_several_parts() -> None:
    """Of floats, the plan says after which products a sum is rounded."""
    graph = graphs.conv(size=14, channels=128, out=32, kernel=3)
    sizes, reduce = (1, 14, 14, 32), (3, 3, 128)
    products = [assert_as_predicted(g, sizes, reduce) for g in (graph, of_integers(graph))]
    assert products == [196 * 32 * 9 * 128, (196 + 2 * 182) * 32 * 3 * 128]
    whole = of_integers(graph)
    plan, _ = planned(whole, sizes, reduce)
    assert sums_in_parts(whole, lower(whole, plan, STCP), reduce_cuts(plan)) == (), "no sum of integers is rounded"


def from_bias(graph: Graph) -> Graph:
    """The convolution, starting from its bias."""
    (op,) = graph.ops
    product, add, last = op.stages
    total, bias = add.operands
    assert isinstance(bias, Access)
    start = replace(bias, index=(Affine((0, 0, 0, 1, 0, 0, 0), 0),))
    product = replace(product, start=start)
    last = replace(last, operands=(total, *last.operands[1:]))
    return replace(graph, ops=(replace(op, buffers=op.buffers[:1], stages=(product, last)),))


@pytest.mark.parametrize("change", [from_bias, of_integers])
def test_where_each_row_of_a_kernel_is_a_tile_padding_is_left_out(change: Callable[[Graph], Graph]) -> None:
    """The first row reaches 13 of 14 rows: the others get 0, or the bias, by one product of 14 results with padding."""
    graph = change(graphs.conv(size=14, channels=128, out=32, kernel=3))
    assert assert_as_predicted(graph, (1, 14, 14, 32), (1, 3, 128)) == (196 + 2 * 182) * 32 * 3 * 128 + 14 * 32


@pytest.mark.parametrize("reduce", [(1, 3, 64), (1, 1, 64), (1, 1, 16), (2, 3, 64)])
@pytest.mark.parametrize("change", [from_bias, lambda graph: graph], ids=["start", "bias"])
@pytest.mark.parametrize("size", [14, 9])
def test_what_is_left_out_changes_no_bit(size: int, change: Callable[[Graph], Graph], reduce: tuple[int, ...]) -> None:
    """Each sum is rounded after each tile of the reduction, whether or not its rows see padding."""
    graph = change(graphs.conv(size=size, channels=64, out=32, kernel=3))
    plan, _ = planned(graph, (1, size, size, 32), reduce)
    program = lower(graph, plan, STCP)
    rows = {matrix_shape(i)[0] for stream in program.streams for i in stream if i.row.kind == "matrix"}
    assert (len(rows) > 1) == (size == 14), "81 results are two blocks with and without a row"
    inputs, cuts = inputs_of(graph), reduce_cuts(plan)
    assert sums_in_parts(graph, program, cuts) == (), "no instruction but one for each tile rounds a sum"
    (right,) = evaluate_graph(graph, inputs, None, cuts).values()
    (got,) = run(graph, STCP, program, inputs).outputs.values()
    np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("reduce", [(3, 3, 64), (1, 3, 64), (2, 1, 32)])
@pytest.mark.parametrize(
    ("sizes", "padding"),
    sampled_pairs([(1, 14, 14, 32), (1, 2, 14, 32), (1, 5, 7, 32)], [(1, 0), (1, 2), (2, 2), (3, 1), (5, 6)], 2),
)
def test_dilated_kernels_and_padding_at_one_side(
    sizes: tuple[int, ...], padding: tuple[int, int], reduce: tuple[int, ...]
) -> None:
    """With 14 results along each dimension of an image of 14: what is not ``before`` it is after."""
    dilation, before = padding
    graph = graphs.conv(size=14, channels=64, out=32, kernel=3)
    op = graph.ops[0]
    stage, *others = op.stages
    image, weights = stage.factors
    rows, columns = (
        Affine(tuple(c * (dilation if stage.axes[a].reduce else 1) for a, c in enumerate(index.coeffs)), -before)
        for index in image.index[1:3]
    )
    image = replace(image, index=(image.index[0], rows, columns, image.index[3]))
    op = replace(op, stages=(replace(stage, operands=(image, weights)), *others))
    assert_as_predicted(replace(graph, ops=(op,)), sizes, reduce)
    assert_as_predicted(of_integers(replace(graph, ops=(op,))), sizes, reduce)


@pytest.mark.parametrize("reduce", [(3, 3, 64), (1, 3, 64), (2, 2, 64)])
@pytest.mark.parametrize("rows", [14, 5, 1])
def test_groups(rows: int, reduce: tuple[int, ...]) -> None:
    graph = odd_graphs.grouped("float16", 1, 14, 2, 64, 32)
    shape = graph.tensor[graph.ops[0].output].shape
    assert_as_predicted(graph, (1, rows, *shape[2:]), reduce)
    assert_as_predicted(of_integers(graph), (1, rows, *shape[2:]), reduce)


@pytest.mark.parametrize("seed", range(8))
def test_every_product_of_any_convolution_that_counts_is_in_one_part(seed: int) -> None:
    """Of groups, any stride, dilation and padding, none and on either side, on an array where parts pay often."""
    rng = Random(seed)
    several = 0
    for _ in range(40):
        extents, strides, dimensions = any_convolution(rng)
        guarded = {a for d in dimensions if d.may_leave(full(extents)) for a in d.loops}
        inside = in_bounds(extents, dimensions)
        for started in (False, True):
            found = matrix_parts(SMALL, "int8", extents, strides, dimensions, guarded, started=started)
            times = times_of(found, extents)
            assert (times[inside] == 1).all()
            assert times.max() <= 1
            assert started or reached_once(found, extents[:5])
            several += len(found) > 1
    assert several, "none of these is in parts"


def any_convolution(rng: Random) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[Dimension, ...]]:
    """The extents, strides and dimensions of what it reads: batch, groups, rows, columns, 8 columns, and the kernel."""
    batch, groups, channels = rng.choice((1, 2)), rng.choice((1, 1, 2)), rng.choice((1, 4))
    kh, kw = rng.choice((1, 2, 3, 4, 5)), rng.choice((1, 2, 3))
    sh, sw, dh, dw = rng.choice((1, 2, 3)), rng.choice((1, 2)), rng.choice((1, 2, 3)), rng.choice((1, 2))
    oh, ow = rng.choice((1, 2, 5, 9, 13)), rng.choice((1, 3, 7))
    height, width = rng.choice((1, 4, 9, 14, 20)), rng.choice((1, 3, 7, 14))
    top, side = rng.randrange(-2, 6), rng.randrange(-1, 4)
    pixel = groups * channels
    row, image = width * pixel, height * width * pixel
    target = (oh * ow * groups * 8, 8, ow * groups * 8, groups * 8, 1, 0, 0, 0)
    left = (image, channels, sh * row, sw * pixel, 0, dh * row, dw * pixel, 1)
    right = (0, kh * kw * channels * 8, 0, 0, 1, kw * channels * 8, channels * 8, 8)
    dimensions = (
        Dimension((1, 0, 0, 0, 0, 0, 0, 0), 0, batch, image),
        Dimension((0, 0, sh, 0, 0, dh, 0, 0), -top, height, row),
        Dimension((0, 0, 0, sw, 0, 0, dw, 0), -side, width, pixel),
        Dimension((0, 1, 0, 0, 0, 0, 0, 0), 0, groups, channels),
        Dimension((0, 0, 0, 0, 0, 0, 0, 1), 0, channels, 1),
    )
    return (batch, groups, oh, ow, 8, kh, kw, channels), (target, left, right), dimensions


def test_what_no_instruction_would_make_zero_is_not_cut() -> None:
    """Of three windows, an instruction walks two: it would not be emitted where the third is in padding alone."""
    extents = (4, 14, 14, 32, 1, 3, 3, 64)
    depth, row = 14 * 14 * 64, 14 * 64
    target = (14 * 14 * 32, 14 * 32, 32, 1, 0, 0, 0, 0)
    left = (depth, row, 64, 0, depth, row, 64, 1)
    right = (0, 0, 0, 1, 9 * 64 * 32, 3 * 64 * 32, 64 * 32, 32)
    dimensions = (
        Dimension((1, 0, 0, 0, 1, 0, 0, 0), -1, 4, depth),
        Dimension((0, 1, 0, 0, 0, 1, 0, 0), -1, 14, row),
        Dimension((0, 0, 1, 0, 0, 0, 1, 0), -1, 14, 64),
        Dimension((0, 0, 0, 0, 0, 0, 0, 1), 0, 64, 1),
    )
    guarded = {a for d in dimensions[:3] for a in d.loops}
    for started in (False, True):
        chosen = matrix_parts(ARRAY, "float16", extents, (target, left, right), dimensions, guarded, started=started)
        assert (chosen[0].extents[0] == 4) == (not started), "the depth that sees padding becomes zero with the others"
