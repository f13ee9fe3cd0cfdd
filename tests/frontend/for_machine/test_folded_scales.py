"""Scales and shifts in the weights and biases of products: the same function, with a pass less."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from girih import models
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.api.goals.graph_for import graph_for
from girih.frontend import import_onnx
from girih.frontend.for_machine.folded_scales import fold_scales
from girih.ir.box import Affine
from girih.ir.checks.check_graph import check_graph
from girih.ir.graph import Access, Axis, Constant, Graph, Host, Op, Port, Stage, Tensor
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

ROWS, CHANNELS, COLUMNS = 5, 8, 6


class Net:
    """A layer normalisation under construction, and what comes after it."""

    def __init__(self, *shape: int, scale: np.ndarray | None = None, shift: np.ndarray | None = None) -> None:
        self.model = Model()
        self.shape = shape or (ROWS, CHANNELS)
        x = self.model.input("x", *self.shape)
        last = self.shape[-1]
        g = self.model.weight("g", last) if scale is None else self.model.constant("g", scale.astype(np.float32))
        h = self.model.weight("h", last) if shift is None else self.model.constant("h", shift.astype(np.float32))
        self.p = self.model.node("LayerNormalization", x, g, h, name="p", axis=-1)

    def product(self, x: str = "", columns: int = COLUMNS, name: str = "y") -> str:
        return self.model.node(
            "MatMul", x or self.p, self.model.weight(f"{name}.w", self.shape[-1], columns), name=name
        )

    def biased(self, x: str = "", columns: int = COLUMNS, name: str = "y") -> str:
        bias = self.model.weight(f"{name}.b", columns)
        return self.model.node("Add", self.product(x, columns, name), bias, name=f"{name}.z")

    def graph(self, *outputs: str, precision: str = "as-is") -> Graph:
        return imported(self.model, *outputs, precision=precision)


def plain(precision: str = "as-is") -> tuple[Graph, Op, Op]:
    """A layer normalisation, and a product with weights and a bias: what is rewritten."""
    net = Net()
    graph = net.graph(net.biased(), precision=precision)
    assert fold_scales(graph) is not graph
    norm, product = graph.ops
    assert functions(norm)[-2:] == ["mul", "fma"] and functions(product) == ["mul", "add"]
    return graph, norm, product


@pytest.mark.parametrize(("precision", "batch"), [("as-is", 3), ("fp16", 1)])
@pytest.mark.parametrize("name", ["conformer", "vit-b16"])
def test_networks_compute_what_they_did(name: str, precision: str, batch: int) -> None:
    """And they are about as near to the network in single precision."""
    model = models.build(name, **SMALL[name])
    graph = import_onnx(model, precision=precision, batch=batch)  # type: ignore[arg-type]
    folded = fold_scales(graph)
    assert folded.digest != graph.digest and [o.name for o in folded.ops] == [o.name for o in graph.ops]
    arrays = inputs_of(graph)
    same(graph, folded, 2e-5 if precision == "as-is" else 2e-2, arrays)
    if precision == "fp16":
        for port, values in onnxruntime_outputs(model, arrays).items():
            before, after = (distance(evaluate_graph(g, arrays, None)[port], values) for g in (graph, folded))
            assert 0 < after <= 1.5 * before


@pytest.mark.parametrize("name", ["bert-base", "dlrm", "tiny-cnn", "tiny-transformer"])
def test_a_network_without_such_scales_is_the_same_object(name: str) -> None:
    """What is normalised behind a sum is read by the next sum, too."""
    graph = network(name)
    assert fold_scales(graph) is graph


def test_a_rewrite_is_the_same_each_time_and_has_nothing_to_do_twice() -> None:
    first, second = (fold_scales(network("vit-b16", "fp16")) for _ in range(2))
    assert first.digest == second.digest
    assert fold_scales(first) is first


def test_each_normalisation_of_a_network_has_a_pass_less() -> None:
    graph = network("vit-b16")
    folded = fold_scales(graph)
    norms = [op.name for op in graph.ops if functions(op)[-1] == "fma"]
    assert len(norms) == 5
    for name in norms:
        before, after = graph.op[name], folded.op[name]
        assert functions(after) == functions(before)[:-1] and after.inputs == before.inputs[:1]
        assert after.output == before.output and len(after.buffers) == len(before.buffers) - 1
        for reader in graph.consumers[before.output]:
            (weights, bias), old = folded.op[reader.name].inputs[1:3], reader.inputs[1:3]
            assert weights != old[0] and bias != old[1] and functions(folded.op[reader.name]) == functions(reader)
            assert not {*old} & set(folded.tensor)
            g, h, w, b = (graph.data[n].astype(np.float64) for n in (*before.inputs[1:], *old))
            assert w.shape[0] == g.size
            assert np.abs(folded.data[weights] - g[:, None] * w).max() < 1e-6
            assert np.abs(folded.data[bias] - (h @ w + b)).max() < 1e-6


def starts(net: Net) -> str:
    return net.model.node("Sigmoid", net.biased())


def relu(net: Net) -> str:
    return net.model.node("Relu", net.biased())


def two(net: Net) -> tuple[str, str]:
    return net.biased(), net.biased(columns=3, name="other")


def shared_bias(net: Net) -> tuple[str, str]:
    """Each gets a bias of its own."""
    y = net.biased()
    return y, net.model.node("Add", net.product(name="other"), "y.b")


def shift_is_bias(net: Net) -> str:
    return net.model.node("Add", net.product(columns=CHANNELS), "h")


def scale_is_bias(net: Net) -> str:
    return net.model.node("Add", net.product(columns=CHANNELS), "g")


def some_rows(net: Net) -> str:
    one, four, axis = (net.model.constant(n, [v], "int64") for n, v in (("lo", 1), ("hi", 4), ("axis", 0)))
    return net.biased(net.model.node("Slice", net.p, one, four, axis))


def transposed_weights(net: Net) -> str:
    weights = net.model.weight("wt", COLUMNS, CHANNELS)
    return net.model.node("Gemm", net.p, weights, net.model.weight("b", COLUMNS), transB=1)


def with_residual(net: Net) -> str:
    return net.model.node("Add", net.biased(), net.model.input("r", ROWS, COLUMNS))


def times_bias(net: Net) -> str:
    return net.model.node("Mul", net.biased(), "y.b")


FOLDED = (
    Net.biased, starts, relu, two, shared_bias, shift_is_bias, scale_is_bias, some_rows, transposed_weights,
    with_residual, times_bias,
)  # fmt: skip


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("after", FOLDED)
def test_forms_that_are_folded(after: Callable[[Net], str | tuple[str, ...]], precision: str) -> None:
    net = Net()
    outputs = after(net)
    graph = net.graph(*((outputs,) if isinstance(outputs, str) else outputs), precision=precision)
    folded = fold_scales(graph)
    assert folded is not graph
    assert all(functions(op)[-2:] != ["mul", "fma"] for op in folded.ops)
    same(graph, folded, TOLERANCE[precision])


# What is not folded.


def no_bias(net: Net) -> str:
    return net.product()


def also_output(net: Net) -> tuple[str, str]:
    return net.biased(), net.p


def another_reader(net: Net) -> tuple[str, str]:
    return net.biased(), net.model.node("Softmax", net.p, axis=-1)


def one_without_bias(net: Net) -> tuple[str, str]:
    return net.biased(), net.product(name="other")


def same_weights(net: Net) -> tuple[str, str]:
    other = net.model.node("MatMul", net.model.input("other", 3, CHANNELS), "y.w")
    return net.biased(), other


def bias_of_input(net: Net) -> str:
    return net.model.node("Add", net.product(), net.model.input("b", COLUMNS))


def bias_of_rows(net: Net) -> str:
    return net.model.node("Add", net.product(), net.model.weight("b", ROWS, 1))


def bias_of_both(net: Net) -> str:
    return net.model.node("Add", net.product(), net.model.weight("b", ROWS, COLUMNS))


def weights_of_input(net: Net) -> str:
    y = net.model.node("MatMul", net.p, net.model.input("w", CHANNELS, COLUMNS))
    return net.model.node("Add", y, net.model.weight("b", COLUMNS))


def weights_first(net: Net) -> str:
    y = net.model.node("MatMul", net.model.weight("w", 3, ROWS), net.p)
    return net.model.node("Add", y, net.model.weight("b", CHANNELS))


def residual_of_itself(net: Net) -> str:
    return net.model.node("Add", net.biased(columns=CHANNELS), net.p)


def rows_are_reduced(net: Net) -> str:
    turned = net.model.node("Transpose", net.p, perm=[1, 0])
    y = net.model.node("MatMul", turned, net.model.weight("w", ROWS, COLUMNS))
    return net.model.node("Add", y, net.model.weight("b", COLUMNS))


KEPT = (
    also_output, another_reader, same_weights, bias_of_input, bias_of_rows, bias_of_both,
    weights_of_input, weights_first, residual_of_itself, rows_are_reduced,
)  # fmt: skip


@pytest.mark.parametrize("after", KEPT)
def test_forms_that_stay_as_they_are(after: Callable[[Net], str | tuple[str, ...]]) -> None:
    net = Net()
    outputs = after(net)
    graph = net.graph(*((outputs,) if isinstance(outputs, str) else outputs))
    assert fold_scales(graph) is graph


@pytest.mark.parametrize("after", [no_bias, one_without_bias])
def test_products_without_a_bias_get_one(after: Callable[[Net], str | tuple[str, ...]]) -> None:
    net = Net()
    outputs = after(net)
    graph = net.graph(*((outputs,) if isinstance(outputs, str) else outputs))
    folded = fold_scales(graph)
    assert "fma" not in functions(folded.op["p"])[-1:]
    same(graph, folded, 1e-5)


@pytest.mark.parametrize("which", [0, 1])
def test_operators_with_a_template_stay(which: int) -> None:
    graph, *ops = plain()
    blocks = tuple(f"block{n}" for n in range(len(ops[which].stages)))
    other = with_op(graph, ops[which].name, lambda op: replace(op, template="mine", blocks=blocks))
    assert fold_scales(other) is other


def test_a_host_operator_reads_what_is_scaled() -> None:
    graph, norm, _ = plain()
    shape = graph.tensor[norm.output].shape
    host = Op("host", ("host",), (norm.output,), ("h",), host=Host("", "no engine does this"))
    h = Tensor("host.h", shape, "float32")
    other = replace(
        graph,
        tensors=(*graph.tensors, h),
        ops=(*graph.ops, replace(host, outputs=(h.name,))),
        outputs=(*graph.outputs, Port(h.name, h.name, shape, "float32")),
    )
    check_graph(other)
    assert fold_scales(other) is other


def test_a_host_operator_that_reads_the_weights_keeps_them() -> None:
    graph, _, product = plain()
    h = Tensor("host.h", (2,), "float32")
    host = Op("host", ("host",), (product.stationary,), (h.name,), host=Host("", "no engine does this"))
    port = Port(h.name, h.name, (2,), "float32")
    other = replace(graph, tensors=(*graph.tensors, h), ops=(*graph.ops, host), outputs=(*graph.outputs, port))
    check_graph(other)
    assert fold_scales(other) is other


def test_values_that_are_rounded_to_another_dtype_stay() -> None:
    """Products would read numbers of the other dtype."""
    graph, norm, _ = plain("fp16")
    value = norm.stages[-1].factors[0].tensor
    buffers = tuple(replace(b, dtype="float32") if b.name == value else b for b in norm.buffers)
    other = with_op(graph, norm.name, lambda op: replace(op, buffers=buffers))
    assert fold_scales(other) is other


def test_whole_numbers_stay() -> None:
    graph, norm, product = plain()
    value = norm.stages[-1].factors[0].tensor
    names = {norm.output, product.stationary}
    graph = replace(
        graph,
        tensors=tuple(replace(t, dtype="int32") if t.name in names else t for t in graph.tensors),
        data={n: a.astype("int32") if n in names else a for n, a in graph.data.items()},
    )
    buffers = tuple(replace(b, dtype="int32") if b.name == value else b for b in norm.buffers)
    other = with_op(graph, norm.name, lambda op: replace(op, buffers=buffers))
    assert fold_scales(other) is other


def test_an_operand_with_a_fill_stays() -> None:
    graph, _, product = plain()

    def filled(stage: Stage) -> Stage:
        rows, weights = stage.factors
        return replace(stage, operands=(replace(rows, fill=0.0), weights))

    other = with_stage(graph, product.name, 0, filled)
    assert fold_scales(other) is other


def test_values_that_are_read_twice_stay() -> None:
    """value · g + value is no scale and shift of constants; nor may another stage read what is written no more."""
    graph, norm, _ = plain()

    def squared(op: Op) -> Op:
        *stages, before, last = op.stages
        value = last.factors[0]
        between = replace(last, func="tanh", operands=(value,), write=replace(last.write, tensor="between"))
        end = replace(last, func="fma", operands=(value, *last.operands[1:]))
        unused = replace(last, func="add", operands=(value, replace(value, tensor="between")))
        unused = replace(unused, write=replace(last.write, tensor="more"))
        shape = graph.tensor[op.output].shape
        buffers = (*op.buffers, Tensor("between", shape, "float32"), Tensor("more", shape, "float32"))
        return replace(op, stages=(*stages, before, between, unused, end), buffers=buffers)

    other = with_op(graph, norm.name, squared)
    assert fold_scales(other) is other


@pytest.mark.parametrize("number", [1, 2])
def test_scales_of_rows_stay(number: int) -> None:
    """Square: only an index says whether channels are scaled or rows."""
    net = Net(CHANNELS, CHANNELS)
    graph = net.graph(net.biased())
    assert fold_scales(graph) is not graph
    norm = graph.ops[0]

    def of_rows(stage: Stage) -> Stage:
        operands = list(stage.factors)
        operands[number] = replace(operands[number], index=(Affine((1, 0)),))
        return replace(stage, operands=tuple(operands))

    other = with_stage(graph, norm.name, -1, of_rows)
    assert fold_scales(other) is other


@pytest.mark.parametrize("name", ["g", "h"])
def test_scales_that_are_no_constants_stay(name: str) -> None:
    graph, norm, _ = plain()
    scale = norm.inputs[1 + (name == "h")]
    shape = graph.tensor[scale].shape
    other = replace(
        graph,
        inputs=(*graph.inputs, Port(scale, scale, shape, "float32")),
        constants=tuple(c for c in graph.constants if c.tensor != scale),
        data={n: a for n, a in graph.data.items() if n != scale},
    )
    check_graph(other)
    assert fold_scales(other) is other


# Where a part of something is read, or something is read again.


def sums_again(net: Net) -> str:
    y = net.product()
    return net.model.node("Mul", net.model.node("Add", y, net.model.weight("b", COLUMNS)), y)


def weights_again(net: Net) -> str:
    """Square: W is added to the product of itself."""
    return net.model.node("Add", net.biased(columns=CHANNELS), "y.w")


def first_channels(net: Net) -> str:
    zero, four, axis = (net.model.constant(n, [v], "int64") for n, v in (("lo", 0), ("hi", 4), ("axis", 1)))
    part = net.model.node("Slice", net.p, zero, four, axis)
    y = net.model.node("MatMul", part, net.model.weight("w", 4, COLUMNS))
    return net.model.node("Add", y, net.model.weight("b", COLUMNS))


def last_channels(net: Net) -> str:
    four, end, axis = (net.model.constant(n, [v], "int64") for n, v in (("lo", 4), ("hi", CHANNELS), ("axis", 1)))
    part = net.model.node("Slice", net.p, four, end, axis)
    y = net.model.node("MatMul", part, net.model.weight("w", 4, COLUMNS))
    return net.model.node("Add", y, net.model.weight("b", COLUMNS))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("after", [sums_again, weights_again, first_channels, last_channels])
def test_other_forms_compute_what_they_did(after: Callable[[Net], str], precision: str) -> None:
    net = Net(CHANNELS, CHANNELS)
    graph = net.graph(after(net), precision=precision)
    same(graph, fold_scales(graph), TOLERANCE[precision])


def grown(graph: Graph, name: str, shape: tuple[int, ...]) -> Graph:
    """A constant that is so large, with its own numbers at the beginning."""
    array = np.random.default_rng(1).standard_normal(shape).astype(graph.data[name].dtype)
    old = graph.data[name]
    array[tuple(slice(n) for n in (1,) * (len(shape) - old.ndim) + old.shape)] = old
    constant = Constant(name, hashlib.sha256(array.tobytes()).hexdigest())
    return replace(
        graph,
        tensors=tuple(replace(t, shape=shape) if t.name == name else t for t in graph.tensors),
        constants=tuple(constant if c.tensor == name else c for c in graph.constants),
        data=graph.data | {name: array},
    )


@pytest.mark.parametrize("which", ["columns", "channels", "bias", "scale", "shift"])
def test_constants_of_which_the_beginning_is_read(which: str) -> None:
    graph, norm, product = plain()
    (scale, shift), (weights, bias) = norm.inputs[1:], product.inputs[1:]
    name, shape = {
        "columns": (weights, (CHANNELS, COLUMNS + 2)),
        "channels": (weights, (CHANNELS + 2, COLUMNS)),
        "bias": (bias, (COLUMNS + 2,)),
        "scale": (scale, (CHANNELS + 2,)),
        "shift": (shift, (CHANNELS + 2,)),
    }[which]
    other = grown(graph, name, shape)
    check_graph(other)
    same(other, fold_scales(other), 1e-5)


def test_weights_of_which_one_of_several_matrices_is_read() -> None:
    graph, _, product = plain()
    other = grown(graph, product.stationary, (2, CHANNELS, COLUMNS))

    def first(stage: Stage) -> Stage:
        rows, weights = stage.factors
        return replace(stage, operands=(rows, replace(weights, index=(Affine((0, 0, 0)), *weights.index))))

    other = with_stage(other, product.name, 0, first)
    same(other, fold_scales(other), 1e-5)


def test_sums_that_are_padded() -> None:
    """Where there are no sums there is no product of the shift, either."""
    graph, _, product = plain()
    shape = (ROWS + 2, COLUMNS)
    tensors = tuple(replace(t, shape=shape) if t.name == product.output else t for t in graph.tensors)
    graph = replace(graph, tensors=tensors, outputs=(replace(graph.outputs[0], shape=shape),))

    def padded(stage: Stage) -> Stage:
        sums, bias = stage.factors
        axes = (replace(stage.axes[0], extent=ROWS + 2), stage.axes[1])
        return replace(stage, axes=axes, operands=(replace(sums, fill=0.0), bias))

    other = with_stage(graph, product.name, 1, padded)
    same(other, fold_scales(other), 1e-5)


def test_values_that_several_stages_write() -> None:
    """Halves of the channels, one after the other."""
    graph, norm, _ = plain()
    *stages, before, last = norm.stages
    half = CHANNELS // 2

    def part(start: int) -> Stage:
        def moved(access: Access) -> Access:
            index = tuple(Affine(i.coeffs, start if i.coeffs[1] else i.const) for i in access.index)
            return replace(access, index=index)

        return replace(
            before,
            axes=(before.axes[0], replace(before.axes[1], extent=half)),
            operands=tuple(moved(o) if isinstance(o, Access) else o for o in before.operands),
            write=moved(before.write),
        )

    other = with_op(graph, norm.name, lambda op: replace(op, stages=(*stages, part(0), part(half), last)))
    same(other, fold_scales(other), 1e-5)


def test_values_that_are_written_in_other_axes() -> None:
    """Channels as groups: the stage before writes the output in its own axes."""
    graph, norm, _ = plain()

    def grouped(access: Access) -> Access:
        index = (
            Affine((0, i.coeffs[0], 0)) if i.coeffs[0] else Affine((4 * i.coeffs[1], 0, i.coeffs[1]))
            for i in access.index
        )
        return replace(access, index=tuple(index))

    def change(stage: Stage) -> Stage:
        axes = (Axis("group", CHANNELS // 4), stage.axes[0], Axis("channel", 4))
        operands = tuple(grouped(o) if isinstance(o, Access) else o for o in stage.operands)
        return replace(stage, axes=axes, operands=operands, write=grouped(stage.write))

    other = with_stage(graph, norm.name, -2, change)
    folded = fold_scales(other)
    assert folded is not other
    same(other, folded, 1e-5)


def test_images_of_several_dimensions() -> None:
    """Tokens of several images: [2, 5, channels], of which any order is walked."""
    net = Net(2, ROWS, CHANNELS)
    graph = net.graph(net.biased())
    folded = fold_scales(graph)
    assert folded is not graph
    same(graph, folded, 1e-5)


# Numbers at the edges.


SCALES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "negative": lambda g: -np.abs(g),
    "zero": np.zeros_like,
    "some zero": lambda g: np.where(np.arange(g.size) % 2, g, 0.0),
    "one": np.ones_like,
    "small": lambda g: 1e-2 * g,
}


def with_data(graph: Graph, name: str, array: np.ndarray) -> Graph:
    """With other numbers of the same shape in a constant: the importer would leave out scales of one, or no shift."""
    data = array.astype(graph.data[name].dtype)
    constant = Constant(name, hashlib.sha256(data.tobytes()).hexdigest())
    constants = tuple(constant if c.tensor == name else c for c in graph.constants)
    return replace(graph, constants=constants, data=graph.data | {name: data})


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shift", ["zero", "negative"])
@pytest.mark.parametrize("scale", SCALES)
def test_scales_at_the_edges(scale: str, shift: str, precision: str) -> None:
    graph, norm, _ = plain(precision)
    numbers = np.random.default_rng(5).standard_normal((2, CHANNELS))
    graph = with_data(graph, norm.inputs[1], SCALES[scale](numbers[0]))
    graph = with_data(graph, norm.inputs[2], SCALES[shift](numbers[1]))
    folded = fold_scales(graph)
    assert folded is not graph
    same(graph, folded, TOLERANCE[precision])


@pytest.mark.parametrize("kind", ["large", "equal", "zero"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_rows_at_the_edges(kind: str, precision: str) -> None:
    graph, *_ = plain(precision)
    random = np.random.default_rng(3)
    rows = {
        "large": np.where(random.integers(0, 2, (ROWS, CHANNELS)), 60000.0, -60000.0),
        "equal": np.repeat(random.integers(-9, 9, (ROWS, 1)), CHANNELS, 1),
        "zero": np.zeros((ROWS, CHANNELS)),
    }[kind].astype(np.float32)
    same(graph, fold_scales(graph), TOLERANCE[precision], {"x": rows})


@pytest.mark.filterwarnings("ignore:overflow")
def test_large_scales_do_not_overflow() -> None:
    """2,000 · 50 is no number of half precision, but the sums of products with little rows are."""
    graph, norm, product = plain("fp16")
    weights = np.where(np.arange(CHANNELS) % 2, 50.0, -50.0)[:, None] * np.ones((1, COLUMNS))
    graph = with_data(with_data(graph, norm.inputs[1], np.full(CHANNELS, 2000.0)), product.stationary, weights)
    # Neighbours are alike, so that products with weights of both signs cancel out.
    rows = np.repeat(np.random.default_rng(0).standard_normal((ROWS, CHANNELS // 2)), 2, 1).astype(np.float32)
    rows[:, 0] += np.float32(1e-2)
    (values,) = evaluate_graph(graph, {"x": rows}, None).values()
    assert np.isfinite(values).all() and np.abs(values).max() > 100
    same(graph, fold_scales(graph), 1e-1, {"x": rows})


@pytest.mark.parametrize("size", [1e-2, 1e-3, 1e-4, 1e-5])
def test_small_scales_lose_no_more_than_before(size: float) -> None:
    """Weights of half precision have fewer digits below 6e-5; about as near to the network in single precision."""
    numbers = np.random.default_rng(5).standard_normal((2, 64)) * size
    net = Net(ROWS, 64, scale=numbers[0], shift=numbers[1])
    net.model.constant("w", (0.05 * np.random.default_rng(6).standard_normal((64, 64))).astype(np.float32))
    net.model.constant("b", (size * np.random.default_rng(7).standard_normal(64)).astype(np.float32))
    model = net.model
    model.node("Add", model.node("MatMul", net.p, "w"), "b", name="out")
    graph = net.graph("out", precision="fp16")
    arrays = inputs_of(graph)
    (exact,) = onnxruntime_outputs(model.build("out"), arrays).values()
    before, after = (
        distance(next(iter(evaluate_graph(g, arrays, None).values())), exact) for g in (graph, fold_scales(graph))
    )
    assert after <= 2 * before


def test_random_shapes() -> None:
    """Odd sizes, and dimensions of one element."""
    random = Random(7)
    changed = 0
    for number in range(25):
        rows = [random.choice((1, 2, 3, 5)) for _ in range(random.choice((1, 1, 2)))]
        shape = (*rows, random.choice((1, 3, 8, 13)))
        precision = PRECISIONS[number % 2]
        net = Net(*shape)
        outputs = [net.biased(columns=random.choice((1, 4, 7)), name=f"y{n}") for n in range(random.choice((1, 2, 3)))]
        graph = net.graph(*outputs, precision=precision)
        folded = fold_scales(graph)
        changed += folded is not graph
        same(graph, folded, TOLERANCE[precision])
    assert 8 <= changed < 25


# The whole way.


def test_a_program_computes_what_the_rewritten_graph_does() -> None:
    net = Net(ROWS, 24)
    graph = net.graph(net.biased(columns=17), net.biased(columns=9, name="other"), precision="fp16")
    machine, options = load_machine("tiny"), Options(timeout=0.5, disabled=frozenset({"late-normalisation"}))
    folded = graph_for(graph, machine, options)
    assert any(":" in name for name in folded.constant_names - graph.constant_names)
    check(folded, machine, plan(folded, machine, options).plan, inputs_of(folded), 5e-3)


def test_it_can_be_switched_off() -> None:
    graph, norm, _ = plain()
    machine = load_machine("tiny")

    def stages(options: Options) -> int:
        return len(graph_for(graph, machine, options).op[norm.name].stages)

    whole = len(norm.stages)
    alone = Options(timeout=0.5, disabled=frozenset({"late-normalisation"}))
    assert stages(alone) == whole - 1
    assert stages(replace(alone, disabled=frozenset({"late-normalisation", "folded-scales"}))) == whole
    assert stages(replace(alone, strategy="layerwise")) == whole
    assert stages(replace(alone, strategy="graphturbo")) == whole


def test_a_reduced_axis_that_the_weights_do_not_have() -> None:
    """The product adds the shift as often as that axis is long."""
    net = Net(3, ROWS, CHANNELS)
    y = net.model.node("Einsum", net.p, net.model.weight("w", CHANNELS, COLUMNS), equation="eid,dn->in")
    graph = net.graph(net.model.node("Add", y, net.model.weight("b", COLUMNS)))
    same(graph, fold_scales(graph), 1e-5)
    # The same as one product, which the importer may not make of it.
    graph, norm, product = plain()
    (x,) = (o for o in product.stages[0].factors if o.tensor == norm.output)
    repeated = with_stage(
        graph,
        product.name,
        0,
        lambda stage: replace(
            stage,
            axes=(*stage.axes, Axis("e", 3, reduce=True)),
            write=extended(stage.write),
            operands=tuple(extended(o) if isinstance(o, Access) else o for o in stage.operands),
        ),
    )
    assert x.fill is None and fold_scales(repeated) is repeated


def extended(access: Access) -> Access:
    """In a stage with one axis more, which it does not walk."""
    return replace(access, index=tuple(Affine((*i.coeffs, 0), i.const) for i in access.index))


def test_weights_that_are_whole_numbers_stay() -> None:
    graph, _, product = plain()
    name = product.stages[0].factors[1].tensor
    data = np.ones(graph.tensor[name].shape, np.int8)
    digest = hashlib.sha256(data.tobytes()).hexdigest()
    whole = replace(
        graph,
        tensors=tuple(replace(t, dtype="int8") if t.name == name else t for t in graph.tensors),
        constants=tuple(Constant(name, digest) if c.tensor == name else c for c in graph.constants),
        data=graph.data | {name: data},
    )
    check_graph(whole)
    assert fold_scales(whole) is whole


@pytest.mark.parametrize("least", [1e-2, 1e-6])
def test_each_channel_keeps_its_digits(least: float) -> None:
    """In half precision, weights of about 1e-7 have one."""
    net = Net(scale=np.array([least, *[1.0] * (CHANNELS - 1)]))
    graph = net.graph(net.biased(), precision="fp16")
    assert (fold_scales(graph) is graph) == (least < 1e-4)
