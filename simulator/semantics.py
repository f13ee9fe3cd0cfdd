"""What instructions compute: one short function for each family of rows.

Each takes the template of an instruction and its operands in the row's order, as views of memory with a leading axis
of replicas, and writes the first one. Rounding and conversion are in :mod:`girih.simulator.numbers`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir.reach import Taps, taps
from .numbers import COMBINE, FLOAT, INTEGER, Array, store, to_float, to_integer
from .templates import Template


def _fields(template: Template, *names: str) -> list[int]:
    return [int(template.instruction.values[template.row.position[name]]) for name in names]


def _computes_integers(template: Template, sources: tuple[Array, ...], immediates: list[float]) -> bool:
    return all(s.dtype.kind in "iub" for s in sources) and all(float(i).is_integer() for i in immediates)


def _number(immediate: float, integer: bool) -> np.generic:
    return np.int64(immediate) if integer else np.float32(immediate)


def element(template: Template, dst: Array, *sources: Array) -> None:
    """dst = func(...): the vectors and the immediates in the order that the mnemonic's suffix gives."""
    form = template.row.mnemonic.rpartition(".")[2]
    immediates = [float(v) for v in template.instruction.values[3 : 3 + form.count("s")]]
    integers = template.row.func in INTEGER and _computes_integers(template, sources, immediates)
    load = to_integer if integers else to_float
    vectors, scalars = iter(sources), iter(immediates)
    arguments = [load(next(vectors)) if kind == "v" else _number(next(scalars), integers) for kind in form]
    store(dst, (INTEGER if integers else FLOAT)[template.row.func](*arguments))


def fill(template: Template, dst: Array) -> None:
    store(dst, np.asarray(template.instruction.values[3], np.float32))


def accumulate(template: Template, dst: Array, a: Array) -> None:
    load = to_integer if _computes_integers(template, (dst, a), []) else to_float
    store(dst, COMBINE[template.row.func](load(dst), load(a)))


def multiply_accumulate(template: Template, dst: Array, a: Array, *b: Array) -> None:
    immediates = [] if b else [float(template.instruction.values[3])]
    integers = _computes_integers(template, (dst, a, *b), immediates)
    load = to_integer if integers else to_float
    store(dst, load(dst) + load(a) * (load(b[0]) if b else _number(immediates[0], integers)))


def reduce(template: Template, dst: Array, a: Array) -> None:
    integers = _computes_integers(template, (a,), [])
    combine = COMBINE[template.row.func]
    result = combine.reduce((to_integer if integers else _exact)(a), axis=-1)
    if _fields(template, "acc")[0]:
        result = combine((to_integer if integers and dst.dtype.kind in "iub" else _exact)(dst), result)
    store(dst, result)


def dot(template: Template, dst: Array, a: Array, b: Array) -> None:
    integers = _computes_integers(template, (a, b), [])
    load = to_integer if integers else _exact
    result = np.einsum("...k,...k->...", load(a), load(b))
    if _fields(template, "acc")[0]:
        result = result + (to_integer if integers and dst.dtype.kind in "iub" else _exact)(dst)
    store(dst, result)


def _exact(array: Array) -> Array:
    """As float64: a sum of products of halves is exact in it, of singles nearly so, whatever the order."""
    return array.astype(np.float64)


def _product(template: Template, dst: Array, a: Array, b: Array, integers: bool) -> None:
    """dst (+)= a @ b, summed in float64 and rounded once."""
    result = np.matmul(a, b)
    if integers:
        result = result.astype(np.int64)
    result = result.reshape(dst.shape)
    if _fields(template, "acc")[0]:
        result = result + (to_integer if integers and dst.dtype.kind in "iub" else _exact)(dst)
    store(dst, result)


def _matrix_load(a: Array, b: Array) -> tuple[Array, Array, bool]:
    """Both operands as float64, and whether they are integers."""
    return _exact(a), _exact(b), a.dtype.kind in "iu" and b.dtype.kind in "iu"


def matmul(template: Template, dst: Array, a: Array, b: Array) -> None:
    left, right, integers = _matrix_load(a, b)
    _product(template, dst, left, right, integers)


def conv(template: Template, dst: Array, a: Array, b: Array) -> None:
    """``a`` holds the input positions in bounds; what lies outside is zero, and every window becomes a row."""
    oh, ow, n, kh, kw, ci = _fields(template, "oh", "ow", "n", "kh", "kw", "ci")
    rows = taps(*_fields(template, "oh", "kh", "sh", "dh", "h0", "H"))
    columns = taps(*_fields(template, "ow", "kw", "sw", "dw", "w0", "W"))
    image, right, integers = _matrix_load(a, b)
    image = _padded(image, rows, columns)
    replicas = len(image)
    s, sr, sc, se = image.strides
    windows = np.ndarray(
        (replicas, oh, ow, kh, kw, ci),
        image.dtype,
        image,
        strides=(s, sr * rows.stride, sc * columns.stride, sr * rows.dilation, sc * columns.dilation, se),
    )
    left = windows.reshape(replicas, oh * ow, kh * kw * ci)
    _product(template, dst, left, right.reshape(replicas, kh * kw * ci, n), integers)


def _padded(image: Array, rows: Taps, columns: Taps) -> Array:
    """The whole lattice of positions, contiguous; those out of bounds are zero."""
    shape = (len(image), rows.length, columns.length, image.shape[-1])
    if shape == image.shape:
        return np.ascontiguousarray(image)
    whole = np.zeros(shape, image.dtype)
    whole[:, rows.first : rows.last, columns.first : columns.last] = image
    return whole


def copy(template: Template, dst: Array, src: Array) -> None:
    """Moves bits, also those of a NaN."""
    del template
    bits = f"u{dst.itemsize}"
    dst.view(bits)[...] = src.view(bits)


Semantics = Callable[..., None]

_FAMILIES: dict[str, Semantics] = {
    "vfill": fill,
    "vacc": accumulate,
    "vmacc": multiply_accumulate,
    "vred": reduce,
    "vdot": dot,
    "mmatmul": matmul,
    "mconv": conv,
    "mcopy": copy,
    "mbcast": copy,
    "dcopy": copy,
}


def semantics(template: Template) -> Semantics:
    """The function of an instruction; waits and host calls have none."""
    return _FAMILIES.get(template.row.family, element)
