"""Inputs of a run: what is wrong is named, and random ones are reproducible and valid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from girih.api.inputs import IndexUse, check_indices, check_inputs, index_limits, index_uses, load_inputs, random_inputs
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


def test_index_limits_follow_the_tables() -> None:
    table = numpy_helper.from_array(np.zeros((2, 5), np.float32), "table")
    nodes = [
        helper.make_node("Cast", ["types"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "wide"], ["y"], axis=0),
    ]
    graph = helper.make_graph(
        nodes,
        "embedding",
        [helper.make_tensor_value_info("types", TensorProto.INT32, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 5])],
        [table],
    )
    model: onnx.ModelProto = helper.make_model(graph)
    assert index_limits(index_uses(model.SerializeToString())) == {"types": 2}


def test_weights_that_an_old_file_lists_as_inputs_are_no_inputs() -> None:
    """Files of IR version 3 list every weight in graph.input."""
    model: onnx.ModelProto = parser.parse_model("""<ir_version: 3, opset_import: ["": 8]>
        g (int64[3] ids, float[5, 4] table, int64[2] rows) => (float[3, 4] y, float[2, 4] z)
        {
            y = Gather <axis = 0> (table, ids)
            z = Gather <axis = 0> (table, rows)
        }""")
    weights = {"table": np.zeros((5, 4), np.float32), "rows": np.array([0, 4])}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    uses = index_uses(model.SerializeToString())
    assert [use.input for use in uses] == ["ids"]
    check_indices(uses, {"ids": np.array([0, 1, 4])})


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


def test_indices_of_several_dimensions_are_checked_by_position() -> None:
    use = [IndexUse("at", "pick", "table", (4, 5))]
    check_indices(use, {"at": np.array([[3, 4], [-4, -5]])})
    with pytest.raises(UsageError, match=r"the index 4 at \[1, 0\].*has 4 entries.*1 of 4"):
        check_indices(use, {"at": np.array([[3, 4], [4, 4]])})


def test_inputs_without_names() -> None:
    with pytest.raises(UsageError, match=r"type ndarray; pass a dictionary of arrays by name: image float32\[2, 3\]"):
        check_inputs(PORTS, np.zeros((2, 3)))  # pyright: ignore[reportArgumentType]
