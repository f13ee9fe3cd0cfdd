"""The published ablation as strategies: each level adds one part of the schedule to the one before it."""

from __future__ import annotations

from dataclasses import dataclass

from ...options import Strategy


@dataclass(frozen=True)
class AblationLevel:
    """``join``: layers that follow one another exchange data in local memory (without it, all results pass through the
    shared memory). ``split``: what joined layers need may exceed local memory, so that they run in instances, in the
    better of two orders. ``overlap``: a kernel need not wait for the end of the one before it, and its weights are
    fetched ahead.
    """

    strategy: Strategy
    join: bool
    split: bool
    overlap: bool


LEVELS: dict[str, AblationLevel] = {
    level.strategy: level
    for level in (
        AblationLevel("graphturbo:llb", False, False, False),
        AblationLevel("graphturbo:l1", True, False, False),
        AblationLevel("graphturbo:order", True, True, False),
        AblationLevel("graphturbo", True, True, True),
    )
}
"""From the least to the whole (Zhao et al., figure 15)."""
