"""Products whose operands change places: the same function, with the same weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from girih import models
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.frontend.for_machine.swap_operands import swappable, swapped
from girih.ir.box import Affine
from girih.ir.checks.check_graph import check_graph
from girih.ir.graph import Access, Constant, Graph, Op, Port, Stage, Tensor
from girih.ir.semantics.row_stream import row_stream
from tests.support import graphs
from tests.support.numpy_check import error, inputs_of
from tests.support.small_models import SMALL


def started(graph: Graph) -> Graph:
    """Sums of products start from their biases, as those of the frontend do."""
    ops: list[Op] = []
    for op in graph.ops:
        if op.contraction is None or len(op.stages) < 3:
            ops.append(op)
            continue
        product, biased, first, *rest = op.stages
        total, bias = biased.factors
        rank = len(product.axes)
        start = Access(bias.tensor, tuple(Affine((*i.coeffs, *[0] * (rank - len(i.coeffs)))) for i in bias.index))
        renamed = first.renamed({biased.write.tensor: total.tensor})
        buffers = tuple(b for b in op.buffers if b.name != biased.write.tensor)
        ops.append(replace(op, stages=(replace(product, start=start), renamed, *rest), buffers=buffers))
    return replace(graph, ops=tuple(ops))


def dense(dtype: str = "float32", *shape: int) -> Graph:
    net = graphs.Net("dense", dtype)
    x = net.input("x", *(shape or (3, 17, 24)))
    x = net.matmul("first", x, 40, relu=True)
    net.matmul("second", x, 23, add=net.matmul("side", x, 23, relu=True), relu=True)
    return net.graph()


def pointwise(dtype: str = "float32", stride: int = 1) -> Graph:
    """A convolution of 1 x 1 with a bias in its start, without axes for its kernel, as one is imported."""
    size = 2 * stride + 1
    axes = {"n": 2, "y": 3, "x": 3, "c": 11, "k": 13}

    def at(*terms: tuple[str, int]) -> tuple[Affine, ...]:
        return tuple(Affine(tuple(step * int(a == axis) for a in axes)) for axis, step in terms)

    net = graphs.Net("pointwise", dtype)
    image, weights, bias = net.input("image", 2, size, size, 13), net.constant("w", 13, 11), net.constant("b", 11)
    net.elementwise("y", "neg", net.input("unused", 2, 3, 3, 11))
    (op,) = net.ops
    total = Tensor("total", (2, 3, 3, 11), "float32")
    loops = tuple(graphs.Axis(name, extent, name == "k") for name, extent in axes.items())
    same = tuple(Affine(tuple(int(a == d) for a in range(4))) for d in range(4))
    stages = (
        Stage(
            loops, Access("total", at(("n", 1), ("y", 1), ("x", 1), ("c", 1))), "mul",
            (Access(image, at(("n", 1), ("y", stride), ("x", stride), ("k", 1))), Access(weights, at(("k", 1), ("c", 1)))),
            "sum", Access(bias, at(("c", 1))),
        ),
        Stage(loops[:4], Access("y", same), "max", (Access("total", same), 0.0)),
    )  # fmt: skip
    net.ops[0] = Op("y", ("y",), (image, weights, bias), ("y",), (total,), stages)
    del net.tensors["unused"], op
    net.inputs.remove("unused")
    return net.graph()


def merged() -> Graph:
    """A reduction of two axes, h and d: y[m, n] = sum x[m, h, d] · W[h, n, d], so that columns lie in the middle."""
    net = graphs.Net("merged", "float32")
    x, w = net.input("x", 9, 3, 5), net.constant("w", 3, 14, 5)
    axes = tuple(graphs.Axis(name, e, name in "hd") for name, e in {"m": 9, "n": 14, "h": 3, "d": 5}.items())

    def at(*used: int) -> tuple[Affine, ...]:
        return tuple(Affine(tuple(int(a == u) for a in range(4))) for u in used)

    same = (Affine((1, 0)), Affine((0, 1)))
    y, total = Tensor("y", (9, 14), "float32"), Tensor("total", (9, 14), "float32")
    stages = (
        Stage(axes, Access("total", at(0, 1)), "mul", (Access(x, at(0, 2, 3)), Access(w, at(2, 1, 3))), "sum"),
        Stage(axes[:2], Access("y", same), "copy", (Access("total", same),)),
    )
    net.tensors["y"] = y
    net.ops.append(Op("y", ("y",), (x, w), ("y",), (total,), stages))
    return net.graph()


def transposed() -> Graph:
    """Weights that have their columns in front already: nothing moves in them."""
    net = graphs.Net("transposed", "float32")
    net.product("y", net.input("x", 12, 16), net.constant("w", 10, 16), transposed=True)
    return net.graph()


def started_by_input() -> Graph:
    """The sums start from an activation, which the array takes as it is."""
    graph = started(dense())
    op = graph.ops[0]
    product, *rest = op.stages
    assert product.start is not None
    wide = replace(product.start, tensor="z", index=product.write.index)
    swapped_graph = replace(
        op, inputs=tuple(dict.fromkeys(("z", *(n for n in op.inputs if n != product.start.tensor)))),
        stages=(replace(product, start=wide), *rest),
    )  # fmt: skip
    shape = graph.tensor[op.output].shape
    return replace(
        graph,
        tensors=(*(t for t in graph.tensors if t.name != "first.b"), Tensor("z", shape, "float32")),
        ops=(swapped_graph, *graph.ops[1:]),
        inputs=(*graph.inputs, Port("z", "z", shape, "float32")),
        constants=tuple(c for c in graph.constants if c.tensor != "first.b"),
        data={n: a for n, a in graph.data.items() if n != "first.b"},
    )


FORMS: dict[str, tuple[Callable[[], Graph], int]] = {
    "biases behind the products": (dense, 3),
    "biases in the products": (lambda: started(dense()), 3),
    "half precision": (lambda: started(dense("float16")), 3),
    "one row": (lambda: started(dense("float32", 1, 31)), 3),
    "without a bias": (transposed, 1),
    "pointwise": (pointwise, 1),
    "pointwise, every second position": (lambda: pointwise("float16", 2), 1),
    "columns in the middle": (merged, 1),
    "an activation to start from": (started_by_input, 3),
    "an attention's projection": (lambda: graphs.attention(dtype="float32"), 1),
}
"""Graphs, and how many of their products can be swapped."""


def products(graph: Graph) -> dict[str, Stage]:
    return {op.name: op.stages[op.contraction] for op in graph.ops if op.contraction is not None}


def consistent(graph: Graph) -> None:
    """A graph, whose data is that which its constants name."""
    check_graph(graph)
    assert set(graph.data) == graph.constant_names
    for constant in graph.constants:
        array = graph.data[constant.tensor]
        assert array.flags.c_contiguous
        assert hashlib.sha256(array.tobytes()).hexdigest() == constant.sha256, constant.tensor


def same_function(graph: Graph, swapped_graph: Graph, tolerance: float) -> None:
    given = inputs_of(graph)
    before, after = (evaluate_graph(g, given) for g in (graph, swapped_graph))
    assert before.keys() == after.keys()
    for name, whole in before.items():
        assert error(after[name], whole) <= tolerance, name


@pytest.mark.parametrize("form", FORMS)
def test_swapped_products_compute_what_they_did(form: str) -> None:
    build, number = FORMS[form]
    graph = build()
    consistent(graph)
    names = swappable(graph)
    assert len(names) == number
    swapped_graph = swapped(graph, names)
    consistent(swapped_graph)
    assert [op.name for op in swapped_graph.ops] == [op.name for op in graph.ops]
    assert swapped_graph.inputs == graph.inputs and swapped_graph.outputs == graph.outputs
    same_function(graph, swapped_graph, 2e-3 if "float16" in {t.dtype for t in graph.tensors} else 1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_computed_or_held_twice(form: str) -> None:
    graph = FORMS[form][0]()
    swapped_graph = swapped(graph, swappable(graph))
    macs = [sum(s.points for op in g.ops for s in op.stages if s.is_contraction) for g in (graph, swapped_graph)]
    weights = [{t.name: t.bytes for t in g.tensors if t.name in g.constant_names} for g in (graph, swapped_graph)]
    assert macs[0] == macs[1] and weights[0] == weights[1]
    assert swapped_graph.digest != graph.digest
    # The same elements, in another order.
    for name, array in graph.data.items():
        assert np.array_equal(np.sort(array, axis=None), np.sort(swapped_graph.data[name], axis=None)), name


@pytest.mark.parametrize("form", FORMS)
def test_weights_become_rows_that_may_come_tile_by_tile(form: str) -> None:
    graph = FORMS[form][0]()
    swapped_graph = swapped(graph, swappable(graph))
    for name in swappable(graph):
        usual, other = products(graph)[name], products(swapped_graph)[name]
        assert [f.tensor for f in other.factors] == [f.tensor for f in usual.factors[::-1]]
        assert other.axes == usual.axes
        assert row_stream(swapped_graph, swapped_graph.op[name]) == usual.factors[1].tensor and not row_stream(
            graph, graph.op[name]
        )
        # The array adds a bias to its columns, which are other ones now.
        assert other.start is None or other.start.tensor not in swapped_graph.constant_names


@pytest.mark.parametrize("form", FORMS)
def test_what_is_swapped_is_not_swapped_again(form: str) -> None:
    graph = FORMS[form][0]()
    names = swappable(graph)
    swapped_graph = swapped(graph, names)
    assert not swappable(swapped_graph) & names
    assert swapped(swapped_graph, names).digest == swapped_graph.digest


def test_no_names_no_change() -> None:
    graph = dense()
    assert swapped(graph, ()) is graph
    assert swapped(graph, frozenset()) is graph


def test_names_of_others_change_nothing() -> None:
    graph = graphs.attention(dtype="float32")
    assert swapped(graph, {"scores", "mixed", "softmax", "nobody"}).digest == graph.digest


def test_only_those_that_are_named_are_swapped() -> None:
    graph = started(dense())
    swapped_graph = swapped(graph, {"second"})
    consistent(swapped_graph)
    assert [n for n, s in products(swapped_graph).items() if s != products(graph)[n]] == ["second"]
    assert [n for n, a in swapped_graph.data.items() if a.shape != graph.data[n].shape] == ["second.w"]
    assert swapped_graph.data["first.w"] is graph.data["first.w"]
    same_function(graph, swapped_graph, 1e-6)
    # One after the other, or at once.
    assert swapped(swapped_graph, {"first"}).digest == swapped(graph, ("second", "first")).digest


def test_the_graph_of_before_is_left_alone() -> None:
    graph = started(dense())
    before = {n: a.copy() for n, a in graph.data.items()}, graph.digest, graph.tensors
    swapped(graph, swappable(graph))
    assert all(np.array_equal(graph.data[n], a) for n, a in before[0].items())
    assert replace(graph).digest == before[1] and graph.tensors == before[2]


def test_whole_numbers_stay_exactly_what_they_are() -> None:
    """Sums of small whole numbers are exact in any order: not an element may differ."""
    graph = started(dense())
    data = {n: np.rint(4 * a) for n, a in graph.data.items()}
    constants = tuple(Constant(n, hashlib.sha256(a.tobytes()).hexdigest()) for n, a in data.items())
    graph = replace(graph, data=data, constants=constants)
    given = {n: np.rint(4 * a) for n, a in inputs_of(graph).items()}
    before, after = (evaluate_graph(g, given) for g in (graph, swapped(graph, swappable(graph))))
    for name, whole in before.items():
        np.testing.assert_array_equal(after[name], whole)


def test_a_bias_is_added_behind_the_product() -> None:
    graph = started(dense())
    swapped_graph = swapped(graph, {"first"})
    usual, other = graph.op["first"], swapped_graph.op["first"]
    assert [s.func for s in usual.stages] == ["mul", "max"]
    assert [s.func for s in other.stages] == ["mul", "add", "max"]
    assert other.stages[2] == usual.stages[1] and other.stages[1].write.tensor == usual.stages[0].write.tensor
    assert len(other.buffers) == len(usual.buffers) + 1
    assert other.inputs == usual.inputs


def test_products_of_activations_stay() -> None:
    """Queries with keys, and what they make with values; the projection has weights."""
    assert swappable(graphs.attention()) == {"project"}
    net = graphs.Net("products", "float32")
    net.product("y", net.input("a", 8, 16), net.input("b", 16, 8))
    assert not swappable(net.graph())


def shared_weights() -> Graph:
    """Two tokens' layers with the same weights."""
    net = graphs.Net("shared", "float32")
    w = net.constant("w", 16, 12)
    net.product("one", net.input("x", 7, 16), w)
    net.product("two", net.input("z", 9, 16), w)
    return net.graph("one", "two")


def read_twice() -> Graph:
    """One operator reads its weights as weights and as a start of its sums."""
    net = graphs.Net("twice", "float32")
    net.product("y", net.input("x", 16, 16), net.constant("w", 16, 16))
    graph = net.graph()
    (op,) = graph.ops
    product, *rest = op.stages
    started_ = replace(product, start=Access("w", (Affine((1, 0, 0)), Affine((0, 1, 0)))))
    return replace(graph, ops=(replace(op, stages=(started_, *rest)),))


def constants_alone() -> Graph:
    net = graphs.Net("constants", "float32")
    net.product("y", net.constant("a", 8, 16), net.constant("w", 16, 12))
    net.elementwise("z", "neg", net.input("x", 4))
    return net.graph("y", "z")


def batched_weights() -> Graph:
    net = graphs.Net("batched", "float32")
    net.product("y", net.input("x", 3, 8, 16), net.constant("w", 3, 16, 12))
    return net.graph()


def of_a_template() -> Graph:
    graph = transposed()
    (op,) = graph.ops
    return replace(graph, ops=(replace(op, template="somebody's", blocks=("a", "b")),))


def one_row() -> Graph:
    """A vector times weights: there are no rows to become columns."""
    net = graphs.Net("vector", "float32")
    net.product("y", net.input("x", 1, 16), net.constant("w", 16, 12))
    graph = net.graph()
    (op,) = graph.ops

    def without(stage: Stage) -> Stage:
        def cut(access: Access) -> Access:
            return replace(access, index=tuple(replace(i, coeffs=i.coeffs[1:]) for i in access.index))

        operands = tuple(cut(o) if isinstance(o, Access) else o for o in stage.operands)
        return replace(stage, axes=stage.axes[1:], write=cut(stage.write), operands=operands)

    return replace(graph, ops=(replace(op, stages=tuple(map(without, op.stages))),))


def given_out() -> Graph:
    graph = transposed()
    return replace(graph, outputs=(*graph.outputs, Port("w", "w", graph.tensor["w"].shape, "float32")))


def padded() -> Graph:
    """Images whose first row and column are zeros."""
    graph = pointwise()
    (op,) = graph.ops
    product, *rest = op.stages
    image, weights = product.factors
    index = tuple(replace(i, const=-1) if d in (1, 2) else i for d, i in enumerate(image.index))
    operands = (replace(image, index=index, fill=0.0), weights)
    return replace(graph, ops=(replace(op, stages=(replace(product, operands=operands), *rest)),))


STAY: dict[str, Callable[[], Graph]] = {
    "shared weights": shared_weights,
    "weights that are read twice": read_twice,
    "constants on both sides": constants_alone,
    "weights of a batch": batched_weights,
    "a template of its own": of_a_template,
    "one row": one_row,
    "weights that are an output": given_out,
    "padding": padded,
    "windows": lambda: graphs.conv(size=6, dtype="float32"),
    "heads side by side": graphs.merged_heads,
}


@pytest.mark.parametrize("form", STAY)
def test_others_stay_as_they_are(form: str) -> None:
    graph = STAY[form]()
    if form not in ("a template of its own", "weights that are an output"):
        check_graph(graph)
    assert not swappable(graph)
    assert swapped(graph, {op.name for op in graph.ops}).digest == graph.digest


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
def test_a_transformer_of_the_frontend(precision: str) -> None:
    graph = import_onnx(models.build("tiny-transformer"), batch=1, precision=precision)  # type: ignore[arg-type]
    names = swappable(graph)
    assert len(names) >= 8 and not any(n.endswith(("scores", "context")) for n in names)
    swapped_graph = swapped(graph, names)
    consistent(swapped_graph)
    random = np.random.default_rng(0)
    given = {
        p.name: random.integers(0, 20, p.shape).astype(p.dtype) if np.dtype(p.dtype).kind in "iu"
        else random.standard_normal(p.shape).astype(p.dtype) for p in graph.inputs
    }  # fmt: skip
    whole, other = (next(iter(evaluate_graph(g, given).values())).astype(np.float64) for g in (graph, swapped_graph))
    assert float(np.linalg.norm(whole - other) / np.linalg.norm(whole)) < (1e-6 if precision == "as-is" else 4e-3)


@pytest.mark.parametrize(("name", "least"), [("mobilenet-v2", 20), ("conformer", 8)])
def test_convolutions_of_the_frontend(name: str, least: int) -> None:
    """Those of one position: of most blocks in the one network, beside dense layers in the other."""
    graph = import_onnx(models.build(name, **SMALL[name]), batch=1, precision="as-is")
    names = swappable(graph)
    assert len(names) >= least
    swapped_graph = swapped(graph, names)
    consistent(swapped_graph)
    same_function(graph, swapped_graph, 2e-6)
