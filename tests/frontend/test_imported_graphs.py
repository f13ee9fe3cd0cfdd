"""What the graph looks like: how operators are fused, what they are called, and where their data lies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from girih import models
from girih.frontend import import_onnx
from girih.ir.checks.check_graph import check_graph
from girih.ir.codec import from_json, sha256, to_json
from girih.ir.graph import Graph, Stage, contraction_axes
from tests.support.onnx_models import Model, compare
from tests.support.operators.imported.all_cases import CASES


def case(name: str, precision: str = "as-is") -> Graph:
    return import_onnx(CASES[name](), precision=precision)  # type: ignore[arg-type]


def innermost(stage: Stage, access_number: int) -> set[str]:
    access = stage.reads[access_number]
    return {stage.axes[p].name for p, c in enumerate(access.index[-1].coeffs) if c == 1}


def axis_names(stage: Stage, positions: tuple[int, ...]) -> set[str]:
    return {stage.axes[p].name for p in positions}


def test_residual_block() -> None:
    graph = import_onnx(models.build("tiny-cnn"), batch=1)
    assert [op.name for op in graph.ops] == [
        "input.layout",
        "conv1",
        "maxpool",
        "block.conv1",
        "block.conv2",
        "conv2",
        "avgpool",
        "fc",
    ]
    block = graph.op["block.conv2"]
    assert block.origin == ("block.conv2", "block.bn2", "block.add", "block.relu2")
    assert "maxpool" in block.inputs
    assert [s.func for s in block.stages] == ["mul", "add", "max"]
    assert block.stages[0].start is not None and block.stages[0].start.tensor == "block.conv2.bias"
    assert block.contraction == 0


def test_channels_are_innermost() -> None:
    graph = case("conv padded")
    stage = next(s for op in graph.ops for s in op.stages if s.is_contraction)
    roles = contraction_axes(stage)
    left, right = stage.reads
    assert left.fill == 0.0
    assert innermost(stage, 0) <= axis_names(stage, roles.k)
    assert innermost(stage, 1) == axis_names(stage, roles.n)
    weight = graph.tensor[right.tensor]
    assert weight.shape == (3, 3, 4, 6)


def test_depthwise_filters_have_channels_innermost() -> None:
    graph = case("conv depthwise")
    op = graph.op["conv0"]
    stage = op.stages[0]
    assert stage.is_contraction and op.contraction is None
    assert innermost(stage, 0) == innermost(stage, 1)


def test_grouped_convolution_is_affine() -> None:
    graph = case("conv grouped")
    stage = graph.op["conv0"].stages[0]
    roles = contraction_axes(stage)
    assert [stage.axes[p].extent for p in roles.batch] == [3]
    assert [stage.axes[p].extent for p in roles.n] == [6]


def test_attention_moves_nothing() -> None:
    graph = case("attention")
    assert not [op.name for op in graph.ops if all(s.is_movement for s in op.stages)]
    context = graph.op["context"].stages[-1]
    assert sorted(c for c in context.write.index[-1].coeffs if c) == [1, 4]


def test_layer_norm_by_hand_is_one_operator() -> None:
    assert len(case("layer norm by hand").ops) == 1
    assert len(case("rms norm by hand").ops) == 1


def test_long_rows_are_reduced_apart() -> None:
    m = Model()
    x = m.input("x", 2, 3, 40000)
    mean = m.node("ReduceMean", x, axes=[-1])
    graph = compare(m.build(m.node("Sub", x, mean)), precision="fp16")
    assert len(graph.ops) == 2
    assert graph.tensor[graph.ops[0].output].dtype == "float32"


def test_padding_is_a_guarded_read() -> None:
    for name in ("conv padded asymmetrically", "pad before convolution", "max pool padded", "average pool padded"):
        stages = [s for op in case(name).ops for s in op.stages if s.combine]
        assert stages[0].reads[0].fill is not None, name
    pooled = case("max pool padded", "fp16")
    assert [r.fill for op in pooled.ops for s in op.stages for r in s.reads if r.fill is not None] == [-np.inf]


def test_interpolation_is_done_one_dimension_at_a_time() -> None:
    graph = case("resize linear half_pixel 12x14")
    assert [len(op.stages) for op in graph.ops] == [6, 6]  # Each: two phases, summed and stored, and two borders.
    large = Model(opset=18)
    x, scales = large.input("x", 1, 8, 120, 80), large.constant("scales", np.array([1, 1, 2, 2], "f4"))
    found = import_onnx(large.build(large.node("Resize", x, "", scales, mode="linear")))
    assert [len(op.stages) for op in found.ops] == [6, 6]


def test_concatenation_writes_parts() -> None:
    (op,) = case("concatenate").ops
    assert [s.write.index[1].const for s in op.stages] == [0, 3, 8]


def test_split_makes_an_operator_for_each_part() -> None:
    graph = case("split in three")
    assert [len(op.outputs) for op in graph.ops] == [1, 1, 1]


def test_at_most_one_matrix_product() -> None:
    m = Model()
    x = m.input("x", 6, 8)
    a, b = (m.node("MatMul", x, m.weight(f"{n}.w", 8, 8), name=n) for n in "ab")
    graph = compare(m.build(m.node("Relu", m.node("Add", a, b))))
    assert [op.name for op in graph.ops] == ["a", "b"]


def test_accumulators_are_float32() -> None:
    graph = case("layer norm", "fp16")
    (op,) = graph.ops
    dtypes = {b.name.split(":")[1]: b.dtype for b in op.buffers}
    assert dtypes["sum"] == dtypes["sum.2"] == dtypes["rsqrt"] == "float32"
    assert dtypes["sub"] == "float16"
    conv = case("conv", "fp16").op["conv0"]
    assert conv.buffers[0].dtype == "float32"


def test_squares_do_not_overflow() -> None:
    m = Model()
    x = m.node("Mul", m.input("x", 4, 64), m.constant("large", 300.0))
    compare(m.build(m.node("ReduceL2", x, axes=[1])), precision="fp16")


def test_masks_do_not_overflow() -> None:
    m = Model()
    mask = m.node("Mul", m.node("Cast", m.input("mask", 1, 5, kind="i"), to=1), m.constant("low", np.float32(-3.4e38)))
    model = m.build(m.node("Softmax", m.node("Add", m.input("x", 3, 5), mask)))
    compare(model, precision="fp16")


def test_equal_weights_are_stored_once() -> None:
    m = Model()
    w = m.weight("w", 8, 8)
    x = m.node("MatMul", m.input("x", 2, 8), w)
    graph = import_onnx(m.build(m.node("MatMul", m.node("Relu", x), w)))
    assert [c.tensor for c in graph.constants] == ["w"]


@pytest.mark.parametrize("name", ["tiny-cnn", "tiny-transformer"])
def test_graphs_travel_as_json(name: str) -> None:
    graph = import_onnx(models.build(name), batch=1, precision="fp16")
    back = from_json(to_json(replace(graph, data={})), Graph)
    assert back == graph
    check_graph(back)


def test_import_is_deterministic() -> None:
    model = models.build("tiny-transformer")
    first, second = (import_onnx(model, batch=2, precision="fp16", clusters=2) for _ in range(2))
    assert first == second
    assert sha256(first.ops) == sha256(second.ops)


def test_shapes_that_follow_from_reshapes_by_computed_shapes() -> None:
    """Windows as exporters of Swin and DaViT write them, eight times over: each size is computed from the last one."""
    m = Model()
    x = m.input("x", "N", 4, 4, 3)
    two, four = m.constant("two", [2]), m.constant("four", [4])
    places = {n: m.constant(f"place{n}", [n]) for n in range(4)}
    for block in range(8):
        shape = m.node("Shape", x)
        sizes = [m.node("Gather", shape, places[n]) for n in range(4)]
        halves = [m.node("Div", size, two) for size in sizes[1:3]]
        windows = m.node("Concat", sizes[0], halves[0], two, halves[1], two, sizes[3], axis=0)
        parts = m.node("Transpose", m.node("Reshape", x, windows), perm=[0, 1, 3, 2, 4, 5])
        rows = m.node("Concat", m.constant(f"all{block}", [-1]), four, sizes[3], axis=0)
        flat = m.node("Relu", m.node("Reshape", parts, rows))
        count = m.node("Div", m.node("Gather", m.node("Shape", flat), places[0]), m.node("Mul", *halves))
        back = m.node("Concat", count, *halves, two, two, m.constant(f"rest{block}", [-1]), axis=0)
        whole = m.node("Transpose", m.node("Reshape", flat, back), perm=[0, 1, 3, 2, 4, 5])
        x = m.node("Reshape", whole, m.node("Concat", count, *sizes[1:], axis=0))
    graph = compare(m.build(x), batch=2)
    assert graph.outputs[0].shape == (2, 4, 4, 3)


def test_a_constant_that_no_integer_holds_is_a_float() -> None:
    """The mask of an attention: -3.4e38 where integers say so."""
    m = Model()
    masked = m.node("Equal", m.input("mask", 2, 4, kind="i"), m.constant("nothing", 0))
    low = m.node("Where", masked, m.constant("low", float(np.finfo(np.float32).min)), m.constant("zero", 0.0))
    compare(m.build(m.node("Softmax", m.node("Add", m.input("x", 2, 4), low))), host=True)
