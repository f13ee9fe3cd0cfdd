"""Each rule of the graph's checker finds what breaks it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from girih import models
from girih.frontend import import_onnx
from girih.ir.box import Affine
from girih.ir.checks.check_graph import check_graph
from girih.ir.errors import CheckError
from girih.ir.graph import Access, Axis, Graph, Op, Stage
from tests.support import graphs

GRAPH = import_onnx(models.build("tiny-cnn"), batch=1)


def with_op(change: Callable[[Op], Op], name: str = "conv1") -> Graph:
    return replace(GRAPH, ops=tuple(change(o) if o.name == name else o for o in GRAPH.ops))


def with_stage(number: int, change: Callable[[Stage], Stage], name: str = "conv1") -> Graph:
    return with_op(
        lambda op: replace(op, stages=tuple(change(s) if i == number else s for i, s in enumerate(op.stages))), name
    )


def moved(access: Access, dim: int, by: int) -> Access:
    index = list(access.index)
    index[dim] = Affine(index[dim].coeffs, index[dim].const + by)
    return replace(access, index=tuple(index))


def doubled(access: Access) -> Access:
    return replace(access, index=tuple(Affine(tuple(2 * c for c in i.coeffs), i.const) for i in access.index))


def first_read(stage: Stage, change: Callable[[Access], Access]) -> Stage:
    first, *rest = stage.operands
    assert isinstance(first, Access)
    return replace(stage, operands=(change(first), *rest))


def straight(op: Op) -> Op:
    """A matrix product that writes the output of its operator, and nothing else."""
    product, last = op.stages[0], op.stages[-1]
    beyond = (0,) * (len(product.axes) - len(last.axes))
    index = tuple(Affine((*i.coeffs, *beyond), i.const) for i in last.write.index)
    reads = tuple(r.tensor for r in product.reads)
    return replace(op, inputs=reads, buffers=(), stages=(replace(product, write=Access(op.output, index)),))


BROKEN: dict[str, tuple[Graph, str]] = {
    "order": (replace(GRAPH, ops=GRAPH.ops[::-1]), "before it is written"),
    "operator twice": (replace(GRAPH, ops=(*GRAPH.ops, GRAPH.ops[0])), "two operators are called"),
    "tensor twice": (replace(GRAPH, tensors=(*GRAPH.tensors, GRAPH.tensors[0])), "two tensors are called"),
    "unwritten tensor": (replace(GRAPH, ops=GRAPH.ops[:-1]), "nothing writes"),
    "unknown dtype": (
        replace(GRAPH, tensors=tuple(replace(t, dtype="float8") for t in GRAPH.tensors)),
        "unknown dtype float8",
    ),
    "write out of bounds": (
        with_stage(1, lambda s: replace(s, write=moved(s.write, 1, 1))),
        "operator conv1, stage 1: dimension 1",
    ),
    "read out of bounds": (with_stage(1, lambda s: first_read(s, lambda a: moved(a, 0, -1))), r"accessed in \[-1, "),
    "guard lost": (with_stage(0, lambda s: first_read(s, lambda a: replace(a, fill=None))), r"accessed in \[-1, "),
    "fill that is no number": (
        with_stage(0, lambda s: first_read(s, lambda a: replace(a, fill=math.nan))),
        "not a number",
    ),
    "holes in the output": (
        with_stage(1, lambda s: replace(s, axes=tuple(replace(a, extent=a.extent // 2) for a in s.axes))),
        "writes .* of .* elements",
    ),
    "stride without elements": (with_stage(1, lambda s: replace(s, write=doubled(s.write))), "accessed in"),
    "same element twice": (
        with_stage(1, lambda s: replace(s, write=replace(s.write, index=(Affine((0, 0, 0)),) * 4))),
        "writes 0 dimensions",
    ),
    "unknown function": (with_stage(1, lambda s: replace(s, func="frob")), "unknown function 'frob'"),
    "arity": (with_stage(1, lambda s: replace(s, operands=s.operands[:1])), "max takes 2 operands, not 1"),
    "combiner missing": (with_stage(0, lambda s: replace(s, combine=None)), "combiner go together"),
    "unknown combiner": (with_stage(0, lambda s: replace(s, combine="mean")), "unknown combiner"),
    "sum of a function": (
        with_stage(0, lambda s: replace(s, func="exp"), "avgpool"),
        "operator avgpool, stage 0: exp is combined by sum",
    ),
    "largest product": (with_stage(0, lambda s: replace(s, combine="max")), "stage 0: mul is combined by max"),
    "product into the output": (with_op(straight), "stage 0: a matrix product writes relu1"),
    "padding of the stationary operand": (
        with_stage(0, lambda s: replace(s, operands=(s.reads[0], replace(s.reads[1], fill=0.0)))),
        "stage 0: the second operand of a matrix product, conv1.weight, has a fill",
    ),
    "start of a stage that sums nothing": (
        with_stage(1, lambda s: replace(s, start=s.reads[0])),
        "stage 1: only sums of products start from a tensor, not max",
    ),
    "start along a reduced axis": (
        with_stage(0, lambda s: replace(s, start=s.factors[1])),
        "stage 0: a reduced axis is in the start, conv1.weight",
    ),
    "start with a fill": (
        with_stage(0, lambda s: replace(s, start=replace(s.reads[2], fill=0.0))),
        "stage 0: the start, conv1.bias, has a fill",
    ),
    "start out of bounds": (
        with_stage(0, lambda s: replace(s, start=moved(s.reads[2], 0, 1))),
        "stage 0: dimension 0 of conv1.bias",
    ),
    "clip by a tensor": (
        with_stage(1, lambda s: replace(s, func="clip", operands=(s.reads[0], s.reads[0], 1.0))),
        "stage 1: operands of clip are vvs .*, not one of vss",
    ),
    "stages out of order": (
        with_op(lambda op: replace(op, stages=(op.stages[1], op.stages[0], *op.stages[2:]))),
        "before it is written",
    ),
    "input unread": (with_op(lambda op: replace(op, inputs=(*op.inputs, "input"))), "never reads its inputs input"),
    "rank": (with_stage(1, lambda s: first_read(s, lambda a: replace(a, index=a.index[1:]))), "has rank 3, not 2"),
    "two products": (
        with_op(
            lambda op: replace(
                op,
                buffers=(*op.buffers, replace(op.buffers[0], name="second")),
                stages=(
                    op.stages[0],
                    replace(op.stages[0], write=replace(op.stages[0].write, tensor="second")),
                    *op.stages[1:],
                ),
            )
        ),
        "holds 2 matrix products",
    ),
    "port": (replace(GRAPH, outputs=(replace(GRAPH.outputs[0], shape=(1, 11)),)), "port fc"),
    "output of nothing": (
        replace(GRAPH, outputs=(replace(GRAPH.outputs[0], tensor="input", shape=(1, 3, 16, 16)),)),
        "no operator writes input",
    ),
    "data": (
        replace(GRAPH, data={**GRAPH.data, "fc.bias": GRAPH.data["fc.bias"].astype("float16")}),
        "constant fc.bias is float32",
    ),
}


def test_the_graph_is_right() -> None:
    check_graph(GRAPH)


@pytest.mark.parametrize("build", [graphs.conv, graphs.matmul, graphs.chain, graphs.residual, graphs.attention])
def test_graphs_made_by_hand_are_right(build: Callable[[], Graph]) -> None:
    check_graph(build())


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name: str) -> None:
    graph, message = BROKEN[name]
    with pytest.raises(CheckError, match=message):
        check_graph(graph)


def test_parts_that_are_combined() -> None:
    from tests.support.operators.imported.all_cases import CASES

    def repeated(access: Access) -> Access:
        return replace(access, index=tuple(Affine((*i.coeffs, 0), i.const) for i in access.index))

    graph = import_onnx(CASES["concatenate"]())
    (op,) = graph.ops
    first, *others = op.stages
    axes, operands = (*first.axes, Axis("k", 2, True)), tuple(map(repeated, first.reads))
    largest = replace(first, axes=axes, write=repeated(first.write), operands=operands, combine="max")
    broken = replace(graph, ops=(replace(op, stages=(largest, *others)),))
    with pytest.raises(CheckError, match=r"combines parts of .*; each combination needs a buffer of its own"):
        check_graph(broken)


def test_parts_that_overlap() -> None:
    from tests.support.operators.imported.all_cases import CASES

    graph = import_onnx(CASES["concatenate"]())
    (op,) = graph.ops
    second = replace(op.stages[1], write=moved(op.stages[1].write, 1, -1))
    broken = replace(graph, ops=(replace(op, stages=(op.stages[0], second, op.stages[2])),))
    with pytest.raises(CheckError, match=r"writes parts of .* twice"):
        check_graph(broken)
