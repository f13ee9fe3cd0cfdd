"""How far a right program may be from the network in float32: its rounding errors, by probabilistic analysis.

Each rounding to a type of unit roundoff ``u`` multiplies what is stored by ``1 + d``, ``|d| <= u``. The ``d`` are taken
as independent with mean zero: their squares add up, and a float32 sum of ``n`` terms is wrong by about ``sqrt(n) u``
instead of ``n u`` (Higham and Mary, *A new approach to probabilistic rounding error analysis*, SIAM J. Sci. Comput. 41,
2019). How they arrive at the outputs depends on the network and on the data: normalisations and cancellations enlarge
errors, rectifiers lose them. So they are not propagated by formulas but drawn, as in Monte Carlo arithmetic (Parker,
*Monte Carlo Arithmetic*, UCLA CSD-970002, 1997): the graph is evaluated in float32 once as it is, and at least once
with every stored value multiplied by a random ``1 + d``. The root mean square of the differences estimates the error
of an output.

What is not rounded has no error: a given number of the type that it is stored in, or a sum or product that is one
(``1 - m`` of a mask ``m`` of zeros and ones, and the lowest number plus a score). In masks, such numbers meet factors
that would make everything of their errors: ``(1 - m) * -3.4e38``.

Both evaluations are of the same graph and neither is what the machine computes. A mistake of solver, lowering or
simulator therefore does not enlarge what is allowed. A mistake of the importer is in the graph: if it makes the graph
cancel more, it enlarges what is allowed, up to the ceiling from which on nothing is judged
(:data:`..check.TOLERANCE_CEILING`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...ir.graph import FLOATS, Access, Graph, Op, Stage
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

_DIGITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 24}
"""Binary digits of a stored number."""

_QUANTISED = frozenset({"int8", "uint8"})

_QUANT_ERROR = 3 * UNIT_ROUNDOFF["float32"]
"""By how much the product of ``quant`` and the quotient of the network can differ, relative: the program multiplies by
an inverse that is rounded, and rounds the product; the network rounds the quotient. As the inverse is off by the same
for all numbers, these errors need not cancel."""

_SELECTS = frozenset({"copy", "neg", "abs", "max", "min", "select", "clip"})
"""Functions whose result is one of their operands, which was rounded before."""

_WHOLE = frozenset({"floor", "ceil", "round", "sign", "not", "eq", "ne", "lt", "le", "gt", "ge", "and", "or"})
"""Functions whose result is a whole number, which float32 holds."""


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
        input_arrays = replica_inputs(wide, inputs, replica)
        right = _evaluate(graph, wide, input_arrays, host, None)
        for _ in range(draws):
            drawn = _evaluate(graph, wide, input_arrays, host, rng)
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
    graph: Graph, wide: Graph, input_arrays: Arrays, host: HostFunction | None, rng: np.random.Generator | None
) -> Arrays:
    """What one replica computes in float32, with random errors where ``graph`` rounds (``None``: without)."""
    arrays: Arrays = {}
    for name, array in wide.data.items():
        arrays[name] = _rounded_before(array, graph.tensor[name].dtype, rng)
    for name, array in input_arrays.items():
        dtype = graph.tensor[name].dtype
        arrays[name] = _rounded(array, UNIT_ROUNDOFF.get(dtype, 0.0), dtype, rng, _is_stored(array, dtype))
    last = {name: position for position, op in enumerate(graph.ops) for name in op.inputs}
    for position, (op, wide_op) in enumerate(zip(graph.ops, wide.ops, strict=True)):
        if op.host:
            assert host is not None, f"{op.name} needs a host kernel"
            exact = host(op, [arrays[n].astype(graph.tensor[n].dtype) for n in op.inputs])
            for name, array in zip(op.outputs, exact, strict=True):
                arrays[name] = _rounded_before(array.astype(wide.tensor[name].dtype), graph.tensor[name].dtype, rng)
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
    narrow = {name: local[name].dtype for name in last}
    unrounded = _unrounded(op.stages, local) if rng is not None else set[str]()
    local |= {name: local[name].astype(np.float64) for name in unrounded}
    for position, stage in enumerate(op.stages):
        name = stage.write.tensor
        with np.errstate(all="ignore"):
            if rng is None:
                evaluate_stage(stage, local)
            else:
                evaluate_stage(_in_float64(stage) if name in unrounded else stage, _as_read(stage, local, rng))
            errors[name] = max(errors[name], _error(stage, dtypes))
            if last[name] == position:
                exact = _is_stored(local[name], dtypes[name]) if name in unrounded else None
                local[name] = _rounded(local[name].astype(narrow[name]), errors[name], dtypes[name], rng, exact)
        if last[name] == position and rng is not None and dtypes[name] in _QUANTISED and _from_reals(stage, local):
            local[name] = _one_step_off(local[name], rng)
    arrays[op.output] = local[op.output]


def _unrounded(stages: Sequence[Stage], local: Arrays) -> set[str]:
    """The float32 tensors all of whose elements can be computed without rounding, but for what float64 cannot hold."""
    written = {stage.write.tensor for stage in stages if local[stage.write.tensor].dtype == np.float32}
    known = _SELECTS | _WHOLE | _ARITHMETIC.keys() | {"fma"}
    return written - {stage.write.tensor for stage in stages if stage.func not in known}


_ARITHMETIC: dict[str, Callable[..., tuple[Access | float, ...]]] = {
    "add": lambda a, b: (a, 1.0, b),
    "sub": lambda a, b: (b, -1.0, a),
    "mul": lambda a, b: (a, b, -0.0),  # Unlike 0, it leaves the sign of a zero as it is.
}
"""By function: the operands of ``fma``, which computes in float64, that give the same."""


def _in_float64(stage: Stage) -> Stage:
    """The same stage, which rounds nothing to float32 if what it writes is float64."""
    if stage.func not in _ARITHMETIC or stage.combine is not None:
        return stage
    return replace(stage, func="fma", operands=_ARITHMETIC[stage.func](*stage.operands))


def _from_reals(stage: Stage, local: Arrays) -> bool:
    """Whether a stage rounds real numbers to the integers that it writes, so that tiny errors may move one by a step.

    ``quant`` does also where it reads nothing but integers: the real number is a sum of products times a factor. The
    program computes that in one way, the network in float32 in another (the sum of rounded products, divided by a
    scale), and near the border between two steps, often exactly on it, either of the two is right.
    """
    return stage.func == "quant" or any(local[r.tensor].dtype.name in FLOATS for r in stage.reads)


def _as_read(stage: Stage, local: Arrays, rng: np.random.Generator) -> Arrays:
    """The tensors by name: the numbers that ``quant`` reads with the error of their product (:data:`_QUANT_ERROR`).

    So each number on the border between two steps takes a random one of them. Others are near it too seldom to matter.
    """
    source = stage.operands[0]
    if stage.func != "quant" or not isinstance(source, Access):
        return local
    return local | {source.tensor: _rounded(local[source.tensor].astype(np.float32), _QUANT_ERROR, "float32", rng)}


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

    How many there are is a matter of chance, and often too few draws would hit one. At the end of the dtype, where
    numbers are saturated, the step is the one that leads back.
    """
    limits, moved = np.iinfo(array.dtype), array.copy()
    place = int(rng.integers(array.size))
    step = int(rng.choice((-1, 1)))
    if not limits.min <= int(array.flat[place]) + step <= limits.max:
        step = -step
    moved.flat[place] = int(array.flat[place]) + step
    return moved


def _rounded_before(array: np.ndarray, dtype: str, rng: np.random.Generator | None) -> np.ndarray:
    """With the errors of an array that was rounded to ``dtype`` already, so that its numbers do not tell by how much.

    If a third of their digits is enough for all of them (0, 1, -0.5), they were not rounded: by chance, a single number
    looks like that once in 64 times at most, and an array never does.
    """
    if array.dtype.name not in FLOATS:
        return array
    with np.errstate(all="ignore"):
        digits = np.ldexp(np.frexp(array)[0], _DIGITS[dtype] // 3)
        short = bool((digits == np.rint(digits)).all(where=np.isfinite(array)))
    return array if short else _rounded(array, UNIT_ROUNDOFF[dtype], dtype, rng)


def _is_stored(array: np.ndarray, dtype: str) -> np.ndarray:
    """Where a number is one of ``dtype``, so that to store it rounds nothing."""
    with np.errstate(all="ignore"):
        return array.astype(dtype).astype(array.dtype) == array


def _rounded(
    array: np.ndarray, error: float, dtype: str, rng: np.random.Generator | None, exact: np.ndarray | None = None
) -> np.ndarray:
    """With independent random errors of at most ``error``, relative, and of what ``dtype`` loses near zero.

    What is ``exact`` has none, nor has an infinity or NaN. A finite number stays finite.
    """
    if rng is None or not error or array.dtype.name not in FLOATS:
        return array
    draws = rng.random(array.shape, np.float32) * 2 - 1
    limits = np.finfo(array.dtype)
    with np.errstate(all="ignore"):
        most = np.maximum(np.abs(array) * np.float32(error), np.float32(_TINY[dtype]))
        drawn = np.clip((array + draws * most).astype(array.dtype), limits.min, limits.max)
    kept = ~np.isfinite(array) if exact is None else exact | ~np.isfinite(array)
    return np.where(kept, array, drawn)
