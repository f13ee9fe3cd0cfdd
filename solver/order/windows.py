"""CP-SAT on windows of a schedule, several side by side, as long as that helps.

Timing the whole anew, with links and all, takes as long as several windows, so many of them, side by side in one
schedule, are solved before their answers are timed together; they count if the whole takes fewer cycles. Until then
they are independent questions, for workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from ...ir.graph import Graph
from ..cpsat.backend import Budget
from ..effort import NO_EFFORT, Effort, SearchPoint, thinned
from ..parallel.workers import Workers
from .list_schedule import OrderProblem, Schedule
from .model import Window, Windows, improved

WINDOW_TASKS = 400
"""Tasks of a window: most are solved to optimality in a tenth of a second; with 1,200 fewer are, and less is gained."""
WINDOW_LIMIT = 0.05
"""Deterministic seconds for a window."""
WINDOW_WALL_CLOCK = 10.0
"""Seconds after which the clock ends a window; its deterministic limit is to come long before."""
FEWEST_WINDOWS = 4
"""With fewer windows at one time, workers are not asked. Chosen."""
WINDOW_SECONDS, TASK_SECONDS = 0.1, 1e-5
"""About what a window takes that is not known to be optimal, and timing anew for each task of the whole: measured on
DenseNet-121, Conformer and MobileNet-V2 of 50,000 to 75,000 tasks, 0.07 to 0.14 and 0.4e-5 to 1e-5."""
SOLVING_OVER_TIMING = 4
"""How many times longer windows are solved than their answers are timed; chosen."""


def improve_windows(
    problem: OrderProblem, best: Schedule, seconds: float, seed: int, workers: Workers | None
) -> tuple[Schedule, Effort]:
    """Improve a schedule by windows side by side, then by those between them, as long as the seconds last and that
    helps."""
    effort = NO_EFFORT
    count = len(best.order)
    retiming = TASK_SECONDS * count
    seconds -= retiming
    together = max(1, ceil(SOLVING_OVER_TIMING * retiming / WINDOW_SECONDS))
    offset, fruitless = 0, 0
    while fruitless < 2:
        before = best.cycles
        for places in batched_windows(count, offset, together):
            schedule = Windows(problem, best)
            windows = {place: window for place in places if (window := schedule.window(place)).can_be_shorter}
            seconds -= WINDOW_SECONDS * len(windows) + retiming
            if seconds < 0:
                # A longer timeout pays for more windows.
                return best, replace(effort, limited=True)
            answers: dict[range, tuple[int, ...]] = {}
            for place, answer in zip(windows, _answers(list(windows.values()), seed, workers), strict=True):
                effort += replace(answer.effort, points=())
                if answer.interrupted:
                    return best, effort
                if answer.tasks is not None:
                    answers[place] = answer.tasks
            timed = with_answers(problem, best, answers)
            if timed.cycles < best.cycles:
                best = timed
                point = SearchPoint(effort.deterministic_seconds, best.cycles, None)
                effort = replace(effort, points=thinned((*effort.points, point)))
        fruitless = 0 if best.cycles < before else fruitless + 1
        offset = WINDOW_TASKS // 2 - offset
    return best, effort


@dataclass(frozen=True)
class WindowAnswer:
    """The tasks of a window in a better order, if there is one."""

    tasks: tuple[int, ...] | None
    effort: Effort
    interrupted: bool


@dataclass(frozen=True)
class WindowQuestion:
    """A window as a worker solves it."""

    window: Window
    seed: int

    def answer(self, graph: Graph, kept: dict[Any, Any]) -> WindowAnswer:
        del graph, kept
        return solve_window(self.window, self.seed)


def solve_window(window: Window, seed: int) -> WindowAnswer:
    """Search a window up to its deterministic limit."""
    tasks, solution = improved(window, Budget(WINDOW_WALL_CLOCK, WINDOW_LIMIT), seed)
    return WindowAnswer(tasks, solution.effort, solution.interrupted)


def _answers(windows: Sequence[Window], seed: int, workers: Workers | None) -> Iterator[WindowAnswer]:
    """Of each window in turn, by workers if there are several of both; what these do not answer is solved here.

    An interrupt while workers solve is an answer that is ``interrupted``, as it is in this process; it is the last one.
    """
    by_workers: Sequence[WindowAnswer | None] = [None] * len(windows)
    if workers is not None and not workers.idle and len(windows) >= FEWEST_WINDOWS:
        try:
            by_workers = workers.answers([WindowQuestion(window, seed) for window in windows])
        except KeyboardInterrupt:
            yield WindowAnswer(None, NO_EFFORT, interrupted=True)
            return
    for window, answer in zip(windows, by_workers, strict=True):
        yield solve_window(window, seed) if answer is None else answer


def batched_windows(count: int, offset: int, together: int) -> Iterator[list[range]]:
    """Windows of ``count`` places that follow each other, the first one shorter by ``offset``, so many at a time."""
    firsts = range(-offset if offset < count else 0, count, WINDOW_TASKS)
    windows = [range(max(0, first), min(count, first + WINDOW_TASKS)) for first in firsts]
    for first in range(0, len(windows), together):
        yield windows[first : first + together]


def with_answers(problem: OrderProblem, best: Schedule, answers: Mapping[range, tuple[int, ...]]) -> Schedule:
    """The better one of a schedule and that with the answers of windows, or else with either half of them.

    Each answer is for a whole with no other: together they may take longer, as transfers then meet on links.
    """
    if not answers:
        return best
    places, half = list(answers), len(answers) // 2
    for some in (places, places[:half], places[half:]) if half else (places,):
        order = list(best.order)
        for window in some:
            order[window.start : window.stop] = answers[window]
        timed = problem.in_order(order)
        if timed.cycles < best.cycles:
            return timed
    return best
