"""What searches take, in wall time and in the solver's own, and whether the wall clock ended one."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.errors import InfeasibleError


@dataclass(frozen=True)
class Effort:
    """What searches took: ``seconds`` of wall time, and the work that CP-SAT counted.

    ``timed_out``: the wall clock ended one of them before its deterministic limit, so that another run may find
    something else. ``limited``: the deterministic limit ended one, so that a longer timeout may find something better.
    """

    seconds: float = 0.0
    deterministic_seconds: float = 0.0
    timed_out: bool = False
    limited: bool = False

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            self.seconds + other.seconds,
            self.deterministic_seconds + other.deterministic_seconds,
            self.timed_out or other.timed_out,
            self.limited or other.limited,
        )


NO_EFFORT = Effort()
"""Of an answer for which nothing was searched."""


class InfeasibleSearchError(InfeasibleError):
    """No answer, after searches that took ``effort``."""

    def __init__(self, message: str, effort: Effort) -> None:
        super().__init__(message)
        self.effort = effort
