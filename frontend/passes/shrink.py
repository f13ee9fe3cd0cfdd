"""Results of which only a part is read become that part.

The last block of a vision transformer computes all tokens, and the head reads one. What a segment computes follows from
what is read inside of it, but what it hands on is whole; so the graph says how much that is.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.box import Affine, Box, Span, full, hull, is_empty, shape_of, volume
from ...ir.graph import Access, Graph, Op, Stage, Tensor
from ...ir.semantics.region import OpBoxes, op_boxes

WORTH = 2
"""A result is made smaller if it has at least so many times the elements that are read, or if stages become idle."""


def shrink(graph: Graph) -> Graph:
    """The graph with the parts of results that are needed; the same graph if that is nearly everything of each."""
    boxes = _needed(graph)
    kept = [op for op in graph.ops if _is_opaque(op) or op.name in boxes]
    small = {
        op.output: boxes[op.name].tensors[op.output]
        for op in kept
        if not _is_opaque(op) and op.output not in graph.output_tensors
    }
    small = {name: box for name, box in small.items() if box != full(graph.tensor[name].shape)}
    if not small:
        return graph
    ops = tuple(op if _is_opaque(op) else _moved(op, boxes[op.name], small) for op in kept)
    used = {n for op in ops for n in (*op.inputs, *op.outputs)} | graph.input_tensors | graph.output_tensors
    shapes = {t.name: shape_of(small[t.name]) if t.name in small else t.shape for t in graph.tensors}
    return replace(
        graph,
        ops=ops,
        tensors=tuple(replace(t, shape=shapes[t.name]) for t in graph.tensors if t.name in used),
        constants=tuple(c for c in graph.constants if c.tensor in used),
        data={name: array for name, array in graph.data.items() if name in used},
    )


def _is_opaque(op: Op) -> bool:
    """Whether the operator stays as it is: a host kernel, or one that its user schedules."""
    return op.host is not None or bool(op.template)


def _needed(graph: Graph) -> dict[str, OpBoxes]:
    """By operator of the NPU: what it computes and touches for what is read of its result; none of unread ones."""
    read: dict[str, Box] = {name: full(graph.tensor[name].shape) for name in sorted(graph.output_tensors)}
    boxes: dict[str, OpBoxes] = {}
    for op in reversed(graph.ops):
        if _is_opaque(op):
            read |= {name: full(graph.tensor[name].shape) for name in op.inputs}
            continue
        whole = full(graph.tensor[op.output].shape)
        target = read.get(op.output)
        if target is None or is_empty(target):
            continue
        boxes[op.name] = op_boxes(op, graph.tensor, target)
        if not boxes[op.name].idle and WORTH * volume(target) > volume(whole):
            boxes[op.name] = op_boxes(op, graph.tensor, whole)
        for name in op.inputs:
            merged = hull(read.get(name), boxes[op.name].tensors.get(name))
            if merged is not None:
                read[name] = merged
        for name in _padded_alone(op, boxes[op.name]) - read.keys():
            read[name] = tuple(Span(0, 1) for _ in graph.tensor[name].shape)
    return boxes


def _padded_alone(op: Op, boxes: OpBoxes) -> set[str]:
    """Inputs that stages name, though all that they read is outside: one element of each is kept, as it must exist."""
    working = [s for s, points in zip(op.stages, boxes.points, strict=True) if not is_empty(points)]
    return {r.tensor for s in working for r in s.reads if r.tensor in op.inputs and r.tensor not in boxes.tensors}


def _moved(op: Op, boxes: OpBoxes, small: dict[str, Box]) -> Op:
    """The operator on smaller tensors; the same one if none that it touches is smaller."""
    if small.keys().isdisjoint((*op.inputs, op.output)):
        return op
    private = {b.name: boxes.tensors[b.name] for b in op.buffers if b.name in boxes.tensors}
    places = {name: small[name] for name in (*op.inputs, op.output) if name in small} | private
    stages = tuple(
        _stage(stage, points, places)
        for stage, points in zip(op.stages, boxes.points, strict=True)
        if not is_empty(points)
    )
    buffers = tuple(Tensor(b.name, shape_of(private[b.name]), b.dtype) for b in op.buffers if b.name in private)
    used = {r.tensor for s in stages for r in s.reads}
    return replace(op, stages=stages, buffers=buffers, inputs=tuple(n for n in op.inputs if n in used))


def _stage(stage: Stage, points: Box, places: dict[str, Box]) -> Stage:
    """The points of a stage, counted from the first, on tensors that begin where ``places`` say."""

    def moved(access: Access) -> Access:
        corner = places.get(access.tensor, tuple(Span(0, 0) for _ in access.index))
        index = tuple(
            Affine(i.coeffs, i.const + sum(c * p.lo for c, p in zip(i.coeffs, points, strict=True)) - span.lo)
            for i, span in zip(access.index, corner, strict=True)
        )
        return replace(access, index=index)

    return replace(
        stage,
        axes=tuple(replace(a, extent=p.size) for a, p in zip(stage.axes, points, strict=True)),
        write=moved(stage.write),
        operands=tuple(moved(o) if isinstance(o, Access) else o for o in stage.operands),
        start=None if stage.start is None else moved(stage.start),
    )
