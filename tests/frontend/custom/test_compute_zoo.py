"""Loop nests of many kinds, as users write them: each gives what numpy does, on engines where it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import te, tirx

import girih
from girih import register_operator
from tests.support.custom_models import DOMAIN, custom_node, network

Array = np.ndarray


def convolution(x: Any, w: Any) -> Any:
    """A strided one-dimensional convolution with padding."""
    c, k = te.reduce_axis((0, x.shape[0]), "c"), te.reduce_axis((0, w.shape[2]), "k")
    size = x.shape[1]
    padded = te.compute(
        (x.shape[0], size + 2),
        lambda i, j: te.if_then_else(te.all(j >= 1, j < size + 1), x[i, j - 1], 0.0),
        name="padded",
    )
    shape = (w.shape[0], (size + 2 - w.shape[2]) // 2 + 1)
    return te.compute(shape, lambda f, p: te.sum(padded[c, 2 * p + k] * w[f, c, k], axis=[c, k]), name="convolution")


def guarded_convolution(x: Any, w: Any) -> Any:
    """The same with its padding in the reads, so that the product reads nothing but inputs."""
    c, k = te.reduce_axis((0, x.shape[0]), "c"), te.reduce_axis((0, w.shape[2]), "k")
    size = x.shape[1]

    def term(f: Any, p: Any) -> Any:
        at = 2 * p + k - 1
        return te.sum(te.if_then_else(te.all(at >= 0, at < size), x[c, at], 0.0) * w[f, c, k], axis=[c, k])

    return te.compute((w.shape[0], (size + 2 - w.shape[2]) // 2 + 1), term, name="convolution")


def convolution_of(x: Array, w: Array) -> Array:
    padded = np.pad(x, ((0, 0), (1, 1)))
    steps = range(0, padded.shape[1] - w.shape[2] + 1, 2)
    return np.stack([np.einsum("ck,fck->f", padded[:, s : s + w.shape[2]], w) for s in steps], 1)


def product(x: Any, w: Any) -> Any:
    k = te.reduce_axis((0, x.shape[1]), "k")
    return te.compute((x.shape[0], w.shape[1]), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="product")


def row_reduce(combine: Callable[..., Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        k = te.reduce_axis((0, x.shape[1]), "k")
        return te.compute((x.shape[0],), lambda i: combine(x[i, k], axis=k), name="reduced")

    return function


def whole_mean(x: Any) -> Any:
    i, k = te.reduce_axis((0, x.shape[0]), "i"), te.reduce_axis((0, x.shape[1]), "k")
    count = x.shape[0] * x.shape[1]
    total = te.compute((), lambda: te.sum(x[i, k], axis=[i, k]), name="total")
    return te.compute((), lambda: total() / tirx.Cast("float32", count), name="mean")


def pairs_swapped(x: Any) -> Any:
    return te.compute(x.shape, lambda i, j: x[i, j // 2 * 2 + 1 - j % 2], name="swapped")


def alternating(x: Any) -> Any:
    return te.compute(x.shape, lambda i, j: tirx.Select(j % 2 == 0, x[i, j], 0.0 - x[i, j]), name="signs")


def looked_up(x: Any, n: Any) -> Any:
    return te.compute((n.shape[0], x.shape[1]), lambda i, j: x[n[i], j], name="looked_up")


@dataclass(frozen=True)
class Case:
    function: Callable[..., Any]
    reference: Callable[..., Array]
    shape: tuple[int, ...]
    weights: Sequence[tuple[int, ...]] = ()
    own_template: bool = True
    """Whether it may have a template: the product of one that may not reads what the operator computes itself."""


CASES: dict[str, Case] = {
    "convolution": Case(convolution, convolution_of, (5, 31), [(7, 5, 3)], own_template=False),
    "guarded convolution": Case(guarded_convolution, convolution_of, (5, 31), [(7, 5, 3)]),
    "product": Case(product, np.matmul, (13, 37), [(37, 17)]),
    "maximum": Case(row_reduce(te.max), lambda x: x.max(1), (13, 37)),
    "minimum": Case(row_reduce(te.min), lambda x: x.min(1), (13, 37)),
    "one row": Case(row_reduce(te.sum), lambda x: x.sum(1), (1, 1)),
    "whole mean": Case(whole_mean, lambda x: x.mean(), (7, 11)),
    "pairs swapped": Case(pairs_swapped, lambda x: x.reshape(6, -1, 2)[..., ::-1].reshape(x.shape), (6, 14)),
    "alternating": Case(alternating, lambda x: x * np.where(np.arange(9) % 2, -1, 1).astype("f4"), (4, 9)),
    "transposed": Case(
        lambda x: te.compute(x.shape[::-1], lambda j, i: x[i, j], name="t"), lambda x: x.T, (5, 23)
    ),
    "backwards": Case(
        lambda x: te.compute(x.shape, lambda i, j: x[i, x.shape[1] - 1 - j], name="b"), lambda x: x[:, ::-1], (3, 11)
    ),
    "outer": Case(
        lambda x, w: te.compute((x.shape[0], w.shape[0]), lambda i, j: x[i] - w[j], name="o"),
        lambda x, w: x[:, None] - w, (11,), [(13,)],
    ),
    "comparison": Case(
        lambda x: te.compute(x.shape, lambda *i: tirx.Cast("float32", x(*i) > 0.5), name="e"),
        lambda x: (x > 0.5).astype("f4"), (29,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", ["tiny", "stcp920"])
@pytest.mark.parametrize(
    ("name", "template"),
    [(n, own) for n, case in CASES.items() for own in (False, True) if case.own_template or not own],
)
def test_a_loop_nest_gives_what_numpy_does(name: str, template: bool, target: str) -> None:
    case, random = CASES[name], np.random.default_rng(3)
    own = (lambda schedule, tile: None) if template else None
    register_operator(DOMAIN, "Nest", template=own)(case.function)
    x = random.normal(size=case.shape).astype(np.float32)
    weights = [random.normal(size=shape).astype(np.float32) for shape in case.weights]
    names = [f"w{n}" for n in range(len(weights))]
    given = [numpy_helper.from_array(w, n) for w, n in zip(weights, names, strict=True)]
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        custom_node("Nest", ["a", *names], ["b"]),
        helper.make_node("Abs", ["b"], ["y"]),
    ]
    model = network(nodes, {"x": case.shape}, {"y": None}, given)
    if template and target == "tiny" and name in ("product", "guarded convolution"):
        # The matrix engine runs it, from the weight memory, to which this template brings nothing.
        with pytest.raises(girih.UsageError, match=r"global\.l1w \(cache_read\)"):
            girih.compile(model, target=target, solver_timeout=1, cache=False)
        return
    compiled = girih.compile(model, target=target, solver_timeout=1, cache=False)
    assert [op.host is not None for op in compiled.graph.ops if op.template] == [False] * template
    assert all(op.host is None for op in compiled.graph.ops)
    result = compiled.run({"x": x}, check="exact")
    assert result.passed
    assert compiled.run({"x": x}, check=True).passed
    np.testing.assert_allclose(result.outputs["y"], np.abs(case.reference(-x, *weights)), rtol=2e-5, atol=1e-5)


def test_what_depends_on_data_is_computed_on_the_host() -> None:
    register_operator(DOMAIN, "Nest")(looked_up)
    model = network([custom_node("Nest", ["x", "n"], ["y"])], {"x": [5, 6]}, {"y": None})
    model.graph.input.append(helper.make_tensor_value_info("n", TensorProto.INT64, [4]))
    compiled = girih.compile(model, target="tiny", solver_timeout=1, cache=False)
    (op,) = compiled.graph.ops
    assert op.host is not None and "an index that depends on data" in op.host.reason
    x, n = np.arange(30, dtype=np.float32).reshape(5, 6), np.array([4, 0, 2, 2])
    assert (compiled.run({"x": x, "n": n}, check=True).outputs["y"] == x[n]).all()
