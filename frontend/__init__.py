"""ONNX → Graph, through TVM's importer and legalisation; and the original network run for comparison.

TVM is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .import_network import import_onnx
    from .reference.run import Reference, model_bytes, reference_outputs

__all__ = ["Reference", "import_onnx", "model_bytes", "reference_outputs"]

_HOMES = {
    "Reference": "reference.run",
    "import_onnx": "import_network",
    "model_bytes": "reference.run",
    "reference_outputs": "reference.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
