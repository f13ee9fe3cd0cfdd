"""Rows that are normalised before a product are normalised after it.

    p = e · r(e); y = p·V + b        becomes        y = (e·V) · r(e) + b        with a factor r for each row of e

In a softmax, e are exponentials and r is the reciprocal of their sum; in a layer normalisation, e is centred and r is
the reciprocal of its deviation. The vector engine passes over y in any case, to round it and to add the bias, so that
the factors are free there, and p is a pass less. Nor does the product wait for r, which is an operator of its own. (Of
a softmax this is known as lazy: M. N. Rabe and C. Staats, *Self-attention does not need O(n²) memory*, 2021.)

Sums of the product stay in float32 until they are normalised, and e is rounded where p would be: another rounding,
which is the graph's (decision 0002), and another range, of e·V, for which exponentials of a softmax are at most 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...ir.box import Affine
from ...ir.graph import FLOATS, Access, Graph, Op, Stage
from .edited_graph import EditedGraph, dimensions_of, own_dimension


@dataclass(frozen=True)
class _Normalisation:
    """The last stage of ``op`` multiplies ``values`` with ``factors``, both private buffers of it, into its output.

    ``dims``: for each dimension of the values, that of the output; ``rows``: for each one of the factors. ``before``
    are the stages that the values need; ``after``, which make the factors, read nothing else but the values.
    """

    op: Op
    values: str
    factors: str
    dims: tuple[int, ...]
    rows: tuple[int, ...]
    before: tuple[Stage, ...]
    after: tuple[Stage, ...]


def normalise_later(graph: Graph) -> Graph:
    """The graph with all such normalisations after the products; the same graph if there are none.

    All that reads p has to be a product whose next stage has room for a factor: a copy, or a sum of two.
    """
    edited = EditedGraph(graph)
    parts: dict[str, list[Op]] = {}
    for op in graph.ops:
        normalisation = _normalisation(graph, op)
        if normalisation is None:
            continue
        readers = graph.consumers[op.output]
        # Two rows of factors would need two stages.
        changed = [None if reader.name in parts else _multiplied(normalisation, reader) for reader in readers]
        products = [product for product in changed if product is not None]
        if readers and len(products) == len(readers):
            parts[op.name] = _apart(edited, normalisation)
            parts |= {product.name: [product] for product in products}
    return edited.with_parts(parts)


def _normalisation(graph: Graph, op: Op) -> _Normalisation | None:
    """What an operator does last, if its form is the one above."""
    if op.contraction is not None or op.template or len(op.stages) < 3 or op.output in graph.output_tensors:
        return None
    *stages, last = op.stages
    private = {b.name: b for b in op.buffers}
    if last.func != "mul" or last.combine is not None or len(last.factors) != 2:
        return None
    (values, factors), output = last.factors, graph.tensor[op.output]
    if values.tensor not in private or factors.tensor not in private or factors.fill is not None:
        return None
    if output.dtype not in FLOATS or private[values.tensor].dtype != output.dtype:
        return None
    walked = dimensions_of(values, last, private[values.tensor].shape)
    written = dimensions_of(last.write, last, output.shape)
    rows = [axis for index in factors.index for axis in range(len(last.axes)) if index.coeffs[axis]]
    if walked is None or written is None or len(walked) < len(values.index) or len(rows) < len(factors.index):
        return None
    if any(own_dimension(factors, axis) != d for d, axis in enumerate(rows)):
        return None
    needed, before = {values.tensor}, list[Stage]()
    for stage in reversed(stages):
        if stage.write.tensor in needed:
            needed |= {r.tensor for r in stage.reads}
            before.insert(0, stage)
    after = tuple(s for s in stages if s.write.tensor not in needed)
    known = {values.tensor, *(s.write.tensor for s in after)}
    if factors.tensor in needed or any(r.tensor not in known for s in after for r in s.reads):
        return None
    dims = tuple(written[walked.index(d)] for d in range(len(walked)))
    each_row = tuple(written[axis] for axis in rows)
    return _Normalisation(op, values.tensor, factors.tensor, dims, each_row, tuple(before), after)


def _multiplied(normalisation: _Normalisation, op: Op) -> Op | None:
    """A product of the values as they are, of which the sums are multiplied by the factors of their rows.

    ``None`` if it is no product, if it reads the operand in other ways, too, or if its next stage has no room.
    """
    if op.contraction != 0 or op.template or len(op.stages) < 2:
        return None
    product, moved, *rest = op.stages
    operand = normalisation.op.output
    reads = [r for s in op.stages for r in s.reads if r.tensor == operand]
    sums = next((b for b in op.buffers if b.name == product.write.tensor), None)
    if len(reads) != 1 or reads[0] not in product.factors or reads[0].fill is not None or product.start is not None:
        return None
    first, *added = moved.operands
    room = moved.combine is None and (moved.func, len(added)) in (("copy", 0), ("add", 1))
    if sums is None or sums.dtype != "float32" or not room:
        return None
    # The sums are read once, and all of them: nothing sees them without a factor, nor what lies beyond them with one.
    if [r for s in op.stages for r in s.reads if r.tensor == sums.name] != [first] or not isinstance(first, Access):
        return None
    if first.fill is not None or dimensions_of(first, moved, sums.shape) is None:
        return None
    # An axis of the product walks a dimension of its sums, which an axis of the next stage walks.
    walks = {d: axis for axis in range(len(moved.axes)) if (d := own_dimension(first, axis)) is not None}
    axes = {a: walks[d] for a in range(len(product.axes)) if (d := own_dimension(product.write, a)) in walks}
    rows = [reads[0].index[d] for d in normalisation.rows]
    if any(axis not in axes for index in rows for axis, _ in index.terms):
        return None
    values = Access(normalisation.values, tuple(reads[0].index[d] for d in normalisation.dims))
    factor = Access(normalisation.factors, tuple(_moved(index, axes, len(moved.axes)) for index in rows))
    stages = (
        replace(product, operands=tuple(values if o is reads[0] else o for o in product.operands)),
        replace(moved, func="fma" if added else "mul", operands=(first, factor, *added)),
        *rest,
    )
    names = (values.tensor if name == operand else name for name in op.inputs)
    return replace(op, stages=stages, inputs=(*names, factor.tensor))


def _moved(index: Affine, axes: Mapping[int, int], count: int) -> Affine:
    """The index in a stage of ``count`` axes, of which ``axes`` says which are those of the index."""
    coeffs = [0] * count
    for axis, coefficient in index.terms:
        coeffs[axes[axis]] = coefficient
    return Affine(tuple(coeffs), index.const)


def _apart(edited: EditedGraph, normalisation: _Normalisation) -> list[Op]:
    """An operator for the values, and one for the factors."""
    op, private = normalisation.op, {b.name: b for b in normalisation.op.buffers}
    values, factors = (edited.add(private.pop(n)) for n in (normalisation.values, normalisation.factors))
    first, second = (
        tuple(b for b in private.values() if b.name in {s.write.tensor for s in stages})
        for stages in (normalisation.before, normalisation.after)
    )
    name = edited.another_op(f"{op.name}.factors")
    return [
        replace(op, outputs=(values,), buffers=first, stages=normalisation.before),
        Op(name, op.origin, (values,), (factors,), second, normalisation.after),
    ]
