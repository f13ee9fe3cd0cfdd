"""Reading an ONNX file, and saying clearly what is wrong with one that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias, cast

import onnx
from google.protobuf.message import DecodeError
from onnx import external_data_helper

from ...ir.errors import UsageError
from .node_order import in_order

ModelSource: TypeAlias = str | os.PathLike[str] | bytes | onnx.ModelProto
"""A path, the bytes of a file, or a model in memory."""


def load_model(source: ModelSource) -> onnx.ModelProto:
    """The model with all its weights, and nodes in an order in which they can run.

    Raises :class:`UsageError` if it is not there, not ONNX, or not complete. Nodes of a cycle stay for
    :func:`.checks.check_model.check_model` to name.
    """
    if isinstance(source, onnx.ModelProto):
        return _checked(source, "the model")
    if isinstance(source, bytes):
        return _checked(_parse(source, "the model"), "the model")
    path, data = _path(source), read_file(source)
    model = _parse(data, str(path))
    del data
    try:
        external_data_helper.load_external_data_for_model(model, str(path.parent))
    except Exception as error:
        # The helper raises many kinds: OSError, ValueError and its own.
        raise UsageError(f"{path}: its external data cannot be read: {error}") from error
    return _checked(model, str(path))


def read_file(source: str | os.PathLike[str]) -> bytes:
    """The bytes of a file; :class:`UsageError` if it cannot be read."""
    path = _path(source)
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def _path(source: str | os.PathLike[str]) -> Path:
    if not isinstance(cast("object", source), (str, os.PathLike)):
        kind = type(source).__name__
        raise UsageError(f"a model cannot be of type {kind}; pass a path, the bytes of an ONNX file, or a ModelProto")
    return Path(source)


def _parse(data: bytes, name: str) -> onnx.ModelProto:
    if not data:
        raise UsageError(f"{name} is empty, not an ONNX model")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RuntimeError) as error:
        raise UsageError(f"{name} is not an ONNX model, or is cut short ({len(data):,} bytes read)") from error
    return model


def _checked(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    if not model.graph.node and not model.graph.output:
        raise UsageError(f"{name} is not an ONNX model: it has no graph")
    if not model.opset_import:
        raise UsageError(f"{name} is not a complete ONNX model: it imports no operator set")
    for tensor in model.graph.initializer:
        if external_data_helper.uses_external_data(tensor):
            raise UsageError(f"{name}: the weight {tensor.name!r} is in an external file that was not loaded")
    return in_order(model)
