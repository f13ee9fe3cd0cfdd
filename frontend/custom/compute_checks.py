"""What TVM would drop, or make wrong kernels of, in the te tensors that an operator of the height ``compute`` returns.

    te.sum(x[i, k], axis=k, where=k > 3)        create_prim_func knows neither ``where`` nor ``init``: it sums all
    return d, d                                 one buffer would be two results

All stages are looked at, not only those of the results.
"""

# TVM's classes get their fields from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tvm import te, tirx


def compute_problem(inputs: Sequence[Any], results: Sequence[Any]) -> str | None:
    """What is wrong with what the function returned for the tensors ``inputs``, for a message; ``None``: nothing."""
    for position, result in enumerate(results):
        if not isinstance(result, te.Tensor):
            return f"it returns {type(result).__name__}, not a te tensor"
        if any(result.same_as(tensor) for tensor in inputs):
            return "it returns one of its inputs as it is; compute a copy"
        for earlier, other in enumerate(results[:position]):
            if result.same_as(other):
                return f"its results {earlier} and {position} are the same tensor; compute a copy for one of them"
    for stage in _stages(results):
        for value in stage.body if isinstance(stage, te.ComputeOp) else ():
            problem = _reduction_problem(value)
            if problem is not None:
                return f"the reduction of {stage.name!r} {problem}"
    return None


def _reduction_problem(value: Any) -> str | None:
    # Reductions are at the top of what a stage computes: TVM refuses others.
    if not isinstance(value, tirx.Reduce):
        return None
    if not (isinstance(value.condition, tirx.IntImm) and int(value.condition.value)):
        return (
            f"has where={value.condition}, which TVM drops; reduce te.if_then_else(where, value, start) instead, "
            "with the number that the reduction starts from"
        )
    if len(value.init):
        return f"has init={value.init[0]}, which TVM drops; combine it with the result in a te.compute of its own"
    return None


def _stages(results: Sequence[Any]) -> Iterator[Any]:
    """The operations that the results are computed by, and those before them."""
    seen: set[Any] = set()
    waiting = [tensor.op for tensor in results]
    while waiting:
        stage = waiting.pop()
        if stage not in seen:
            seen.add(stage)
            yield stage
            waiting.extend(tensor.op for tensor in stage.input_tensors)
