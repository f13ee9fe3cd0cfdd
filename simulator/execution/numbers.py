"""The numbers of the machine: reading them, rounding them, and the scalar functions on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from .half import narrow, widened

Array = np.ndarray
Function = Callable[..., Array]

BFLOAT16 = np.dtype("bfloat16")


def to_float(source: Array) -> Array:
    """Elements as binary32; a new array, or ``source`` itself where nothing has to change."""
    if source.dtype == np.float16:
        return widened(source)
    if source.dtype == np.bool_:
        return (source.view(np.uint8) != 0).astype(np.float32)
    return source.astype(np.float32, copy=False)


def to_integer(source: Array) -> Array:
    """Elements of an integer or bool array as int64."""
    if source.dtype == np.bool_:
        return (source.view(np.uint8) != 0).astype(np.int64)
    return source.astype(np.int64, copy=False)


def store(target: Array, value: Array) -> None:
    """Round ``value`` to the dtype of ``target`` and write it there."""
    if value.dtype == BFLOAT16 != target.dtype:
        value = value.astype(np.float32)
    elif value.dtype == np.bool_ and target.dtype == BFLOAT16:
        # The library's conversion takes the byte for the number, and any but 0 is true.
        value = to_float(value)
    if target.dtype == np.bool_:
        target[...] = value != 0
    elif target.dtype.kind in "iu" and value.dtype.kind == "f":
        target[...] = saturated(value, target.dtype)
    elif target.dtype.kind in "iu":
        target[...] = value.astype(target.dtype)
    elif target.dtype == BFLOAT16:
        target[...] = _to_odd(value.astype(np.float64)) if value.dtype.itemsize == 8 else value
    elif target.dtype == np.float16 and value.dtype == np.float32 and target.shape == value.shape:
        narrow(target, value)
    else:
        target[...] = value


def _to_odd(value: Array) -> Array:
    """Binary64 as binary32, of two neighbours the one whose last bit is 1: what has fewer digits is then rounded once.

    Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE
    Transactions on Computers 57, 2008.
    """
    single = value.astype(np.float32)
    bits, back = single.view(np.uint32), single.astype(np.float64)
    bits -= (np.abs(back) > np.abs(value)).astype(np.uint32)
    bits |= ((back != value) & ~np.isnan(value)).astype(np.uint32)
    return single


def saturated(value: Array, dtype: np.dtype) -> Array:
    """Floats as integers: truncated towards zero, clipped to what the dtype holds, 0 for NaN."""
    info = np.iinfo(dtype)
    # The largest binary64 below max + 1, which itself may not be a binary64 number.
    high = np.nextafter(float(info.max) + 1.0, 0.0)
    clipped = np.clip(np.nan_to_num(value.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf), info.min, high)
    return np.trunc(clipped).astype(dtype)


def converted(source: Array, dtype: str) -> Array:
    """A new array with the elements of ``source`` rounded to ``dtype``, by the rules of the machine."""
    target = np.empty(source.shape, dtype)
    store(target, source)
    return target


@cache
def _erf_polynomial(end: float, degree: int) -> Array:
    """Coefficients, from the constant up, of ``erf(x) / x`` as a polynomial of ``2*x*x/end**2 - 1``; ``|x| <= end``."""

    def quotient(t: Array) -> Array:
        x = np.sqrt((t + 1.0) * (end**2 / 2))
        return np.array([math.erf(v) / v for v in x])

    return np.polynomial.Chebyshev.interpolate(quotient, degree).convert(kind=np.polynomial.Polynomial).coef


def _erf(x: Array, end: float, degree: int) -> Array:
    """The error function of binary64 numbers; beyond ``end`` it stays what it is there."""
    clipped = np.clip(x, -end, end)
    t = clipped * clipped * (2 / end**2) - 1.0
    coefficients = _erf_polynomial(end, degree)
    value = np.full_like(t, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value *= t
        value += coefficient
    return value * clipped


def erf(x: Array) -> Array:
    """The error function; the polynomial is exact beyond binary32, and from 4 on the result rounds to 1."""
    return _erf(x.astype(np.float64), 4.0, 26).astype(np.float32)


def _sigmoid(x: Array) -> Array:
    return np.float32(1.0) / (np.float32(1.0) + np.exp(-x))


GELU_TAIL = -4.0
"""Below, 1 + erf(x / √2) has lost too many digits to cancellation for a binary32 result."""


def _gelu(x: Array) -> Array:
    wide = x.astype(np.float64)
    # For negative x the sum cancels: of a binary64 number, enough digits for a binary32 one are left down to the tail.
    part = np.asarray((1.0 + _erf(wide / math.sqrt(2), 6.0, 40)) / 2)
    tail = wide < GELU_TAIL
    if tail.any():
        part[tail] = [math.erfc(-v / math.sqrt(2)) / 2 for v in wide[tail].tolist()]
    return (wide * part).astype(np.float32)


def _silu(x: Array) -> Array:
    wide = x.astype(np.float64)
    return (wide / (1.0 + np.exp(-wide))).astype(np.float32)


def _softplus(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.logaddexp(0.0, wide).astype(np.float32)


def _clip(a: Array, b: Array, c: Array) -> Array:
    return np.minimum(np.maximum(a, b), c)


def _leaky(a: Array, b: Array) -> Array:
    return np.where(a >= 0, a, a * b)


def _truth(function: Callable[[Array, Array], Array]) -> Function:
    def combine(a: Array, b: Array) -> Array:
        return function(np.not_equal(a, 0), np.not_equal(b, 0))

    return combine


def _select(a: Array, b: Array, c: Array) -> Array:
    return np.where(np.not_equal(a, 0), b, c)


EXACT: dict[str, Function] = {
    "copy": lambda x: x,
    "neg": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sign": np.sign,
    "not": lambda x: np.equal(x, 0),
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": _truth(np.logical_and),
    "or": _truth(np.logical_or),
    "select": _select,
    "clip": _clip,
    "lrelu": _leaky,
    "fma": lambda a, b, c: a * b + c,
}
"""The functions that are defined on integers as on floats."""

INTEGER: dict[str, Function] = EXACT | {
    "floor": lambda x: x,
    "ceil": lambda x: x,
    "round": lambda x: x,
    "div": np.floor_divide,
    "mod": np.mod,
}
"""Scalar functions on int64."""

FLOAT: dict[str, Function] = EXACT | {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.float32(1.0) / np.sqrt(x),
    "recip": lambda x: np.float32(1.0) / x,
    "erf": erf,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "sin": np.sin,
    "cos": np.cos,
    "div": np.divide,
    "mod": lambda a, b: a - b * np.floor(a / b),
    "pow": np.power,
    "quant": lambda a, b, c: np.rint(a * b) + c,
    "dequant": lambda a, b, c: (a - b) * c,
    "gelu": _gelu,
    "silu": _silu,
    "softplus": _softplus,
}
"""Scalar functions on float32; ``fma`` is called with float64."""

COMBINE: dict[str, np.ufunc] = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}
"""Combiners, of float32 or of int64."""
