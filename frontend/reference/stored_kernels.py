"""Kernels as TVM stores them in JSON: this version of it has no rewriting of expressions in Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import tvm
from tvm import tirx

Nodes = list[dict[str, Any]]
"""What a kernel consists of; nodes refer to each other by their positions."""


def rewrite_kernels(module: Any, change: Callable[[Nodes], bool]) -> Any:
    """Change the nodes of every kernel of a module in place; ``change`` says whether there was anything to change."""
    for gvar, func in list(module.functions.items()):
        if isinstance(func, tirx.PrimFunc):
            stored = json.loads(tvm.ir.save_json(func))
            if change(stored["nodes"]):
                module.update_func(gvar, tvm.ir.load_json(json.dumps(stored)))
    return module
