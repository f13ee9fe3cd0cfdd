"""Conversions to int64 that only an output needs are made by its port, and are the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto

import girih
from girih.ir.graph import Graph
from tests.support.onnx_models import Model, compare, random_inputs

INT64 = TensorProto.INT64


def rounded(m: Model) -> str:
    """Whole numbers of 32 bits, of both signs."""
    many = m.node("Mul", m.input("x", 3, 4), m.constant("many", np.float32(1e8)))
    return m.node("Cast", many, to=TensorProto.INT32)


def converted(m: Model) -> list[str]:
    return [m.node("Cast", rounded(m), to=INT64)]


def moved(m: Model) -> list[str]:
    wide = m.node("Cast", rounded(m), to=INT64)
    return [m.node("Reshape", m.node("Transpose", wide, perm=[1, 0]), m.constant("shape", [2, 6]))]


def position(m: Model) -> list[str]:
    return [m.node("ArgMax", m.input("x", 3, 4), axis=1, keepdims=0)]


@pytest.mark.parametrize("write", [converted, moved, position])
def test_the_port_converts(write: Callable[[Model], list[str]]) -> None:
    m = Model()
    graph = compare(m.build(*write(m)), tolerance=0.0)
    assert dtypes(graph) == [("int64", "int32")]


def test_what_others_count_with_stays() -> None:
    """A sum of int64, which may have more than 32 bits."""
    m = Model()
    wide = m.node("Cast", rounded(m), to=INT64)
    graph = compare(m.build(wide, m.node("Mul", wide, wide)), tolerance=0.0, host=True)
    assert dtypes(graph) == [("int64", "int64")] * 2


def test_what_two_outputs_share_stays() -> None:
    m = Model()
    wide = m.node("Cast", rounded(m), to=INT64)
    graph = compare(m.build(wide, m.node("Transpose", wide, perm=[1, 0])), tolerance=0.0, host=True)
    assert dtypes(graph) == [("int64", "int64")] * 2


def test_a_program_gives_int64() -> None:
    m = Model()
    model = m.build(*position(m))
    inputs = random_inputs(model)
    (found,) = girih.compile(model, target="tiny", solver_timeout=1).run(inputs, check="exact").outputs.values()
    assert found.dtype == np.int64 and (found == inputs["x"].argmax(axis=1)).all()


def dtypes(graph: Graph) -> list[tuple[str, str]]:
    """Of outputs: of the port, and of its tensor."""
    return [(port.dtype, graph.tensor[port.tensor].dtype) for port in graph.outputs]
