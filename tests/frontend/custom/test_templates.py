"""Operators with a template of their own keep the stages that their user wrote, under the user's names of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from tvm import te, tirx

import girih
from girih import register_operator
from girih.frontend import import_onnx
from girih.ir.checks.check_graph import check_graph
from girih.ir.errors import UsageError
from girih.ir.graph import Op
from tests.support.custom_models import DOMAIN, custom_node, network

RANDOM = np.random.default_rng(0)


def softmax(x: Any) -> Any:
    rows, columns = x.shape
    k, j = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "j")
    top = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="top")
    power = te.compute((rows, columns), lambda i, c: tirx.exp(x[i, c] - top[i]), name="power")
    total = te.compute((rows,), lambda i: te.sum(power[i, j], axis=j), name="total")
    return te.compute((rows, columns), lambda i, c: power[i, c] / total[i], name="normal")


def product(x: Any, w: Any) -> Any:
    k = te.reduce_axis((0, x.shape[1]), "k")
    return te.compute((x.shape[0], w.shape[1]), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="product")


def no_template(schedule: Any, tile: Any) -> None:
    """Leaves the schedule as it is."""


def surrounded(name: str, shape: tuple[int, ...], *weights: np.ndarray) -> Any:
    names = [f"w{n}" for n in range(len(weights))]
    nodes = [
        helper.make_node("Transpose", ["x"], ["flipped"], perm=[1, 0]),
        helper.make_node("Relu", ["flipped"], ["a"]),
        custom_node(name, ["a", *names], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Transpose", ["c"], ["y"], perm=[1, 0]),
    ]
    given = [numpy_helper.from_array(w, n) for w, n in zip(weights, names, strict=True)]
    return network(nodes, {"x": shape[::-1]}, {"y": None}, given)


def own(graph: girih.Graph, name: str) -> Op:
    (op,) = (op for op in graph.ops if op.template)
    assert op.template == f"{DOMAIN}::{name}"
    return op


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
def test_stages_and_names_are_the_users(precision: Any) -> None:
    register_operator(DOMAIN, "Softmax", template=no_template)(softmax)
    graph = import_onnx(surrounded("Softmax", (5, 17)), precision=precision)
    check_graph(graph)
    op = own(graph, "Softmax")
    assert len(op.inputs) == 1 and len(op.stages) == len(op.blocks)
    names = {"top": "copy", "power_0": "sub", "power": "exp", "total": "copy", "normal_0": "recip", "normal": "mul"}
    assert dict(zip(op.blocks, (s.func for s in op.stages), strict=True)) == names


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
def test_a_product_writes_a_private_buffer_and_its_copy_keeps_the_name(precision: Any) -> None:
    register_operator(DOMAIN, "Product", template=no_template)(product)
    weights = RANDOM.normal(size=(17, 9)).astype(np.float32)
    graph = import_onnx(surrounded("Product", (5, 17), weights), precision=precision)
    check_graph(graph)
    op = own(graph, "Product")
    assert op.blocks == ("product_0", "product")
    assert op.stages[0].is_contraction and op.stages[1].is_movement


@pytest.mark.parametrize("target", ["tiny", "stcp920"])
def test_they_compute_the_same(target: str) -> None:
    register_operator(DOMAIN, "Softmax", template=no_template)(softmax)
    x = RANDOM.normal(size=(17, 5)).astype(np.float32)
    compiled = girih.compile(surrounded("Softmax", (5, 17)), target=target, solver_timeout=2, cache=False)
    assert compiled.run({"x": x}, check="exact").passed
    assert compiled.run({"x": x}, check=True).passed


def test_a_row_that_nobody_reads_is_computed_all_the_same() -> None:
    register_operator(DOMAIN, "Softmax", template=no_template)(softmax)
    starts = [numpy_helper.from_array(np.array([n]), f"n{n}") for n in (0, 1)]
    nodes = [custom_node("Softmax", ["x"], ["a"]), helper.make_node("Slice", ["a", "n0", "n1", "n0"], ["y"])]
    graph = import_onnx(network(nodes, {"x": [8, 9]}, {"y": [1, 9]}, starts))
    assert graph.tensor[own(graph, "Softmax").output].shape == (8, 9)


def test_what_cannot_be_scheduled_is_said() -> None:
    @register_operator(DOMAIN, "Both", template=no_template)
    def both(x: Any) -> Any:
        return [te.compute(x.shape, lambda *i: tirx.exp(x(*i)), name=name) for name in ("a", "b")]

    @register_operator(DOMAIN, "Late", template=no_template)
    def late(x: Any) -> Any:
        k = te.reduce_axis((0, x.shape[1]), "k")
        power = te.compute(x.shape, lambda *i: tirx.exp(x(*i)), name="power")
        shape = (x.shape[0], x.shape[0])
        return te.compute(shape, lambda i, j: te.sum(power[i, k] * power[j, k], axis=k), name="late")

    @register_operator(DOMAIN, "Lookup", template=no_template)
    def lookup(x: Any) -> Any:
        return te.compute(x.shape, lambda i, j: x[i, x[i, j].astype("int32")], name="lookup")

    for name, outputs, message in (
        ("Both", ["y", "z"], "with a template it has one result, not 2"),
        ("Late", ["y"], "cannot have a template of its own: .*a matrix product reads .*; leave it out"),
        ("Lookup", ["y"], "its template schedules what is no sequence of affine loop nests: an index that depends"),
    ):
        with pytest.raises(UsageError, match=r"test_templates.py:\d+: .*" + message):
            import_onnx(network([custom_node(name, ["x"], outputs)], {"x": [4, 4]}, {"y": None}))
