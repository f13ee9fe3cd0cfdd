"""Graphs grown at random from stages: what no frontend would write, but every reader of a graph has to understand.

Axes in any order and layout, windows that stick out, mixed-radix and backward indices, primes, several results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import count
from math import inf, prod
from random import Random

import numpy as np

from girih.ir.box import Affine, full
from girih.ir.graph import Access, Axis, Constant, Graph, Op, Port, Stage, Tensor

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17)
PRIMES = (53, 127, 257, 509, 1009)
MOST_ELEMENTS = 6000
MOST_POINTS = 150_000


def random_graph(seed: int, dtype: str, length: int) -> Graph:
    """A chain of ``length`` operators with some side inputs; ``dtype`` is that of the tensors."""
    growth = _Growth(Random(f"graph {seed}"), dtype)
    x = growth.given()
    for _ in range(length):
        x = growth.step(x)
    return growth.graph(x)


class _Growth:
    def __init__(self, rng: Random, dtype: str) -> None:
        self.rng = rng
        self.dtype = dtype
        self.numbers = np.random.default_rng(rng.randrange(1 << 30))
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.inputs: list[str] = []
        self.data: dict[str, np.ndarray] = {}
        self.fresh = count()

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def tensor(self, shape: Sequence[int], dtype: str = "") -> str:
        name = f"t{next(self.fresh)}"
        self.tensors[name] = Tensor(name, tuple(shape), dtype or self.dtype)
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def given(self, shape: Sequence[int] = ()) -> str:
        if not shape:
            rank = self.rng.choice([1, 2, 3, 4, 4])
            extents = [self.rng.choice(EXTENTS) for _ in range(rank)]
            if self.chance(0.2):
                extents[self.rng.randrange(rank)] = self.rng.choice(PRIMES)
            while prod(extents) > MOST_ELEMENTS:
                extents[extents.index(max(extents))] = 2
            shape = extents
        self.inputs.append(self.tensor(shape))
        return self.inputs[-1]

    def constant(self, shape: Sequence[int], scale: float = 1.0) -> str:
        name = self.tensor(shape)
        self.data[name] = (self.numbers.standard_normal(tuple(shape)) * scale).astype(self.dtype)
        return name

    def step(self, x: str) -> str:
        if not self.shape(x):
            return self.elementwise(x)
        kinds = [self.elementwise, self.reduction, self.contraction, self.contraction, self.move, self.window]
        return self.rng.choice(kinds)(x)

    # Operators -----------------------------------------------------------------------------------------------------

    def elementwise(self, x: str) -> str:
        """A chain of functions of ``x`` and of broadcast operands, written in another order of the axes."""
        shape = self.shape(x)
        order = self.rng.sample(range(len(shape)), len(shape)) if self.chance(0.5) else list(range(len(shape)))
        out = self.tensor([shape[a] for a in order])
        stages: list[Stage] = []
        buffers: list[Tensor] = []
        inputs = [x]

        def store(func: str, operands: tuple[Access | float, ...], dtype: str) -> Access:
            """To a private buffer, or to the output if ``dtype`` is empty."""
            kept = self.rng.sample(range(len(shape)), len(shape)) if self.chance(0.3) else list(range(len(shape)))
            if dtype:
                buffers.append(Tensor(f"{out}:b{len(buffers)}", tuple(shape[a] for a in kept), dtype))
            write = _read(buffers[-1].name, shape, kept) if dtype else _read(out, shape, order)
            stages.append(Stage(_axes(shape), write, func, operands))
            return write

        value = _read(x, shape, range(len(shape)))
        length = self.rng.randint(1, 3)
        for position in range(length):
            func, operands = self.function(value, shape, inputs)
            if func in ("lt", "ge"):
                truth = store(func, operands, "bool")
                func, operands = "select", (truth, *operands)
            value = store(func, operands, self.rng.choice(["float32", self.dtype]) if position < length - 1 else "")
        return self.add(out, inputs, buffers, stages)

    def function(self, x: Access, shape: Sequence[int], inputs: list[str]) -> tuple[str, tuple[Access | float, ...]]:
        """A function of ``x`` that does not blow up, and maybe of another operand, which joins ``inputs``."""
        if self.chance(0.4):
            plain = ["tanh", "sigmoid", "abs", "neg", "copy", "erf", "floor"]
            return self.rng.choice([*plain, "silu", "gelu", "softplus"]), (x,)
        if self.chance(0.3):
            return self.fused(x, shape, inputs)
        func = self.rng.choice(["add", "sub", "max", "min", "mul", "lt", "ge"])
        number = self.rng.choice([0.5, -0.25, 0.0, 1.0])
        if func not in ("lt", "ge") and self.chance(0.4):
            return func, (x, number) if self.chance(0.7) else (number, x)
        used = [a for a in range(len(shape)) if self.chance(0.6)]
        if self.chance(0.3):
            self.rng.shuffle(used)
        small = [shape[a] for a in used]
        if self.shape(inputs[0]) == tuple(shape) and self.chance(0.3):
            other = _read(inputs[0], shape, range(len(shape)))
        else:
            inputs.append(self.given(small) if small and self.chance(0.3) else self.constant(small))
            other = _read(inputs[-1], shape, used)
        return func, (x, other) if func in ("lt", "ge") or self.chance(0.7) else (other, x)

    def fused(self, x: Access, shape: Sequence[int], inputs: list[str]) -> tuple[str, tuple[Access | float, ...]]:
        """A function that stands for several, of ``x`` and of numbers or of a constant along some axes."""
        func = self.rng.choice(["fma", "fma", "fma", "clip", "lrelu"])
        if func == "clip":
            return func, (x, -0.5, self.rng.choice([0.5, 2.0]))

        def other(number: float) -> Access | float:
            if self.chance(0.4):
                return number
            used = [a for a in range(len(shape)) if self.chance(0.6)]
            inputs.append(self.constant([shape[a] for a in used]))
            return _read(inputs[-1], shape, used)

        return func, (x, other(0.5), other(-0.25)) if func == "fma" else (x, other(0.125))

    def reduction(self, x: str) -> str:
        """A combination over some dimensions; sometimes it is then applied to what it was taken of."""
        shape = self.shape(x)
        rank = len(shape)
        gone = sorted(self.rng.sample(range(rank), self.rng.randint(1, rank)))
        left = [a for a in range(rank) if a not in gone]
        combine = self.rng.choice(["sum", "max", "min", "sum"])
        apply = self.chance(0.5)
        squares = combine == "sum" and self.chance(0.3)
        out = self.tensor(shape if apply else [shape[a] for a in left])
        total = Tensor(f"{out}:total", tuple(shape[a] for a in left), "float32")
        axes = _axes([shape[a] for a in left], [shape[a] for a in gone])
        position = {a: i for i, a in enumerate([*left, *gone])}
        source = Access(x, tuple(_unit(rank, position[a]) for a in range(rank)))
        target = Access(total.name, tuple(_unit(rank, i) for i in range(len(left))))
        operands = (source, source) if squares else (source,)
        stages = [Stage(axes, target, "mul" if squares else "copy", operands, combine)]
        if apply:
            func = "sub" if combine != "sum" else "mul"
            read = _read(total.name, shape, left)
            small = Tensor(f"{out}:small", total.shape, "float32")
            rows = _read(total.name, total.shape, range(len(left)))
            scaled = Access(small.name, rows.index)
            stages.append(Stage(_axes(total.shape), scaled, "mul", (rows, 1.0 / prod(shape[a] for a in gone))))
            read = _read(small.name, shape, left)
            whole = _read(x, shape, range(rank))
            stages.append(Stage(_axes(shape), _read(out, shape, range(rank)), func, (whole, read)))
            return self.add(out, [x], [total, small], stages)
        rows = tuple(_unit(len(left), i) for i in range(len(left)))
        scale = 1.0 if combine != "sum" else 1.0 / prod(shape[a] for a in gone) ** 0.5
        stages.append(Stage(_axes(total.shape), Access(out, rows), "mul", (Access(total.name, rows), scale)))
        return self.add(out, [x], [total], stages)

    def window(self, x: str) -> str:
        """A pooling over one or two dimensions."""
        shape = self.shape(x)
        dims = self.rng.sample(range(len(shape)), min(len(shape), self.rng.choice([1, 2])))
        combine, fill = self.rng.choice([("max", -inf), ("sum", 0.0), ("min", inf)])
        spatial, kernels, index = list(shape), [], []
        terms: list[tuple[int, dict[int, int]]] = []
        for d, extent in enumerate(shape):
            if d not in dims:
                terms.append((0, {d: 1}))
                continue
            kernel, stride, dilation, low, outputs = self.geometry(extent)
            spatial[d] = outputs
            terms.append((-low, {d: stride, len(shape) + len(kernels): dilation}))
            kernels.append(kernel)
        rank = len(shape) + len(kernels)
        index = tuple(Affine(tuple(t.get(a, 0) for a in range(rank)), const) for const, t in terms)
        out = self.tensor(spatial)
        axes = _axes(spatial, kernels)
        source = Access(x, index, fill if _leaves(index, axes, shape) else None)
        same = tuple(_unit(rank, a) for a in range(len(shape)))
        if combine != "sum":
            return self.add(out, [x], [], [Stage(axes, Access(out, same), "copy", (source,), combine)])
        total = Tensor(f"{out}:total", tuple(spatial), "float32")
        plain = _read(total.name, spatial, range(len(spatial)))
        stages = [
            Stage(axes, Access(total.name, same), "copy", (source,), combine),
            Stage(_axes(spatial), Access(out, plain.index), "mul", (plain, 1.0 / prod(kernels))),
        ]
        return self.add(out, [x], [total], stages)

    def geometry(self, extent: int) -> tuple[int, int, int, int, int]:
        """Kernel, stride, dilation, padding before, and outputs of a window over ``extent``; all of them see some."""
        while True:
            kernel, stride, dilation = self.rng.randint(1, 4), self.rng.randint(1, 3), self.rng.randint(1, 2)
            reach = (kernel - 1) * dilation + 1
            low, high = (self.rng.randint(0, reach) if self.chance(0.7) else 0 for _ in range(2))
            outputs = (extent + low + high - reach) // stride + 1
            starts = [o * stride - low for o in range(outputs)]
            if starts and all(any(0 <= s + k * dilation < extent for k in range(kernel)) for s in starts):
                return kernel, stride, dilation, low, outputs

    def move(self, x: str) -> str:
        """A part, a padding, a concatenation, or another shape of the same numbers."""
        return self.rng.choice([self.part, self.padding, self.concatenation, self.reshape])(x)

    def part(self, x: str) -> str:
        """Every so manieth row, maybe backwards."""
        shape, rank = self.shape(x), len(self.shape(x))
        index, extents = [], []
        for a, extent in enumerate(shape):
            step = self.rng.choice([1, 1, 2, 3])
            first = self.rng.randrange(min(step, extent))
            number = -(-(extent - first) // step)
            backwards = self.chance(0.3)
            coeffs = tuple((-step if backwards else step) if i == a else 0 for i in range(rank))
            index.append(Affine(coeffs, first + step * (number - 1) if backwards else first))
            extents.append(number)
        out = self.tensor(extents)
        stage = Stage(_axes(extents), _read(out, extents, range(rank)), "copy", (Access(x, tuple(index)),))
        return self.add(out, [x], [], [stage])

    def padding(self, x: str) -> str:
        shape, rank = self.shape(x), len(self.shape(x))
        low = [self.rng.choice([0, 0, 1, 2]) for _ in shape]
        extents = [n + a + self.rng.choice([0, 0, 1, 3]) for n, a in zip(shape, low, strict=True)]
        out = self.tensor(extents)
        index = tuple(Affine(_unit(rank, a).coeffs, -low[a]) for a in range(rank))
        fill = 0.5 if list(shape) != extents else None
        stage = Stage(_axes(extents), _read(out, extents, range(rank)), "copy", (Access(x, index, fill),))
        return self.add(out, [x], [], [stage])

    def concatenation(self, x: str) -> str:
        shape, rank = self.shape(x), len(self.shape(x))
        dim = self.rng.randrange(rank)
        other = list(shape)
        other[dim] = self.rng.choice([1, 2, 3, 5])
        names = [x, self.given(other) if self.chance(0.5) else self.constant(other)]
        extents = list(shape)
        extents[dim] += other[dim]
        out = self.tensor(extents)
        stages: list[Stage] = []
        start = 0
        for name in names:
            mine = self.shape(name)
            write = tuple(Affine(_unit(rank, a).coeffs, start if a == dim else 0) for a in range(rank))
            stages.append(Stage(_axes(mine), Access(out, write), "copy", (_read(name, mine, range(rank)),)))
            start += mine[dim]
        return self.add(out, names, [], stages)

    def reshape(self, x: str) -> str:
        """Two neighbouring dimensions become one, or one becomes two."""
        shape, rank = self.shape(x), len(self.shape(x))
        dim = self.rng.randrange(rank)
        factors = [f for f in (2, 3, 4, 5) if shape[dim] % f == 0 and shape[dim] > f]
        if factors:
            f = self.rng.choice(factors)
            extents = (*shape[:dim], shape[dim] // f, f, *shape[dim + 1 :])
            out = self.tensor(extents)
            index = tuple(
                _sum(rank + 1, {a: f, a + 1: 1} if a == dim else {a + (a > dim): 1}) for a in range(rank)
            )  # fmt: skip
            stage = Stage(_axes(extents), _read(out, extents, range(rank + 1)), "copy", (Access(x, index),))
            return self.add(out, [x], [], [stage])
        if rank == 1:
            return self.elementwise(x)
        dim = min(dim, rank - 2)
        out = self.tensor((*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))
        index = tuple(
            _sum(rank, {a: shape[dim + 1], a + 1: 1} if a == dim else {a + (a > dim): 1}) for a in range(rank - 1)
        )  # fmt: skip
        stage = Stage(_axes(shape), Access(out, index), "copy", (_read(x, shape, range(rank)),))
        return self.add(out, [x], [], [stage])

    def contraction(self, x: str) -> str:
        """Products of ``x`` and weights or another input, with windows, any layout and any number of axes."""
        shape = self.shape(x)
        axes: dict[str, int] = {}
        left: list[tuple[int, dict[str, int]]] = []
        for d, extent in enumerate(shape):
            roles = ["m", "m", "k", "k", "b", "w", "mix"]
            role = self.rng.choice(roles) if any(a[0] == "k" for a in axes) or d < len(shape) - 1 else "k"
            factors = [f for f in (2, 3, 4) if extent % f == 0]
            if role == "w":
                kernel, stride, dilation, low, outputs = self.geometry(extent)
                axes[f"m{d}"], axes[f"k{d}"] = outputs, kernel
                left.append((-low, {f"m{d}": stride, f"k{d}": dilation}))
            elif role == "mix" and factors:
                f = self.rng.choice(factors)
                a, b = self.rng.choice(["mm", "kk", "mk", "km"])
                axes[f"{a}{d}o"], axes[f"{b}{d}i"] = extent // f, f
                left.append((0, {f"{a}{d}o": f, f"{b}{d}i": 1}))
            else:
                role = role[0] if role != "mix" else "m"
                axes[f"{role}{d}"] = extent
                left.append((extent - 1, {f"{role}{d}": -1}) if self.chance(0.1) else (0, {f"{role}{d}": 1}))
        points = prod(axes.values())
        for i in range(self.rng.choice([1, 1, 2])):
            extent = self.rng.choice([e for e in EXTENTS if e * points <= MOST_POINTS or e == 1])
            axes[f"n{i}"] = extent
            points *= extent
        spatial = [a for a in axes if a[0] != "k"]
        reduced = [a for a in axes if a[0] == "k"]
        while prod(axes[a] for a in spatial) > MOST_ELEMENTS:
            axes[max(spatial, key=lambda a: (axes[a] > 1, a[0] == "n", axes[a]))] = 1
        self.rng.shuffle(spatial)
        self.rng.shuffle(reduced)
        order = [*spatial, *reduced]
        extents = {a: axes[a] for a in order}
        stage_axes = _axes([axes[a] for a in spatial], [axes[a] for a in reduced])
        image = tuple(_named(order, const, terms) for const, terms in left)
        source = Access(x, image, 0.0 if _leaves(image, stage_axes, shape) else None)
        right_shape, right = self.layout([a for a in order if a[0] != "m"], extents, order)
        scale = prod(axes[a] for a in reduced) ** -0.5
        weights = self.constant(right_shape, scale) if self.chance(0.7) else self.given(right_shape)
        out_shape, written = self.layout(spatial, extents, spatial)
        out = self.tensor(out_shape)
        total = Tensor(f"{out}:total", tuple(axes[a] for a in spatial), "float32")
        target = Access(total.name, tuple(_unit(len(order), i) for i in range(len(spatial))))
        rows = _read(total.name, total.shape, range(len(spatial)))
        inputs = list(dict.fromkeys((x, weights)))
        start = None
        if self.chance(0.5):
            # What only its columns tell apart can go into an instruction.
            told = [i for i, a in enumerate(spatial) if (a[0] == "n" if self.chance(0.8) else self.chance(0.5))]
            self.rng.shuffle(told)
            sizes = [total.shape[i] for i in told]
            inputs.append(self.given(sizes) if told and self.chance(0.3) else self.constant(sizes))
            start = Access(inputs[-1], tuple(_unit(len(order), i) for i in told))
        stages = [Stage(stage_axes, target, "mul", (source, Access(weights, right)), "sum", start)]
        func, operands = self.rng.choice(["copy", "tanh", "max", "add"]), (rows,)
        if func == "max":
            operands = (rows, 0.0)
        elif func == "add":
            used = [i for i, a in enumerate(spatial) if a[0] == "n"]
            bias = self.constant([total.shape[i] for i in used])
            inputs.append(bias)
            operands = (rows, _read(bias, total.shape, used))
        stages.append(Stage(_axes(total.shape), Access(out, written), func, operands))
        return self.add(out, inputs, [total], stages)

    def layout(
        self, names: list[str], extents: dict[str, int], order: list[str]
    ) -> tuple[tuple[int, ...], tuple[Affine, ...]]:
        """Some axes as a tensor: in any order, some of them two to a dimension. Shape, and index by ``order``."""
        names = self.rng.sample(names, len(names))
        shape: list[int] = []
        index: list[Affine] = []
        while names:
            first = names.pop()
            if names and self.chance(0.25):
                second = names.pop()
                shape.append(extents[first] * extents[second])
                index.append(_named(order, 0, {first: extents[second], second: 1}))
            else:
                shape.append(extents[first])
                index.append(_named(order, 0, {first: 1}))
        return tuple(shape), tuple(index)

    # ---------------------------------------------------------------------------------------------------------------

    def add(self, out: str, inputs: Sequence[str], buffers: Sequence[Tensor], stages: Sequence[Stage]) -> str:
        read = {r.tensor for s in stages for r in s.reads}
        mine = tuple(n for n in dict.fromkeys(inputs) if n in read)
        self.ops.append(Op(f"op{len(self.ops)}", (), mine, (out,), tuple(buffers), tuple(stages)))
        return out

    def graph(self, last: str) -> Graph:
        results = [op.output for op in self.ops if op.output == last or self.chance(0.15)]
        read = {n for op in self.ops for n in op.inputs}

        def port(name: str) -> Port:
            return Port(name, name, self.shape(name), self.tensors[name].dtype)

        constants = tuple(
            Constant(n, hashlib.sha256(d.tobytes()).hexdigest()) for n, d in self.data.items() if n in read
        )
        inputs = [n for n in self.inputs if n in read]
        kept = {*read, *(op.output for op in self.ops)}
        return Graph(
            "grown",
            tuple(t for n, t in self.tensors.items() if n in kept),
            tuple(self.ops),
            tuple(port(n) for n in inputs),
            tuple(port(n) for n in results),
            constants,
            data={n: d for n, d in self.data.items() if n in read},
        )


def _axes(spatial: Sequence[int], reduced: Sequence[int] = ()) -> tuple[Axis, ...]:
    return (
        *(Axis(f"i{n}", e) for n, e in enumerate(spatial)),
        *(Axis(f"k{n}", e, True) for n, e in enumerate(reduced)),
    )


def _sum(rank: int, terms: dict[int, int], const: int = 0) -> Affine:
    return Affine(tuple(terms.get(a, 0) for a in range(rank)), const)


def _unit(rank: int, axis: int) -> Affine:
    return _sum(rank, {axis: 1})


def _named(order: Sequence[str], const: int, terms: dict[str, int]) -> Affine:
    return Affine(tuple(terms.get(a, 0) for a in order), const)


def _read(name: str, shape: Sequence[int], axes: Sequence[int]) -> Access:
    """``name[axes...]`` in a nest over ``shape``."""
    return Access(name, tuple(_unit(len(shape), a) for a in axes))


def _leaves(index: Sequence[Affine], axes: Sequence[Axis], shape: Sequence[int]) -> bool:
    """Whether an access goes out of bounds."""
    spans = [i.over(full(tuple(a.extent for a in axes))) for i in index]
    return any(s.lo < 0 or s.hi > n for s, n in zip(spans, shape, strict=True))
