"""Changes of weights: their types, shapes and data, and whether they are there."""

from __future__ import annotations

from random import Random

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from benchmarks.hostile.changes.draw import (
    FLOATS,
    INTEGERS,
    NAMES,
    changed_list,
    names_of,
    pick,
)


def change_tensor(tensor: onnx.TensorProto, rng: Random) -> str:
    """Another dtype, shape or content, or less or more data than the shape says."""
    how = rng.randrange(9)
    if how == 0:
        tensor.data_type = rng.choice((0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 13, 14, 16, 17, 22, 23, 99))
        return f"dtype {tensor.data_type}"
    if how == 1:
        tensor.dims[:] = changed_list(list(tensor.dims), rng)
        return f"dims {list(tensor.dims)}"
    if how == 2 and tensor.HasField("raw_data"):
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
        return f"{len(tensor.raw_data)} bytes"
    if how == 3:
        tensor.raw_data = tensor.raw_data + b"\0" * rng.choice((1, 4, 4096))
        return f"{len(tensor.raw_data)} bytes"
    if how == 4:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=rng.choice(("absent.bin", "/etc/passwd", "../x", "")))
        return f"data in {tensor.external_data[0].value!r}"
    if how == 5:
        kind = rng.choice(("float64", "float16", "int32", "int64", "int8", "uint8", "bool"))
        with np.errstate(all="ignore"):
            array = _array(tensor).astype(kind)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        return f"values as {kind}"
    array = _array(tensor).copy()
    if not array.size or array.dtype.kind not in "fiu":
        return "nothing"
    at = rng.randrange(array.size)
    with np.errstate(all="ignore"):
        value = rng.choice(FLOATS) if array.dtype.kind == "f" else rng.choice(INTEGERS)
        array.reshape(-1)[at] = np.asarray(value).astype(array.dtype)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return f"value {value} at {at}"


def _array(tensor: onnx.TensorProto) -> np.ndarray:
    """The tensor's values, or none if an earlier change made it unreadable."""
    try:
        return numpy_helper.to_array(tensor)
    except Exception:
        return np.zeros(0, np.float32)


def change_weight(model: onnx.ModelProto, rng: Random) -> str | None:
    tensor = pick(rng, model.graph.initializer)
    return None if tensor is None else f"{change_tensor(tensor, rng)} in weight {tensor.name!r}"


def drop_weight(model: onnx.ModelProto, rng: Random) -> str | None:
    tensor = pick(rng, model.graph.initializer)
    if tensor is None:
        return None
    text = f"drop weight {tensor.name!r}"
    model.graph.initializer.remove(tensor)
    return text


def repeat_weight(model: onnx.ModelProto, rng: Random) -> str | None:
    tensor = pick(rng, model.graph.initializer)
    if tensor is None:
        return None
    again = onnx.TensorProto()
    again.CopyFrom(tensor)
    change_tensor(again, rng)
    model.graph.initializer.append(again)
    return f"weight {tensor.name!r} twice"


def rename_weight(model: onnx.ModelProto, rng: Random) -> str | None:
    tensor, name = pick(rng, model.graph.initializer), pick(rng, [*names_of(model), *NAMES])
    if tensor is None or name is None:
        return None
    text = f"weight {tensor.name!r} is called {name[:40]!r}"
    tensor.name = name
    return text
