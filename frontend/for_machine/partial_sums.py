"""Products whose operands have no room for enough of the result at once are summed up part after part.

    y = f(x·W + b)

becomes, with the reduction in parts,

    s0 = x0·W0 + b; s1 = s0 + x1·W1; ...; y = f(s + xn·Wn)

Sums stay in the dtype in which they are accumulated: integers are the same to the bit, and floats are rounded twice a
part, as its product and as the sum (decision 0026). Where it pays is for :mod:`.operand_traffic` to say.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.box import Span, part
from ...ir.graph import Access, Graph, Op, Stage, contraction_axes
from ...ir.machine import Machine
from ...ir.semantics.contraction_engines import contraction_engine
from .edited_graph import EditedGraph, own_dimension, shortened
from .operand_traffic import OperandTraffic

MOST_PARTS = 16
"""Of a reduction. Chosen, not measured."""
GAIN = 2 / 3
"""What parts may take of the cycles of the whole, at most: the estimate does not know what several operators could do
in one segment. Chosen, not measured."""
ACCUMULATED = ("int32", "float32")
"""Dtypes of sums that parts do not make worse."""


def partial_sums(graph: Graph, machine: Machine) -> Graph:
    """The graph with such products in parts; the same graph if there are none."""
    summed: dict[str, list[Op]] = {}
    edited = EditedGraph(graph)
    for op in graph.ops:
        axis = _axis(graph, op)
        if axis is None or contraction_engine(op, graph, machine) != "matrix":
            continue
        parts = _parts(OperandTraffic(graph, op, machine, axis), machine)
        if parts > 1:
            summed[op.name] = _in_parts(edited, op, axis, parts)
    return edited.with_parts(summed)


def _axis(graph: Graph, op: Op) -> int | None:
    """The longest axis of the reduction that both operands have as a dimension of their own.

    ``None`` as well for what is no product of an activation with weights, and for one with a batch: a cell of it needs
    few of the weights, however large it is.
    """
    if op.contraction != 0 or op.template or op.host is not None:
        return None
    product = op.stages[0]
    streamed, weights = product.factors
    sums = {b.name: b.dtype for b in op.buffers}.get(product.write.tensor)
    if weights.tensor not in graph.constant_names or streamed.tensor in graph.constant_names:
        return None
    axes = contraction_axes(product)
    if sums not in ACCUMULATED or axes.batch:
        return None
    cut = [a for a in axes.k if all(own_dimension(f, a) is not None for f in product.factors)]
    return max(cut, key=lambda a: product.axes[a].extent, default=None)


def _parts(traffic: OperandTraffic, machine: Machine) -> int:
    """How many parts take the fewest cycles by the estimate, if enough is gained."""
    extent, depth = traffic.stage.axes[traffic.axis].extent, machine.engine_for("matrix").depth
    options = [p for p in range(2, MOST_PARTS + 1) if extent % (p * depth) == 0]
    best = min(options, key=traffic.cycles, default=1)
    return best if traffic.cycles(best) < GAIN * traffic.cycles(1) else 1


def _in_parts(edited: EditedGraph, op: Op, axis: int, parts: int) -> list[Op]:
    """The operators that compute one in parts: all but the last have sums as their results."""
    product, *rest = op.stages
    sums = next(b for b in op.buffers if b.name == product.write.tensor)
    ops: list[Op] = []
    before = ""
    for number in range(parts):
        span = part(product.axes[axis].extent, parts, number)
        last = number == parts - 1
        own = replace(sums, name=edited.value_name(sums.name, number))
        total = sums.name
        if not last:
            total = edited.add(replace(sums, name=edited.value_name(op.output, number)))
        stages = (
            _part(edited, product, axis, span, first=not number).renamed({sums.name: own.name}),
            _total(product, before, own.name, total),
            *(rest if last else ()),
        )
        private = {own.name, *((b.name for b in op.buffers) if last else ())}
        inputs = tuple(dict.fromkeys(r.tensor for s in stages for r in s.reads if r.tensor not in private))
        if last:
            ops.append(replace(op, inputs=inputs, buffers=(own, *op.buffers), stages=stages))
        else:
            ops.append(Op(edited.op_name(op.name, number), op.origin, inputs, (total,), (own,), stages))
        before = total
    return ops


def _part(edited: EditedGraph, product: Stage, axis: int, span: Span, *, first: bool) -> Stage:
    """The product over ``span`` of the axis; the ``first`` begins with what the whole begins with."""
    streamed, weights = product.factors
    dim = own_dimension(weights, axis)
    assert dim is not None
    weights = replace(weights, tensor=edited.constant(weights.tensor, dim, span))
    dim = own_dimension(streamed, axis)
    assert dim is not None
    moved = replace(streamed.index[dim], const=span.lo)
    streamed = replace(streamed, index=(*streamed.index[:dim], moved, *streamed.index[dim + 1 :]))
    start = product.start if first else None
    return replace(shortened(product, axis, span), operands=(streamed, weights), start=start)


def _total(product: Stage, before: str, own: str, total: str) -> Stage:
    """The sums of the parts ``before``, if there are any, and of this one; element by element, so that they may lie
    where those did."""
    spatial = [a for a, axis in enumerate(product.axes) if not axis.reduce]
    index = tuple(replace(i, coeffs=tuple(i.coeffs[a] for a in spatial)) for i in product.write.index)
    axes = tuple(product.axes[a] for a in spatial)
    added = tuple(Access(name, index) for name in (before, own) if name)
    return Stage(axes, Access(total, index), "add" if before else "copy", added)
