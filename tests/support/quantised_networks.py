"""Random small networks, quantised by ONNX Runtime's own quantiser in random ways."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from girih.ir.graph import Graph
from tests.support.onnx_models import Model, random_inputs


class Samples(CalibrationDataReader):
    """A few random inputs, to find the ranges of the tensors with."""

    def __init__(self, model: onnx.ModelProto, count: int = 3) -> None:
        self._left = [random_inputs(model, batch=2, seed=seed) for seed in range(count)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._left.pop() if self._left else None


@dataclass(frozen=True)
class Kind:
    """How a network is quantised."""

    activations: QuantType = QuantType.QUInt8
    weights: QuantType = QuantType.QInt8
    per_channel: bool = True
    symmetric: bool = False
    form: QuantFormat = QuantFormat.QDQ


def quantised(model: onnx.ModelProto, kind: Kind, folder: Path) -> onnx.ModelProto:
    """The network with 8-bit integers between its operators."""
    logging.disable(logging.WARNING)
    options = {"ActivationSymmetric": kind.symmetric, "WeightSymmetric": kind.weights == QuantType.QInt8}
    try:
        quantize_static(
            model, folder / "quantised.onnx", Samples(model), quant_format=kind.form, per_channel=kind.per_channel,
            activation_type=kind.activations, weight_type=kind.weights, extra_options=options,
        )  # fmt: skip
    finally:
        logging.disable(logging.NOTSET)
    return onnx.load(folder / "quantised.onnx")


def random_kind(rng: np.random.Generator) -> Kind:
    """Any way that the quantiser knows, of those that ONNX Runtime runs."""
    activations = QuantType.QUInt8 if rng.random() < 0.5 else QuantType.QInt8
    # ONNX Runtime multiplies signed activations by signed weights alone.
    weights = QuantType.QUInt8 if activations == QuantType.QUInt8 and rng.random() < 0.3 else QuantType.QInt8
    per_channel = weights == QuantType.QInt8 and rng.random() < 0.5
    form = QuantFormat.QDQ if rng.random() < 0.7 else QuantFormat.QOperator
    return Kind(activations, weights, per_channel, bool(rng.random() < 0.4), form)


def random_network(rng: np.random.Generator) -> onnx.ModelProto:
    """One to four layers with convolutions or matrix products, and what stands between them."""
    model = Model(opset=17, seed=int(rng.integers(1 << 30)))
    return _images(model, rng) if rng.random() < 0.6 else _rows(model, rng)


def _images(model: Model, rng: np.random.Generator) -> onnx.ModelProto:
    channels, size = int(rng.integers(1, 9)), int(rng.integers(5, 12))
    value, shape = model.input("x", "N", channels, size, size), [channels, size, size]
    for number in range(int(rng.integers(1, 4))):
        before = value
        kernel, stride = int(rng.choice((1, 2, 3))), int(rng.choice((1, 1, 2)))
        pads = [int(n) for n in rng.integers(0, kernel, 4)]
        if min(shape[1] + pads[0] + pads[2], shape[2] + pads[1] + pads[3]) < kernel:
            pads = [kernel - 1] * 4
        depthwise = shape[0] > 1 and rng.random() < 0.2
        out = shape[0] if depthwise or rng.random() < 0.5 else int(rng.integers(1, 13))
        weights = model.weight(f"w{number}", out, 1 if depthwise else shape[0], kernel, kernel)
        inputs = [value, weights]
        if rng.random() < 0.7:
            inputs.append(model.weight(f"b{number}", out))
        group = shape[0] if depthwise else 1
        value = model.node("Conv", *inputs, pads=pads, strides=[stride, stride], group=group, name=f"conv{number}")
        old, shape = shape, [
            out,
            (shape[1] + pads[0] + pads[2] - kernel) // stride + 1,
            (shape[2] + pads[1] + pads[3] - kernel) // stride + 1,
        ]  # fmt: skip
        if rng.random() < 0.3 and shape == old:
            value = model.node("Add", before, value, name=f"add{number}")
        value = _activated(model, rng, value, number)
        if rng.random() < 0.2:
            value = model.node("Concat", value, value, axis=1, name=f"both{number}")
            shape[0] *= 2
        if rng.random() < 0.2 and min(shape[1:]) >= 3:
            value = model.node("MaxPool", value, kernel_shape=[2, 2], strides=[1, 1], name=f"pool{number}")
            shape = [shape[0], shape[1] - 1, shape[2] - 1]
    if rng.random() < 0.4:
        value = model.node("GlobalAveragePool", value, name="mean")
        value = model.node("Flatten", value, name="flat")
        value = model.node("Gemm", value, model.weight("fc", 7, shape[0]), model.weight("fb", 7), transB=1, name="fc1")
    return model.build(value)


def _rows(model: Model, rng: np.random.Generator) -> onnx.ModelProto:
    depth, length = int(rng.integers(1, 20)), int(rng.integers(1, 9))
    value = model.input("x", "N", length, depth)
    for number in range(int(rng.integers(1, 4))):
        wide = int(rng.integers(1, 20))
        value = model.node("MatMul", value, model.weight(f"w{number}", depth, wide), name=f"product{number}")
        depth = wide
        if rng.random() < 0.5:
            value = model.node("Add", value, model.weight(f"b{number}", depth), name=f"biased{number}")
        value = _activated(model, rng, value, number)
        if rng.random() < 0.4:
            turned = model.node("Transpose", value, perm=[0, 2, 1], name=f"turned{number}")
            value = model.node("MatMul", value, turned, name=f"square{number}")
            depth = length
    return model.build(value)


def _activated(model: Model, rng: np.random.Generator, value: str, number: int) -> str:
    choice = rng.random()
    if choice < 0.4:
        return model.node("Relu", value, name=f"relu{number}")
    if choice < 0.55:
        limits = model.constant(f"low{number}", np.float32(-0.25)), model.constant(f"high{number}", np.float32(1.5))
        return model.node("Clip", value, *limits, name=f"clip{number}")
    if choice < 0.65:
        return model.node("Sigmoid", value, name=f"sigmoid{number}")
    return value


def product_dtypes(graph: Graph) -> set[str]:
    """The dtypes that products multiply."""
    found: set[str] = set()
    for op in graph.ops:
        private = {b.name: b.dtype for b in op.buffers}
        for stage in op.stages:
            if stage.is_contraction:
                found |= {private.get(r.tensor) or graph.tensor[r.tensor].dtype for r in stage.factors}
    return found
