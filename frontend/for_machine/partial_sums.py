"""Products whose operands have no room for enough of the result at once are summed up part after part.

    y = f(x·W + b)

becomes, with the reduction in parts,

    s0 = x0·W0 + b; s1 = s0 + x1·W1; ...; y = f(s + xn·Wn)

Sums stay in the dtype in which they are accumulated: integers are the same to the bit, and floats are rounded twice a
part, as its product and as the sum (decision 0026). Where it pays is for :mod:`.operand_traffic` to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...ir.box import Span, part
from ...ir.graph import Access, Graph, Op, Stage, Tensor, contraction_axes
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


@dataclass(frozen=True)
class _Cut:
    """An axis of a reduction, and the dimension that it walks alone in the streamed operand and in the weights."""

    axis: int
    streamed: int
    weights: int


def partial_sums(graph: Graph, machine: Machine) -> Graph:
    """The graph with such products in parts; the same graph if there are none."""
    summed: dict[str, list[Op]] = {}
    edited = EditedGraph(graph)
    for op in graph.ops:
        cut = _cut(graph, op)
        if cut is None or contraction_engine(op, graph, machine) != "matrix":
            continue
        parts = _parts(OperandTraffic(graph, op, machine, cut.axis), machine)
        if parts > 1:
            summed[op.name] = _in_parts(edited, op, cut, parts)
    return edited.with_parts(summed)


def _cut(graph: Graph, op: Op) -> _Cut | None:
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
    walked = [(a, own_dimension(streamed, a), own_dimension(weights, a)) for a in axes.k]
    cuts = [_Cut(a, left, right) for a, left, right in walked if left is not None and right is not None]
    return max(cuts, key=lambda cut: product.axes[cut.axis].extent, default=None)


def _parts(traffic: OperandTraffic, machine: Machine) -> int:
    """How many parts take the fewest cycles by the estimate, if enough is gained."""
    extent, depth = traffic.stage.axes[traffic.axis].extent, machine.engine_for("matrix").depth
    options = [p for p in range(2, MOST_PARTS + 1) if extent % (p * depth) == 0]
    best = min(options, key=traffic.cycles, default=1)
    return best if traffic.cycles(best) < GAIN * traffic.cycles(1) else 1


def _in_parts(edited: EditedGraph, op: Op, cut: _Cut, parts: int) -> list[Op]:
    """The operators that compute one in parts: all but the last have sums as their results."""
    product, *rest = op.stages
    sums = next(b for b in op.buffers if b.name == product.write.tensor)
    *spans, last = (part(product.axes[cut.axis].extent, parts, number) for number in range(parts))
    ops: list[Op] = []
    sum_before = ""
    for number, span in enumerate(spans):
        product_buffer = replace(sums, name=edited.value_name(sums.name, number))
        sum_name = edited.add(replace(sums, name=edited.value_name(op.output, number)))
        stages = _part(edited, product, cut, span, product_buffer.name, sum_before, sum_name)
        name = edited.op_name(op.name, number)
        ops.append(Op(name, op.origin, _inputs(stages, (product_buffer,)), (sum_name,), (product_buffer,), stages))
        sum_before = sum_name
    product_buffer = replace(sums, name=edited.value_name(sums.name, len(spans)))
    stages = (*_part(edited, product, cut, last, product_buffer.name, sum_before, sums.name), *rest)
    buffers = (product_buffer, *op.buffers)
    return [*ops, replace(op, inputs=_inputs(stages, buffers), buffers=buffers, stages=stages)]


def _inputs(stages: Sequence[Stage], buffers: Sequence[Tensor]) -> tuple[str, ...]:
    """What an operator of these stages reads that is none of its private buffers."""
    private = {b.name for b in buffers}
    return tuple(dict.fromkeys(r.tensor for s in stages for r in s.reads if r.tensor not in private))


def _part(
    edited: EditedGraph, product: Stage, cut: _Cut, span: Span, buffer_name: str, sum_before: str, sum_name: str
) -> tuple[Stage, Stage]:
    """The product over ``span`` of the axis, to the named buffer, and its sum with ``sum_before``, if there is one.

    The first product begins with what the whole begins with. Sums are added element by element, so that ``sum_name``
    may lie where ``sum_before`` did.
    """
    streamed, weights = product.factors
    moved = replace(streamed.index[cut.streamed], const=span.lo)
    index = (*streamed.index[: cut.streamed], moved, *streamed.index[cut.streamed + 1 :])
    weights = replace(weights, tensor=edited.constant(weights.tensor, cut.weights, span))
    shorter = replace(
        shortened(product, cut.axis, span),
        operands=(replace(streamed, index=index), weights),
        write=replace(product.write, tensor=buffer_name),
        start=None if sum_before else product.start,
    )
    spatial = [a for a, axis in enumerate(product.axes) if not axis.reduce]
    element = tuple(replace(i, coeffs=tuple(i.coeffs[a] for a in spatial)) for i in product.write.index)
    added = tuple(Access(name, element) for name in (sum_before, buffer_name) if name)
    func = "add" if sum_before else "copy"
    return shorter, Stage(tuple(product.axes[a] for a in spatial), Access(sum_name, element), func, added)
