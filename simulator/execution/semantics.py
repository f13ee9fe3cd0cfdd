"""What instructions compute: one short function for each family of rows.

Each takes the template of an instruction and its operands in the row's order, as views of memory with a leading axis
of replicas, and writes the first one. Rounding and conversion are in :mod:`girih.simulator.execution.numbers`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.isa.footprint import WINDOW, Taps, taps
from ...ir.isa.row import Row
from ...ir.isa.scalar_functions import is_int64
from ..tasks.templates import InstructionTemplate
from .half import widened
from .numbers import COMBINE, FLOAT, INTEGER, Array, store, to_float, to_integer


def _fields(template: InstructionTemplate, *names: str) -> list[int]:
    return [int(template.instruction.values[template.row.position[name]]) for name in names]


def _computes_integers(sources: tuple[Array, ...], immediates: list[float]) -> bool:
    return all(s.dtype.kind in "iub" for s in sources) and all(is_int64(i) for i in immediates)


def _number(immediate: float, integer: bool) -> np.generic:
    return np.int64(immediate) if integer else np.float32(immediate)


def element(template: InstructionTemplate, dst: Array, *sources: Array) -> None:
    """dst = func(...): the vectors and the immediates in the order that the mnemonic's suffix gives."""
    form = template.row.mnemonic.rpartition(".")[2]
    immediates = [float(v) for v in template.instruction.values[3 : 3 + form.count("s")]]
    integers = template.row.func in INTEGER and _computes_integers(sources, immediates)
    load = to_integer if integers else _exact if template.row.func == "fma" else to_float
    vectors, scalars = iter(sources), iter(immediates)
    arguments = [load(next(vectors)) if kind == "v" else _number(next(scalars), integers) for kind in form]
    store(dst, (INTEGER if integers else FLOAT)[template.row.func](*arguments))


def fill(template: InstructionTemplate, dst: Array) -> None:
    store(dst, np.asarray(template.instruction.values[template.row.position["imm0"]], np.float32))


def accumulate(template: InstructionTemplate, dst: Array, a: Array) -> None:
    load = to_integer if _computes_integers((dst, a), []) else to_float
    store(dst, COMBINE[template.row.func](load(dst), load(a)))


def multiply_accumulate(template: InstructionTemplate, dst: Array, a: Array, *b: Array) -> None:
    immediates = [] if b else [float(template.instruction.values[3])]
    integers = _computes_integers((dst, a, *b), immediates)
    load = to_integer if integers else to_float
    store(dst, load(dst) + load(a) * (load(b[0]) if b else _number(immediates[0], integers)))


def reduce(template: InstructionTemplate, dst: Array, a: Array) -> None:
    integers = _computes_integers((a,), [])
    combine = COMBINE[template.row.func]
    result = combine.reduce((to_integer if integers else _exact)(a), axis=-1)
    if _fields(template, "acc")[0]:
        result = combine((to_integer if integers and dst.dtype.kind in "iub" else _exact)(dst), result)
    store(dst, result)


def dot(template: InstructionTemplate, dst: Array, a: Array, b: Array) -> None:
    integers = _computes_integers((a, b), [])
    load = to_integer if integers else _exact
    result = np.einsum("...k,...k->...", load(a), load(b))
    if _fields(template, "acc")[0]:
        result = result + (to_integer if integers and dst.dtype.kind in "iub" else _exact)(dst)
    store(dst, result)


def place(template: InstructionTemplate, dst: Array, a: Array) -> None:
    """The first place of the extreme; NumPy, too, takes a NaN for it."""
    find = {"max": np.argmax, "min": np.argmin}[template.row.func]
    store(dst, find((to_integer if _computes_integers((a,), []) else to_float)(a), axis=-1))


def scan(template: InstructionTemplate, dst: Array, a: Array) -> None:
    integers = _computes_integers((a,), [])
    store(dst, np.cumsum((to_integer if integers else _exact)(a), axis=-1))


def _exact(array: Array) -> Array:
    """As float64: a sum of products of halves is exact in it, of singles nearly so, whatever the order."""
    return (widened(array) if array.dtype == np.float16 else array).astype(np.float64)


def _product(
    template: InstructionTemplate, dst: Array, a: Array, b: Array, integers: bool, bias: tuple[Array, ...]
) -> None:
    """dst (+)= a @ b (+ bias), summed in float64 and rounded once; without what is negative if wanted."""
    result = np.matmul(a, b)
    if integers:
        result = result.astype(np.int64)
    result = result.reshape(dst.shape)
    if _fields(template, "acc")[0]:
        result = result + (to_integer if integers and dst.dtype.kind in "iub" else _exact)(dst)
    for c in bias:
        load = to_integer if integers and c.dtype.kind in "iub" else _exact
        result = result + load(c).reshape(len(c), *(1,) * (dst.ndim - 2), -1)
        if _fields(template, "relu")[0]:
            result = np.maximum(result, 0)
    store(dst, result)


def _matrix_load(a: Array, b: Array) -> tuple[Array, Array, bool]:
    """Both operands as float64, and whether they are integers."""
    return _exact(a), _exact(b), a.dtype.kind in "iu" and b.dtype.kind in "iu"


def matmul(template: InstructionTemplate, dst: Array, a: Array, b: Array, *bias: Array) -> None:
    left, right, integers = _matrix_load(a, b)
    _product(template, dst, left, right, integers, bias)


def conv(template: InstructionTemplate, dst: Array, a: Array, b: Array, *bias: Array) -> None:
    """Every window becomes a row; what lies outside is zero."""
    oh, ow, n, kh, kw, ci = _fields(template, "oh", "ow", "n", "kh", "kw", "ci")
    image, right, integers = _matrix_load(a, b)
    left = _windows(template, image, 0).reshape(len(image), oh * ow, kh * kw * ci)
    _product(template, dst, left, right.reshape(len(image), kh * kw * ci, n), integers, bias)


def _windows(template: InstructionTemplate, image: Array, outside: float) -> Array:
    """(replicas, oh, ow, kh, kw, ...) of a feature map, which holds the positions in bounds alone."""
    rows, columns = (taps(*_fields(template, *names)) for names in WINDOW)
    whole = _padded(image, rows, columns, outside)
    s, sr, sc, *inner = whole.strides
    return np.ndarray(
        (len(image), *_fields(template, "oh", "ow", "kh", "kw"), *image.shape[3:]),
        whole.dtype,
        whole,
        strides=(s, sr * rows.stride, sc * columns.stride, sr * rows.dilation, sc * columns.dilation, *inner),
    )


def _padded(image: Array, rows: Taps, columns: Taps, outside: float) -> Array:
    """The whole lattice of positions, contiguous; those out of bounds are ``outside``."""
    shape = (len(image), rows.length, columns.length, *image.shape[3:])
    if shape == image.shape:
        return np.ascontiguousarray(image)
    whole = np.full(shape, outside, image.dtype)
    whole[:, rows.first : rows.last, columns.first : columns.last] = image
    return whole


def pool(template: InstructionTemplate, dst: Array, a: Array) -> None:
    func = template.row.func
    integers = func != "avg" and _computes_integers((a,), [])
    load = to_integer if integers else _exact
    outside = 0 if func != "max" else np.iinfo(np.int64).min if integers else -np.inf
    windows = _windows(template, load(a), outside)
    inside = _windows(template, np.ones((1, *a.shape[1:3], 1, 1)), 0).sum(axis=(3, 4))
    result = windows.max(axis=(3, 4)) if func == "max" else windows.sum(axis=(3, 4))
    if func == "avg":
        result = result / np.maximum(inside, 1)
    elif _fields(template, "acc")[0]:
        before = (to_integer if integers and dst.dtype.kind in "iub" else _exact)(dst)
        # What windows of integers see nothing of may be a float below all integers.
        store(dst, np.where(inside, COMBINE[func](result, before), before))
        return
    store(dst, np.where(inside, result, 0))


def depthwise(template: InstructionTemplate, dst: Array, a: Array, b: Array) -> None:
    integers = _computes_integers((a, b), [])
    load = to_integer if integers else _exact
    # Not by a product with zeros: what is outside does not take part, even where b is infinite.
    weights, inside = load(b), _windows(template, np.ones((1, *a.shape[1:3], 1, 1), np.bool_), 0)
    products = np.where(inside, _windows(template, load(a), 0) * weights[:, None, None, :, :, None], 0)
    result = products.sum(axis=(3, 4))
    if _fields(template, "acc")[0]:
        result = result + (to_integer if integers and dst.dtype.kind in "iub" else _exact)(dst)
    store(dst, result)


def gather(template: InstructionTemplate, dst: Array, table: Array, indices: Array) -> None:
    axis, at = picked(template.row, indices)
    picked_values = np.take_along_axis(table, at, axis)
    (store if template.row.kind == "vector" else _move)(dst, picked_values)


def scatter(template: InstructionTemplate, dst: Array, source: Array, indices: Array) -> None:
    axis, at = picked(template.row, indices)
    if template.row.kind != "vector":
        dst, source = _bits(dst), _bits(source).copy()
    else:
        source = _sums(dst, source, at) if template.row.operands[0].access == "rw" else source.copy()
    # One after the other, so that the last of two stays.
    for number in range(source.shape[axis]):
        value = source[:, :, number : number + 1]
        rounded = np.empty(value.shape, dst.dtype)
        store(rounded, value)
        np.put_along_axis(dst, at[:, :, number : number + 1], rounded, axis)


def _sums(dst: Array, source: Array, at: Array) -> Array:
    """For each row of ``source`` what the entry is in the end: its old value and all that is added to it."""
    integers = all(x.dtype.kind in "iub" for x in (dst, source))
    load = to_integer if integers else _exact
    total = load(dst).copy()
    replicas, blocks = np.ogrid[: at.shape[0], : at.shape[1]]
    np.add.at(total, (replicas[..., None], blocks[..., None], at[..., 0]), load(source))
    return np.take_along_axis(total, at, 2)


def picked(row: Row, indices: Array) -> tuple[int, Array]:
    """The axis of the entries (after that of the replicas), and the indices as NumPy picks along an axis."""
    table = next(o for o in row.operands if o.picked)
    axis = table.dims.index("entries")
    at = indices.astype(np.int64)
    return axis + 1, at[..., None] if at.ndim == 3 else at


def copy(template: InstructionTemplate, dst: Array, src: Array) -> None:
    _move(dst, src.swapaxes(2, 3) if template.row.operands[0].dims != template.row.operands[1].dims else src)


def _move(dst: Array, src: Array) -> None:
    """Moves bits, also those of a NaN."""
    _bits(dst)[...] = _bits(src)


def _bits(array: Array) -> Array:
    return array.view(f"u{array.itemsize}")


Semantics = Callable[..., None]

_FAMILIES: dict[str, Semantics] = {
    "vfill": fill,
    "vacc": accumulate,
    "vmacc": multiply_accumulate,
    "vred": reduce,
    "vdot": dot,
    "varg": place,
    "vscan": scan,
    "vpool": pool,
    "vdwconv": depthwise,
    "vgather": gather,
    "vscatter": scatter,
    "mmatmul": matmul,
    "mconv": conv,
    "mcopy": copy,
    "mtrans": copy,
    "mfill": fill,
    "mbcast": copy,
    "mgather": gather,
    "dcopy": copy,
    "dtrans": copy,
    "dfill": fill,
    "dgather": gather,
    "dscatter": scatter,
} | {f"v{name}": element for name in FLOAT}


def semantics(row: Row) -> Semantics:
    """The function that a row computes; those of synchronisation and host calls have none."""
    return _FAMILIES[row.family]
