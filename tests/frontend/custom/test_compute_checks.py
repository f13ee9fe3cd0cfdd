"""What TVM would drop of te tensors is refused: conditions and initial values of reductions, a tensor returned twice."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import te, tirx

from girih.frontend.custom.compute_checks import compute_problem


def placeholder() -> Any:
    return te.placeholder((4, 8), "float32", "x")


def total(x: Any, **how: Any) -> Any:
    k = te.reduce_axis((0, 8), "k")
    condition = {"where": k > 3} if how.pop("tail", False) else {}
    return te.compute((4,), lambda i: te.sum(x[i, k], axis=k, **condition, **how), name="total")


def doubled(x: Any) -> Any:
    return te.compute(x.shape, lambda *i: x(*i) * 2.0, name="doubled")


def test_plain_reductions_and_several_results_are_fine() -> None:
    x = placeholder()
    assert compute_problem([x], [total(doubled(x)), doubled(x)]) is None


def test_a_condition_of_a_reduction_is_refused() -> None:
    x = placeholder()
    problem = compute_problem([x], [total(x, tail=True)])
    assert problem is not None and problem.startswith("the reduction of 'total' has where=")
    assert "reduce te.if_then_else(where, value, start) instead" in problem


def test_an_initial_value_of_a_stage_before_the_result_is_refused() -> None:
    x = placeholder()
    problem = compute_problem([x], [doubled(total(x, init=tirx.const(5.0, "float32")))])
    assert problem is not None and problem.startswith("the reduction of 'total' has init=T.float32(5.0), which TVM")


@pytest.mark.parametrize("number", [0, 1])
def test_every_result_of_a_reduction_of_tuples_is_looked_at(number: int) -> None:
    x, k = placeholder(), te.reduce_axis((0, 8), "k")
    largest = te.comm_reducer(lambda a, b: (tirx.max(a[0], b[0]), a[1] + b[1]), lambda t, u: (te.min_value(t), te.min_value(u)))  # fmt: skip
    results = te.compute((4,), lambda i: largest((x[i, k], x[i, k]), axis=k, where=k > 3), name="both")
    problem = compute_problem([x], [results[number]])
    assert problem is not None and "'both' has where=" in problem


def test_one_tensor_as_two_results_is_refused() -> None:
    x = placeholder()
    d = doubled(x)
    problem = "its results 0 and 2 are the same tensor; compute a copy for one of them"
    assert compute_problem([x], [d, total(x), d]) == problem
