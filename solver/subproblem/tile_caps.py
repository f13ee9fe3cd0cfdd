"""Caps on tiles: what is tried where an operator does not fit, before its segment changes."""

from __future__ import annotations

from ...ir.graph import Graph, Op

SHRINK = 4
"""By how much a cap on tiles goes down at each infeasibility; chosen, not measured."""
LEAST_CAP = 4096
"""Bytes below which smaller tiles are no answer, in large memories; chosen, not measured."""
LEAST_SHARE = 64
"""In small ones, one part in so many; chosen, not measured."""


def least_cap(capacity: int) -> int:
    """Bytes of a memory below which smaller tiles are no answer."""
    return max(1, min(LEAST_CAP, capacity // LEAST_SHARE))


def may_stream(graph: Graph, op: Op) -> bool:
    """Whether an operator could have a constant as its stationary operand."""
    return op.stationary in graph.constant_names
