"""Results of which only a part is read."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from girih import models
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.frontend.passes.shrink import shrink
from girih.ir.box import Affine
from girih.ir.checks.check_graph import check_graph
from girih.ir.graph import Access, Axis, Graph, Op, Port, Stage, Tensor
from tests.support.numpy_check import inputs_of
from tests.support.onnx_models import Model
from tests.support.random_graphs import random_graph


def picked(graph: Graph, rng: Random) -> Graph:
    """The graph with a part of its last result as its output."""
    source = graph.tensor[graph.ops[-1].output]
    spans = [(lo := rng.randrange(n), rng.randint(1, n - lo)) for n in source.shape]
    shape = tuple(size for _, size in spans)
    rank = len(shape)
    here = tuple(Affine(tuple(int(a == d) for a in range(rank)), 0) for d in range(rank))
    there = tuple(Affine(i.coeffs, lo) for i, (lo, _) in zip(here, spans, strict=True))
    axes = tuple(Axis(f"i{d}", n) for d, n in enumerate(shape))
    stage = Stage(axes, Access("part", here), "copy", (Access(source.name, there),))
    op = Op("pick", ("pick",), (source.name,), ("part",), (), (stage,))
    tensors = (*graph.tensors, Tensor("part", shape, source.dtype))
    port = Port("part", "part", shape, source.dtype)
    inputs = tuple(replace(p, batch_axis=None) for p in graph.inputs)
    return replace(graph, tensors=tensors, ops=(*graph.ops, op), inputs=inputs, outputs=(port,), batch=None)


def test_parts_have_the_same_values() -> None:
    """To the last bit, on random graphs; and most of them become smaller."""
    smaller = 0
    for seed in range(80):
        graph = picked(random_graph(seed, "float16", 4), Random(seed))
        made = shrink(graph)
        check_graph(made)
        given = inputs_of(graph, seed)
        before, after = (evaluate_graph(g, given)["part"] for g in (graph, made))
        assert before.tobytes() == after.tobytes(), seed
        sizes = [sum(t.elements for t in g.tensors) for g in (graph, made)]
        assert (made is graph) == (sizes[0] == sizes[1]) and sizes[1] <= sizes[0]
        smaller += sizes[1] < sizes[0]
    assert smaller >= 20


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
def test_the_last_block_of_a_vision_transformer_makes_one_token(precision: str) -> None:
    model = models.build("vit-b16", size=64, layers=2, hidden=32, heads=2, ffn=64, classes=10)
    graph = import_onnx(model, batch=2, precision=precision)  # type: ignore[arg-type]
    rows = {op.name: graph.tensor[op.output].shape[1:] for op in graph.ops}
    assert rows["encoder.0.mlp.fc1.matmul"] == (17, 64) and rows["encoder.1.mlp.fc1.matmul"] == (1, 64)
    assert rows["encoder.1.attention.key.matmul"][-2:] != (1, 32) and np.prod(rows["encoder.1.attention.scores"]) == 34


def test_what_nobody_reads_is_not_made() -> None:
    """Columns of one operand of a concatenation alone, be they few or nearly all of the result."""
    for columns in (9, 12):
        m = Model(17, 0)
        x = m.input("x", 8, 16)
        parts = [m.node("MatMul", x, m.weight(f"w{n}", 16, n)) for n in (12, 8)]
        both = m.node("Concat", *parts, axis=1)
        cut = (m.constant(name, [value], "int64") for name, value in (("from", 0), ("to", columns), ("axis", 1)))
        graph = import_onnx(m.build(m.node("Relu", m.node("Slice", both, *cut))))
        check_graph(graph)
        assert len(graph.constants) == 1 and sum(op.contraction is not None for op in graph.ops) == 1, graph


def test_nothing_changes_where_all_is_read() -> None:
    graph = import_onnx(models.build("tiny-cnn"), batch=1)
    assert shrink(graph) is graph


def test_what_is_only_padded_still_exists() -> None:
    """Of the padded sigmoid, the slice takes nothing but padding."""
    m = Model()
    y = m.node("Sigmoid", m.input("x", 2, 6))
    padded = m.node("Pad", y, m.constant("pads", [1, 0, 0, 0]))
    first = m.node("Slice", padded, *(m.constant(n, [v]) for n, v in (("start", 0), ("end", 1), ("axis", 0))))
    graph = import_onnx(m.build(m.node("Add", first, m.weight("b", 6))))
    check_graph(graph)
    (got,) = evaluate_graph(graph, {"x": np.ones((2, 6), np.float32)}).values()
    np.testing.assert_array_equal(got, m.weights["b"][None])
