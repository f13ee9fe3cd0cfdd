"""One TIR block becomes loops in three-address form.

Compound expressions are split into private temporaries, guards become fills, and what depends on the axes alone is
evaluated into tables. An expression that is not linear in the axes may ask for an axis to be split or cut
(:mod:`.domain`); the block is then lowered again on the changed domain, or on both parts of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from ...ir.graph import FLOATS
from ...ir.isa.tir_operators import FUNCTION_OF_INTRINSIC, FUNCTION_OF_NODE
from ..net.linear import CutAxis, Linear, NotAffine, SplitAxis
from ..net.net import Extent, Info, Loop, Operand, Ref
from .domain import MAX_PIECES, Domain
from .tir_records import BufferStore, TirBlock, dtype_of, kind_of

POWERS: dict[float, str] = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "recip", 1.0: "copy", 2.0: "mul", 3.0: "mul", 4.0: "mul"}
"""Exponents, and the function that they come to (the last two with a square in between)."""


@dataclass
class Context:
    """What blocks of one kernel share: names of buffers, known arrays, and a maker of table constants."""

    names: Mapping[Any, str]
    known: Mapping[Any, np.ndarray]
    table: Callable[[np.ndarray], str]
    temp: Callable[[], str]


@dataclass
class LoweredBlock:
    """The loops of one block, and the temporaries that they use."""

    loops: list[Loop] = field(default_factory=list[Loop])
    temps: dict[str, Info] = field(default_factory=dict[str, Info])


def lower_block(block: TirBlock, context: Context) -> LoweredBlock:
    """The loops of ``block``; raises :class:`NotAffine` if it has none."""
    nest = LoweredBlock()
    work = [Domain.of_block(block, context.known)]
    pieces = 0
    while work:
        domain = work.pop()
        try:
            part = _Lowering(domain, context).run(block)
        except SplitAxis as request:
            work.append(domain.split(request))
            continue
        except CutAxis as request:
            low, high = domain.cut(request)
            work += [high, low]
            continue
        pieces += 1
        if pieces > MAX_PIECES:
            raise NotAffine(f"more than {MAX_PIECES} pieces")
        nest.loops += part.loops
        nest.temps |= part.temps
    return nest


class _Lowering:
    """Lowers the expressions of one block on one domain."""

    def __init__(self, domain: Domain, context: Context) -> None:
        self.domain = domain
        self.context = context
        self.nest = LoweredBlock()
        self.memo: dict[Any, Operand] = {}
        self.padded_dtype: dict[str, str] = {}
        """Of the tensors that are read with padding."""

    def run(self, block: TirBlock) -> LoweredBlock:
        for store in block.stores:
            self.store(store)
        return self.nest

    def store(self, store: BufferStore) -> None:
        write = Ref(self.context.names[store.buffer], tuple(self.domain.linear(i) for i in store.index))
        parsed = self.parse(store.value)
        func, operands = parsed if isinstance(parsed, tuple) else ("copy", (parsed,))
        combine = store.combine if any(e.reduce for e in self.domain.axes.values()) else None
        if combine and func != "copy" and (func, combine) != ("mul", "sum"):
            # A stage combines values or sums products: any other function comes first.
            func, operands = "copy", (self.temporary(func, operands, dtype_of(store.value)),)
        if combine:
            # Weights have no padding in the weight memory: a second factor is copied whatever it reads there.
            reads = [(o, func == "mul" and position == 1) for position, o in enumerate(operands)]
            dtype = dtype_of(store.value)
            operands = tuple(self.padded(o, func, combine, dtype, always=second) for o, second in reads)
        else:
            operands = self.unguarded(func, operands)
        self.nest.loops.append(Loop(self.domain.axes, write, func, operands, combine))

    def padded(self, operand: Operand, func: str, combine: str, dtype: str, *, always: bool) -> Operand:
        """An operand of a combination; a copy with its padding, ``always`` or where that adds something to the result.

        Instructions leave out what is outside of a tensor: only zeros of a sum, and minus infinity of a maximum, are
        no loss.
        """
        if not isinstance(operand, Ref) or operand.fill is None:
            return operand
        if not always and _adds_nothing(operand.fill, func, combine, dtype):
            return operand
        extents = {a: e.size for a, e in self.domain.axes.items()}
        bounds = [index.bounds(extents) for index in operand.index]
        axes = {f"p{d}": Extent(high - low + 1) for d, (low, high) in enumerate(bounds)}
        name = self.context.temp()
        source = tuple(Linear(((f"p{d}", 1),), low) for d, (low, _) in enumerate(bounds))
        self.nest.temps[name] = Info(tuple(e.size for e in axes.values()), dtype)
        target = Ref(name, tuple(Linear.axis(a) for a in axes))
        self.nest.loops.append(Loop(axes, target, "copy", (Ref(operand.tensor, source, operand.fill),)))
        return Ref(
            name, tuple(Linear(i.terms, i.const - low) for i, (low, _) in zip(operand.index, bounds, strict=True))
        )

    # Scalar expressions ------------------------------------------------------------------------------------------

    def operand(self, expr: Any) -> Operand:
        """The value of ``expr`` as an operand, through a temporary if it must be computed."""
        parsed = self.parse(expr)
        if not isinstance(parsed, tuple):
            return parsed
        return self.temporary(parsed[0], parsed[1], dtype_of(expr))

    def unguarded(self, func: str, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """The operands of a function; what is read with padding is copied first, because only copies can do that."""
        if func == "copy":
            return operands
        return tuple(
            self.temporary("copy", (o,), self.padded_dtype[o.tensor])
            if isinstance(o, Ref) and o.fill is not None
            else o
            for o in operands
        )

    def temporary(self, func: str, operands: tuple[Operand, ...], dtype: str) -> Operand:
        operands = self.unguarded(func, operands)
        key = (func, operands, dtype)
        if key not in self.memo:
            used = {a for o in operands if isinstance(o, Ref) for a in o.axes}
            axes = {a: Extent(e.size) for a, e in self.domain.axes.items() if a in used}
            name = self.context.temp()
            ref = Ref(name, tuple(Linear.axis(a) for a in axes))
            self.nest.temps[name] = Info(tuple(e.size for e in axes.values()), dtype)
            self.nest.loops.append(Loop(axes, ref, func, operands))
            self.memo[key] = ref
        return self.memo[key]

    def parse(self, expr: Any) -> Operand | tuple[str, tuple[Operand, ...]]:
        """``expr`` as an operand that exists, or as one function of operands."""
        kind = kind_of(expr)
        if kind in ("IntImm", "FloatImm"):
            return number(float(expr.value))
        if kind == "TensorLoad" and expr.source not in self.context.known:
            return self.load(expr)
        if self.domain.is_free(expr):
            return self.free(expr)
        if kind == "Cast":
            return self.cast(expr)
        if kind == "Select":
            return self.select(expr.condition, expr.true_value, expr.false_value)
        if kind == "Not":
            return "not", (self.operand(expr.a),)
        if kind in FUNCTION_OF_NODE:
            return self.binary(kind, expr)
        if kind == "Call":
            return self.call(expr)
        raise NotAffine(f"{kind} is not an element function")

    def load(self, expr: Any) -> Ref:
        """A read of a tensor; of its flat copy if only the position in memory is linear (an odd reshape)."""
        name = self.context.names[expr.source]
        try:
            return Ref(name, tuple(self.domain.linear(i) for i in expr.indices))
        except NotAffine:
            if not all(self.domain.is_free(i) for i in expr.indices):
                raise
        shape = tuple(int(n) for n in expr.source.ty.shape)
        weights = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
        position = self.domain.weighted(expr.indices, weights)
        key = ("flat", name)
        if key not in self.memo:
            whole = {f"d{d}": Extent(n) for d, n in enumerate(shape) if n > 1}
            place = Linear.from_terms({f"d{d}": w for d, w in enumerate(weights) if shape[d] > 1})
            source = Ref(name, tuple(Linear.axis(f"d{d}") if n > 1 else Linear() for d, n in enumerate(shape)))
            flat = self.context.temp()
            self.nest.temps[flat] = Info((math.prod(shape),), dtype_of(expr))
            self.nest.loops.append(Loop(whole, Ref(flat, (place,)), "copy", (source,)))
            self.memo[key] = Ref(flat, ())
        copy = self.memo[key]
        assert isinstance(copy, Ref)
        return Ref(copy.tensor, (position,))

    def binary(self, kind: str, expr: Any) -> Operand | tuple[str, tuple[Operand, ...]]:
        func = FUNCTION_OF_NODE[kind]
        inexact = dtype_of(expr) in FLOATS
        if func == "lt" and kind_of(expr.a) == "IntImm" and expr.a.value == 0:
            # where() tests 0 < int(condition).
            inner = expr.b.value if kind_of(expr.b) == "Cast" else expr.b
            if dtype_of(inner) == "bool":
                return self.parse(inner)
        if kind == "Div" and not inexact:
            raise NotAffine("integer division that truncates")
        if func == "div" and inexact and self.domain.is_free(expr.b):
            a, b = self.operand(expr.a), self.free(expr.b, invert=True)
            return simplify("mul", a, b)
        if func == "eq" and kind_of(expr.b) == "FloatImm" and math.isinf(expr.b.value):
            # Instructions compare by order; what is infinite is beyond the largest number.
            above = expr.b.value > 0
            return "gt" if above else "lt", (self.operand(expr.a), FLOAT_MAX if above else -FLOAT_MAX)
        a, b = self.operand(expr.a), self.operand(expr.b)
        if func == "div" and inexact and isinstance(a, Ref) and isinstance(b, Ref) and set(b.axes) < set(a.axes):
            # One reciprocal a row instead of one division an element.
            return "mul", (a, self.temporary("recip", (b,), dtype_of(expr)))
        return simplify(func, a, b)

    def cast(self, expr: Any) -> Operand | tuple[str, tuple[Operand, ...]]:
        source, target = dtype_of(expr.value), dtype_of(expr)
        if source == target:
            return self.parse(expr.value)
        if target == "bool":
            return "ne", (self.operand(expr.value), 0.0)
        return "copy", (self.operand(expr.value),)

    def call(self, expr: Any) -> Operand | tuple[str, tuple[Operand, ...]]:
        name = expr.op.name.split(".")[-1]
        dtype = dtype_of(expr)
        if name == "if_then_else":
            return self.select(*expr.args)
        if name == "likely":
            return self.parse(expr.args[0])
        args = tuple(self.operand(a) for a in expr.args)
        if name == "pow" and isinstance(args[1], float) and args[1] in POWERS:
            return self.power(args[0], args[1], dtype)
        if name in FUNCTION_OF_INTRINSIC:
            return FUNCTION_OF_INTRINSIC[name], args
        if name == "isnan":
            return "ne", (args[0], args[0])
        if name in ("log2", "log10"):
            return "mul", (self.temporary("log", args, dtype), 1 / math.log(2 if name == "log2" else 10))
        if name == "tan":
            return "div", (self.temporary("sin", args, dtype), self.temporary("cos", args, dtype))
        if name in ("sinh", "cosh"):
            up = self.temporary("exp", args, dtype)
            down = self.temporary("recip", (up,), dtype)
            doubled = self.temporary("sub" if name == "sinh" else "add", (up, down), dtype)
            return "mul", (doubled, 0.5)
        if name == "trunc":
            size = self.temporary("floor", (self.temporary("abs", args, dtype),), dtype)
            return "mul", (self.temporary("sign", args, dtype), size)
        raise NotAffine(f"{name} is not an element function")

    def power(self, base: Operand, exponent: float, dtype: str) -> Operand | tuple[str, tuple[Operand, ...]]:
        """Common powers, without the general function."""
        if exponent in (3.0, 4.0):
            square = self.temporary("mul", (base, base), dtype)
            return "mul", (square, base if exponent == 3.0 else square)
        func = POWERS[exponent]
        if func == "copy":
            return base
        return func, (base, base) if func == "mul" else (base,)

    # Conditions --------------------------------------------------------------------------------------------------

    def select(self, condition: Any, yes: Any, no: Any) -> Operand | tuple[str, tuple[Operand, ...]]:
        if self.domain.is_free(condition):
            axes, mask = self.domain.grid(condition)
            if mask.all():
                return self.parse(yes)
            if not mask.any():
                return self.parse(no)
            guarded = self.guard(condition, yes, no)
            if guarded is not None:
                return guarded
            self.domain.cut_where(condition)
            test: Operand = self.tabulate(axes, mask)
        else:
            test = self.operand(condition)
        return "select", (test, self.operand(yes), self.operand(no))

    def guard(self, condition: Any, yes: Any, no: Any) -> Ref | None:
        """A load whose guard says exactly that it is in bounds, as a read with a fill."""
        if kind_of(yes) != "TensorLoad" or yes.source in self.context.known:
            return None
        if kind_of(no) not in ("IntImm", "FloatImm"):
            return None
        index = tuple(self.domain.linear(i) for i in yes.indices)
        shape = tuple(int(n) for n in yes.source.ty.shape)
        if not self.domain.keeps_inside(condition, index, shape):
            return None
        name = self.context.names[yes.source]
        self.padded_dtype[name] = dtype_of(yes)
        return Ref(name, index, number(float(no.value)))

    # Values that depend on the axes alone ------------------------------------------------------------------------

    def free(self, expr: Any, invert: bool = False) -> Operand:
        """A free expression (or its reciprocal) as a scalar if it is uniform, else as a table."""
        axes, value = self.domain.grid(expr)
        if invert:
            value = (1 / value.astype(np.float64)).astype(value.dtype)
        return self.tabulate(axes, value)

    def tabulate(self, axes: tuple[str, ...], value: np.ndarray) -> Operand:
        if not value.size:
            raise NotAffine("a loop without iterations")
        if (value == value.flat[0]).all():
            return number(float(value.flat[0]))
        for position in reversed(range(value.ndim)):
            first = value.take([0], axis=position)
            if (value == first).all():
                value = first.squeeze(position)
                axes = axes[:position] + axes[position + 1 :]
        name = self.context.table(np.ascontiguousarray(value))
        return Ref(name, tuple(Linear.axis(a) for a in axes))


def _adds_nothing(fill: float, func: str, combine: str, dtype: str) -> bool:
    """Whether a combination is the same without the points at which an operand reads ``fill``."""
    if combine == "sum":
        return fill == 0.0
    if func != "copy" or combine not in ("max", "min"):
        return False
    low, high = (-math.inf, math.inf) if dtype in FLOATS else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return fill <= low if combine == "max" else fill >= high


def with_infinite_padding(loops: list[Loop], dtype: str) -> list[Loop]:
    """The loops that pad what a pool takes maxima of: TVM pads with the lowest finite number, and ONNX with nothing."""
    if dtype not in FLOATS:
        return loops
    largest = float(ml_dtypes.finfo(dtype).max)

    def change(ref: Ref) -> Ref:
        if ref.fill is None or abs(ref.fill) != largest:
            return ref
        return replace(ref, fill=math.copysign(math.inf, ref.fill))

    return [loop.map_refs(change) for loop in loops]


def simplify(func: str, a: Operand, b: Operand) -> Operand | tuple[str, tuple[Operand, ...]]:
    """Drop what changes nothing: ``x+0``, ``x*1``, ``max(x, -inf)``."""
    if _is_neutral(func, b):
        return a
    if func in ("add", "mul", "max", "min"):
        if _is_neutral(func, a):
            return b
        if isinstance(a, float):
            a, b = b, a
    return func, (a, b)


def _is_neutral(func: str, value: Operand) -> bool:
    if not isinstance(value, float):
        return False
    if func in ("max", "min"):
        return value == (-math.inf if func == "max" else math.inf)
    return func in ("add", "sub", "mul", "div") and value == (0.0 if func in ("add", "sub") else 1.0)


FLOAT_MAX = float(np.finfo(np.float32).max)


def number(value: float) -> float:
    """``value``, which may be infinite, as masks are."""
    if math.isnan(value):
        raise NotAffine("a constant that is not a number")
    return value
