"""Models of one node, by operator and shapes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Case


def one(
    op: str,
    *shapes: tuple[int, ...],
    constants: Mapping[int, object] | None = None,
    opset: int = 17,
    **attributes: object,
) -> Case:
    """A node of inputs of these shapes, with ``constants`` at some places among them."""

    def build() -> onnx.ModelProto:
        m = Model(opset)
        inputs = [m.input(f"x{i}", *shape) for i, shape in enumerate(shapes)]
        for place, value in (constants or {}).items():
            inputs.insert(place, m.constant(f"c{place}", value) if value is not None else "")
        return m.build(m.node(op, *inputs, **attributes))

    return build


def unary(op: str, shape: tuple[int, ...], positive: bool = False, **attributes: object) -> Case:
    def build() -> onnx.ModelProto:
        m = Model(opset=18)
        x = m.input("x", *shape)
        if positive:
            x = m.node("Add", m.node("Abs", x), m.constant("half", 0.5))
        return m.build(m.node(op, x, **attributes))

    return build


def binary(op: str, first: tuple[int, ...], second: tuple[int, ...]) -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        y = m.node("Add", m.node("Abs", m.input("y", *second)), m.constant("half", 0.5))
        return m.build(m.node(op, m.input("x", *first), y))

    return build
