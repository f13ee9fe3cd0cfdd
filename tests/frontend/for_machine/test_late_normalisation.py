"""Rows normalised after their products: the same function, and nothing else changes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from girih import models
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.api.goals.graph_for import graph_for
from girih.frontend import import_onnx
from girih.frontend.for_machine.folded_scales import fold_scales
from girih.frontend.for_machine.late_normalisation import normalise_later
from girih.ir.box import Affine
from girih.ir.checks.check_graph import check_graph
from girih.ir.graph import Access, Axis, Graph, Host, Op, Port, Stage, Tensor
from girih.ir.load_machine import load_machine
from girih.solver import plan
from girih.solver.options import Options
from tests.support.numpy_check import check, inputs_of
from tests.support.onnx_models import Model, distance, onnxruntime_outputs
from tests.support.rewritten_graphs import (
    PRECISIONS,
    TOLERANCE,
    functions,
    imported,
    network,
    same,
    with_op,
    with_stage,
)  # fmt: skip
from tests.support.small_models import SMALL

NETWORKS = ("bert-base", "conformer", "tiny-transformer", "vit-b16")


def both(graph: Graph) -> Graph:
    return normalise_later(fold_scales(graph))


def passes(graph: Graph) -> int:
    """How many elements the vector engine computes."""
    return sum(s.points for op in graph.ops for s in op.stages if not s.is_contraction or op.contraction is None)


def as_dtype(tensors: Sequence[Tensor], name: str, dtype: str) -> tuple[Tensor, ...]:
    return tuple(replace(t, dtype=dtype) if t.name == name else t for t in tensors)


@pytest.mark.parametrize(("precision", "batch"), [("as-is", 3), ("fp16", 1)])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_compute_what_they_did(name: str, precision: str, batch: int) -> None:
    """And they are about as near to the network in single precision."""
    model = models.build(name, **SMALL[name])
    graph = import_onnx(model, precision=precision, batch=batch)  # type: ignore[arg-type]
    late, whole = normalise_later(graph), both(graph)
    assert late is not graph and late.digest != graph.digest and len(late.ops) > len(graph.ops)
    arrays = inputs_of(graph)
    for other in (late, whole):
        same(graph, other, 2e-5 if precision == "as-is" else 2e-2, arrays)
        assert passes(other) < passes(graph)
    if precision == "fp16":
        reference = onnxruntime_outputs(model, arrays)
        for port, values in reference.items():
            before, *after = (distance(evaluate_graph(g, arrays, None)[port], values) for g in (graph, late, whole))
            assert 0 < max(after) <= 1.5 * before


@pytest.mark.parametrize("name", ["tiny-transformer", "vit-b16"])
def test_a_rewrite_is_the_same_each_time_and_has_nothing_to_do_twice(name: str) -> None:
    graph = network(name, "fp16")
    first, second = normalise_later(graph), normalise_later(network(name, "fp16"))
    assert first.digest == second.digest
    assert normalise_later(first) is first


@pytest.mark.parametrize("name", ["dlrm", "tiny-cnn"])
def test_a_network_without_normalisations_is_the_same_object(name: str) -> None:
    graph = network(name)
    assert normalise_later(graph) is graph


def test_the_parts_of_an_attention() -> None:
    graph = network("tiny-transformer", "fp16")
    late = normalise_later(graph)
    for layer in range(2):
        name = f"layer.{layer}.attention"
        assert functions(graph.op[f"{name}.softmax"]) == ["copy", "sub", "exp", "copy", "recip", "mul"]
        values, factors, context = (late.op[f"{name}.{n}"] for n in ("softmax", "softmax.factors", "context"))
        assert functions(values) == ["copy", "sub", "exp"]
        assert functions(factors) == ["copy", "recip"] and factors.inputs == values.outputs
        assert functions(context) == ["mul", "mul"] and context.inputs[-1:] == factors.outputs
        assert set(values.outputs + factors.outputs) < set(context.inputs)
        assert late.tensor[values.output].dtype == "float16" and late.tensor[factors.output].dtype == "float32"
        assert factors.origin == values.origin == graph.op[f"{name}.softmax"].origin
        scores = graph.tensor[graph.op[f"{name}.softmax"].output].elements
        assert factors.stages[0].points == scores
        for norm in ("attention.norm", "mlp.norm"):
            assert late.op[f"layer.{layer}.{norm}"] == graph.op[f"layer.{layer}.{norm}"], "a residual reads it"
    rows = 2 * graph.tensor["layer.0.attention.softmax"].elements
    assert passes(graph) - passes(late) == rows


def test_the_parts_of_layer_normalisations() -> None:
    """q, k and v get what the last two passes did; behind fc1 there is no room for a factor."""
    graph = network("vit-b16")
    late = both(graph)
    norm = "encoder.0.attention.norm"
    assert functions(graph.op[norm])[-2:] == ["mul", "fma"]
    assert functions(late.op[norm]) == functions(graph.op[norm])[:3] == ["copy", "mul", "sub"]
    assert functions(late.op[f"{norm}.factors"]) == functions(graph.op[norm])[3:6] == ["mul", "fma", "rsqrt"]
    for part in ("query", "key", "value"):
        product = late.op[f"encoder.0.attention.{part}.matmul"]
        assert functions(product) == ["mul", "fma"]
        assert late.op[f"{norm}.factors"].output in product.inputs
    assert functions(late.op["encoder.0.mlp.norm"]) == functions(graph.op["encoder.0.mlp.norm"])[:-1]
    assert functions(late.op["encoder.0.mlp.fc1.matmul"]) == ["mul", "gelu"]
    assert "encoder.0.mlp.norm.factors" not in late.op


def test_products_come_in_the_order_of_before() -> None:
    graph = network("conformer")
    late = normalise_later(graph)
    names = [op.name for op in late.ops if not op.name.endswith(".factors")]
    assert names == [op.name for op in graph.ops]
    assert (late.inputs, late.outputs, late.constants) == (graph.inputs, graph.outputs, graph.constants)


def softmax(
    after: Callable[[Model, str, str], str | tuple[str, ...]],
    shape: tuple[int, ...] = (5, 7),
    precision: str = "as-is",
    axis: int = -1,
    columns: int = 7,
) -> Graph:
    """A softmax, and what comes after it and a product with weights."""
    model = Model()
    x = model.input("x", *shape)
    p = model.node("Softmax", x, name="p", axis=axis)
    outputs = after(model, p, model.weight("w", shape[-1], columns))
    return imported(model, *((outputs,) if isinstance(outputs, str) else outputs), precision=precision)


def plain(model: Model, p: str, w: str) -> str:
    return model.node("MatMul", p, w, name="y")


def biased(model: Model, p: str, w: str) -> str:
    return model.node("Add", plain(model, p, w), model.weight("b", 7), name="z")


def fewer_rows(model: Model, p: str, w: str) -> str:
    one, four, axis = (model.constant(n, [v], "int64") for n, v in (("lo", 1), ("hi", 4), ("axis", 0)))
    return plain(model, model.node("Slice", p, one, four, axis), w)


def fewer_columns(model: Model, p: str, w: str) -> str:
    two, seven, axis = (model.constant(n, [v], "int64") for n, v in (("lo", 2), ("hi", 7), ("axis", 1)))
    return plain(model, model.node("Slice", p, two, seven, axis), model.weight("other", 5, 7))


def right(model: Model, p: str, w: str) -> str:
    return model.node("MatMul", model.weight("left", 3, 7), model.node("Transpose", p, perm=[1, 0]), name="y")


def plus_number(model: Model, p: str, w: str) -> str:
    return model.node("Add", plain(model, p, w), model.constant("one", 1.0), name="z")


def twice(model: Model, p: str, w: str) -> tuple[str, ...]:
    return plain(model, p, w), model.node("Add", model.node("MatMul", p, w), model.weight("b", 7))


FORMS = (plain, biased, fewer_rows, fewer_columns, right, plus_number, twice)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("after", FORMS)
def test_forms_that_are_rewritten(after: Callable[[Model, str, str], str], precision: str) -> None:
    graph = softmax(after, precision=precision)
    late = normalise_later(graph)
    assert late is not graph and [op.name for op in late.ops if op.name.endswith(".factors")]
    same(graph, late, TOLERANCE[precision])


def test_factors_of_columns_belong_to_the_columns_of_a_product() -> None:
    """Softmax along rows, before a product that reduces them, on either side."""
    for side in ("left", "right"):
        model = Model()
        p = model.node("Softmax", model.input("x", 6, 5), name="p", axis=0)
        if side == "left":
            model.node("MatMul", model.node("Transpose", p, perm=[1, 0]), model.weight("w", 6, 4), name="y")
        else:
            model.node("MatMul", model.weight("w", 4, 6), p, name="y")
        graph = imported(model, "y")
        late = normalise_later(graph)
        same(graph, late, 1e-6)


def test_factors_of_the_columns_of_a_product_by_hand() -> None:
    """The right operand is normalised along the axis that is reduced: one factor for each column of the result."""
    graph = softmax(right, shape=(5, 7))
    late = normalise_later(graph)
    (product,) = [op for op in late.ops if op.contraction is not None]
    assert functions(product) == ["mul", "mul"]
    factor = product.stages[1].factors[1]
    assert [i.coeffs for i in factor.index] == [(0, 1)]
    same(graph, late, 1e-6)


# What is not rewritten.


def also_output(model: Model, p: str, w: str) -> tuple[str, ...]:
    return plain(model, p, w), p


def another_reader(model: Model, p: str, w: str) -> tuple[str, ...]:
    reader = model.node("Softmax", model.node("Transpose", p, perm=[1, 0]), axis=-1)
    return plain(model, p, w), reader


def added_to_the_product(model: Model, p: str, w: str) -> str:
    return model.node("Add", plain(model, p, w), p, name="z")


def with_itself(model: Model, p: str, w: str) -> str:
    return model.node("MatMul", p, model.node("Transpose", p, perm=[1, 0]), name="y")


def reduced(model: Model, p: str, w: str) -> str:
    return model.node("MatMul", model.weight("left", 3, 5), p, name="y")


def gelu(model: Model, p: str, w: str) -> str:
    return model.node("Sigmoid", biased(model, p, w), name="s")


def scaled(model: Model, p: str, w: str) -> str:
    return model.node("Mul", plain(model, p, w), model.constant("two", 2.5), name="z")


@pytest.mark.parametrize(
    "after", [also_output, another_reader, added_to_the_product, with_itself, reduced, gelu, scaled]
)
def test_forms_that_stay_as_they_are(after: Callable[[Model, str, str], str]) -> None:
    assert normalise_later(softmax(plain)) is not softmax(plain)
    graph = softmax(after)
    assert normalise_later(graph) is graph


def test_one_of_two_products_without_room_keeps_the_normalisation() -> None:
    def two(model: Model, p: str, w: str) -> tuple[str, ...]:
        other = model.node("Add", model.node("MatMul", p, model.weight("v", 7, 4)), model.weight("c", 4))
        return plain(model, p, w), model.node("Sigmoid", other)

    graph = softmax(two)
    assert normalise_later(graph) is graph


def two_operators(precision: str = "as-is") -> tuple[Graph, Op, Op]:
    """A softmax, and a product with weights."""
    graph = softmax(plain, precision=precision)
    assert normalise_later(graph) is not graph
    norm, product = graph.ops
    assert product.contraction == 0
    return graph, norm, product


def test_sums_of_other_dtypes_stay() -> None:
    graph, _, product = two_operators()
    sums = product.stages[0].write.tensor
    other = with_op(graph, product.name, lambda op: replace(op, buffers=as_dtype(op.buffers, sums, "float16")))
    assert normalise_later(other) is other


def test_values_that_are_rounded_to_another_dtype_stay() -> None:
    graph, norm, _ = two_operators("fp16")
    values = norm.stages[-1].factors[0].tensor
    other = with_op(graph, norm.name, lambda op: replace(op, buffers=as_dtype(op.buffers, values, "float32")))
    assert normalise_later(other) is other


def test_whole_numbers_stay() -> None:
    graph, norm, product = two_operators()
    values, p, w = norm.stages[-1].factors[0].tensor, norm.output, product.stationary
    tensors = as_dtype(as_dtype(graph.tensors, p, "int32"), w, "int32")
    graph = replace(graph, tensors=tensors, data={n: a.astype("int32") for n, a in graph.data.items()})
    other = with_op(graph, norm.name, lambda op: replace(op, buffers=as_dtype(op.buffers, values, "int32")))
    assert normalise_later(other) is other


@pytest.mark.parametrize("which", [0, 1])
def test_operators_with_a_template_stay(which: int) -> None:
    graph, *ops = two_operators()
    blocks = tuple(f"block{n}" for n in range(len(ops[which].stages)))
    other = with_op(graph, ops[which].name, lambda op: replace(op, template="mine", blocks=blocks))
    assert normalise_later(other) is other


def test_a_host_operator_reads_what_is_normalised() -> None:
    graph, norm, _ = two_operators()
    shape = graph.tensor[norm.output].shape
    host = Op("host", ("host",), (norm.output,), ("h",), host=Host("", "no engine does this"))
    other = replace(
        graph,
        tensors=(*graph.tensors, Tensor("h", shape, "float32")),
        ops=(*graph.ops, host),
        outputs=(*graph.outputs, Port("h", "h", shape, "float32")),
    )
    check_graph(other)
    assert normalise_later(other) is other


def test_a_result_that_nothing_reads_stays() -> None:
    """But as an output of the graph, a softmax alone is nobody's operand."""
    graph, norm, product = two_operators()
    tensors = tuple(t for t in graph.tensors if t.name in (*norm.inputs, norm.output))
    port = replace(graph.outputs[0], tensor=norm.output)
    other = replace(graph, tensors=tensors, ops=(norm,), outputs=(port,), constants=(), data={})
    check_graph(other)
    assert normalise_later(other) is other and product.name not in other.op


def test_factors_that_read_more_than_the_values_stay() -> None:
    """They would need the input of the normalisation once more."""
    graph, norm, _ = two_operators()
    number = next(n for n, s in enumerate(norm.stages) if s.combine == "sum")
    outer = norm.inputs[0]
    other = with_stage(graph, norm.name, number, lambda s: s.renamed({s.factors[0].tensor: outer}))
    assert other.ops != graph.ops and normalise_later(other) is other


def test_factors_that_the_values_need_stay() -> None:
    """e of which each row is divided by its own maximum: the maximum is no factor of what it makes."""
    graph, norm, _ = two_operators()
    peak = norm.stages[0].write.tensor
    last = norm.stages[-1]
    factors = last.factors[1].tensor
    kept = [s for s in norm.stages if s.combine != "sum" and s.write.tensor != factors]
    unused = {b.name for b in norm.buffers} - {s.write.tensor for s in kept}

    def edited(op: Op) -> Op:
        stages = (*kept[:-1], last.renamed({factors: peak}))
        return replace(op, stages=stages, buffers=tuple(b for b in op.buffers if b.name not in unused))

    other = with_op(graph, norm.name, edited)
    assert normalise_later(other) is other


def test_factors_of_the_reduced_axis_stay() -> None:
    """Square rows: factors that walk columns differ in nothing but an index."""
    graph = softmax(plain, shape=(7, 7))
    assert normalise_later(graph) is not graph
    norm = graph.ops[0]

    def walks_columns(stage: Stage) -> Stage:
        values, factors = stage.factors
        return replace(stage, operands=(values, replace(factors, index=(Affine((0, 1)),))))

    other = with_stage(graph, norm.name, -1, walks_columns)
    assert normalise_later(other) is other


@pytest.mark.parametrize("which", ["divided", "number"])
def test_other_last_stages(which: str) -> None:
    """Nothing multiplies by a reciprocal, or a number is the factor."""
    graph, norm, _ = two_operators()
    *stages, last = norm.stages
    if which == "divided":
        stages = (*stages, replace(last, func="div"))
    else:
        stages = (*stages[:3], replace(last, operands=(last.factors[0], 0.5)))
    buffers = tuple(b for b in norm.buffers if b.name in {s.write.tensor for s in stages})
    other = with_op(graph, norm.name, lambda op: replace(op, stages=stages, buffers=buffers))
    assert normalise_later(other) is other


def test_values_that_are_factors_of_another_shape() -> None:
    """r · e instead of e · r: it is left alone, or right."""
    graph, norm, _ = two_operators()
    other = with_stage(graph, norm.name, -1, lambda s: replace(s, operands=s.operands[::-1]))
    same(other, normalise_later(other), 1e-6)


def test_a_product_that_starts_from_its_bias_stays() -> None:
    """The bias would be multiplied, too."""
    graph = softmax(biased)
    assert normalise_later(graph) is not graph
    product = graph.ops[1]
    first, added = product.stages
    bias = added.factors[1]

    def started(op: Op) -> Op:
        start = Access(bias.tensor, (Affine((0, 1, 0)),))
        return replace(
            op, stages=(replace(first, start=start), replace(added, func="copy", operands=added.factors[:1]))
        )

    other = with_op(graph, product.name, started)
    assert normalise_later(other) is other


def test_an_operand_with_a_fill_stays() -> None:
    """Rows that are read outside of p are no rows of the factors."""
    graph, _, product = two_operators()

    def filled(stage: Stage) -> Stage:
        rows, weights = stage.factors
        return replace(stage, operands=(replace(rows, fill=0.0), weights))

    other = with_stage(graph, product.name, 0, filled)
    assert normalise_later(other) is other


@pytest.mark.parametrize(("axis", "fill"), [(0, 0.0), (1, 0.0), (1, 1.0)])
def test_sums_that_are_padded(axis: int, fill: float) -> None:
    """What stands beyond the sums is not multiplied, and there are no factors beyond their rows."""
    graph, _, product = two_operators()
    shape = tuple(n + 2 * (d == axis) for d, n in enumerate(graph.tensor[product.output].shape))
    tensors = tuple(replace(t, shape=shape) if t.name == product.output else t for t in graph.tensors)
    graph = replace(graph, tensors=tensors, outputs=(replace(graph.outputs[0], shape=shape),))

    def padded(stage: Stage) -> Stage:
        (sums,) = stage.factors
        axes = tuple(replace(a, extent=n) for a, n in zip(stage.axes, shape, strict=True))
        return replace(stage, axes=axes, operands=(replace(sums, fill=fill),))

    other = with_stage(graph, product.name, 1, padded)
    same(other, normalise_later(other), 1e-6)


def test_axes_of_the_next_stage_in_another_order() -> None:
    """The next stage walks rows in another order than the product does, and so it reads the factors."""
    graph = softmax(plain, shape=(2, 3, 7))
    assert normalise_later(graph) is not graph
    (product,) = [op for op in graph.ops if op.contraction is not None]
    shape = graph.tensor[product.output].shape
    assert len(shape) == len(product.stages[1].axes) == 3

    def turned(stage: Stage) -> Stage:
        (sums,) = stage.factors
        axes = (Axis("row", 3), Axis("image", 2), stage.axes[2])
        index = (Affine((0, 1, 0)), Affine((1, 0, 0)), Affine((0, 0, 1)))
        return replace(
            stage, axes=axes, operands=(replace(sums, index=index),), write=replace(stage.write, index=index)
        )

    other = with_stage(graph, product.name, 1, turned)
    late = normalise_later(other)
    assert late is not other
    same(other, late, 1e-6)


# Sums that are read twice.


def doubled(model: Model, p: str, w: str) -> str:
    y = plain(model, p, w)
    return model.node("Add", y, y, name="z")


def gated(model: Model, p: str, w: str) -> str:
    y = plain(model, p, w)
    return model.node("Mul", model.node("Add", y, model.weight("b", 7)), y, name="z")


def swish_and_sum(model: Model, p: str, w: str) -> str:
    y = plain(model, p, w)
    biased_sum = model.node("Add", y, model.weight("b", 7))
    return model.node("Add", model.node("Sigmoid", biased_sum), y, name="z")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("after", [doubled, gated, swish_and_sum])
def test_sums_that_are_read_again_are_normalised_there_too(
    after: Callable[[Model, str, str], str], precision: str
) -> None:
    graph = softmax(after, precision=precision)
    same(graph, normalise_later(graph), TOLERANCE[precision])


# Several normalisations.


@pytest.mark.parametrize("precision", PRECISIONS)
def test_two_normalised_operands_of_one_product(precision: str) -> None:
    """There is room for the factors of one of them."""
    model = Model()
    first = model.node("Softmax", model.input("a", 2, 5, 7), name="first", axis=-1)
    second = model.node("Softmax", model.input("b", 2, 6, 7), name="second", axis=-1)
    model.node("MatMul", first, model.node("Transpose", second, perm=[0, 2, 1]), name="y")
    graph = imported(model, "y", precision=precision)
    late = normalise_later(graph)
    assert [op.name for op in late.ops if op.name.endswith("factors")] == ["first.factors"]
    same(graph, late, TOLERANCE[precision])


def test_a_normalisation_whose_reader_is_another_ones_stays_whole() -> None:
    """b is read by two products, of which one has the factors of a."""
    model = Model()
    first = model.node("Softmax", model.input("a", 5, 7), name="first", axis=-1)
    second = model.node("Softmax", model.input("b", 6, 7), name="second", axis=-1)
    turned = model.node("Transpose", second, perm=[1, 0])
    y = model.node("MatMul", first, turned, name="y")
    z = model.node("MatMul", second, model.weight("w", 7, 3), name="z")
    graph = imported(model, y, z)
    late = normalise_later(graph)
    assert len(late.ops) == len(graph.ops) + 1 and late.op["second"] == graph.op["second"]
    same(graph, late, 1e-6)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_other_normalisations(precision: str) -> None:
    """Rows by their Euclidean length, and by their largest number."""
    for kind in ("ReduceSum", "ReduceMax"):
        model = Model()
        e = model.node("Exp", model.input("x", 3, 5, 7))
        axis = model.constant("axis", [-1], "int64")
        if kind == "ReduceSum":
            length = model.node("Sqrt", model.node(kind, model.node("Mul", e, e), axis, keepdims=1))
        else:
            length = model.node(kind, e, axes=[-1], keepdims=1)
        p = model.node("Mul", e, model.node("Reciprocal", length), name="p")
        model.node("MatMul", p, model.weight("w", 7, 4), name="y")
        graph = imported(model, "y", precision=precision)
        late = normalise_later(graph)
        assert len(late.ops) == len(graph.ops) + 1
        same(graph, late, TOLERANCE[precision])


def test_names_that_are_taken_already() -> None:
    """An operator may be called as the factors would be."""
    graph, norm, product = two_operators()
    name = f"{norm.name}.factors"
    other = replace(graph, ops=(norm, replace(product, name=name)))
    check_graph(other)
    late = normalise_later(other)
    assert len(late.ops) == 3 and late.ops[2].name == name
    same(other, late, 1e-6)


# Numbers at the edges.


def attention(
    heads: int, length: int, keys: int, width: int, *, batch: int = 1, precision: str = "as-is", masked: bool = False
) -> Graph:
    """Ready-made queries, keys and values, in heads that are merged behind."""
    model = Model(seed=heads + 10 * length)
    q = model.input("q", batch, heads, length, width)
    k = model.input("k", batch, heads, keys, width)
    v = model.input("v", batch, heads, keys, width)
    scores = model.node("MatMul", q, model.node("Transpose", k, perm=[0, 1, 3, 2]), name="scores")
    scores = model.node("Mul", scores, model.constant("scale", 1 / math.sqrt(width)), name="scaled")
    if masked:
        scores = model.node("Add", scores, model.input("mask", batch, 1, length, keys), name="masked")
    context = model.node("MatMul", model.node("Softmax", scores, name="p", axis=-1), v, name="context")
    turned = model.node("Transpose", context, perm=[0, 2, 1, 3])
    merged = model.node("Reshape", turned, model.constant("shape", [batch, length, heads * width], "int64"))
    return imported(model, merged, precision=precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("low", [-math.inf, -60000.0])
def test_masks(low: float, precision: str) -> None:
    """Causal; and one row that is masked as a whole, which is not a number where masks are infinite."""
    graph = attention(2, 6, 6, 4, batch=2, precision=precision, masked=True)
    late = normalise_later(graph)
    assert late is not graph
    arrays = inputs_of(graph)
    mask = np.where(np.tri(6, dtype=bool), 0.0, low).astype(arrays["mask"].dtype)
    arrays["mask"] = np.broadcast_to(mask, arrays["mask"].shape).copy()
    same(graph, late, TOLERANCE[precision], arrays)
    arrays["mask"][:, :, 2] = low
    same(graph, late, TOLERANCE[precision], arrays)
    (values,) = evaluate_graph(late, arrays, None).values()
    assert np.isnan(values).any() == math.isinf(low)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", ["large", "small", "equal", "zero", "one large"])
def test_rows_at_the_edges(kind: str, precision: str) -> None:
    """Before a softmax, and before a layer normalisation; a row that has one value has no deviation."""
    layer = Model()
    x = layer.input("x", 4, 8)
    ones, zeros = layer.constant("g", np.ones(8, np.float32)), layer.constant("h", np.zeros(8, np.float32))
    p = layer.node("LayerNormalization", x, ones, zeros, name="p", axis=-1, epsilon=1e-12)
    layer.node("Add", layer.node("MatMul", p, layer.weight("w", 8, 5)), layer.weight("b", 5), name="y")
    random = np.random.default_rng(3)
    rows = {
        "large": np.where(random.integers(0, 2, (4, 8)), 60000.0, -60000.0),
        "small": 1e-6 * random.standard_normal((4, 8)),
        "equal": np.repeat(random.standard_normal((4, 1)), 8, 1),
        "zero": np.zeros((4, 8)),
        "one large": np.where(np.arange(8) == 3, 60000.0, random.standard_normal((4, 8))),
    }[kind].astype(np.float32)
    for graph in (imported(layer, "y", precision=precision), softmax(biased, (4, 8), precision)):
        late = both(graph)
        assert late is not graph
        # The rounding of equal rows is all that they differ in, which is magnified.
        same(graph, late, TOLERANCE[precision], {"x": rows})


EXTENTS = ((1, 2, 3), (1, 3, 5, 7), (1, 2, 9), (1, 3, 8), (1, 2))
"""Of heads, queries, keys, columns and batches."""


def test_random_attention() -> None:
    """Odd sizes, and dimensions of one element."""
    random = Random(5)
    seen = Counter[bool]()
    for round_ in range(24):
        heads, length, keys, width, batch = (random.choice(s) for s in EXTENTS)
        precision = PRECISIONS[round_ % 2]
        graph = attention(heads, length, keys, width, batch=batch, precision=precision, masked=round_ % 3 == 0)
        late = normalise_later(graph)
        same(graph, late, TOLERANCE[precision])
        seen[late is not graph] += 1
    assert min(seen.values()) >= 5


# The whole way.


def small_vit() -> Graph:
    model = models.build("vit-b16", size=32, layers=1, hidden=16, heads=2, ffn=16, classes=4)
    return import_onnx(model, batch=1, precision="fp16")


def test_a_program_computes_what_the_rewritten_graph_does() -> None:
    graph, machine, options = small_vit(), load_machine("tiny"), Options(timeout=0.5)
    late = graph_for(graph, machine, options)
    assert [op.name for op in late.ops if ".factors" in op.name]
    planned = plan(late, machine, options).plan
    check(late, machine, planned, inputs_of(late), 5e-3)


def test_it_can_be_switched_off() -> None:
    graph, machine = small_vit(), load_machine("tiny")

    def factors(options: Options) -> int:
        return sum(".factors" in op.name for op in graph_for(graph, machine, options).ops)

    off = frozenset({"swapped-operands"})
    assert factors(Options(timeout=0.5, disabled=off)) == 3  # type: ignore[arg-type]
    assert factors(Options(timeout=0.5, disabled=off | {"folded-scales"})) == 1  # type: ignore[arg-type]
    assert factors(Options(timeout=0.5, disabled=off | {"late-normalisation"})) == 0  # type: ignore[arg-type]
    assert factors(Options(timeout=0.5, strategy="layerwise")) == 0
    assert factors(Options(timeout=0.5, strategy="graphturbo")) == 0
