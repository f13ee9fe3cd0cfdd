"""Operators that move elements, and those that interpolate between them."""

from __future__ import annotations

import numpy as np
import onnx

from tests.support.onnx_models import Model
from tests.support.operators.cases import Case, Cases

CASES = Cases()


def move(op: str, *shape: int, constants: tuple[object, ...] = (), **attributes: object) -> Case:
    def build() -> onnx.ModelProto:
        m = Model()
        inputs = [m.input("x", *shape), *(m.constant(f"c{i}", c) for i, c in enumerate(constants))]
        return m.build(m.node(op, *inputs, **attributes))

    return build


CASES |= {
    "transpose": move("Transpose", 2, 3, 4, perm=[2, 0, 1]),
    "reshape merge": move("Reshape", 2, 3, 4, constants=([6, 4],)),
    "reshape split": move("Reshape", 6, 8, constants=([2, 3, 4, 2],)),
    "reshape across": move("Reshape", 4, 6, constants=([8, 3],)),
    "reshape without common factors": move("Reshape", 2, 9, constants=([3, 6],)),
    "reshape of primes": move("Reshape", 2, 15, constants=([5, 6],)),
    "flatten": move("Flatten", 2, 3, 4, axis=1),
    "squeeze": move("Squeeze", 2, 1, 4, constants=([1],)),
    "unsqueeze": move("Unsqueeze", 2, 4, constants=([0, 2],)),
    "expand": move("Expand", 3, 1, constants=([2, 3, 4],)),
    "slice": move("Slice", 5, 8, constants=([1, 2], [4, 7], [0, 1])),
    "slice stepped": move("Slice", 5, 9, constants=([0], [9], [1], [2])),
    "slice backwards": move("Slice", 5, 9, constants=([8], [-10], [1], [-1])),
    "tile": move("Tile", 2, 3, constants=([2, 2],)),
    "pad": move("Pad", 3, 4, constants=([1, 0, 2, 1], np.float32(0.5))),
    "pad reflect": move("Pad", 5, 6, constants=([1, 2, 2, 1],), mode="reflect"),
    "pad edge": move("Pad", 5, 6, constants=([1, 2, 2, 1],), mode="edge"),
    "depth to space": move("DepthToSpace", 1, 8, 3, 3, blocksize=2),
    "space to depth": move("SpaceToDepth", 1, 2, 6, 6, blocksize=2),
    "gather one": move("Gather", 4, 5, 6, constants=(2,), axis=1),
    "gather some": move("Gather", 4, 7, 6, constants=([1, 2, 5, 3, 1],), axis=1),
    "upsample nearest": move(
        "Resize", 1, 2, 4, 5, constants=(np.zeros(0, "f4"), np.array([1, 1, 2, 2], "f4")), mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    ),
}  # fmt: skip


def resize(*shape: int, scales: tuple[float, ...] = (), sizes: tuple[int, ...] = (), **attributes: object) -> Case:
    def build() -> onnx.ModelProto:
        m = Model(opset=18)
        nothing = m.constant("nothing", np.zeros(0, "f4"))
        extent = [nothing, m.constant("sizes", sizes)] if sizes else [m.constant("scales", np.array(scales, "f4"))]
        return m.build(m.node("Resize", m.input("x", *shape), nothing, *extent, **attributes))

    return build


CASES |= {
    **{
        f"resize {mode} {where} {'x'.join(map(str, sizes))}": resize(
            1, 3, 6, 7, sizes=(1, 3, *sizes), mode=mode, coordinate_transformation_mode=where
        )
        for mode in ("linear", "cubic")
        for where in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
        for sizes in ((12, 14), (9, 21), (3, 5), (1, 11))
    },
    "resize rows": resize(2, 3, 6, 7, scales=(1, 1, 3, 1), mode="linear"),
    "resize up and down": resize(
        2, 4, 6, 8, scales=(1, 1, 2, 0.5), mode="linear", coordinate_transformation_mode="asymmetric"
    ),
    "resize some axes": resize(2, 4, 6, 7, scales=(2, 2), mode="linear", axes=[2, 3]),
    "resize 1d": resize(1, 3, 8, scales=(1, 1, 1.5), mode="linear"),
    "resize 3d": resize(1, 2, 3, 4, 5, scales=(1, 1, 2, 2, 2), mode="linear"),
    "resize by primes": resize(1, 2, 97, 3, sizes=(1, 2, 151, 3), mode="linear"),
    "resize cubic sharply": resize(1, 2, 6, 7, scales=(1, 1, 2, 2), mode="cubic", cubic_coeff_a=-0.5),
    "resize nearest by sizes": resize(1, 2, 6, 7, sizes=(1, 2, 12, 21), mode="nearest"),
}


@CASES.add
def concatenate() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("Concat", m.input("x", 2, 3, 4), m.input("y", 2, 5, 4), m.weight("z", 2, 1, 4), axis=1))


@CASES.add
def split_in_three() -> onnx.ModelProto:
    m = Model()
    m.node("Split", m.input("x", 2, 9), m.constant("sizes", [2, 3, 4]), outputs=["a", "b", "c"], axis=1)
    return m.build("a", m.node("Relu", "b"), "c")
