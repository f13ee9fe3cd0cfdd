"""Graphs whose extents fill no array and no lanes: single channels, odd images, heads and groups of their own."""

from __future__ import annotations

import hashlib
from random import Random

import numpy as np

from girih.ir.box import Affine
from girih.ir.graph import Access, Axis, Constant, Graph, Op, Port, Stage, Tensor
from tests.support import graphs


def grouped(dtype: str, images: int, size: int, groups: int, channels: int, out: int) -> Graph:
    """A convolution of 3 x 3 whose groups are an axis of their own: of ``channels`` to ``out`` each."""
    shape = (images, size, size, groups * channels)
    axes = (*(Axis(f"i{n}", e) for n, e in enumerate((images, size, size, groups, out))),)
    axes += (*(Axis(f"k{n}", e, True) for n, e in enumerate((3, 3, channels))),)

    def at(const: int = 0, **coeffs: int) -> Affine:
        return Affine(tuple(coeffs.get(n, 0) for n in ("n", "y", "x", "g", "c", "ky", "kx", "ci")), const)

    x, w = Tensor("x", shape, dtype), Tensor("w", (groups, 3, 3, channels, out), dtype)
    total = Tensor("total", (images, size, size, groups, out), "float32")
    y = Tensor("y", total.shape, dtype)
    image = (at(n=1), at(-1, y=1, ky=1), at(-1, x=1, kx=1), at(g=channels, ci=1))
    same = tuple(Affine(tuple(int(a == d) for a in range(5))) for d in range(5))
    stages = (
        Stage(
            axes,
            Access("total", (at(n=1), at(y=1), at(x=1), at(g=1), at(c=1))),
            "mul",
            (Access("x", image, 0.0), Access("w", (at(g=1), at(ky=1), at(kx=1), at(ci=1), at(c=1)))),
            "sum",
        ),
        Stage(axes[:5], Access("y", same), "max", (Access("total", same), 0.0)),
    )
    data = np.ones(w.shape, graphs.NUMPY[dtype])
    return Graph(
        "grouped",
        (x, w, y),
        (Op("grouped", (), ("x", "w"), ("y",), (total,), stages),),
        (Port("x", "x", shape, dtype),),
        (Port("y", "y", y.shape, dtype),),
        (Constant("w", hashlib.sha256(data.tobytes()).hexdigest()),),
        data={"w": data},
    )


def several_columns(dtype: str, rows: tuple[int, int], columns: tuple[int, int], k: int) -> Graph:
    """A product with two axes of rows and two of columns, which lie apart in the result."""
    axes = (*(Axis(f"i{n}", e) for n, e in enumerate((rows[0], columns[0], rows[1], columns[1]))), Axis("k", k, True))

    def at(*used: int) -> tuple[Affine, ...]:
        return tuple(Affine(tuple(int(a == u) for a in range(5))) for u in used)

    x, w = Tensor("x", (*rows, k), dtype), Tensor("w", (k, *columns), dtype)
    total = Tensor("total", tuple(a.extent for a in axes[:4]), "float32")
    y = Tensor("y", total.shape, dtype)
    same = tuple(Affine(tuple(int(a == d) for a in range(4))) for d in range(4))
    stages = (
        Stage(
            axes, Access("total", at(0, 1, 2, 3)), "mul", (Access("x", at(0, 2, 4)), Access("w", at(4, 1, 3))), "sum"
        ),
        Stage(axes[:4], Access("y", same), "copy", (Access("total", same),)),
    )
    data = np.ones(w.shape, graphs.NUMPY[dtype])
    return Graph(
        "several",
        (x, w, y),
        (Op("several", (), ("x", "w"), ("y",), (total,), stages),),
        (Port("x", "x", x.shape, dtype),),
        (Port("y", "y", y.shape, dtype),),
        (Constant("w", hashlib.sha256(data.tobytes()).hexdigest()),),
        data={"w": data},
    )


def odd_graph(seed: int, dtype: str) -> Graph:
    """An operator or two with extents that leave rows, columns or lanes empty."""
    rng = Random(f"awkward {seed}")
    net = graphs.Net("awkward", dtype, seed)
    kind = rng.choice(["conv", "conv", "conv", "pair", "attention", "matmul", "grouped", "several", "depthwise"])
    images, (height, width) = rng.choice([1, 2, 3, 5, 9]), rng.choice([(7, 7), (5, 3), (3, 9), (14, 2), (1, 13)])
    channels, out = rng.choice([1, 3, 5, 8]), rng.choice([1, 4, 9, 16, 33])
    kernel, stride = rng.choice([(1, 1), (3, 1), (3, 1), (1, 2), (3, 2)])
    if kind == "grouped":
        return grouped(dtype, images, rng.choice([3, 5, 7]), rng.choice([1, 2, 3]), rng.choice([1, 2]), out)
    if kind == "several":
        extents = [rng.choice([1, 2, 3, 5, 9]) for _ in range(4)]
        return several_columns(dtype, (extents[0], extents[1]), (extents[2], extents[3]), channels)
    if kind == "attention":
        return graphs.attention(
            batch=rng.choice([1, 2]),
            heads=rng.choice([1, 3]),
            length=rng.choice([3, 9, 17]),
            width=channels,
            dtype=dtype,
        )
    if kind == "matmul":
        net.matmul("product", net.input("x", images * height, width, channels), out, relu=True)
        return net.graph()
    x = net.input("x", images, height, width, channels)
    if kind == "depthwise":
        net.depthwise("depthwise", x, stride=stride)
        return net.graph()
    x = net.conv("first", x, out, kernel=kernel, stride=stride)
    if kind == "pair":
        # Of the first, some rows may not be needed.
        net.conv("second", x, channels, kernel=rng.choice([1, 3]), stride=rng.choice([1, 2]))
    return net.graph()
