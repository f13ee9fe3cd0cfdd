"""What the models could have decided instead, and what it would have cost: asked for by operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Alternative:
    """One answer to one question about an operator, as the model that decides it sees it.

    ``decision``: what is decided ("tile", "split"). ``choice``: the answer, in the words of the plan. ``cycles``: its
    cost in the model, in ``unit``; ``None`` where the model has none. ``why_not``: what speaks against it, such as a
    memory in which it does not fit, with bytes; empty for what was ``chosen``.
    """

    decision: str
    choice: str
    cycles: float | None
    unit: str
    chosen: bool
    why_not: str = ""


Alternatives = Callable[[str], tuple[Alternative, ...]]
"""From the name of an operator to its alternatives, by decision, the best of each first."""


def no_alternatives(operator: str) -> tuple[Alternative, ...]:
    """For an operator of which no model is asked."""
    return ()
