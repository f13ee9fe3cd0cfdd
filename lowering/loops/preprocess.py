"""What is known before a tile runs: reads that fall outside become numbers, and sums of nothing vanish."""

from __future__ import annotations

from dataclasses import replace

from ...ir.box import Affine, Span
from .perfect_nest import Load, PerfectNest


def preprocess(nest: PerfectNest) -> PerfectNest | None:
    """The nest with a number in place of each load whose conditions hold nowhere; ``None`` if it adds nothing."""
    points = tuple(Span(0, extent) for extent in nest.extents)

    def never(condition: Affine) -> bool:
        return condition.over(points).hi <= 0

    def known(operand: Load | float) -> Load | float:
        if isinstance(operand, Load) and operand.fill is not None and any(never(c) for c in operand.conditions):
            return operand.fill
        return operand

    operands = tuple(map(known, nest.operands))
    if nest.combine == "sum" and 0.0 in operands and (nest.func == "mul" or len(operands) == 1):
        return None
    return nest if operands == nest.operands else replace(nest, operands=operands)
