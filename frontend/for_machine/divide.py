"""Two products whose inner result has no room in local memory are made part after part.

    h = f(x·W + b); y = z + (h·V + c)

becomes, with the columns of W and b and the rows of V in parts,

    h0 = f(x·W0 + b0); y0 = z + (h0·V0 + c); h1 = f(x·W1 + b1); y1 = y0 + h1·V1; ...

Where x, h and y do not fit together into the local memories of all cores, plans of the first form move h through shared
or main memory, or W and V once for each share of the images. In the second, a part of h needs no more room than the
cores have, so that there are fewer shares, and each y takes the place of the one before it. What it costs is a pass of
the vector engine over y for each part, and its rounding, to the dtype of y: the order of summation, which this is a
choice of, is the graph's (decision 0008). :mod:`.pair_traffic` estimates what is cheapest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf

from ...ir.box import Span, part
from ...ir.graph import Access, Graph, Op, Stage, Tensor, contraction_axes
from ...ir.machine import Machine
from .edited_graph import EditedGraph, own_dimension, shortened
from .pair_traffic import PairTraffic

LEAST_COLUMNS = 4
"""A part of h has at least so many times the columns of the matrix engine."""


def divide(graph: Graph, machine: Machine) -> Graph:
    """The graph with all such pairs of products in parts; the same graph if there are none."""
    divided: dict[str, list[Op]] = {}
    edited = EditedGraph(graph)
    for second in graph.ops:
        pair = _pair(graph, second)
        parts = _parts(graph, machine, pair) if pair is not None else 1
        if pair is not None and parts > 1:
            divided[pair.first.name] = []
            divided[second.name] = _divided(edited, pair, parts)
    return edited.with_parts(divided)


@dataclass(frozen=True)
class _Pair:
    """``first`` makes ``inner`` for ``second`` alone; ``added`` is z, whose sum with the product is the result."""

    first: Op
    second: Op
    inner: str
    added: str

    @property
    def weights(self) -> tuple[str, str]:
        return self.first.stages[0].factors[1].tensor, self.second.stages[0].factors[1].tensor


def _pair(graph: Graph, second: Op) -> _Pair | None:
    """The pair that ends with this operator, if its form is the one above."""
    if second.contraction != 0 or len(second.stages) != 2 or second.template:
        return None
    product, total = second.stages
    inner = product.factors[0].tensor
    first = graph.producer.get(inner)
    if first is None or first.contraction != 0 or first.template:
        return None
    if inner in graph.output_tensors or graph.consumers[inner] != (second,):
        return None
    added = [r for r in total.reads if r.tensor != product.write.tensor]
    if total.func != "add" or len(added) != 1 or len(total.reads) != 2:
        return None
    if added[0].tensor == inner or added[0].tensor in graph.constant_names:
        return None
    same = {r.index for r in (*total.reads, total.write)}
    reduced, columns = contraction_axes(product).k, contraction_axes(first.stages[0]).n
    if len(same) != 1 or len(reduced) != 1 or len(columns) != 1 or not _alone(product.factors[0], reduced[0]):
        return None
    pair = _Pair(first, second, inner, added[0].tensor)
    if not graph.constant_names.issuperset(pair.weights) or own_dimension(product.factors[1], reduced[0]) is None:
        return None
    return pair if _divisible(graph, first) else None


def _alone(access: Access, axis: int) -> bool:
    """Whether the last index is this axis, and no other index knows it."""
    return own_dimension(access, axis) == len(access.index) - 1


def _divisible(graph: Graph, op: Op) -> bool:
    """Whether each stage writes its columns, the last dimension, from the same columns of what it reads."""
    buffer_names = {b.name for b in op.buffers}
    for stage in op.stages:
        column = _column(stage)
        if column is None or stage.axes[column].reduce:
            return False
        for read in stage.reads:
            used = any(i.coeffs[column] for i in read.index)
            private = read.tensor in buffer_names and _alone(read, column)
            fixed = read.tensor in graph.constant_names and own_dimension(read, column) is not None
            if (used or read.tensor in buffer_names) and not (private or fixed):
                return False
    return True


def _column(stage: Stage) -> int | None:
    """The axis that walks the last dimension of what a stage writes."""
    last = stage.write.index[-1].coeffs
    axes = [a for a, c in enumerate(last) if c]
    return axes[0] if len(axes) == 1 and _alone(stage.write, axes[0]) else None


def _parts(graph: Graph, machine: Machine, pair: _Pair) -> int:
    """In how many parts h is cheapest, 1 if as a whole: by the estimate, with as many shares of the images as suit."""
    traffic = PairTraffic(graph, machine, pair.first, pair.second, pair.weights)
    columns = graph.tensor[pair.inner].shape[-1]
    most = columns // (LEAST_COLUMNS * machine.shared_engine("matrix").columns)
    best, least = 1, traffic.moved
    for shares in (n for n in range(1, traffic.images + 1) if traffic.images % n == 0):
        # More parts than have room cost more.
        fits = ((cycles, n) for n in range(1, most + 1) if (cycles := traffic.cycles(shares, n)) < inf)
        cycles, parts = next(fits, (inf, 1))
        if cycles < least:
            best, least = parts, cycles
    return best


def _divided(edited: EditedGraph, pair: _Pair, parts: int) -> list[Op]:
    """The parts of both operators in turns."""
    columns = edited.graph.tensor[pair.inner].shape[-1]
    added, ops = pair.added, list[Op]()
    for number in range(parts):
        span = part(columns, parts, number)
        inner = _tensor(edited, pair.inner, number, span)
        last = number == parts - 1
        outer = pair.second.output if last else _tensor(edited, pair.second.output, number, None)
        ops.append(_first(edited, pair, number, span, inner))
        ops.append(_second(edited, pair, number, span, {pair.inner: inner, pair.added: added}, outer))
        added = outer
    return ops


def _first(edited: EditedGraph, pair: _Pair, number: int, span: Span, inner: str) -> Op:
    """Columns ``span`` of the first operator."""
    op = pair.first
    names = {b.name: edited.value_name(b.name, number) for b in op.buffers} | {pair.inner: inner}
    stages: list[Stage] = []
    for stage in op.stages:
        column = _column(stage)
        assert column is not None
        names |= {
            read.tensor: edited.constant(read.tensor, dim, span)
            for read in stage.reads
            if read.tensor in edited.graph.constant_names and (dim := own_dimension(read, column)) is not None
        }
        stages.append(shortened(stage, column, span).renamed(names))
    buffers = tuple(Tensor(names[b.name], (*b.shape[:-1], span.size), b.dtype) for b in op.buffers)
    return _op(op, edited.op_name(op.name, number), names, (inner,), buffers, stages)


def _second(edited: EditedGraph, pair: _Pair, number: int, span: Span, names: dict[str, str], outer: str) -> Op:
    """The part of the sum that rows ``span`` of the second weights make."""
    op = pair.second
    product, total = op.stages
    reduced = contraction_axes(product).k[0]
    dim = own_dimension(product.factors[1], reduced)
    assert dim is not None
    names = names | {b.name: edited.value_name(b.name, number) for b in op.buffers} | {op.output: outer}
    names[pair.weights[1]] = edited.constant(pair.weights[1], dim, span)
    product = shortened(product, reduced, span)
    if number:
        product = replace(product, start=None)
    stages = [s.renamed(names) for s in (product, total)]
    buffers = tuple(replace(b, name=names[b.name]) for b in op.buffers)
    return _op(op, edited.op_name(op.name, number), names, (outer,), buffers, stages)


def _tensor(edited: EditedGraph, name: str, number: int, columns: Span | None) -> str:
    """A tensor like the one that is called so, with only these columns."""
    old = edited.graph.tensor[name]
    shape = old.shape if columns is None else (*old.shape[:-1], columns.size)
    return edited.add(Tensor(edited.value_name(name, number), shape, old.dtype))


def _op(
    op: Op, name: str, names: dict[str, str], outputs: tuple[str, ...], buffers: tuple[Tensor, ...],
    stages: Iterable[Stage],
) -> Op:  # fmt: skip
    stages = tuple(stages)
    read = {r.tensor for s in stages for r in s.reads}
    inputs = tuple(n for n in dict.fromkeys(names.get(n, n) for n in op.inputs) if n in read)
    return Op(name, op.origin, inputs, outputs, buffers, stages)
