"""Small graphs made by hand, for the tests of everything that comes after the frontend.

:class:`Net` adds one operator at a time and returns the name of its result; images are NHWC. The functions below it
return whole graphs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from girih.ir.box import Affine
from girih.ir.graph import Access, Axis, Constant, Graph, Host, Op, Port, Stage, Tensor

NUMPY = {"float16": np.float16, "float32": np.float32, "int8": np.int8}


class Net:
    """A graph under construction; ``dtype`` is that of all tensors but the private buffers of contractions."""

    def __init__(self, name: str = "net", dtype: str = "float16", seed: int = 0) -> None:
        self.name = name
        self.dtype = dtype
        self.rng = np.random.default_rng(seed)
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.inputs: list[str] = []
        self.data: dict[str, np.ndarray] = {}

    def input(self, name: str, *shape: int) -> str:
        self.inputs.append(name)
        return self._tensor(name, shape)

    def constant(self, name: str, *shape: int) -> str:
        values = self.rng.standard_normal(shape) / max(1.0, float(np.prod(shape[:-1]))) ** 0.5
        self.data[name] = values.astype(NUMPY[self.dtype])
        return self._tensor(name, shape)

    def conv(
        self, name: str, x: str, channels: int, *, kernel: int = 1, stride: int = 1, relu: bool = True, add: str = ""
    ) -> str:
        """Convolution with half padding, plus bias, plus ``add``, then a ReLU."""
        n, h, w, ci = self.tensors[x].shape
        pad = kernel // 2
        oh, ow = ((e + 2 * pad - kernel) // stride + 1 for e in (h, w))
        weights = self.constant(f"{name}.w", kernel, kernel, ci, channels)
        out = self._tensor(name, (n, oh, ow, channels))
        axes = _axes([n, oh, ow, channels], [kernel, kernel, ci])
        image = (_at(7, n=1), _at(7, y=stride, ky=1, const=-pad), _at(7, x=stride, kx=1, const=-pad), _at(7, ci=1))
        acc = Tensor(f"{name}.acc", (n, oh, ow, channels), "float32")
        stage = Stage(
            axes,
            Access(acc.name, tuple(_unit(7, i) for i in range(4))),
            "mul",
            (
                Access(x, image, 0.0 if pad else None),
                Access(weights, tuple(_unit(7, i) for i in (4, 5, 6, 3))),
            ),
            "sum",
        )
        return self._finish(name, out, [stage], [acc], relu, add, channels)

    def depthwise(self, name: str, x: str, *, kernel: int = 3, stride: int = 1, relu: bool = True) -> str:
        n, h, w, c = self.tensors[x].shape
        pad = kernel // 2
        oh, ow = ((e + 2 * pad - kernel) // stride + 1 for e in (h, w))
        weights = self.constant(f"{name}.w", kernel, kernel, c)
        out = self._tensor(name, (n, oh, ow, c))
        acc = Tensor(f"{name}.acc", (n, oh, ow, c), "float32")
        image = (_unit(6, 0), _sum(6, {1: stride, 4: 1}, -pad), _sum(6, {2: stride, 5: 1}, -pad), _unit(6, 3))
        stage = Stage(
            _axes([n, oh, ow, c], [kernel, kernel]),
            Access(acc.name, tuple(_unit(6, i) for i in range(4))),
            "mul",
            (Access(x, image, 0.0), Access(weights, tuple(_unit(6, i) for i in (4, 5, 3)))),
            "sum",
        )
        return self._finish(name, out, [stage], [acc], relu, "", c)

    def matmul(self, name: str, x: str, columns: int, *, relu: bool = False, add: str = "") -> str:
        """``x[..., k] @ weights[k, columns] + bias``."""
        *lead, k = self.tensors[x].shape
        weights = self.constant(f"{name}.w", k, columns)
        out = self._tensor(name, (*lead, columns))
        acc = Tensor(f"{name}.acc", (*lead, columns), "float32")
        rank = len(lead) + 2
        stage = Stage(
            _axes([*lead, columns], [k]),
            Access(acc.name, tuple(_unit(rank, i) for i in range(rank - 1))),
            "mul",
            (
                Access(x, (*(_unit(rank, i) for i in range(len(lead))), _unit(rank, rank - 1))),
                Access(weights, (_unit(rank, rank - 1), _unit(rank, rank - 2))),
            ),
            "sum",
        )
        return self._finish(name, out, [stage], [acc], relu, add, columns)

    def product(self, name: str, a: str, b: str, *, transposed: bool = False, scale: float = 1.0) -> str:
        """``scale * a[..., m, k] @ b[..., k, n]`` of two activations (``transposed``: ``b[..., n, k]``)."""
        *lead, m, k = self.tensors[a].shape
        n = self.tensors[b].shape[-2 if transposed else -1]
        shape = (*lead, m, n)
        rank = len(shape) + 1
        out = self._tensor(name, shape)
        acc = Tensor(f"{name}.acc", shape, "float32")
        batch = tuple(_unit(rank, i) for i in range(len(lead)))
        m_, n_, k_ = (_unit(rank, len(lead) + i) for i in range(3))
        right = (n_, k_) if transposed else (k_, n_)
        stage = Stage(
            _axes([*shape], [k]),
            Access(acc.name, (*batch, m_, n_)),
            "mul",
            (Access(a, (*batch, m_, k_)), Access(b, (*batch, *right))),
            "sum",
        )
        same = tuple(_unit(len(shape), i) for i in range(len(shape)))
        last = Stage(_axes([*shape], []), Access(out, same), "mul", (Access(acc.name, same), scale))
        self.ops.append(Op(name, (name,), (a, b), (out,), (acc,), (stage, last)))
        return out

    def elementwise(self, name: str, func: str, *operands: str | float) -> str:
        reads = [o for o in operands if isinstance(o, str)]
        shape = self.tensors[reads[0]].shape
        out = self._tensor(name, shape)
        same = tuple(_unit(len(shape), i) for i in range(len(shape)))
        stage = Stage(
            _axes([*shape], []),
            Access(out, same),
            func,
            tuple(Access(o, same) if isinstance(o, str) else o for o in operands),
        )
        self.ops.append(Op(name, (name,), tuple(dict.fromkeys(reads)), (out,), (), (stage,)))
        return out

    def softmax(self, name: str, x: str) -> str:
        """Over the last dimension: max, subtract, exp, sum, divide."""
        shape = self.tensors[x].shape
        rank = len(shape)
        out = self._tensor(name, shape)
        same = tuple(_unit(rank, i) for i in range(rank))
        rows = (*same[:-1],)
        peak, low, exp, total = (
            Tensor(f"{name}.{part}", shape if full else shape[:-1], "float32")
            for part, full in (("peak", False), ("low", True), ("exp", True), ("sum", False))
        )
        spatial, reducing = _axes([*shape], []), _axes([*shape[:-1]], [shape[-1]])
        stages = (
            Stage(reducing, Access(peak.name, rows), "copy", (Access(x, same),), "max"),
            Stage(spatial, Access(low.name, same), "sub", (Access(x, same), Access(peak.name, rows))),
            Stage(spatial, Access(exp.name, same), "exp", (Access(low.name, same),)),
            Stage(reducing, Access(total.name, rows), "copy", (Access(exp.name, same),), "sum"),
            Stage(spatial, Access(out, same), "div", (Access(exp.name, same), Access(total.name, rows))),
        )
        self.ops.append(Op(name, (name,), (x,), (out,), (peak, low, exp, total), stages))
        return out

    def flatten(self, name: str, x: str) -> str:
        """Sum over rows and columns: ``[n, h, w, c]`` to ``[n, c]``."""
        n, h, w, c = self.tensors[x].shape
        out = self._tensor(name, (n, c))
        stage = Stage(
            _axes([n, c], [h, w]),
            Access(out, (_unit(4, 0), _unit(4, 1))),
            "copy",
            (Access(x, tuple(_unit(4, i) for i in (0, 2, 3, 1))),),
            "sum",
        )
        self.ops.append(Op(name, (name,), (x,), (out,), (), (stage,)))
        return out

    def concat(self, name: str, *parts: str, dim: int = -1) -> str:
        """The parts one after the other along a dimension."""
        shapes = [self.tensors[p].shape for p in parts]
        rank = len(shapes[0])
        dim %= rank
        total = sum(s[dim] for s in shapes)
        out = self._tensor(name, (*shapes[0][:dim], total, *shapes[0][dim + 1 :]))
        stages: list[Stage] = []
        start = 0
        for part, shape in zip(parts, shapes, strict=True):
            same = tuple(_unit(rank, i) for i in range(rank))
            there = tuple(Affine(s.coeffs, start if d == dim else 0) for d, s in enumerate(same))
            stages.append(Stage(_axes([*shape], []), Access(out, there), "copy", (Access(part, same),)))
            start += shape[dim]
        self.ops.append(Op(name, (name,), parts, (out,), (), tuple(stages)))
        return out

    def graph(self, *outputs: str) -> Graph:
        names = outputs or (self.ops[-1].output,)

        def port(name: str) -> Port:
            tensor = self.tensors[name]
            return Port(name, name, tensor.shape, tensor.dtype, 0)

        constants = tuple(Constant(n, hashlib.sha256(d.tobytes()).hexdigest()) for n, d in self.data.items())
        return Graph(
            self.name,
            tuple(self.tensors.values()),
            tuple(self.ops),
            tuple(port(n) for n in self.inputs),
            tuple(port(n) for n in names),
            constants,
            batch=self.tensors[self.inputs[0]].shape[0],
            data=self.data,
        )

    def _tensor(self, name: str, shape: Sequence[int]) -> str:
        assert name not in self.tensors, name
        self.tensors[name] = Tensor(name, tuple(shape), self.dtype)
        return name

    def _finish(
        self, name: str, out: str, stages: list[Stage], buffers: list[Tensor], relu: bool, add: str, channels: int
    ) -> str:
        """Add the bias, ``add`` and the ReLU to the last of ``buffers``; the last stage writes ``out``."""
        bias = self.constant(f"{name}.b", channels)
        shape = self.tensors[out].shape
        same = tuple(_unit(len(shape), i) for i in range(len(shape)))
        steps: list[tuple[str, Access | float]] = [("add", Access(bias, same[-1:]))]
        if add:
            steps.append(("add", Access(add, same)))
        if relu:
            steps.append(("max", 0.0))
        for position, (func, operand) in enumerate(steps):
            source = Access(buffers[-1].name, same)
            target = out
            if position < len(steps) - 1:
                buffers.append(Tensor(f"{name}.t{position}", shape, "float32"))
                target = buffers[-1].name
            stages.append(Stage(_axes([*shape], []), Access(target, same), func, (source, operand)))
        reads = dict.fromkeys(r.tensor for s in stages for r in s.reads)
        private = {b.name for b in buffers}
        inputs = tuple(n for n in reads if n not in private)
        self.ops.append(Op(name, (name,), inputs, (out,), tuple(buffers), tuple(stages)))
        return out


def conv(
    *, batch: int = 1, size: int = 16, channels: int = 16, out: int = 16, kernel: int = 3, stride: int = 1,
    dtype: str = "float16",
) -> Graph:  # fmt: skip
    """One convolution with bias and ReLU."""
    net = Net("conv", dtype)
    x = net.input("x", batch, size, size, channels)
    net.conv("conv", x, out, kernel=kernel, stride=stride)
    return net.graph()


def matmul(*, m: int = 32, k: int = 64, n: int = 48, dtype: str = "float16") -> Graph:
    """One matrix product with bias."""
    net = Net("matmul", dtype)
    net.matmul("matmul", net.input("x", m, k), n)
    return net.graph()


def chain(
    length: int = 4, *, batch: int = 1, size: int = 16, channels: int = 16, kernel: int = 3, dtype: str = "float16"
) -> Graph:
    """Convolutions one after the other."""
    net = Net("chain", dtype)
    x = net.input("x", batch, size, size, channels)
    for i in range(length):
        x = net.conv(f"conv{i}", x, channels, kernel=kernel)
    return net.graph()


def elementwise_chain(stages: int, rows: int = 32, columns: int = 32) -> Graph:
    """One operator: a chain of element-wise stages, each of which reads the private buffer of the one before."""
    net = Net("chain", "float32")
    net.elementwise("op", "exp", net.input("x", rows, columns))
    graph = net.graph()
    (op,) = graph.ops
    axes = (Axis("i", rows), Axis("j", columns))
    index = (Affine((1, 0), 0), Affine((0, 1), 0))
    names = ("x", *(f"t{i}" for i in range(stages - 1)), op.output)
    nests = tuple(
        Stage(axes, Access(after, index), "tanh", (Access(before, index),)) for before, after in pairwise(names)
    )
    buffers = tuple(Tensor(name, (rows, columns), "float32") for name in names[1:-1])
    return replace(graph, ops=(replace(op, buffers=buffers, stages=nests),))


def branches(count: int = 4, length: int = 3, rows: int = 32) -> Graph:
    """Chains of element-wise operators that have nothing to do with each other, on one, two and three times the rows."""
    net = Net("branches", "float32")
    ends: list[str] = []
    for branch in range(count):
        x = net.input(f"x{branch}", rows * (1 + branch % 3), 16)
        for i in range(length):
            x = net.elementwise(f"b{branch}.{i}", "max", x, 0.0)
        ends.append(x)
    return net.graph(*ends)


def residual(blocks: int = 2, *, batch: int = 2, size: int = 16, channels: int = 32, dtype: str = "float16") -> Graph:
    """Bottlenecks with shortcuts, then a pooled classifier."""
    net = Net("residual", dtype)
    x = net.conv("stem", net.input("x", batch, size, size, 8), channels, kernel=3)
    for i in range(blocks):
        y = net.conv(f"a{i}", x, channels // 4)
        y = net.conv(f"b{i}", y, channels // 4, kernel=3)
        x = net.conv(f"c{i}", y, channels, add=x)
    net.matmul("fc", net.flatten("pool", x), 10)
    return net.graph()


def dense(
    layers: int = 3, *, batch: int = 2, size: int = 12, channels: int = 16, more: int = 8, dtype: str = "float16"
) -> Graph:
    """A block whose layers add ``more`` channels each to what all layers before them made."""
    net = Net("dense", dtype)
    x = net.conv("stem", net.input("x", batch, size, size, 8), channels, kernel=3)
    for i in range(layers):
        y = net.conv(f"a{i}", net.elementwise(f"relu{i}", "max", x, 0.0), channels)
        y = net.conv(f"b{i}", y, more, kernel=3, relu=False)
        x = net.concat(f"concat{i}", x, y)
    net.conv("last", x, 16)
    return net.graph()


def attention(*, batch: int = 2, heads: int = 2, length: int = 16, width: int = 32, dtype: str = "float16") -> Graph:
    """One attention head group on ready-made queries, keys and values, and a projection."""
    net = Net("attention", dtype)
    q, k, v = (net.input(name, batch, heads, length, width) for name in "qkv")
    scores = net.product("scores", q, k, transposed=True, scale=width**-0.5)
    mixed = net.product("mixed", net.softmax("softmax", scores), v)
    net.matmul("project", mixed, width, add=q)
    return net.graph()


def merged_heads(*, rows: int = 64, heads: int = 5, width: int = 20, length: int = 512) -> Graph:
    """The context of an attention as it is imported: ``[heads, rows, length]`` times ``[length, heads * width]``, to
    ``[rows, heads * width]``, whose columns are those of all heads, one after the other."""
    net = Net("merged-heads", "float32")
    scores = net.input("scores", heads, rows, length)
    values = net.input("values", length, heads * width)
    net.elementwise("op", "copy", net.input("unused", rows, heads * width))
    graph = net.graph()
    (op,) = graph.ops
    axes = (Axis("row", rows), Axis("head", heads), Axis("column", width), Axis("k", length, True))
    summed = Access("sum", tuple(_unit(4, a) for a in (0, 1, 2)))
    left = Access(scores, tuple(_unit(4, a) for a in (1, 0, 3)))
    right = Access(values, (_unit(4, 3), _sum(4, {1: width, 2: 1}, 0)))
    out = Access(op.output, (_unit(3, 0), _sum(3, {1: width, 2: 1}, 0)))
    stages = (
        Stage(axes, summed, "mul", (left, right), "sum"),
        Stage(axes[:3], out, "copy", (Access("sum", tuple(_unit(3, a) for a in range(3))),)),
    )
    product = replace(
        op, inputs=(scores, values), buffers=(Tensor("sum", (rows, heads, width), "float32"),), stages=stages
    )
    tensors = tuple(t for t in graph.tensors if t.name != "unused")
    inputs = tuple(p for p in graph.inputs if p.tensor != "unused")
    return replace(graph, ops=(product,), tensors=tensors, inputs=inputs)


def _axes(spatial: Sequence[int], reduce: Sequence[int]) -> tuple[Axis, ...]:
    return (
        *(Axis(f"i{n}", extent) for n, extent in enumerate(spatial)),
        *(Axis(f"k{n}", extent, True) for n, extent in enumerate(reduce)),
    )


def _unit(rank: int, position: int) -> Affine:
    return _sum(rank, {position: 1}, 0)


def _sum(rank: int, coeffs: dict[int, int], const: int) -> Affine:
    return Affine(tuple(coeffs.get(i, 0) for i in range(rank)), const)


def _at(rank: int, const: int = 0, **coeffs: int) -> Affine:
    names = ("n", "y", "x", "c", "ky", "kx", "ci")
    return _sum(rank, {names.index(n): c for n, c in coeffs.items()}, const)


def host_between(*, rows: int = 4, columns: int = 16) -> Graph:
    """a, b, c, then a kernel of the host that reads a and c and makes h, then d and e: each a chain of maxima."""
    net = Net("hosted", "float32")
    a = net.elementwise("a", "max", net.input("x", rows, columns), 0.0)
    c = net.elementwise("c", "max", net.elementwise("b", "max", a, 0.0), 0.0)
    h = net._tensor("h", (rows, columns))
    net.ops.append(Op("host", ("host",), (a, c), (h,), host=Host("", "no engine does this")))
    return net.graph(net.elementwise("e", "max", net.elementwise("d", "max", h, 0.0), 0.0))


def with_host() -> Graph:
    """A convolution, the host, and a convolution; the host also reads the input."""
    net = Net("hosted")
    x = net.input("x", 1, 8, 8, 16)
    a = net.conv("a", x, 16)
    h = net._tensor("h", (1, 8, 8, 16))  # pyright: ignore[reportPrivateUsage]
    net.ops.append(Op("host", ("host",), (a, x), (h,), host=Host("", "no engine does this")))
    net.conv("b", h, 16, add=a)
    return net.graph()
