"""Scales and shifts of channels before a product are folded into its weights and bias.

    (x g + h)·W + b        becomes        x·(g W) + (h·W + b)

as of the last step of a layer normalisation: the vector engine has a pass less. New weights and biases are computed in
float64, and rounded to the dtypes of those that they replace: the graph's rounding (decision 0002).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...ir.box import Affine
from ...ir.graph import FLOATS, Access, Graph, Op, contraction_axes
from .edited_graph import EditedGraph, dimensions_of, own_dimension


@dataclass(frozen=True)
class _Scaled:
    """An operator whose last stage multiplies the last dimension with the constant ``scale`` and adds ``shift``.

    ``dims``: for each dimension of what the stage before it writes, that of the output.
    """

    op: Op
    scale: str
    shift: str
    dims: tuple[int, ...]


@dataclass(frozen=True)
class _Product:
    """A product of that with ``weights``, and the ``bias`` of its columns; which dimension of the weights the channels
    are, and which the columns."""

    op: Op
    weights: str
    bias: str
    channels: int
    columns: int


def fold_scales(graph: Graph) -> Graph:
    """The graph with all such scales and shifts in weights; the same graph if there are none.

    All that reads what is scaled has to be a product with weights of its own, and with a bias.
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
            parts[op.name] = [_unscaled(scaled)]
            parts |= {p.op.name: [_folded(edited, scaled, p)] for p in products}
    return edited.with_parts(parts)


def _scaled(graph: Graph, op: Op) -> _Scaled | None:
    if op.contraction is not None or op.template or len(op.stages) < 2 or op.output in graph.output_tensors:
        return None
    before, last = op.stages[-2:]
    if last.func != "fma" or last.combine is not None or len(last.factors) != 3:
        return None
    value, scale, shift = last.factors
    output, channel = graph.tensor[op.output], len(last.axes) - 1
    private = {b.name: b for b in op.buffers}
    reads = sum(r.tensor == value.tensor for s in op.stages for r in s.reads)
    if before.write.tensor != value.tensor or before.combine is not None or value.tensor not in private or reads > 1:
        return None
    if output.dtype not in FLOATS or private[value.tensor].dtype != output.dtype:
        return None
    walked = dimensions_of(value, last, private[value.tensor].shape)
    written = dimensions_of(last.write, last, output.shape)
    if walked is None or written is None or len(walked) < len(value.index) or written[channel] != len(output.shape) - 1:
        return None
    if not all(c.tensor in graph.constant_names and _is_of(c, channel) for c in (scale, shift)):
        return None
    return _Scaled(op, scale.tensor, shift.tensor, tuple(written[walked.index(d)] for d in range(len(walked))))


def _is_of(access: Access, axis: int) -> bool:
    """Whether a vector is read along this axis."""
    return len(access.index) == 1 and own_dimension(access, axis) == 0


def _product(graph: Graph, scaled: _Scaled, op: Op) -> _Product | None:
    """The product, if its bias starts its sums or is added to them."""
    if op.contraction != 0 or op.template:
        return None
    product, following = op.stages[0], op.stages[1:2]
    rows, weights = product.factors
    axes = contraction_axes(product)
    if [r for s in op.stages for r in s.reads if r.tensor == scaled.op.output] != [rows] or rows.fill is not None:
        return None
    if len(axes.k) != 1 or len(axes.n) != 1 or axes.batch:
        return None
    if own_dimension(rows, axes.k[0]) != len(rows.index) - 1 or weights.tensor not in graph.constant_names:
        return None
    channels, columns = own_dimension(weights, axes.k[0]), own_dimension(weights, axes.n[0])
    if channels is None or columns is None or len(graph.consumers[weights.tensor]) > 1:
        return None
    column = own_dimension(product.write, axes.n[0])
    biases = [product.start.tensor] if product.start is not None and _is_of(product.start, axes.n[0]) else []
    for stage in following if product.start is None else ():
        sums = [r for r in stage.reads if r.tensor == product.write.tensor]
        if stage.func == "add" and stage.combine is None and len(sums) == 1 and column is not None:
            walked = [a for a in range(len(stage.axes)) if own_dimension(sums[0], a) == column]
            biases = [r.tensor for r in stage.reads for a in walked if r is not sums[0] and _is_of(r, a)]
    if len(biases) != 1 or biases[0] not in graph.constant_names:
        return None
    return _Product(op, weights.tensor, biases[0], channels, columns)


def _unscaled(scaled: _Scaled) -> Op:
    """The operator without its last stage."""
    *stages, before, last = scaled.op.stages
    index = [Affine((0,) * len(before.axes))] * len(last.write.index)
    for d, walked in zip(scaled.dims, before.write.index, strict=True):
        index[d] = walked
    written = replace(before, write=Access(last.write.tensor, tuple(index)))
    read = {r.tensor for s in (*stages, written) for r in s.reads}
    return replace(
        scaled.op,
        inputs=tuple(name for name in scaled.op.inputs if name in read),
        buffers=tuple(b for b in scaled.op.buffers if b.name != before.write.tensor),
        stages=(*stages, written),
    )


def _folded(edited: EditedGraph, scaled: _Scaled, product: _Product) -> Op:
    """The product with the scale in its weights, and the shift in its bias."""
    scale, shift, weights, bias = (
        edited.graph.data[name].astype(np.float64)
        for name in (scaled.scale, scaled.shift, product.weights, product.bias)
    )
    along = [-1 if d == product.channels else 1 for d in range(weights.ndim)]
    summed = tuple(d for d in range(weights.ndim) if d != product.columns)
    bias = bias + (weights * shift.reshape(along)).sum(axis=summed)
    names = {
        product.weights: edited.replaced(product.weights, weights * scale.reshape(along), scaled.op.name),
        product.bias: edited.replaced(product.bias, bias, scaled.op.name),
    }
    return replace(
        product.op,
        inputs=tuple(names.get(name, name) for name in product.op.inputs),
        stages=tuple(stage.renamed(names) for stage in product.op.stages),
    )
