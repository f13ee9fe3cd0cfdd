"""What searches take, in wall time and in the solver's own, how they came to their answers, and whether the wall clock
ended one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..ir.errors import InfeasibleError

MOST_POINTS = 32
"""Points that are kept of one answer; chosen so that the log of a compilation stays smaller than its plan."""


@dataclass(frozen=True)
class SearchPoint:
    """The best answer known and what was proven after so much of the search's work, in CP-SAT's deterministic seconds.

    ``incumbent`` and ``bound`` are ``None`` while there is none.
    """

    work: float
    incumbent: float | None
    bound: float | None


@dataclass(frozen=True)
class Effort:
    """What searches took: ``seconds`` of wall time, and the work that CP-SAT counted.

    ``timed_out``: the wall clock ended one of them before its deterministic limit, so that another run may find
    something else. ``limited``: the deterministic limit ended one, so that a longer timeout may find something better.
    ``points``: incumbent and bound against work. ``searches``: how often CP-SAT ran; ``variables`` and ``constraints``
    are those of the largest model.
    """

    seconds: float = 0.0
    deterministic_seconds: float = 0.0
    timed_out: bool = False
    limited: bool = False
    points: tuple[SearchPoint, ...] = ()
    searches: int = 0
    variables: int = 0
    constraints: int = 0

    def __add__(self, other: Effort) -> Effort:
        """One search after the other."""
        return Effort(
            self.seconds + other.seconds,
            self.deterministic_seconds + other.deterministic_seconds,
            self.timed_out or other.timed_out,
            self.limited or other.limited,
            thinned((*self.points, *later(other.points, self.deterministic_seconds))),
            self.searches + other.searches,
            *max((self.variables, self.constraints), (other.variables, other.constraints)),
        )


NO_EFFORT = Effort()
"""Of an answer for which nothing was searched."""


def later(points: Sequence[SearchPoint], work: float) -> tuple[SearchPoint, ...]:
    """The points of a search that began after so much work."""
    return tuple(replace(point, work=work + point.work) for point in points)


def thinned(points: Sequence[SearchPoint], most: int = MOST_POINTS) -> tuple[SearchPoint, ...]:
    """At most so many of the points, evenly spread, with the first and the last."""
    if len(points) <= most:
        return tuple(points)
    return tuple(points[i * (len(points) - 1) // (most - 1)] for i in range(most))


@dataclass(frozen=True)
class PartialAnswer:
    """The answer to one of several independent problems, of which there are ``count`` equal ones."""

    count: int
    objective: float
    bound: float | None
    effort: Effort


def total_effort(parts: Sequence[PartialAnswer]) -> Effort:
    """The effort for all parts, one after the other; its points are sums over all parts.

    Parts that are still to be searched count with the first incumbent and bound of their search.
    """
    effort = sum((part.effort for part in parts), NO_EFFORT)
    states = [part.effort.points or (SearchPoint(0.0, part.objective, part.bound),) for part in parts]
    latest = [points[0] for points in states]

    def total(work: float) -> SearchPoint:
        incumbents, bounds = [point.incumbent for point in latest], [point.bound for point in latest]
        return SearchPoint(work, _weighted(parts, incumbents), _weighted(parts, bounds))

    points = [total(0.0)]
    work = 0.0
    for i, (part, part_points) in enumerate(zip(parts, states, strict=True)):
        for point in part_points[1:]:
            latest[i] = point
            points.append(total(work + point.work))
        work += part.effort.deterministic_seconds
    return replace(effort, points=thinned(points) if effort.points else ())


def _weighted(parts: Sequence[PartialAnswer], values: Sequence[float | None]) -> float | None:
    known = [part.count * value for part, value in zip(parts, values, strict=True) if value is not None]
    return sum(known) if len(known) == len(parts) else None


class InfeasibleSearchError(InfeasibleError):
    """No answer, after searches that took ``effort``."""

    def __init__(self, message: str, effort: Effort) -> None:
        super().__init__(message)
        self.effort = effort
