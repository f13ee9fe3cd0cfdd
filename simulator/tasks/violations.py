"""Collects what a program does that the machine does not allow; nothing is raised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from ...ir.program import Program
from ...ir.trace import Site, Violation, ViolationKind

V = TypeVar("V", Violation, Site)

KEEP = 20
"""How many violations are kept; the rest are counted."""


class Violations:
    """The first :data:`KEEP` violations, and the count of all."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._kept: list[Violation] = []
        self.count = 0

    def add(
        self,
        kind: ViolationKind,
        queue: int,
        index: int,
        address: int,
        message: str,
        other: tuple[int, int, int] | None = None,
    ) -> None:
        """Record a violation of instruction ``index`` of ``queue`` (-1: after the program).

        ``other`` is the queue, index and address of another instruction that it meets.
        """
        self.count += 1
        if len(self._kept) >= KEEP:
            return
        site = Site(other[0], other[1], *self._names(*other[:2]), other[2], 0) if other else None
        self._kept.append(Violation(kind, queue, index, *self._names(queue, index), address, 0, message, site))

    def _names(self, queue: int, index: int) -> tuple[str, str]:
        """The mnemonic and the operator of an instruction."""
        if queue < 0:
            return "-", "-"
        instruction, ops = self._program.streams[queue][index], self._program.ops
        return instruction.mnemonic, ops[instruction.op].name if instruction.op < len(ops) else "-"

    def records(self, start: Sequence[np.ndarray], cycles: int) -> tuple[Violation, ...]:
        """What was kept, each with the cycle in which its instruction began (or the last, if it never did)."""

        def began(at: V) -> V:
            cycle = int(start[at.queue][at.index]) if at.queue >= 0 else -1
            return replace(at, cycle=cycle if cycle >= 0 else cycles)

        return tuple(replace(began(v), other=v.other and began(v.other)) for v in self._kept)
