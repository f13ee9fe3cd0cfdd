"""Scales and shifts of channels before a product are folded into its weights and bias.

    (x g + h)·W + b            becomes        x·(g W) + (b + h·W)
    max(0, x g + h)·W + b      becomes        max(x, t)·(g W) + (b - t·(g W))        with t = -h / g, where g > 0

as of the last step of a layer normalisation, or of a normalised and rectified input of a convolution (K. He et al.,
*Identity mappings in deep residual networks*, 2016): the vector engine has a pass less. New constants are computed in
float64 and rounded, to the dtypes of those that they replace or, for a bias with t in it, to float32: the graph's
rounding (decision 0002). A channel that is rectified adds (t - t)·(g W), nothing but for the rounding of that bias.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from ...ir.box import Affine
from ...ir.graph import FLOATS, Access, Graph, Op, Stage, contraction_axes
from .edited_graph import EditedGraph, dimensions_of, own_dimension

MOST_THRESHOLD = 1024.0
"""Of a channel, beyond which t is not used: sums of t (g W) lose the digits of what is not rectified. Chosen, not
measured."""

THRESHOLDS = ""
"""Stands for the name of a constant that has none yet."""


@dataclass(frozen=True)
class _Scaled:
    """An operator whose last stages multiply the dimension ``channels`` of its output with the constant ``scale``, add
    ``shift``, and rectify the sum if it is ``rectified``; ``stages`` are the others, then one that writes the output
    without that.

    That one takes the maximum of what is scaled and of thresholds, if it is ``rectified``: a constant that has the name
    :data:`THRESHOLDS` until its numbers are known.
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
        if not readers or len(products) < len(readers):
            continue
        constants = [c for product in products if (c := _constants(graph, scaled, product)) is not None]
        if len(constants) == len(products):
            parts[op.name] = [_unscaled(edited, scaled)]
            for product, folded in zip(products, constants, strict=True):
                parts[product.op.name] = [_folded(edited, scaled, product, folded)]
    return edited.with_parts(parts)


def _scaled(graph: Graph, op: Op) -> _Scaled | None:
    if op.contraction is not None or op.template or op.host is not None or op.output in graph.output_tensors:
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
    walked = [a for a in range(len(affine.axes)) if all(_is_of(graph, c, affine, a) for c in (scale, shift))]
    if dims is None or len(walked) != 1:
        return None
    channels = dims[walked[0]]
    if rectified:
        if affine.axes != last.axes or affine.write != last.factors[0] or not _rectifiable(graph, scale, shift):
            return None
        operands = value, Access(THRESHOLDS, scale.index)
        return _Scaled(op, scale.tensor, shift.tensor, channels, True, (*stages, replace(last, operands=operands)))
    before = stages.pop() if stages else last
    uses = [a for s in op.stages for a in (*s.reads, s.write) if a.tensor == value.tensor]
    if (
        value.tensor not in private
        or before.write.tensor != value.tensor
        or before.combine is not None
        or len(uses) > 2
    ):
        return None
    of_value = dimensions_of(value, affine, private[value.tensor].shape)
    if of_value is None or len(of_value) < len(value.index):
        return None
    index = [Affine((0,) * len(before.axes))] * len(output.shape)
    for axis, d in enumerate(of_value):
        index[dims[axis]] = before.write.index[d]
    written = replace(before, write=Access(op.output, tuple(index)))
    return _Scaled(op, scale.tensor, shift.tensor, channels, False, (*stages, written))


def _is_of(graph: Graph, access: Access, stage: Stage, axis: int) -> bool:
    """Whether a constant is a vector of which a stage reads all elements along this axis."""
    return (
        access.tensor in graph.constant_names
        and graph.tensor[access.tensor].shape == (stage.axes[axis].extent,)
        and own_dimension(access, axis) == 0
    )


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
    if _uses(op, scaled.op.output) != [rows] or rows.fill is not None or len(axes.n) != 1 or axes.batch:
        return None
    if weights.tensor not in graph.constant_names or len(graph.consumers[weights.tensor]) > 1:
        return None
    if graph.tensor[weights.tensor].dtype not in FLOATS:
        return None
    # Other axes of the reduction are positions of a window, which walk no channel.
    walking = [a for a in axes.k if own_dimension(rows, a) == scaled.channels]
    channel_count = graph.tensor[scaled.op.output].shape[scaled.channels]
    if len(walking) != 1 or product.axes[walking[0]].extent != channel_count:
        return None
    dims = {a: own_dimension(weights, a) for a in (*axes.k, *axes.n)}
    extents = {d: product.axes[a].extent for a, d in dims.items()}
    channels, columns = dims[walking[0]], dims[axes.n[0]]
    if None in extents or any(extents.get(d, 1) != e for d, e in enumerate(graph.tensor[weights.tensor].shape)):
        return None
    if channels is None or columns is None or _uses(op, weights.tensor) != [weights]:
        return None
    bias, column = product.start, -1
    if bias is None:
        sums = next((b for b in op.buffers if b.name == product.write.tensor), None)
        reads = _uses(op, product.write.tensor)
        if sums is None or len(reads) != 1 or reads != list(following.factors[:1]) or following.combine is not None:
            return None
        walked = dimensions_of(reads[0], following, sums.shape)
        written = own_dimension(product.write, axes.n[0])
        if reads[0].fill is not None or walked is None or written not in walked:
            return None
        column = walked.index(written)
        if following.func == "copy":
            return _Product(op, weights.tensor, channels, columns, "", column)
        added = following.factors[1:] if following.func == "add" else ()
        bias = next((r for r in added if _is_of(graph, r, following, column)), None)
    elif not _is_of(graph, bias, product, axes.n[0]):
        return None
    if bias is None or len(_uses(op, bias.tensor)) != 1 or graph.tensor[bias.tensor].dtype not in FLOATS:
        return None
    return _Product(op, weights.tensor, channels, columns, bias.tensor, column)


def _uses(op: Op, tensor: str) -> list[Access]:
    return [read for stage in op.stages for read in stage.reads if read.tensor == tensor]


@dataclass(frozen=True)
class _Constants:
    """New weights and a new bias, rounded to their dtypes."""

    weights: np.ndarray
    bias: np.ndarray


def _numbers(graph: Graph, *names: str) -> tuple[np.ndarray, ...]:
    return tuple(graph.data[name].astype(np.float64) for name in names)


def _thresholds(graph: Graph, scaled: _Scaled) -> np.ndarray:
    scale, shift = _numbers(graph, scaled.scale, scaled.shift)
    return (-shift / scale).astype(graph.tensor[scaled.op.output].dtype)


@np.errstate(over="ignore", invalid="ignore")
def _constants(graph: Graph, scaled: _Scaled, product: _Product) -> _Constants | None:
    """The scale in the weights of the product, and the shift in its bias.

    ``None`` where they have too few digits: a weight is rounded by more than twice what the largest one of its channel
    may be, or something overflows. A bias that thresholds are taken from is in float32, as the sums are: it may be far
    larger than what it leaves of them.
    """
    scale, shift, weights = _numbers(graph, scaled.scale, scaled.shift, product.weights)
    along = [-1 if d == product.channels else 1 for d in range(weights.ndim)]
    summed = tuple(d for d in range(weights.ndim) if d != product.columns)
    exact = weights * scale.reshape(along)
    folded = exact.astype(graph.tensor[product.weights].dtype)
    bias_dtype = "float32" if scaled.rectified else graph.tensor[product.bias or product.weights].dtype
    moved = (weights * shift.reshape(along)).sum(axis=summed)
    if scaled.rectified:
        # Of the constants as they are rounded, so that a rectified channel adds nothing.
        moved = -(folded.astype(np.float64) * _thresholds(graph, scaled).astype(np.float64).reshape(along)).sum(summed)
    (bias,) = _numbers(graph, product.bias) if product.bias else (np.zeros(1),)
    new_bias = (bias + moved).astype(bias_dtype)
    each = tuple(d for d in range(weights.ndim) if d != product.channels)
    most = float(ml_dtypes.finfo(folded.dtype).eps) * np.abs(exact).max(axis=each, initial=0.0)
    digits = np.abs(folded.astype(np.float64) - exact).max(axis=each, initial=0.0) <= most
    return _Constants(folded, new_bias) if digits.all() and np.isfinite(new_bias.astype(np.float64)).all() else None


def _unscaled(edited: EditedGraph, scaled: _Scaled) -> Op:
    """The operator without its scale and shift."""
    names: dict[str, str] = {}
    if scaled.rectified:
        names[THRESHOLDS] = edited.new_constant(f"{scaled.shift}:threshold", _thresholds(edited.graph, scaled))
    stages = tuple(stage.renamed(names) for stage in scaled.stages)
    read, written = {r.tensor for s in stages for r in s.reads}, {s.write.tensor for s in stages}
    return replace(
        scaled.op,
        inputs=(*(name for name in scaled.op.inputs if name in read), *names.values()),
        buffers=tuple(b for b in scaled.op.buffers if b.name in written),
        stages=stages,
    )


def _folded(edited: EditedGraph, scaled: _Scaled, product: _Product, constants: _Constants) -> Op:
    """The product with new constants."""
    op = product.op
    names = {product.weights: edited.new_constant(f"{product.weights}:{scaled.op.name}", constants.weights)}
    bias = edited.new_constant(f"{product.bias or op.name}:{scaled.op.name}", constants.bias)
    if product.bias:
        names[product.bias] = bias
    first, following, *rest = (stage.renamed(names) for stage in op.stages)
    inputs = [names.get(name, name) for name in op.inputs]
    if not product.bias:
        index = Affine(tuple(int(a == product.column) for a in range(len(following.axes))))
        following = replace(following, func="add", operands=(*following.operands, Access(bias, (index,))))
        inputs.append(bias)
    return replace(op, inputs=tuple(inputs), stages=(first, following, *rest))
