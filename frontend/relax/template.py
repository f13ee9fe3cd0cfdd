"""What a node becomes, whatever its tensors are called: made once for all nodes that are alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..net.net import Info, NetStep
from .tir_records import Kernel


@dataclass
class Template:
    """What a node becomes, with tensors by local names: ``in0``, ``out0`` and others."""

    tensors: dict[str, Info] = field(default_factory=dict[str, Info])
    constants: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    calls: list[TemplateCall] = field(default_factory=list["TemplateCall"])
    outputs: list[str] = field(default_factory=list[str])


@dataclass
class TemplateCall:
    """One library kernel: its steps, or what folds it if its inputs are constant."""

    kernel: Kernel | None
    func: Any
    hint: str
    inputs: list[str]
    outputs: list[str]
    steps: list[NetStep]
