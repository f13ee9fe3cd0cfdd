"""Selection and sorting against numpy and ONNX Runtime: ties, primes, every axis, every number of entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from girih.frontend.library.ordering import Rows, by_heap, by_sorting
from girih.frontend.library.scalar_operations import scalar_operations
from tests.support.kernels import run_kernel
from tests.support.sampled import sampled_pairs

Algorithm = Callable[[Rows, str, int, bool], Any]
ALGORITHMS = pytest.mark.parametrize("algorithm", [by_heap, by_sorting])


def first_entries(data: np.ndarray, axis: int, k: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """Values and positions by numpy's stable sort."""
    keys = -data.astype(np.float64) if largest else data.astype(np.float64)
    positions = np.argsort(keys, axis, kind="stable").take(range(k), axis)
    return np.take_along_axis(data, positions, axis), positions


def check(algorithm: Algorithm, data: np.ndarray, axis: int, k: int, largest: bool) -> None:
    rows = Rows(data.shape, axis)
    values, positions = run_kernel(algorithm(rows, data.dtype.name, k, largest), data)
    expected = first_entries(data, axis, k, largest)
    np.testing.assert_array_equal(positions, expected[1])
    np.testing.assert_array_equal(values, expected[0])


@pytest.mark.parametrize(("entries", "algorithm"), sampled_pairs([1, 2, 4, 3, 5, 8, 31, 9], [by_heap, by_sorting], 2))
def test_any_number_of_entries(algorithm: Algorithm, entries: int) -> None:
    random = np.random.default_rng(entries)
    for k in sorted({1, (entries + 1) // 2, entries}):
        for largest in (True, False):
            # Of few values, so that most are equal to another one.
            check(algorithm, random.integers(0, 3, (3, entries)).astype(np.float32), 1, k, largest)


@ALGORITHMS
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_any_axis(algorithm: Algorithm, axis: int) -> None:
    data = np.random.default_rng(axis).normal(size=(3, 5, 7, 4)).astype(np.float32)
    check(algorithm, data, axis, 2, True)


@pytest.mark.parametrize(
    ("dtype", "algorithm"),
    sampled_pairs(["float16", "float64", "int8", "uint8", "int32", "int64"], [by_heap, by_sorting], 2),
)
def test_any_dtype(algorithm: Algorithm, dtype: str) -> None:
    data = np.random.default_rng(3).permutation(64).reshape(4, 16).astype(dtype)
    check(algorithm, data, 1, 5, False)


@ALGORITHMS
def test_entries_in_the_worst_orders(algorithm: Algorithm) -> None:
    rising = np.arange(1009, dtype=np.float32)
    for data in (rising, -rising, np.tile(rising[:2], 505)[:1009]):
        check(algorithm, data[None], 1, 17, True)


@ALGORITHMS
def test_each_entry_comes_once_with_nans(algorithm: Algorithm) -> None:
    data = np.random.default_rng(5).normal(size=(1, 33)).astype(np.float32)
    data[0, ::4] = np.nan
    (positions,) = run_kernel(algorithm(Rows(data.shape, 1), "float32", 33, True), data)[1]
    assert sorted(positions.tolist()) == list(range(33))


@ALGORITHMS
@pytest.mark.parametrize("largest", [0, 1])
def test_as_onnx_runtime(algorithm: Algorithm, largest: int) -> None:
    data = np.random.default_rng(7).integers(0, 20, (4, 61)).astype(np.float32)
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> net (float[4, 61] x) => (float[4, 9] v, int64[4, 9] p)
        <int64[1] k = {{9}}> {{ v, p = TopK <largest = {largest}> (x, k) }}"""
    )
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": data})
    got = run_kernel(algorithm(Rows(data.shape, 1), "float32", 9, bool(largest)), data)
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_heap_takes_fewer_operations_for_few_entries_and_sorting_for_many() -> None:
    rows = Rows((1, 1024), 1)

    def operations(algorithm: Algorithm, k: int) -> int:
        return scalar_operations(algorithm(rows, "float32", k, True)).total

    assert operations(by_heap, 2) < operations(by_sorting, 2)
    assert operations(by_heap, 1024) > operations(by_sorting, 1024)
