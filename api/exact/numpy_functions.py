"""The scalar functions of stages on numpy arrays, written apart from the simulator's, to prove one another wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...ir.graph import FLOATS
from ...ir.isa.scalar_functions import ELEMENTS, is_int64

erf = np.vectorize(math.erf, otypes=[np.float32])
erfc64 = np.vectorize(math.erfc, otypes=[np.float64])


def double(array: np.ndarray) -> np.ndarray:
    """In float64, for functions of several steps that are rounded once; whole numbers stay what they are."""
    return array.astype(np.float64) if array.dtype.name in FLOATS else array


def smooth(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """A function of several steps, computed in float64 and rounded to float32."""
    return lambda a: function(a.astype(np.float64)).astype(np.float32)


FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "copy": lambda a: a,
    "neg": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sign": np.sign,
    "not": np.logical_not,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "recip": lambda a: 1 / a,
    "erf": erf,
    "tanh": np.tanh,
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "sin": np.sin,
    "cos": np.cos,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": lambda a, b: a / b if np.result_type(a, b).kind == "f" else a // b,
    "mod": lambda a, b: a - b * np.floor(a / b) if np.result_type(a, b).kind == "f" else a % b,
    "pow": np.power,
    "max": np.maximum,
    "min": np.minimum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "select": lambda a, b, c: np.where(a, b, c),
    "fma": lambda a, b, c: double(a) * double(b) + double(c),
    "clip": lambda a, b, c: np.minimum(np.maximum(a, b), c),
    "lrelu": lambda a, b: np.where(a >= 0, a, a * b),
    "quant": lambda a, b, c: np.rint(a * b) + c,
    "dequant": lambda a, b, c: (a - b) * c,
    "gelu": smooth(lambda a: a * erfc64(-a / math.sqrt(2)) / 2),
    "silu": smooth(lambda a: a / (1 + np.exp(-a))),
    "softplus": smooth(lambda a: np.logaddexp(0, a)),
}
COMBINE: dict[str, np.ufunc] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def to_bfloat16(value: np.ndarray) -> np.ndarray:
    """Rounded once, to the nearest multiple of the last of eight binary digits, of two the even one.

    ``astype`` rounds a float64 twice, to float32 before.
    """
    wide = value.astype(np.float64)
    exponent = np.maximum(np.frexp(wide)[1] - 8, -133)
    rounded = np.ldexp(np.rint(np.ldexp(wide, -exponent)), exponent)
    # Beyond the largest number, float32 still holds what is rounded to, and infinity comes of it.
    return rounded.astype(np.float32).astype("bfloat16")


def saturated(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Converted to a dtype; floats become integers by truncation and saturation, and NaN becomes 0."""
    if dtype.name == "bfloat16":
        return to_bfloat16(value)
    if dtype.kind not in "iu" or value.dtype.name not in FLOATS:
        return value.astype(dtype)
    limits = np.iinfo(dtype)
    # In float64, the largest integer of 64 bits may round up to one that does not fit.
    most = np.nextafter(float(limits.max) + 1, 0.0)
    wide = np.nan_to_num(value.astype(np.float64), nan=0.0, posinf=most, neginf=float(limits.min))
    return np.trunc(wide.clip(float(limits.min), most)).astype(dtype)


def on_whole_numbers(func: str, operands: Sequence[np.ndarray | float]) -> bool:
    """Whether a function computes in int64: all operands are whole numbers, and so is its result."""
    if (ELEMENTS[func].special and func not in ("div", "mod")) or func in ("quant", "dequant"):
        return False
    return all(o.dtype.kind in "iub" if isinstance(o, np.ndarray) else is_int64(o) for o in operands)


def number(value: float, whole: bool) -> np.ndarray:
    return np.asarray(value, np.int64 if whole else np.float32)
