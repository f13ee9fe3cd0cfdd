"""TIR evaluated with numpy: what depends on loop variables and known arrays alone is computed at import.

Used for whole kernels on constants, for divisors and masks, and to find out what an index expression does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..net.linear import NotAffine
from .tir_records import Kernel, TirBlock, dtype_of, kind_of

Grids = Mapping[Any, np.ndarray]

LARGEST = 1 << 28
"""No tensor with more elements, and no loop nest with more iterations, is evaluated."""

_BINARY: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Min": np.minimum,
    "Max": np.maximum,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "Mod": np.fmod,
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "LShift": np.left_shift,
    "RShift": np.right_shift,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "nearbyint": np.round,
    "trunc": np.trunc,
    "fabs": np.abs,
    "isnan": np.isnan,
    "pow": np.power,
    "fmod": np.fmod,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "likely": lambda x: x,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


def evaluate_expression(expr: Any, grids: Grids, arrays: Mapping[Any, np.ndarray]) -> np.ndarray:
    """The value of ``expr`` where loop variables run over broadcastable ``grids`` and buffers hold ``arrays``."""
    kind = kind_of(expr)
    if kind in ("IntImm", "FloatImm"):
        return np.asarray(expr.value, dtype_of(expr))
    if kind == "Var":
        if expr not in grids:
            raise NotAffine(f"unknown variable {expr}")
        return grids[expr]
    if kind == "TensorLoad":
        if expr.source not in arrays:
            raise NotAffine(f"{expr.source.name} is not constant")
        array = arrays[expr.source]
        index = [evaluate_expression(i, grids, arrays) for i in expr.indices]
        # What a guard excludes is evaluated too: any in-bounds element will do for it.
        return array[tuple(np.clip(i, 0, n - 1) for i, n in zip(index, array.shape, strict=True))]
    if kind in _BINARY:
        return _typed(
            _BINARY[kind](evaluate_expression(expr.a, grids, arrays), evaluate_expression(expr.b, grids, arrays)), expr
        )
    if kind == "Div":
        a, b = evaluate_expression(expr.a, grids, arrays), evaluate_expression(expr.b, grids, arrays)
        whole = np.issubdtype(np.dtype(dtype_of(expr)), np.integer)
        return _typed(np.trunc(a / b) if whole else a / b, expr)
    if kind == "Not":
        return np.logical_not(evaluate_expression(expr.a, grids, arrays))
    if kind == "Cast":
        return evaluate_expression(expr.value, grids, arrays).astype(dtype_of(expr))
    if kind == "Select":
        parts = (expr.condition, expr.true_value, expr.false_value)
        return np.where(*(evaluate_expression(e, grids, arrays) for e in parts))
    if kind == "Call":
        name = expr.op.name.split(".")[-1]
        args = [evaluate_expression(a, grids, arrays) for a in expr.args]
        if name == "if_then_else":
            return np.where(*args)
        if name in _CALLS:
            with np.errstate(all="ignore"):
                return _typed(_CALLS[name](*args), expr)
        raise NotAffine(f"{name} is not evaluated at import")
    raise NotAffine(f"{kind} is not evaluated at import")


def _typed(value: Any, expr: Any) -> np.ndarray:
    return np.asarray(value).astype(dtype_of(expr), copy=False)


def run(kernel: Kernel, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Execute a kernel on known arrays; raises :class:`NotAffine` where it does more than plain loops."""
    arrays: dict[Any, np.ndarray] = {}
    for buffer, value in zip(kernel.params, inputs, strict=False):
        arrays[buffer] = value
    for buffer in (*kernel.params[len(inputs) :], *kernel.temps):
        shape, dtype = kernel.shape_dtype(buffer)
        _refuse_size(shape)
        arrays[buffer] = np.zeros(shape, dtype)
    with np.errstate(all="ignore"):
        for block in kernel.blocks:
            _run_block(block, arrays)
    return [arrays[p] for p in kernel.params[len(inputs) :]]


def _refuse_size(extents: Sequence[int]) -> None:
    if math.prod(extents) > LARGEST:
        raise NotAffine("too large to evaluate at import")


_REDUCERS: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def _run_block(block: TirBlock, arrays: dict[Any, np.ndarray]) -> None:
    rank = len(block.iters)
    _refuse_size([i.extent for i in block.iters])
    grids = {
        axis.var: np.arange(axis.extent, dtype=dtype_of(axis.var)).reshape(
            [-1 if p == position else 1 for p in range(rank)]
        )
        for position, axis in enumerate(block.iters)
    }
    extents = [i.extent for i in block.iters]
    for store in block.stores:
        target = arrays[store.buffer]
        value = np.broadcast_to(evaluate_expression(store.value, grids, arrays), extents)
        if store.combine:
            axes = tuple(p for p, axis in enumerate(block.iters) if axis.reduce)
            value = _REDUCERS[store.combine].reduce(value, axis=axes, keepdims=True)
        index = [np.asarray(evaluate_expression(i, grids, arrays)) for i in store.index]
        spatial = np.broadcast_shapes(*(i.shape for i in index), value.shape) if index else ()
        if not index:
            target[()] = value.reshape(())
        else:
            target[tuple(np.broadcast_to(i, spatial) for i in index)] = value
