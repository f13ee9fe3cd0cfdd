"""How far a right program may be from the network in float32: its rounding errors, by probabilistic analysis.

Each rounding to a type of unit roundoff ``u`` multiplies what is stored by ``1 + d``, ``|d| <= u``. The ``d`` are taken
as independent with mean zero: their squares add up, and a float32 sum of ``n`` terms is wrong by about ``sqrt(n) u``
instead of ``n u`` (Higham and Mary, *A new approach to probabilistic rounding error analysis*, SIAM J. Sci. Comput. 41,
2019). How they arrive at the outputs depends on the network and on the data: normalisations and cancellations enlarge
errors, rectifiers lose them. So they are not propagated by formulas but drawn, as in Monte Carlo arithmetic (Parker,
*Monte Carlo Arithmetic*, UCLA CSD-970002, 1997): the graph is evaluated in float32 once as it is, and at least once
with every stored value multiplied by a random ``1 + d``. The root mean square of the differences estimates the error
of an output.

Both evaluations are of the same graph and neither is what the machine computes. A mistake of solver, lowering or
simulator therefore does not enlarge what is allowed. A mistake of the importer is in the graph: if it makes the graph
cancel more, it enlarges what is allowed, up to the ceiling from which on nothing is judged
(:data:`..check.TOLERANCE_CEILING`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...ir.graph import FLOATS, Graph, Op, Stage
from ..exact.evaluate_graph import Arrays, HostFunction, evaluate_stage, replica_inputs

SAFETY = 3.0
"""What is allowed, in root mean squares of the differences."""

_LEAST_VALUES = 64
"""Differences that an estimate needs at least, from as many draws as that takes."""

_MOST_DRAWS = 16

UNIT_ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-24}
"""Unit roundoff by dtype; no function computes more exactly than in float32."""

REFERENCE_ERROR = 1e-5
"""What is allowed at least: the error of the network in float32, whose formulas (a variance as the mean of squares less
the square of the mean) can lose digits that the graph keeps."""

_TINY = {"bfloat16": 2.0**-134, "float16": 2.0**-25, "float32": 2.0**-150, "float64": 2.0**-150}
"""Half of the smallest positive number."""

_QUANTISED = frozenset({"int8", "uint8"})

_SELECTS = frozenset({"copy", "neg", "abs", "max", "min", "select", "clip"})
"""Functions whose result is one of their operands, which was rounded before."""


def tolerances(
    graph: Graph, inputs: Mapping[str, np.ndarray], host: HostFunction | None = None, samples: int | None = None
) -> dict[str, float]:
    """By output, the largest ``|y - r| / |r|`` of a right program's ``y`` against the network's ``r`` in float32.

    Of a batch whose first ``samples`` are compared, only the replicas that compute these are evaluated. At least the
    rounding of the output itself is allowed.
    """
    rng = np.random.default_rng(0)
    wide = _in_float32(graph)
    squares = {port.name: np.zeros(2) for port in graph.outputs}
    draws = draws_for(graph)
    for replica in range(_replicas(graph, samples)):
        given = replica_inputs(wide, inputs, replica)
        right = _evaluate(graph, wide, given, host, None)
        for _ in range(draws):
            drawn = _evaluate(graph, wide, given, host, rng)
            for port in graph.outputs:
                squares[port.name] += squared_distance(drawn[port.tensor], right[port.tensor])
    return {p.name: _allowed(graph.tensor[p.tensor].dtype, *squares[p.name]) for p in graph.outputs}


def _allowed(dtype: str, apart: float, norm: float) -> float:
    estimate = math.sqrt(apart / norm) if norm else 0.0
    return max(SAFETY * estimate, UNIT_ROUNDOFF.get(dtype, 0.0), REFERENCE_ERROR)


def squared_distance(drawn: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """The squared norms of the difference and of what is right, over the finite elements of both."""
    a, b = drawn.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    apart = np.subtract(a, b, where=finite, out=np.zeros_like(a))
    return float(np.square(apart).sum()), float(np.square(b, where=finite, out=np.zeros_like(b)).sum())


def draws_for(graph: Graph) -> int:
    """A few numbers can be hit by small errors by chance: the smaller an output, the more often it is drawn."""
    smallest = min((graph.tensor[port.tensor].elements for port in graph.outputs), default=1)
    return min(_MOST_DRAWS, max(1, -(-_LEAST_VALUES // max(1, smallest))))


def _replicas(graph: Graph, samples: int | None) -> int:
    sizes = [graph.tensor[p.tensor].shape[p.batch_axis] for p in graph.outputs if p.batch_axis is not None]
    if samples is None or not sizes:
        return graph.replicas
    return min(graph.replicas, -(-samples // min(sizes)))


def _in_float32(graph: Graph) -> Graph:
    """The graph whose tensors, buffers and constants of 16 bits are float32, so that nothing is rounded to fewer."""
    wider = {"float16": "float32", "bfloat16": "float32"}
    tensors = tuple(replace(t, dtype=wider.get(t.dtype, t.dtype)) for t in graph.tensors)
    ops = tuple(
        replace(op, buffers=tuple(replace(b, dtype=wider.get(b.dtype, b.dtype)) for b in op.buffers))
        for op in graph.ops
    )
    data = {n: a.astype(wider.get(a.dtype.name, a.dtype), copy=False) for n, a in graph.data.items()}
    return replace(graph, tensors=tensors, ops=ops, data=data)


def _evaluate(
    graph: Graph, wide: Graph, given: Arrays, host: HostFunction | None, rng: np.random.Generator | None
) -> Arrays:
    """What one replica computes in float32, with random errors where ``graph`` rounds (``None``: without)."""
    arrays = {
        name: _rounded(array, UNIT_ROUNDOFF.get(graph.tensor[name].dtype, 0.0), graph.tensor[name].dtype, rng)
        for name, array in {**wide.data, **given}.items()
    }
    last = {name: position for position, op in enumerate(graph.ops) for name in op.inputs}
    for position, (op, wide_op) in enumerate(zip(graph.ops, wide.ops, strict=True)):
        if op.host:
            assert host is not None, f"{op.name} needs a host kernel"
            exact = host(op, [arrays[n].astype(graph.tensor[n].dtype) for n in op.inputs])
            for name, array in zip(op.outputs, exact, strict=True):
                dtype = graph.tensor[name].dtype
                arrays[name] = _rounded(
                    array.astype(wide.tensor[name].dtype), UNIT_ROUNDOFF.get(dtype, 0.0), dtype, rng
                )
        else:
            _evaluate_op(graph, op, wide_op, wide, arrays, rng)
        for name in set(op.inputs):
            if last[name] == position and name not in graph.output_tensors:
                arrays.pop(name, None)
    return arrays


def _evaluate_op(
    graph: Graph, op: Op, wide_op: Op, wide: Graph, arrays: Arrays, rng: np.random.Generator | None
) -> None:
    dtypes = {b.name: b.dtype for b in op.buffers} | {n: graph.tensor[n].dtype for n in (*op.inputs, op.output)}
    local: Arrays = {b.name: np.zeros(b.shape, b.dtype) for b in wide_op.buffers}
    local |= {name: arrays[name] for name in op.inputs}
    local[op.output] = np.zeros(wide.tensor[op.output].shape, wide.tensor[op.output].dtype)
    # Several stages may write parts of one tensor: it is complete, and gets its errors, after the last of them.
    last = {stage.write.tensor: position for position, stage in enumerate(op.stages)}
    errors = dict.fromkeys(last, 0.0)
    for position, stage in enumerate(op.stages):
        name = stage.write.tensor
        with np.errstate(all="ignore"):
            evaluate_stage(stage, local if rng is None else _as_read(stage, local, rng))
        errors[name] = max(errors[name], _error(stage, dtypes))
        if last[name] == position:
            local[name] = _rounded(local[name], errors[name], dtypes[name], rng)
            if rng is not None and dtypes[name] in _QUANTISED and _from_reals(stage, local):
                local[name] = _one_step_off(local[name], rng)
    arrays[op.output] = local[op.output]


def _from_reals(stage: Stage, local: Arrays) -> bool:
    """Whether a stage rounds real numbers to the integers that it writes, so that tiny errors may move one by a step.

    ``quant`` does also where it reads nothing but integers: the real number is a sum of products times a factor. The
    program computes that in one way, the network in float32 in another (the sum of rounded products, divided by a
    scale), and near the border between two steps, often exactly on it, either of the two is right.
    """
    return stage.func == "quant" or any(local[r.tensor].dtype.name in FLOATS for r in stage.reads)


def _as_read(stage: Stage, local: Arrays, rng: np.random.Generator) -> Arrays:
    """The tensors by name: integers that ``quant`` reads with the error that they have in float32.

    So each number on the border between two steps takes a random one of them. Others are near it too seldom to matter.
    """
    if stage.func != "quant":
        return local
    integers = [r.tensor for r in stage.reads if local[r.tensor].dtype.kind in "iu"]
    error = UNIT_ROUNDOFF["float32"]
    return local | {name: _rounded(local[name].astype(np.float32), error, "float32", rng) for name in integers}


def _error(stage: Stage, dtypes: Mapping[str, str]) -> float:
    """The largest relative error of what a stage writes: of its sum in float32, and of its rounding."""
    stored = UNIT_ROUNDOFF.get(dtypes[stage.write.tensor], 0.0)
    read = max((UNIT_ROUNDOFF.get(dtypes[r.tensor], UNIT_ROUNDOFF["float32"]) for r in stage.reads), default=0.0)
    terms = math.prod(axis.extent for axis in stage.axes if axis.reduce)
    if stage.func in _SELECTS and stage.combine in (None, "max", "min"):
        return stored if stored > read else 0.0
    return stored + math.sqrt(terms) * UNIT_ROUNDOFF["float32"] if stored else 0.0


def _one_step_off(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """With one element a step higher or lower: that of a number near the border between two steps.

    How many there are is a matter of chance, and often too few draws would hit one.
    """
    limits, moved = np.iinfo(array.dtype), array.copy()
    place = int(rng.integers(array.size))
    moved.flat[place] = min(limits.max, max(limits.min, int(array.flat[place]) + int(rng.choice((-1, 1)))))
    return moved


def _rounded(array: np.ndarray, error: float, dtype: str, rng: np.random.Generator | None) -> np.ndarray:
    """With independent random errors of at most ``error``, relative, and of what ``dtype`` loses near zero."""
    if rng is None or not error or array.dtype.name not in FLOATS:
        return array
    draws = rng.random(array.shape, np.float32) * 2 - 1
    with np.errstate(all="ignore"):
        most = np.maximum(np.abs(array) * np.float32(error), np.float32(_TINY[dtype]))
        return (array + draws * most).astype(array.dtype)
