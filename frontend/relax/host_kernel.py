"""The loops of a step as a TIR function, a kernel for the host or a scalar engine."""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Range, TensorLoad, TensorRegion

from ...ir.errors import UnsupportedError
from ...ir.graph import FLOATS, Host
from ...ir.isa.scalar_functions import is_int64
from ...ir.isa.tir_operators import BUILDERS, COMBINER_NODES, COMPARISONS
from ..library.scalar_operations import UncountedError, scalar_operations
from ..net.linear import Linear
from ..net.net import Info, Loop, NetStep, Operand, Ref

Expr = Any
"""A TIR expression or statement; TVM's operator overloading is beyond static types."""


def compute_dtype(loop: Loop, infos: Mapping[str, Info]) -> str:
    """What a loop computes in: int64 for integers and constants that fit, else the widest float, from 32 bits."""
    dtypes = {infos[r.tensor].dtype for r in loop.reads}
    numbers = [o for o in loop.operands if not isinstance(o, Ref)]
    if dtypes and FLOATS.isdisjoint(dtypes) and all(is_int64(n) for n in numbers):
        return "int64"
    return "float64" if "float64" in {*dtypes, infos[loop.write.tensor].dtype} else "float32"


_BOOLEAN = COMPARISONS | {"not", "and", "or"}
"""Functions whose result is true or false."""

_FUNCTIONS: dict[str, Callable[..., Expr]] = {f: getattr(tirx, builder) for f, builder in BUILDERS.items()} | {
    "copy": lambda a: a,
    "eq": lambda a, b: tirx.Not(tirx.isnan(a)) if _same_float(a, b) else tirx.EQ(a, b),
    "ne": lambda a, b: tirx.isnan(a) if _same_float(a, b) else tirx.NE(a, b),
    "div": lambda a, b: tirx.FloorDiv(a, b) if _integral(a) else tirx.Div(a, b),
    "mod": lambda a, b: tirx.FloorMod(a, b) if _integral(a) else a - b * tirx.floor(a / b),
    "not": lambda a: tirx.EQ(a, _zero(a)),
    "and": lambda a, b: tirx.And(tirx.NE(a, _zero(a)), tirx.NE(b, _zero(b))),
    "or": lambda a, b: tirx.Or(tirx.NE(a, _zero(a)), tirx.NE(b, _zero(b))),
    "neg": lambda a: tirx.Sub(_zero(a), a),
    "sign": lambda a: _sign(a) if _integral(a) else tirx.Select(tirx.isnan(a), a, _sign(a)),
    "select": lambda a, b, c: tirx.Select(tirx.NE(a, _zero(a)), b, c),
    "recip": lambda a: tirx.const(1, _dtype(a)) / a,
    "floor": lambda a: a if _integral(a) else tirx.floor(a),
    "ceil": lambda a: a if _integral(a) else tirx.ceil(a),
    "round": lambda a: a if _integral(a) else tirx.nearbyint(a),
}

_START: dict[str, Callable[[str], Expr]] = {
    "sum": lambda dtype: tirx.const(0, dtype),
    "prod": lambda dtype: tirx.const(1, dtype),
    "max": tirx.min_value,
    "min": tirx.max_value,
}
"""The value that each combiner starts from."""


def _sign(a: Expr) -> Expr:
    return tirx.Cast(_dtype(a), tirx.GT(a, _zero(a))) - tirx.Cast(_dtype(a), tirx.LT(a, _zero(a)))


def _same_float(a: Expr, b: Expr) -> bool:
    """Whether a comparison asks for NaNs. TVM takes a number to equal itself, whatever it is."""
    return not _integral(a) and bool(tvm_ffi.structural_equal(a, b))


def _dtype(expr: Expr) -> str:
    return str(expr.ty.dtype) if hasattr(expr.ty, "dtype") else str(expr.ty)


def _integral(expr: Expr) -> bool:
    return _dtype(expr) not in FLOATS


def _zero(expr: Expr) -> Expr:
    return tirx.const(0, _dtype(expr))


def host_kernel(step: NetStep, infos: Mapping[str, Info]) -> tirx.PrimFunc:
    """The loops of a step, one after the other, as a function of its inputs and its output."""
    buffers = {name: _buffer(info, f"b{position}") for position, (name, info) in enumerate(infos.items())}
    nests = [nest for loop in step.loops for nest in _nests(loop, buffers, infos)]
    parameters = [buffers[n] for n in (*step.inputs, step.output)]
    return _function(nests, parameters, [buffers[n] for n in step.temps])


def as_host(function: tirx.PrimFunc, reason: str, *, for_scalar: bool = False) -> Host:
    """The function as the graph holds it; ``reason`` says why no engine of tiles runs it.

    ``for_scalar``: it is written for a scalar engine, and runs on the host only where the machine has none, or where
    its operations cannot be counted.
    """
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    # TVM's strings are of a class of their own, which no JSON encoder takes.
    text = str(tvm.ir.save_json(module))
    try:
        operations = scalar_operations(function)
    except UncountedError as error:
        return Host(text, f"{reason}; {error}" if for_scalar else reason)
    return Host(text, reason, "scalar" if for_scalar else "host", operations.total, operations.special)


def can_join(function: tirx.PrimFunc) -> bool:
    """Whether :func:`joined` takes the function: its body is one root block."""
    return isinstance(function.body, s_tir.SBlockRealize)


@dataclass(frozen=True)
class Call:
    """A function of a :func:`joined` one, and the tensors that it takes as arguments."""

    function: tirx.PrimFunc
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Allocation:
    """A tensor that one call of a :func:`joined` function writes for another, in a buffer called ``name``."""

    tensor: str
    info: Info
    name: str


def joined(parts: Sequence[Call | Allocation], infos: Mapping[str, Info]) -> tirx.PrimFunc:
    """One function that does what several do, one after the other; its parameters are the tensors of ``infos``."""
    buffers = {name: _buffer(info, f"b{position}") for position, (name, info) in enumerate(infos.items())}
    parameters = list(buffers.values())
    buffers |= {p.tensor: _buffer(p.info, p.name) for p in parts if isinstance(p, Allocation)}
    bodies: list[Expr] = []
    temporaries: list[Expr] = []
    for part in parts:
        if isinstance(part, Allocation):
            temporaries.append(buffers[part.tensor])
            continue
        buffer_of = dict(zip(part.function.params, (buffers[n] for n in part.arguments), strict=True))
        body = tvm_ffi.structural_map(
            part.function.body, (tirx.Var, lambda v, buffer_of=buffer_of: buffer_of.get(v, v)), order="post"
        )
        root = _scalars_indexed(body).block
        bodies.append(root.body)
        temporaries.extend(root.alloc_buffers)
    return _function(bodies, parameters, temporaries)


def _scalars_indexed(body: Expr) -> Expr:
    """With an index wherever a buffer of one element, which stands for a scalar, is accessed without one."""

    zero = tirx.IntImm("int64", 0)

    def rank(buffer: Expr) -> int:
        return len(buffer.ty.shape)

    def load(expr: Expr) -> Expr:
        return expr if expr.indices else tirx.BufferLoad(expr.source, [zero] * rank(expr.source))

    def store(stmt: Expr) -> Expr:
        return stmt if stmt.indices else tirx.BufferStore(stmt.buffer, stmt.value, [zero] * rank(stmt.buffer))

    def region(part: Expr) -> Expr:
        return part if part.region else tirx.BufferRegion(part.source, [Range(0, 1)] * rank(part.source))

    for kind, change in ((TensorLoad, load), (tirx.BufferStore, store), (TensorRegion, region)):
        body = tvm_ffi.structural_map(body, (kind, change), order="post")
    return body


def _buffer(info: Info, name: str) -> Expr:
    return tirx.decl_buffer(info.shape or (1,), info.dtype, name=name, layout=None)


def _function(statements: list[Expr], parameters: list[Expr], temporaries: list[Expr]) -> tirx.PrimFunc:
    body = statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)
    root = s_tir.SBlockRealize([], True, s_tir.SBlock([], [], [], "root", body, None, temporaries))
    return tirx.PrimFunc(parameters, root).with_attr({"s_tir": True, "tirx.noalias": True})


def _nests(loop: Loop, buffers: Mapping[str, Expr], infos: Mapping[str, Info]) -> list[Expr]:
    """The loops around one store; in front of a combination, those that store what it starts from."""
    axes = {a: tirx.Var(f"i{n}", "int64") for n, a in enumerate(loop.axes)}
    target, index = buffers[loop.write.tensor], _index(loop.write, axes)
    dtype = infos[loop.write.tensor].dtype
    value = _value(loop, axes, buffers, infos)
    if loop.combine is None:
        return [_around(tirx.BufferStore(target, value, index), loop, axes, loop.axes)]
    first = tirx.BufferStore(target, _START[loop.combine](dtype), index)
    value = getattr(tirx, COMBINER_NODES[loop.combine])(tirx.BufferLoad(target, index), value)
    return [
        _around(first, loop, axes, loop.spatial),
        _around(tirx.BufferStore(target, value, index), loop, axes, loop.axes),
    ]


def _around(body: Expr, loop: Loop, axes: Mapping[str, Expr], names: Collection[str]) -> Expr:
    zero = tirx.IntImm("int64", 0)
    for name in reversed(list(names)):
        body = tirx.For(axes[name], zero, tirx.IntImm("int64", loop.axes[name].size), tirx.ForKind.SERIAL, body)
    return body


def _index(ref: Ref, axes: Mapping[str, Expr]) -> list[Expr]:
    return [_linear(i, axes) for i in ref.index] or [tirx.IntImm("int64", 0)]


def _linear(index: Linear, axes: Mapping[str, Expr]) -> Expr:
    terms = [axes[a] if c == 1 else axes[a] * tirx.IntImm("int64", c) for a, c in index.terms]
    if index.const or not terms:
        terms.append(tirx.IntImm("int64", index.const))
    return reduce(lambda a, b: a + b, terms)


def _value(loop: Loop, axes: Mapping[str, Expr], buffers: Mapping[str, Expr], infos: Mapping[str, Info]) -> Expr:
    """The function of the operands, in the dtype of what is written."""
    dtype = compute_dtype(loop, infos)
    operands = [_operand(o, dtype, axes, buffers, infos) for o in loop.operands]
    function = _FUNCTIONS.get(loop.func)
    if function is None:
        raise UnsupportedError(f"no TIR expression is known for the element function {loop.func!r}")
    value, want = function(*operands), infos[loop.write.tensor].dtype
    have = "bool" if loop.func in _BOOLEAN else dtype
    if want == "bool" and have != "bool":
        return tirx.NE(value, _zero(value))
    return value if have == want else tirx.Cast(want, value)


def _operand(
    operand: Operand, dtype: str, axes: Mapping[str, Expr], buffers: Mapping[str, Expr], infos: Mapping[str, Info]
) -> Expr:
    if not isinstance(operand, Ref):
        return tirx.const(int(operand) if dtype == "int64" else operand, dtype)
    info = infos[operand.tensor]
    index = _index(operand, axes)
    load: Expr = tirx.BufferLoad(buffers[operand.tensor], index)
    if operand.fill is not None:
        inside = [check for i, n in zip(index, info.shape, strict=True) for check in (i >= 0, i < n)]
        load = tirx.if_then_else(reduce(tirx.And, inside), load, tirx.const(operand.fill, info.dtype))
    return load if info.dtype == dtype else tirx.Cast(dtype, load)
