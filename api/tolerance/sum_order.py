"""How far a right program may be from its graph where neither graph nor plan says in which order it sums.

An instruction adds exactly and rounds its result. Where a sum takes several, their order decides its last digits, and
``n`` roundings, taken as independent with mean zero, come to about ``sqrt(n) u`` times the size of the partial sums
(Higham and Mary, SIAM J. Sci. Comput. 41, 2019). As in :mod:`.rounding`, such errors are drawn: the graph is evaluated
as it is, and with random errors in these sums alone. All other values are rounded as the graph says in both.

Partial sums are taken to be as large as the sum and the root of the sum of squares, as they are for terms in no order.
All positive terms first, and then as many negative ones, can leave a larger error. Where these errors come to half of
an output or more, it cannot be judged (:data:`..check.TOLERANCE_CEILING`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from ...ir.graph import FLOATS, Graph, Op, Stage
from ..exact.evaluate_graph import Arrays, HostFunction, ReductionTiles, evaluate_op, evaluate_stage, replica_inputs
from .rounding import SAFETY, UNIT_ROUNDOFF, draws_for, squared_distance


def order_tolerances(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    host: HostFunction | None,
    cuts: ReductionTiles,
    in_parts: Collection[str],
) -> dict[str, float]:
    """By output, the largest ``|y - r| / |r|`` of a right program's ``y`` against the graph's ``r``.

    ``in_parts`` are the operators whose sums take several instructions; what does not depend on them gets 0, and what
    does at least the rounding of its largest element.
    """
    rng = np.random.default_rng(0)
    squares = {port.name: np.zeros(2) for port in graph.outputs}
    step = dict.fromkeys(squares, 0.0)
    depends = _depending(graph, in_parts)
    draws = draws_for(graph)
    for replica in range(graph.replicas):
        input_arrays = replica_inputs(graph, inputs, replica)
        right = _evaluate(graph, input_arrays, host, cuts, (), rng)
        for port in graph.outputs:
            if port.tensor in depends:
                step[port.name] = max(step[port.name], _largest_step(right[port.tensor]))
        for _ in range(draws):
            drawn = _evaluate(graph, input_arrays, host, cuts, in_parts, rng)
            for port in graph.outputs:
                squares[port.name] += squared_distance(drawn[port.tensor], right[port.tensor])
    # Few draws may all miss the rounding of the one element that a program rounds the other way.
    return {
        name: SAFETY * math.sqrt(max(apart, draws * step[name] ** 2) / norm) if norm else 0.0
        for name, (apart, norm) in squares.items()
    }


def _depending(graph: Graph, ops: Collection[str]) -> set[str]:
    """The tensors that depend on the results of these operators."""
    tensors: set[str] = set()
    for op in graph.ops:
        if op.name in ops or not tensors.isdisjoint(op.inputs):
            tensors.update(op.outputs)
    return tensors


def _largest_step(array: np.ndarray) -> float:
    """From the largest finite number to the next one of its type."""
    if array.dtype.name not in FLOATS or not array.size:
        return 0.0
    return float(np.spacing(np.abs(array[np.isfinite(array)]).max(initial=array.dtype.type(0))))


def _evaluate(
    graph: Graph,
    input_arrays: Arrays,
    host: HostFunction | None,
    cuts: ReductionTiles,
    in_parts: Collection[str],
    rng: np.random.Generator,
) -> Arrays:
    arrays: Arrays = {**input_arrays, **graph.data}
    last = {name: position for position, op in enumerate(graph.ops) for name in op.inputs}
    for position, op in enumerate(graph.ops):
        if op.name in in_parts:
            _sum_in_some_order(graph, op, arrays, rng)
        else:
            evaluate_op(graph, op, arrays, host, cuts.get(op.name, ()))
        for name in set(op.inputs):
            if last[name] == position and name not in graph.output_tensors:
                arrays.pop(name, None)
    return arrays


def _sum_in_some_order(graph: Graph, op: Op, arrays: Arrays, rng: np.random.Generator) -> None:
    """Compute ``op`` with a random error in each of its sums."""
    local: Arrays = {b.name: np.zeros(b.shape, b.dtype) for b in op.buffers}
    local |= {name: arrays[name] for name in op.inputs}
    result = graph.tensor[op.output]
    local[op.output] = np.zeros(result.shape, result.dtype)
    for stage in op.stages:
        with np.errstate(all="ignore"):
            evaluate_stage(stage, local)
            if stage.combine in ("sum", "prod") and local[stage.write.tensor].dtype.name in FLOATS:
                local[stage.write.tensor] = _disturbed(stage, local, rng)
    arrays[op.output] = local[op.output]


def _disturbed(stage: Stage, local: Arrays, rng: np.random.Generator) -> np.ndarray:
    """What a stage wrote, with errors of its partial sums, which are as large as the sum or the root of its squares."""
    value = local[stage.write.tensor]
    size = np.abs(value.astype(np.float64))
    if stage.combine == "sum":
        squares = {name: np.square(array.astype(np.float64)) for name, array in local.items()}
        squares[stage.write.tensor] = np.zeros(value.shape)
        evaluate_stage(stage, squares)
        size += np.sqrt(squares[stage.write.tensor])
    terms = math.prod(axis.extent for axis in stage.axes if axis.reduce)
    error = math.sqrt(terms) * UNIT_ROUNDOFF[value.dtype.name]
    return (value + (rng.random(value.shape) * 2 - 1) * error * size).astype(value.dtype)
