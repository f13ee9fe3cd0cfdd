"""Constants are laid out anew for the loops that read them, one dimension for each axis.

A convolution's filter arrives as [out, in, height, width], is read as ``w[f, c, ky, kx]``, and is stored as
[ky, kx, c, f], columns innermost; a bias becomes a vector. Two readers that want the same layout share it.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...ir.graph import FLOATS
from ..net.linear import Linear
from ..net.net import Info, Loop, Net, Operand, Ref, renamed


def lay_out_constants(net: Net) -> None:
    """Materialise every constant as its readers access it.

    Before: the layouts of activations are chosen, and each loop reads constants by its own axes. After: constants have
    one dimension an axis, columns innermost, and scalars are numbers in the loops; windows over constants stay.

        y[p, f] = sum x[p, c] · W[f, c]
        becomes      y[p, f] = sum x[p, c] · W'[c, f]
    """
    laid_out: dict[tuple[str, tuple[object, ...]], str] = {}
    for step in (s for s in net.steps if not s.is_opaque):
        step.loops = [_lay_out(_constant_right(loop, net), net, laid_out) for loop in step.loops]
    net.drop_dead()
    # A constant with one layout keeps the name of its weight.
    by_source: dict[str, list[str]] = {}
    for (source, _), name in laid_out.items():
        by_source.setdefault(source, []).append(name)
    names: dict[str, str] = {}
    for source, copies in by_source.items():
        if len(copies) == 1 and source not in net.constants and copies[0] in net.constants:
            names[copies[0]] = source
    for old, new in names.items():
        net.constants[new] = net.constants.pop(old)
        net.tensors[new] = net.tensors.pop(old)
    for step in net.steps:
        step.loops = [renamed(loop, names) for loop in step.loops]


def _constant_right(loop: Loop, net: Net) -> Loop:
    """The stationary operand of a contraction is the second one: the weights, if there are any."""
    if loop.is_contraction and len(loop.operands) == 2:
        left, right = loop.factors
        if left.tensor in net.constants and right.tensor not in net.constants:
            return replace(loop, operands=(right, left))
    return loop


def _lay_out(loop: Loop, net: Net, laid_out: dict[tuple[str, tuple[object, ...]], str]) -> Loop:
    operands: list[Operand] = []
    for operand in loop.operands:
        if not isinstance(operand, Ref) or operand.tensor not in net.constants or operand.fill is not None:
            operands.append(operand)
            continue
        axes = _order(loop, operand)
        shape = tuple(loop.axes[a].size for a in axes)
        info = net.tensors[operand.tensor]
        if prod(shape) > info.elements:
            operands.append(operand)  # A window over a constant: leave it in place.
            continue
        array = net.constants[operand.tensor]
        if not axes and (array.dtype.name in FLOATS or array.dtype.kind == "i"):
            point = tuple(i.const for i in operand.index)
            operands.append(float(array[point]))
            continue
        offset, strides = _strides(operand, axes, info.shape)
        key = (operand.tensor, (offset, strides, shape))
        if key not in laid_out:
            laid_out[key] = net.fresh_tensor(f"{operand.tensor}.laid_out")
            flat = np.ascontiguousarray(array).reshape(-1)
            view = as_strided(flat[offset:], shape, tuple(s * flat.itemsize for s in strides))
            net.constants[laid_out[key]] = np.ascontiguousarray(view).reshape(shape)
            net.tensors[laid_out[key]] = Info(shape, info.dtype)
        operands.append(Ref(laid_out[key], tuple(Linear.axis(a) for a in axes)))
    return replace(loop, operands=tuple(operands))


def _order(loop: Loop, ref: Ref) -> list[str]:
    """The axes of a constant, outermost first: batch, contracted in the order of the other operand, columns.

    Without columns of its own (a depthwise filter) it is laid out like the image: contracted, then channels.
    """
    written = [a for i in loop.write.index for a, _ in sorted(i.terms, key=lambda t: -t[1])]
    others = [o for o in loop.reads if o is not ref]
    reduced: list[str] = []
    for operand in others:
        reduced += [a for i in operand.index for a in i.axes if loop.axes[a].reduce and a not in reduced]
    reduced += [a for a in loop.reduced if a not in reduced]
    spatial = written + [a for a in loop.spatial if a not in written]
    shared = [a for a in spatial if any(a in o.axes for o in others)] if loop.is_matrix else []
    order = [*shared, *reduced, *(a for a in spatial if a not in shared)]
    return [a for a in order if a in ref.axes]


def _strides(ref: Ref, axes: list[str], shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """The offset of the first element and the step of each axis, in elements."""
    weights = [prod(shape[d + 1 :]) for d in range(len(shape))]
    flat = Linear()
    for index, weight in zip(ref.index, weights, strict=True):
        flat = flat + index * weight
    return flat.const, tuple(flat.coefficient(a) for a in axes)
