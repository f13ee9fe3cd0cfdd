"""JSON of the nouns: what is written reads back equal, infinities too."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from girih.ir.box import Affine
from girih.ir.codec import from_json, sha256, to_json
from girih.ir.errors import UsageError
from girih.ir.graph import Access, Axis, Stage


@pytest.mark.parametrize("fill", [None, 0.0, -math.inf, math.inf, 1.5])
def test_a_stage_reads_back_equal(fill: float | None) -> None:
    index = (Affine((1,), -1),)
    read = Access("x", index, fill)
    stage = Stage((Axis("i", 4),), Access("y", index), "max", (read, -math.inf), None)
    assert from_json(to_json(stage), Stage) == stage
    assert sha256(from_json(to_json(stage), Stage)) == sha256(stage)


@dataclass(frozen=True, eq=False)
class Arrays:
    """A noun with arrays."""

    rows: tuple[np.ndarray, ...]
    named: dict[str, np.ndarray]


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "uint8", "int32", "int64", "bool", ">i4"])
def test_arrays_read_back_to_the_bit(dtype: str) -> None:
    values = np.array([[0, 1, -2], [3, 100, -127]])
    for array in (values.astype(dtype), values.astype(dtype).T, values.astype(dtype)[:, :0], np.array(1, dtype)):
        noun = Arrays((array,), {"x": array})
        found = from_json(to_json(noun), Arrays)
        for back in (*found.rows, found.named["x"]):
            assert back.dtype == array.dtype.newbyteorder("=")
            assert back.shape == array.shape
            np.testing.assert_array_equal(back, array)
        assert to_json(found) == to_json(noun)


def test_not_a_number_keeps_its_bits() -> None:
    array = np.array([math.nan, math.inf, -0.0], np.float32)
    (found,) = from_json(to_json(Arrays((array,), {})), Arrays).rows
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "array",
    ["3", "{}", '{"dtype":"int8","shape":[3],"data":"AAA="}', '{"dtype":"int8","shape":[1],"data":"?"}',
     '{"dtype":"object","shape":[1],"data":"AAAAAAAAAAA="}'],
)  # fmt: skip
def test_a_wrong_array_is_refused(array: str) -> None:
    with pytest.raises(UsageError, match="not a Arrays"):
        from_json(f'{{"rows": [{array}], "named": {{}}}}', Arrays)


def test_anything_else_is_refused_with_its_place() -> None:
    with pytest.raises(UsageError, match="axes"):
        from_json(b'{"axes": 3}', Stage)


@pytest.mark.parametrize("number", [10**30, -(10**30), 2**64, -(2**63) - 1])
def test_numbers_of_more_than_64_bits_are_refused(number: int) -> None:
    axis = to_json(Axis("i", 4))
    assert from_json(axis, Axis) == Axis("i", 4)
    with pytest.raises(UsageError, match="this is not a Axis: a whole number has more than 64 bits"):
        from_json(axis.replace(b"4", str(number).encode()), Axis)
