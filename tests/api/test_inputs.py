"""Inputs of a run: what is wrong is named, and random ones are reproducible and valid."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from girih.api.inputs import check_indices, check_inputs, index_limits, load_inputs, random_inputs
from girih.frontend.onnx.index_uses import IndexUse
from girih.ir.errors import UsageError
from girih.ir.graph import Port

PORTS = (
    Port("image", "image", (2, 3), "float32", 0),
    Port("ids", "ids", (4,), "int64"),
    Port("mask", "mask", (8, 8), "bool"),
)


def valid() -> dict[str, np.ndarray]:
    return random_inputs(PORTS, 0)


def test_random_inputs_fit_their_ports() -> None:
    arrays = check_inputs(PORTS, valid())
    assert list(arrays) == ["image", "ids", "mask"]
    assert arrays["ids"].min() >= 0
    assert arrays["ids"].max() < 100


def test_random_inputs_depend_on_seed_and_name_alone() -> None:
    np.testing.assert_array_equal(random_inputs(PORTS[:1], 3)["image"], random_inputs(PORTS[::-1], 3)["image"])
    assert not np.array_equal(random_inputs(PORTS, 3)["image"], random_inputs(PORTS, 4)["image"])


def test_random_indices_stay_below_their_limit() -> None:
    ports = (Port("ids", "ids", (1000,), "int64"),)
    assert set(random_inputs(ports, 0, {"ids": 2})["ids"].tolist()) == {0, 1}


def test_unknown_and_missing_names() -> None:
    arrays = valid()
    arrays["picture"] = arrays.pop("image")
    with pytest.raises(UsageError, match=r"no input 'picture'; input 'image' is missing.*image float32\[2, 3\], ids"):
        check_inputs(PORTS, arrays)


def test_wrong_shape() -> None:
    with pytest.raises(UsageError, match=r"'image' is float32\[3, 2\], the network expects float32\[2, 3\]"):
        check_inputs(PORTS, valid() | {"image": np.zeros((3, 2), np.float32)})


def test_wrong_dtype() -> None:
    with pytest.raises(UsageError, match=r"'image' is float64\[2, 3\], the network expects float32\[2, 3\]"):
        check_inputs(PORTS, valid() | {"image": np.zeros((2, 3))})


def test_a_file_reads_back(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **valid())  # pyright: ignore[reportArgumentType]
    np.testing.assert_array_equal(load_inputs(tmp_path / "x.npz")["ids"], valid()["ids"])


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 cut short"])
def test_a_file_that_is_no_npz(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(UsageError, match=r"cannot read inputs from .*x\.npz"):
        load_inputs(tmp_path / "x.npz")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load_inputs(tmp_path / "x.npz")


def test_one_array_without_a_name(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(UsageError, match=r"no \.npz file.*savez\(path, name=array\)"):
        load_inputs(tmp_path / "x.npy")


def test_the_smallest_table_limits_an_index() -> None:
    uses = [
        IndexUse("ids", "a", "words", (11,)),
        IndexUse("ids", "b", "grid", (4, 5)),
        IndexUse("at", "c", "grid", (5,)),
    ]
    assert index_limits(uses) == {"ids": 4, "at": 5}


@pytest.mark.parametrize(("value", "fits"), [(0, True), (10, True), (-11, True), (11, False), (-12, False)])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_indices_are_checked_against_their_table(value: int, fits: bool, dtype: str) -> None:
    use = [IndexUse("ids", "lookup", "table", (11,))]
    ids = np.array([[1, 2], [value, 3]], dtype)
    if fits:
        check_indices(use, {"ids": ids})
        return
    message = rf"'ids' holds the index {value} at \[1, 0\], but 'table', which node 'lookup'.*has 11 entries.*-11 to 10"
    with pytest.raises(UsageError, match=message):
        check_indices(use, {"ids": ids})


@pytest.mark.parametrize(
    ("entry", "content", "message"),
    [
        ("image.npy", b"garbage", "its entry 'image' is no array"),
        ("image", b"garbage", "its entry 'image' is no array"),
        ("image.npy", b"\x93NUMPY\x01\x00\x0c\x00{'descr': (\n\n", "save them with numpy.savez"),
        ("image.npy", b"\x93NUMPY\x01\x00\x0c\x00{'descr' 3 4\n", "save them with numpy.savez"),
    ],
)
def test_broken_entries_of_a_file(entry: str, content: bytes, message: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as file:
        file.writestr(entry, content)
    with pytest.raises(UsageError, match=rf"cannot read inputs from .*in.npz: .*{message}"):
        load_inputs(tmp_path / "in.npz")


def test_indices_of_several_dimensions_are_checked_by_position() -> None:
    use = [IndexUse("at", "pick", "table", (4, 5))]
    check_indices(use, {"at": np.array([[3, 4], [-4, -5]])})
    with pytest.raises(UsageError, match=r"the index 4 at \[1, 0\].*has 4 entries.*1 of 4"):
        check_indices(use, {"at": np.array([[3, 4], [4, 4]])})


def test_inputs_without_names() -> None:
    with pytest.raises(UsageError, match=r"type ndarray; pass a dictionary of arrays by name: image float32\[2, 3\]"):
        check_inputs(PORTS, np.zeros((2, 3)))  # pyright: ignore[reportArgumentType]
