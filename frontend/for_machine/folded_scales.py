"""Scales and shifts of channels before a product are folded into its weights and bias.

    (x g + h)·W + b            becomes        x·(g W) + (b + h·W)
    max(0, x g + h)·W + b      becomes        max(x, t)·(g W) + (b - t·(g W))        with t = -h / g, where g > 0

as of the last step of a layer normalisation, or of a normalised and rectified input of a convolution (K. He et al.,
*Identity mappings in deep residual networks*, 2016): the vector engine has a pass less. New constants are computed in
float64 and rounded to the dtypes of those that they replace: the graph's rounding (decision 0002). A channel that is
rectified adds (t - t)·(g W) then, nothing but for the rounding of the bias.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...ir.box import Affine
from ...ir.graph import FLOATS, Access, Graph, Op, Stage, contraction_axes
from .edited_graph import EditedGraph, dimensions_of, own_dimension

MOST_THRESHOLD = 1024.0
"""Of a channel, beyond which t is not used: the weights of so small a scale would be rounded to too few digits. Chosen,
not measured."""


@dataclass(frozen=True)
class _Scaled:
    """An operator whose last stages multiply the dimension ``channels`` of its output with the constant ``scale``, add
    ``shift``, and rectify the sum if it is ``rectified``; ``stages`` are the others, then one that writes the output
    without that.

    That one takes the maximum of what is scaled and of an empty name, of thresholds, if it is ``rectified``.
    """

    op: Op
    scale: str
    shift: str
    channels: int
    rectified: bool
    stages: tuple[Stage, ...]


@dataclass(frozen=True)
class _Product:
    """A product of that with ``weights``; which dimension of the weights the channels are, and which the columns.

    ``bias`` is added to its columns; without one, it is empty, and the next stage copies sums of which the axis
    ``column`` walks the columns.
    """

    op: Op
    weights: str
    channels: int
    columns: int
    bias: str
    column: int


def fold_scales(graph: Graph) -> Graph:
    """The graph with all such scales and shifts in weights; the same graph if there are none.

    All that reads what is scaled has to be a product with weights that nothing else reads.
    """
    edited = EditedGraph(graph)
    parts: dict[str, list[Op]] = {}
    for op in graph.ops:
        scaled = _scaled(graph, op)
        if scaled is None:
            continue
        readers = graph.consumers[op.output]
        products = [p for reader in readers if (p := _product(graph, scaled, reader)) is not None]
        if readers and len(products) == len(readers):
            thresholds = _thresholds(edited, scaled) if scaled.rectified else None
            parts[op.name] = [_unscaled(scaled, thresholds)]
            parts |= {p.op.name: [_folded(edited, scaled, p, thresholds)] for p in products}
    return edited.with_parts(parts)


def _scaled(graph: Graph, op: Op) -> _Scaled | None:
    if op.contraction is not None or op.template or op.output in graph.output_tensors:
        return None
    private = {b.name: b for b in op.buffers}
    *stages, last = op.stages
    rectified = last.func == "max" and last.combine is None and last.operands[1:] == (0.0,)
    affine = stages.pop() if rectified and stages else last
    if affine.func != "fma" or affine.combine is not None or len(affine.factors) != 3:
        return None
    value, scale, shift = affine.factors
    output = graph.tensor[op.output]
    known = graph.tensor | private
    if output.dtype not in FLOATS or known[value.tensor].dtype != output.dtype or value.fill is not None:
        return None
    dims = dimensions_of(last.write, last, output.shape)
    walked = [axis for axis in range(len(affine.axes)) if _is_of(scale, axis) and _is_of(shift, axis)]
    if dims is None or len(walked) != 1 or not graph.constant_names.issuperset((scale.tensor, shift.tensor)):
        return None
    channels = dims[walked[0]]
    if rectified:
        if affine.axes != last.axes or affine.write != last.factors[0] or not _rectifiable(graph, scale, shift):
            return None
        # Whatever the stage before reads, another function of it is written.
        operands = value, Access("", scale.index)
        return _Scaled(op, scale.tensor, shift.tensor, channels, True, (*stages, replace(last, operands=operands)))
    reads = sum(r.tensor == value.tensor for s in op.stages for r in s.reads)
    before = stages.pop() if stages else last
    if value.tensor not in private or before.write.tensor != value.tensor or before.combine is not None or reads > 1:
        return None
    of_value = dimensions_of(value, affine, private[value.tensor].shape)
    if of_value is None or len(of_value) < len(value.index):
        return None
    index = [Affine((0,) * len(before.axes))] * len(output.shape)
    for axis, d in enumerate(of_value):
        index[dims[axis]] = before.write.index[d]
    written = replace(before, write=Access(op.output, tuple(index)))
    return _Scaled(op, scale.tensor, shift.tensor, channels, False, (*stages, written))


def _is_of(access: Access, axis: int) -> bool:
    """Whether a vector is read along this axis."""
    return len(access.index) == 1 and own_dimension(access, axis) == 0


def _rectifiable(graph: Graph, scale: Access, shift: Access) -> bool:
    factors, shifts = (graph.data[a.tensor].astype(np.float64) for a in (scale, shift))
    return bool(np.all(factors > 0) and np.all(np.abs(shifts) <= MOST_THRESHOLD * factors))


def _product(graph: Graph, scaled: _Scaled, op: Op) -> _Product | None:
    """The product, if its bias starts its sums or is added to them, or if there is room for one."""
    if op.contraction != 0 or op.template or len(op.stages) < 2:
        return None
    product, following = op.stages[:2]
    rows, weights = product.factors
    axes = contraction_axes(product)
    if [r for s in op.stages for r in s.reads if r.tensor == scaled.op.output] != [rows] or rows.fill is not None:
        return None
    if len(axes.n) != 1 or axes.batch or weights.tensor not in graph.constant_names:
        return None
    # A point of a window is one of the reduction that walks no channel.
    walking = [a for a in axes.k if own_dimension(rows, a) == scaled.channels]
    channel_count = graph.tensor[scaled.op.output].shape[scaled.channels]
    if (
        len(walking) != 1
        or product.axes[walking[0]].extent != channel_count
        or len(graph.consumers[weights.tensor]) > 1
    ):
        return None
    channels, columns = own_dimension(weights, walking[0]), own_dimension(weights, axes.n[0])
    if channels is None or columns is None:
        return None
    walks = {own_dimension(following.factors[0], a): a for a in range(len(following.axes))} if following.factors else {}
    column = walks.get(own_dimension(product.write, axes.n[0]), -1)
    bias = product.start if product.start is not None and _is_of(product.start, axes.n[0]) else None
    if product.start is None:
        if following.combine is not None or column < 0 or following.factors[0].tensor != product.write.tensor:
            return None
        if following.func == "copy":
            return _Product(op, weights.tensor, channels, columns, "", column)
        added = following.factors[1:] if following.func == "add" else ()
        bias = next((r for r in added if _is_of(r, column)), None)
    if bias is None or bias.tensor not in graph.constant_names:
        return None
    return _Product(op, weights.tensor, channels, columns, bias.tensor, column)


def _thresholds(edited: EditedGraph, scaled: _Scaled) -> str:
    scale, shift = (edited.graph.data[name].astype(np.float64) for name in (scaled.scale, scaled.shift))
    return edited.new_constant(f"{scaled.shift}:threshold", -shift / scale, edited.graph.tensor[scaled.op.output].dtype)


def _unscaled(scaled: _Scaled, thresholds: str | None) -> Op:
    """The operator without its scale and shift."""
    stages = tuple(stage.renamed({"": thresholds or ""}) for stage in scaled.stages)
    read, written = {r.tensor for s in stages for r in s.reads}, {s.write.tensor for s in stages}
    inputs = (*(name for name in scaled.op.inputs if name in read), *([thresholds] if thresholds else []))
    return replace(
        scaled.op, inputs=inputs, buffers=tuple(b for b in scaled.op.buffers if b.name in written), stages=stages
    )


def _folded(edited: EditedGraph, scaled: _Scaled, product: _Product, thresholds: str | None) -> Op:
    """The product with the scale in its weights, and the shift in its bias."""
    op, tensor = product.op, edited.graph.tensor
    scale, shift, weights = (
        edited.graph.data[name].astype(np.float64) for name in (scaled.scale, scaled.shift, product.weights)
    )
    along = [-1 if d == product.channels else 1 for d in range(weights.ndim)]
    summed = tuple(d for d in range(weights.ndim) if d != product.columns)
    name = edited.new_constant(
        f"{product.weights}:{scaled.op.name}", weights * scale.reshape(along), tensor[product.weights].dtype
    )
    if thresholds is None:
        moved = (weights * shift.reshape(along)).sum(axis=summed)
    else:
        # Of the constants as they are rounded, so that a rectified channel adds nothing.
        moved = -(edited.rounded(name) * edited.rounded(thresholds).reshape(along)).sum(axis=summed)
    names = {product.weights: name}
    bias_dtype = tensor[product.bias or product.weights].dtype
    bias = edited.graph.data[product.bias].astype(np.float64) if product.bias else 0.0
    new_bias = edited.new_constant(f"{product.bias or op.name}:{scaled.op.name}", bias + moved, bias_dtype)
    if product.bias:
        names[product.bias] = new_bias
    first, following, *rest = (stage.renamed(names) for stage in op.stages)
    inputs = [names.get(n, n) for n in op.inputs]
    if not product.bias:
        along_columns = Affine(tuple(int(a == product.column) for a in range(len(following.axes))))
        added = Access(new_bias, (along_columns,))
        following = replace(following, func="add", operands=(*following.operands, added))
        inputs.append(new_bias)
    return replace(op, inputs=tuple(inputs), stages=(first, following, *rest))
