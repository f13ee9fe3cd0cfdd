"""Between the user's arrays, for the whole batch, and each replica's tensors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir.errors import UsageError
from ...ir.program import Placed, Program, ProgramPort
from .numbers import converted


def check_inputs(program: Program, inputs: Mapping[str, np.ndarray]) -> None:
    """Raises :class:`UsageError` unless there is exactly one fitting array for each input port."""
    ports = {port.name: port for port in program.inputs}
    takes = f"the model takes {', '.join(ports)}"
    if missing := sorted(ports.keys() - inputs.keys()):
        raise UsageError(f"input {missing[0]} is missing; {takes}")
    if unknown := sorted(inputs.keys() - ports.keys()):
        raise UsageError(f"there is no input {unknown[0]}; {takes}")
    for name, port in ports.items():
        array = inputs[name]
        if array.shape != port.shape or array.dtype != np.dtype(port.dtype):
            raise UsageError(
                f"input {name} must be {port.dtype} {list(port.shape)}, not {array.dtype} {list(array.shape)}"
            )


def constant_bytes(constant: Placed, data: Mapping[str, np.ndarray]) -> np.ndarray:
    """The bytes of a constant's data; raises :class:`UsageError` where it is missing or does not fit."""
    if constant.tensor not in data:
        raise UsageError(f"the data of the constant {constant.tensor} is missing")
    array = data[constant.tensor]
    if array.shape != constant.shape or array.dtype != np.dtype(constant.dtype):
        raise UsageError(
            f"constant {constant.tensor} must be {constant.dtype} {list(constant.shape)}, not {array.dtype} "
            f"{list(array.shape)}"
        )
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def split(port: ProgramPort, array: np.ndarray, replicas: int) -> np.ndarray:
    """(replicas, *tensor_shape): each replica's part in the tensor's dtype; the last ones are padded with zeros."""
    tensor = converted(array, port.tensor_dtype)
    axis = port.batch_axis
    if axis is None:
        return np.broadcast_to(tensor.reshape(port.tensor_shape), (replicas, *port.tensor_shape))
    part = port.tensor_shape[axis]
    padding = [(0, 0)] * tensor.ndim
    padding[axis] = (0, part * replicas - tensor.shape[axis])
    return np.stack(np.split(np.pad(tensor, padding), replicas, axis))


def join(port: ProgramPort, parts: np.ndarray) -> np.ndarray:
    """The whole batch from (replicas, *tensor_shape), without the padding, in the port's dtype."""
    axis = port.batch_axis
    if axis is None:
        return converted(parts[0].reshape(port.shape), port.dtype)
    whole = np.concatenate(list(parts), axis)
    kept = tuple(slice(0, port.shape[axis]) if d == axis else slice(None) for d in range(whole.ndim))
    return converted(np.ascontiguousarray(whole[kept]), port.dtype)
