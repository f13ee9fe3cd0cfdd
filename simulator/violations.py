"""Collects what a program does that the machine does not allow; nothing is raised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..ir.program import Program
from ..ir.trace import Violation

KEEP = 20
"""How many violations are kept; the rest are counted."""


class Violations:
    """The first :data:`KEEP` violations, and the count of all."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._kept: list[Violation] = []
        self.count = 0

    def add(self, kind: str, queue: int, index: int, address: int, message: str) -> None:
        """Record a violation of instruction ``index`` of ``queue`` (-1: after the program)."""
        self.count += 1
        if len(self._kept) >= KEEP:
            return
        mnemonic = op = "-"
        if queue >= 0:
            instruction = self._program.streams[queue][index]
            mnemonic = instruction.mnemonic
            op = self._program.ops[instruction.op].name if instruction.op < len(self._program.ops) else "-"
        self._kept.append(Violation(kind, queue, index, mnemonic, op, address, 0, message))

    def records(self, start: Sequence[np.ndarray], cycles: int) -> tuple[Violation, ...]:
        """What was kept, each with the cycle in which its instruction began (or the last, if it never did)."""
        when = [int(start[v.queue][v.index]) if v.queue >= 0 else cycles for v in self._kept]
        return tuple(replace(v, cycle=c if c >= 0 else cycles) for v, c in zip(self._kept, when, strict=True))
