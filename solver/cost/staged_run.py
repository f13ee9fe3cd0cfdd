"""Instructions with the copies that stage their operands: what each engine has to do, block by block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

Operand: TypeAlias = "str | int"
"""A tensor, or its position among the operator's :func:`~girih.ir.equivalence.tensor_names`."""


@dataclass(frozen=True)
class StagedCopy:
    """The copies of one operand between where it lies and a staging memory; ``back``: from there.

    ``times``: how many of the blocks copy it, each the same part; ``cycles``: what all of these take of the ``engine``,
    issue included.
    """

    operand: Operand
    memory: str
    engine: str
    times: int
    cycles: float
    latency: int
    back: bool


@dataclass(frozen=True)
class StagedRun:
    """``blocks`` equal parts, one after the other, that take an engine ``busy`` cycles in all, copies left out.

    ``rooms``: of each staging memory, the bytes of what a block stages there, and what its address is a multiple of.
    """

    blocks: int
    busy: float
    copies: tuple[StagedCopy, ...] = ()
    rooms: tuple[tuple[str, int, int], ...] = ()

    def numbered(self, position: Mapping[str, int]) -> StagedRun:
        """The same with positions for tensors, which structurally equal operators share."""
        copies = (replace(copy, operand=position[str(copy.operand)]) for copy in self.copies)
        return replace(self, copies=tuple(copies))
