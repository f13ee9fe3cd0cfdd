"""What tests of rewrites of a graph share: that two graphs compute the same, and graphs that differ in one thing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from girih import models
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.ir.checks.check_graph import check_graph
from girih.ir.graph import Graph, Op, Stage
from tests.support.numpy_check import error, inputs_of
from tests.support.onnx_models import Model
from tests.support.small_models import SMALL

PRECISIONS = ("as-is", "fp16")
TOLERANCE = {"as-is": 1e-5, "fp16": 5e-3}


def imported(model: Model, *outputs: str, precision: str = "as-is", batch: int | None = None) -> Graph:
    graph = import_onnx(model.build(*outputs), precision=precision, batch=batch)  # type: ignore[arg-type]
    check_graph(graph)
    return graph


def network(name: str, precision: str = "as-is", batch: int = 1) -> Graph:
    return import_onnx(models.build(name, **SMALL[name]), precision=precision, batch=batch)  # type: ignore[arg-type]


def sound(graph: Graph) -> None:
    """Each operator names just what it reads, digests are those of the data, names are unique, and nothing is unused."""
    check_graph(graph)
    assert set(graph.data) == graph.constant_names
    for constant in graph.constants:
        assert constant.sha256 == hashlib.sha256(graph.data[constant.tensor].tobytes()).hexdigest()
    for op in graph.ops:
        if op.host is not None:
            continue
        private = {b.name for b in op.buffers}
        read = {r.tensor for s in op.stages for r in s.reads}
        assert set(op.inputs) == read - private, op.name
        assert private == {s.write.tensor for s in op.stages} - {op.output}, op.name
        assert private <= read, op.name
    used = {n for op in graph.ops for n in op.inputs} | graph.output_tensors | graph.input_tensors
    assert set(graph.tensor) == used
    names = [b.name for op in graph.ops for b in op.buffers]
    assert len(names) == len(set(names))


def same(graph: Graph, other: Graph, tolerance: float, inputs: dict[str, np.ndarray] | None = None) -> None:
    """Both compute the same, and where one is not finite the other is not, either."""
    sound(other)
    arrays = inputs_of(graph) if inputs is None else inputs
    with np.errstate(all="ignore"):
        before, after = (evaluate_graph(g, arrays, None) for g in (graph, other))
    for name, values in before.items():
        assert np.array_equal(np.isfinite(values), np.isfinite(after[name])), name
        assert error(after[name], values) <= tolerance, f"{name}\n{other}"


def functions(op: Op) -> list[str]:
    return [s.func for s in op.stages]


def with_op(graph: Graph, name: str, change: Callable[[Op], Op]) -> Graph:
    changed = replace(graph, ops=tuple(change(op) if op.name == name else op for op in graph.ops))
    check_graph(changed)
    return changed


def with_stage(graph: Graph, name: str, number: int, change: Callable[[Stage], Stage]) -> Graph:
    def edited(op: Op) -> Op:
        stages = list(op.stages)
        stages[number] = change(stages[number])
        return replace(op, stages=tuple(stages))

    return with_op(graph, name, edited)
