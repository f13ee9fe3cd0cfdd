"""Operators drawn at random as chains of ``te.compute``, and what TVM's own build for this computer makes of them.

Ranks 1 to 5; small extents and large primes; broadcasts, transposes, strides, reversals, diagonals, splits and merges
of dimensions, paddings, concatenations, windows, reductions over one or two axes, products of matrices in batches,
convolutions. All numbers are whole, and small enough that every sum of them is exact in the dtype.
"""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import helper
from tvm import te, tirx

from girih.frontend import import_onnx
from girih.ir.custom_operators import register_operator, registered_for_now
from girih.ir.graph import Graph

Tensor = Any
_EXACT = {"float32": 2**24, "float16": 2**11}
"""Whole numbers up to this are exact."""
_LARGEST = 6000
"""Elements of a tensor, and points of a reduction."""
_EXTENTS = (1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 23, 31, 37, 61)


@dataclass
class RandomCompute:
    """``shapes`` of the inputs, and ``build`` that makes te tensors of such ones; ``steps`` say what it does."""

    seed: int
    dtype: str
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    actions: list[Callable[[Tensor, list[Tensor]], Tensor]] = field(default_factory=list)

    def build(self, *inputs: Tensor) -> Tensor:
        """The result, as te tensors."""
        tensor, known = inputs[0], list(inputs)
        for action in self.actions:
            tensor = action(tensor, known)
        return tensor

    def arrays(self) -> dict[str, np.ndarray]:
        """Whole numbers from -2 to 2 for each input."""
        random = np.random.default_rng(self.seed)
        return {f"x{n}": random.integers(-2, 3, shape).astype(self.dtype) for n, shape in enumerate(self.shapes)}

    def expected(self) -> np.ndarray:
        """The result by TVM's build of the same te tensors for this computer."""
        inputs = [te.placeholder(shape, self.dtype, f"x{n}") for n, shape in enumerate(self.shapes)]
        result = self.build(*inputs)
        library = tvm.compile(te.create_prim_func([*inputs, result]), target="llvm")
        out = tvm.runtime.tensor(np.zeros([int(n) for n in result.shape], self.dtype))
        library["main"](*(tvm.runtime.tensor(array) for array in self.arrays().values()), out)
        return out.numpy()

    def graph(self) -> Graph:
        """The operator as a network of one custom node, imported."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        inputs = [helper.make_tensor_value_info(f"x{n}", kind, shape) for n, shape in enumerate(self.shapes)]
        node = helper.make_node("Drawn", [i.name for i in inputs], ["y"], name="drawn", domain="my.ops")
        outputs = [helper.make_tensor_value_info("y", kind, None)]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
        model = helper.make_model(
            helper.make_graph([node], "drawn", inputs, outputs), opset_imports=opsets, ir_version=8
        )
        assert isinstance(model, onnx.ModelProto)
        with registered_for_now():
            register_operator("my.ops", "Drawn")(self.build)
            return import_onnx(model)

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.dtype}, inputs {self.shapes}: {'; '.join(self.steps)}"


def random_compute(seed: int, dtype: str) -> RandomCompute:
    """The operator of a seed: one to four steps, each on the result of the one before."""
    return _Drawing(seed, dtype).drawn()


class _Drawing:
    def __init__(self, seed: int, dtype: str) -> None:
        self.rng = Random(seed)
        self.compute = RandomCompute(seed, dtype)
        self.most = _EXACT[dtype]
        self.shape = self._shape(self.rng.randint(1, 5))
        self.compute.shapes.append(self.shape)
        self.bound = 2

    def drawn(self) -> RandomCompute:
        steps = (
            self._unary, self._binary, self._permuted, self._strided, self._reversed, self._padded, self._merged,
            self._split, self._reduced, self._reduced, self._window, self._window, self._product, self._product,
            self._convolution, self._concatenated, self._diagonal, self._squares,
        )  # fmt: skip
        wanted = self.rng.randint(1, 4)
        for _ in range(30):
            if len(self.compute.steps) >= wanted:
                break
            self.rng.choice(steps)()
        if not self.compute.steps:
            self._unary()
        return self.compute

    def _shape(self, rank: int, largest: int = _LARGEST) -> tuple[int, ...]:
        while True:
            shape = tuple(self.rng.choice(_EXTENTS) for _ in range(rank))
            if prod(shape) <= largest:
                return shape

    def _input(self, shape: tuple[int, ...]) -> int:
        """The number of a new input."""
        self.compute.shapes.append(shape)
        return len(self.compute.shapes) - 1

    def _then(
        self, text: str, shape: tuple[int, ...], bound: int, point: Callable[[Tensor, list[Tensor]], Callable[..., Any]]
    ) -> None:
        """A step: ``point`` gives the value at an index, of the tensor before and the inputs. Large values are cut."""
        if bound > self.most or prod(shape) > _LARGEST or not shape:
            return
        number = len(self.compute.actions)

        def action(tensor: Tensor, known: list[Tensor]) -> Tensor:
            return te.compute(shape, point(tensor, known), name=f"step{number}")

        self.compute.actions.append(action)
        self.compute.steps.append(f"{text} -> {list(shape)}")
        self.shape, self.bound = shape, bound
        if bound > 16:
            dtype = self.compute.dtype

            def cut(tensor: Tensor, known: list[Tensor]) -> Tensor:
                low, high = tirx.const(-4, dtype), tirx.const(4, dtype)
                return te.compute(shape, lambda *i: te.min(te.max(tensor(*i), low), high), name=f"cut{number}")

            self.compute.actions.append(cut)
            self.bound = 4

    def _const(self, value: int) -> Any:
        return tirx.const(value, self.compute.dtype)

    def _unary(self) -> None:
        what = self.rng.choice(("neg", "relu", "scale", "abs"))
        zero, three, one = map(self._const, (0, 3, 1))
        functions = {
            "neg": lambda v: zero - v, "relu": lambda v: te.max(v, zero), "scale": lambda v: v * three - one,
            "abs": lambda v: te.max(v, zero - v),
        }  # fmt: skip
        bound = 3 * self.bound + 1 if what == "scale" else self.bound
        self._then(what, self.shape, bound, lambda t, _: lambda *i: functions[what](t(*i)))

    def _squares(self) -> None:
        self._then("square", self.shape, self.bound**2, lambda t, _: lambda *i: t(*i) * t(*i))

    def _binary(self) -> None:
        kept = [d for d in range(len(self.shape)) if self.rng.random() < 0.7]
        ones = {d for d in kept if self.rng.random() < 0.3}
        other = tuple(1 if d in ones else self.shape[d] for d in kept) or (1,)
        number = self._input(other)
        what = self.rng.choice(("add", "sub", "mul", "max", "min"))
        functions = {
            "add": lambda a, b: a + b, "sub": lambda a, b: b - a, "mul": lambda a, b: a * b, "max": te.max,
            "min": te.min,
        }  # fmt: skip
        bound = {"add": self.bound + 2, "sub": self.bound + 2, "mul": 2 * self.bound}.get(what, max(self.bound, 2))

        def point(t: Tensor, known: list[Tensor]) -> Callable[..., Any]:
            def value(*i: Any) -> Any:
                index = [0 if d in ones else i[d] for d in kept] or [0]
                return functions[what](t(*i), known[number](*index))

            return value

        self._then(f"{what} x{number}{list(other)} along {kept}", self.shape, bound, point)

    def _permuted(self) -> None:
        order = self.rng.sample(range(len(self.shape)), len(self.shape))
        shape = tuple(self.shape[d] for d in order)
        self._then(
            f"transpose {order}", shape, self.bound,
            lambda t, _: lambda *i: t(*(i[order.index(d)] for d in range(len(order)))),
        )  # fmt: skip

    def _strided(self) -> None:
        steps = [self.rng.choice((1, 1, 2, 3)) for _ in self.shape]
        first = [self.rng.randrange(min(n, 3)) for n in self.shape]
        shape = tuple((n - o + s - 1) // s for n, o, s in zip(self.shape, first, steps, strict=True))
        self._then(
            f"slice from {first} by {steps}", shape, self.bound,
            lambda t, _: lambda *i: t(*(o + a * s for a, o, s in zip(i, first, steps, strict=True))),
        )  # fmt: skip

    def _reversed(self) -> None:
        dim, extent = (d := self.rng.randrange(len(self.shape))), self.shape[d]
        self._then(
            f"reverse {dim}", self.shape, self.bound,
            lambda t, _: lambda *i: t(*(extent - 1 - a if n == dim else a for n, a in enumerate(i))),
        )  # fmt: skip

    def _padded(self) -> None:
        before = [self.rng.choice((0, 0, 1, 2)) for _ in self.shape]
        after = [self.rng.choice((0, 0, 1, 3)) for _ in self.shape]
        fill, inner = self.rng.choice((0, 0, -2, 1)), self.shape
        shape = tuple(b + n + a for b, n, a in zip(before, inner, after, strict=True))

        def point(t: Tensor, _: list[Tensor]) -> Callable[..., Any]:
            def value(*i: Any) -> Any:
                checks = [
                    check
                    for a, b, n, e in zip(i, before, inner, after, strict=True)
                    for check in ([a >= b] if b else []) + ([a < b + n] if e else [])
                ]
                read = t(*(a - b for a, b in zip(i, before, strict=True)))
                return tirx.if_then_else(tirx.all(*checks), read, self._const(fill)) if checks else read

            return value

        self._then(f"pad {before} {after} with {fill}", shape, max(self.bound, abs(fill)), point)

    def _merged(self) -> None:
        if len(self.shape) < 2:
            return
        dim = self.rng.randrange(len(self.shape) - 1)
        inner = self.shape[dim + 1]
        shape = (*self.shape[:dim], self.shape[dim] * inner, *self.shape[dim + 2 :])
        self._then(
            f"merge {dim}", shape, self.bound,
            lambda t, _: lambda *i: t(*i[:dim], i[dim] // inner, i[dim] % inner, *i[dim + 1 :]),
        )  # fmt: skip

    def _split(self) -> None:
        dims = [(d, f) for d, n in enumerate(self.shape) for f in range(2, n) if n % f == 0]
        if not dims or len(self.shape) > 4:
            return
        dim, inner = self.rng.choice(dims)
        shape = (*self.shape[:dim], self.shape[dim] // inner, inner, *self.shape[dim + 1 :])
        self._then(
            f"split {dim} by {inner}", shape, self.bound,
            lambda t, _: lambda *i: t(*i[:dim], i[dim] * inner + i[dim + 1], *i[dim + 2 :]),
        )  # fmt: skip

    def _reduced(self) -> None:
        dims = sorted(self.rng.sample(range(len(self.shape)), min(len(self.shape), self.rng.randint(1, 2))))
        keep = len(dims) == len(self.shape) or self.rng.random() < 0.4
        combine = self.rng.choice(("sum", "max", "min"))
        shape = tuple(1 if d in dims else n for d, n in enumerate(self.shape) if keep or d not in dims)
        points = prod(self.shape[d] for d in dims)
        extents = [self.shape[d] for d in dims]

        def point(t: Tensor, _: list[Tensor]) -> Callable[..., Any]:
            axes = [te.reduce_axis((0, n), f"k{d}") for d, n in zip(dims, extents, strict=True)]

            def value(*i: Any) -> Any:
                free = iter(i)
                index: list[Any] = []
                for d in range(len(self_shape)):
                    if d in dims:
                        index.append(axes[dims.index(d)])
                        if keep:
                            next(free)
                    else:
                        index.append(next(free))
                return _combined(combine, t(*index), axes)

            return value

        self_shape = self.shape
        self._then(f"{combine} over {dims}", shape, self.bound * (points if combine == "sum" else 1), point)

    def _window(self) -> None:
        dim = self.rng.randrange(len(self.shape))
        size, stride, dilation = self.rng.randint(2, 5), self.rng.randint(1, 3), self.rng.randint(1, 2)
        pad = self.rng.choice((0, 0, 1))
        reach = (size - 1) * dilation + 1
        count = (self.shape[dim] + 2 * pad - reach) // stride + 1
        if count < 1 or pad >= self.shape[dim]:
            return
        combine, weighted = self.rng.choice(("sum", "max", "min")), self.rng.random() < 0.4
        shape = (*self.shape[:dim], count, *self.shape[dim + 1 :])
        number = self._input((size, shape[-1])) if weighted and dim < len(shape) - 1 else None
        combine = combine if number is None else "sum"
        extent = self.shape[dim]
        bound = self.bound * (size * (1 if number is None else 2) if combine == "sum" else 1)

        def point(t: Tensor, known: list[Tensor]) -> Callable[..., Any]:
            k = te.reduce_axis((0, size), "k")

            def value(*i: Any) -> Any:
                at = i[dim] * stride + k * dilation - pad
                read = t(*i[:dim], at, *i[dim + 1 :])
                if pad:
                    outside = {"sum": 0, "max": -_EXACT["float16"], "min": _EXACT["float16"]}[combine]
                    read = tirx.if_then_else(tirx.all(at >= 0, at < extent), read, self._const(outside))
                return _combined(combine, read if number is None else read * known[number](k, i[-1]), [k])

            return value

        what = f"{combine} of windows of {size} (stride {stride}, dilation {dilation}, padding {pad}) along {dim}"
        self._then(what + (f" times x{number}" if number is not None else ""), shape, bound, point)

    def _product(self) -> None:
        if len(self.shape) < 2:
            return
        depth, columns = self.shape[-1], self.rng.choice(_EXTENTS)
        batches = self.rng.randint(0, max(0, len(self.shape) - 2)) if self.rng.random() < 0.4 else 0
        flipped = self.rng.random() < 0.3
        batch = self.shape[:batches]
        if prod(batch) * depth * columns > _LARGEST:
            return
        other = (*batch, columns, depth) if flipped else (*batch, depth, columns)
        shape = (*self.shape[:-1], columns)
        number = self._input(other)

        def point(t: Tensor, known: list[Tensor]) -> Callable[..., Any]:
            k = te.reduce_axis((0, depth), "k")

            def value(*i: Any) -> Any:
                inner = (i[-1], k) if flipped else (k, i[-1])
                return te.sum(t(*i[:-1], k) * known[number](*i[:batches], *inner), axis=k)

            return value

        what = f"product with x{number}{list(other)}, {batches} of batch{', transposed' if flipped else ''}"
        self._then(what, shape, 2 * self.bound * depth, point)

    def _convolution(self) -> None:
        if len(self.shape) < 3:
            return
        *outer, height, width, channels = self.shape
        rows, columns = self.rng.randint(1, 3), self.rng.randint(1, 3)
        stride, pad = self.rng.randint(1, 2), self.rng.choice((0, 1))
        high, wide = ((n + 2 * pad - k) // stride + 1 for n, k in ((height, rows), (width, columns)))
        results = self.rng.choice(_EXTENTS[:12])
        if high < 1 or wide < 1:
            return
        number = self._input((rows, columns, channels, results))

        def point(t: Tensor, known: list[Tensor]) -> Callable[..., Any]:
            r, c, k = (te.reduce_axis((0, n), a) for n, a in ((rows, "r"), (columns, "c"), (channels, "k")))

            def value(*i: Any) -> Any:
                h, w = i[-3] * stride + r - pad, i[-2] * stride + c - pad
                read = t(*i[:-3], h, w, k)
                if pad:
                    inside = tirx.all(h >= 0, h < height, w >= 0, w < width)
                    read = tirx.if_then_else(inside, read, self._const(0))
                return te.sum(read * known[number](r, c, k, i[-1]), axis=[r, c, k])

            return value

        what = f"convolution of {rows} x {columns} with x{number} (stride {stride}, padding {pad})"
        self._then(what, (*outer, high, wide, results), 2 * self.bound * rows * columns * channels, point)

    def _concatenated(self) -> None:
        dim = self.rng.randrange(len(self.shape))
        first, more = self.shape[dim], self.rng.randint(1, 6)
        other = (*self.shape[:dim], more, *self.shape[dim + 1 :])
        shape = (*self.shape[:dim], first + more, *self.shape[dim + 1 :])
        number = self._input(other)

        def point(t: Tensor, known: list[Tensor]) -> Callable[..., Any]:
            def value(*i: Any) -> Any:
                behind = known[number](*i[:dim], i[dim] - first, *i[dim + 1 :])
                return tirx.if_then_else(i[dim] < first, t(*i), behind)

            return value

        self._then(f"concatenate x{number} along {dim}", shape, max(self.bound, 2), point)

    def _diagonal(self) -> None:
        if len(self.shape) < 2:
            return
        a, b = self.rng.sample(range(len(self.shape)), 2)
        count = min(self.shape[a], self.shape[b])
        shape = (*(n for d, n in enumerate(self.shape) if d not in (a, b)), count)

        def point(t: Tensor, _: list[Tensor]) -> Callable[..., Any]:
            def value(*i: Any) -> Any:
                rest = iter(i[:-1])
                return t(*(i[-1] if d in (a, b) else next(rest) for d in range(len(shape) + 1)))

            return value

        self._then(f"diagonal of {a} and {b}", shape, self.bound, point)


def _combined(combine: str, value: Any, axes: list[Any]) -> Any:
    return {"sum": te.sum, "max": te.max, "min": te.min}[combine](value, axis=axes)
