"""Operators that move elements, and those that interpolate between them."""

from __future__ import annotations

import numpy as np
import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Cases
from tests.support.operators.single_nodes import one

CASES = Cases()

CASES |= {
    "transpose": one("Transpose", (5, 7, 11), perm=[2, 0, 1]),
    "transpose last two": one("Transpose", (3, 17, 13), perm=[0, 2, 1]),
    "reshape merge": one("Reshape", (5, 3, 14), constants={1: [15, 14]}),
    "reshape split": one("Reshape", (6, 35), constants={1: [2, 3, 5, 7]}),
    "reshape across": one("Reshape", (4, 6), constants={1: [8, 3]}),
    "reshape of primes": one("Reshape", (7, 15), constants={1: [5, 21]}),
    "flatten": one("Flatten", (2, 3, 5, 7), axis=2),
    "squeeze": one("Squeeze", (2, 1, 13), constants={1: [1]}),
    "unsqueeze": one("Unsqueeze", (2, 13), constants={1: [0, 2]}),
    "expand": one("Expand", (7, 1), constants={1: [3, 7, 13]}),
    "tile": one("Tile", (5, 7), constants={1: [2, 3]}),
    "slice": one("Slice", (9, 23), constants={1: [1, 2], 2: [8, 19], 3: [0, 1]}),
    "slice stepped": one("Slice", (9, 23), constants={1: [1, 0], 2: [9, 23], 3: [0, 1], 4: [3, 2]}),
    "slice backwards": one("Slice", (9, 23), constants={1: [-1], 2: [-24], 3: [1], 4: [-2]}),
    "pad": one("Pad", (7, 13), constants={1: [1, 0, 2, 3], 2: np.float32(0.5)}),
    "pad negative": one("Pad", (7, 13), constants={1: [-1, 2, 2, -3]}),
    "pad reflect": one("Pad", (7, 9), constants={1: [1, 2, 2, 1]}, mode="reflect"),
    "pad edge": one("Pad", (7, 9), constants={1: [1, 2, 2, 1]}, mode="edge"),
    "depth to space": one("DepthToSpace", (1, 12, 5, 3), blocksize=2),
    "depth to space, columns first": one("DepthToSpace", (1, 12, 5, 3), blocksize=2, mode="CRD"),
    "space to depth": one("SpaceToDepth", (1, 3, 6, 10), blocksize=2),
    "gather one": one("Gather", (4, 7, 6), constants={1: 2}, axis=1),
    "gather some": one("Gather", (4, 7, 6), constants={1: [1, 2, 5, 3, 1]}, axis=1),
    "concat": one("Concat", (2, 3, 13), (2, 5, 13), (2, 1, 13), axis=1),
    "concat last": one("Concat", (5, 7), (5, 11), axis=-1),
    "resize linear": one(
        "Resize", (1, 5, 6, 7), constants={1: None, 2: np.array([1, 1, 2, 2], "f4")}, opset=18, mode="linear"
    ),
    "resize cubic": one(
        "Resize", (1, 5, 6, 7), constants={1: None, 2: None, 3: [1, 5, 9, 4]}, opset=18, mode="cubic",
        coordinate_transformation_mode="align_corners",
    ),
    "resize by primes": one(
        "Resize", (1, 3, 71, 2), constants={1: None, 2: None, 3: [1, 3, 97, 2]}, opset=18, mode="linear",
    ),
    "upsample nearest": one(
        "Resize", (1, 5, 4, 7), constants={1: None, 2: np.array([1, 1, 2, 2], "f4")}, mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    ),
}  # fmt: skip


@CASES.add
def split_in_three() -> onnx.ModelProto:
    m = Model()
    m.node("Split", m.input("x", 7, 29), m.constant("sizes", [5, 11, 13]), outputs=["a", "b", "c"], axis=1)
    return m.build("a", m.node("Relu", "b"), m.node("Exp", "c"))


@CASES.add
def padded_then_added() -> onnx.ModelProto:
    m = Model()
    padded = m.node("Pad", m.input("x", 5, 7), m.constant("p", [1, 0, 0, 2]))
    return m.build(m.node("Mul", padded, m.input("y", 6, 9)))
