"""CP-SAT on windows of a schedule, from its begin to its end, again and again as long as that helps.

A few windows are solved at a time, independent questions for workers. Each answer is judged by the longest path
through its window and what comes behind it (:mod:`.timed_order`), and one that helps is given to all tasks behind the
window that are equal to its own (:mod:`.equal_tasks`), which are judged in the same way and mostly need not be searched
any more. Changes for which the whole takes longer, farther behind them, are undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from ...ir.graph import Graph
from ..cpsat.backend import Budget
from ..effort import NO_EFFORT, Effort, SearchPoint, thinned
from ..parallel.workers import Workers
from .equal_tasks import EqualTasks
from .list_schedule import OrderProblem, Schedule
from .model import Window, improved
from .timed_order import LOOK_AHEAD, TimedOrder

WIDTHS = (200, 400)
"""Tasks of a window: of 200, most are solved to optimality in less than a tenth of a second; those of 400 are searched
where the others gain nothing any more."""
TASK_LIMIT = 1.25e-4
"""Deterministic seconds for each task of a window."""
WINDOW_WALL_CLOCK = 10.0
"""Seconds after which the clock ends a window; its deterministic limit is to come long before."""
TOGETHER = 4
"""Windows that are solved before their answers are judged. Chosen."""
SEARCH_SECONDS, JUDGING_SECONDS, TIMING_SECONDS = 1e-4, 1e-5, 3e-5
"""About what each task of a window takes before it is searched, each that an answer or a copy is judged by, and each of
the whole in a pass."""
WORK_SECONDS = 4.0
"""About how many seconds a deterministic second of a search takes."""
ROUNDING = 1e-6
"""Cycles by which sums of the same path may differ."""
COVERED = 0.75
"""A window of which such a part has been given the order of equal tasks is not searched. Chosen."""
SPREAD = 3
"""Equal tasks are left as they are if they are among more than so many times as many others. Chosen."""


class WindowSearch(NamedTuple):
    """The best schedule, what it took to find it, and whether the user ended the search."""

    schedule: Schedule
    effort: Effort
    interrupted: bool


def improve_windows(
    problem: OrderProblem, best: Schedule, seconds: float, seed: int, workers: Workers | None
) -> WindowSearch:
    """Improve a schedule by windows one behind the other, then by those between them, as long as the seconds last and
    that helps; then by wider ones."""
    equal, effort = EqualTasks(problem), NO_EFFORT
    for width in WIDTHS:
        offset, fruitless = 0, 0
        while fruitless < 2:
            seconds -= TIMING_SECONDS * len(best.order)
            if seconds < 0:
                return WindowSearch(best, replace(effort, limited=True), interrupted=False)
            one = WindowPass(problem, best, equal)
            one.search(pass_windows(len(best.order), width, offset), seconds, seed, workers)
            seconds -= one.seconds
            effort += one.effort
            if one.interrupted:
                return WindowSearch(best, effort, interrupted=True)
            # A longer timeout pays for more windows.
            effort = replace(effort, limited=effort.limited or one.unpaid)
            fruitless += 1
            if (
                one.order.tasks != list(best.order)
                and (timed := problem.in_order(one.order.tasks)).cycles < best.cycles
            ):
                best, fruitless = timed, 0
                point = SearchPoint(effort.deterministic_seconds, best.cycles, None)
                effort = replace(effort, points=thinned((*effort.points, point)))
            offset = width // 2 - offset
    return WindowSearch(best, effort, interrupted=False)


class WindowPass:
    """One pass of windows over the order of a schedule, and what it took in counted ``seconds``.

    ``unpaid``: there were more windows to search, or more copies to try, than the seconds paid for.
    """

    def __init__(self, problem: OrderProblem, schedule: Schedule, equal: EqualTasks) -> None:
        self.order = TimedOrder(problem, schedule)
        self.seconds, self.effort = 0.0, NO_EFFORT
        self.unpaid, self.interrupted = False, False
        # What the whole takes with the changes that are kept, and the place at which it took that.
        self._least, self._least_place, self._least_state = schedule.cycles, 0, self.order.state
        self._changed = False
        self._equal = equal
        # (the place of the first, which copy, its tasks in the order to try)
        self._copies: list[tuple[int, int, tuple[int, ...]]] = []
        self._numbers = count()
        self._copied = np.zeros(len(schedule.order), dtype=np.bool_)
        self._least_copied = self._copied.copy()

    def search(self, windows: Sequence[range], seconds: float, seed: int, workers: Workers | None) -> None:
        """Change the order by windows, given by their places, and by copies where the seconds pay for no more."""
        for first in range(0, len(windows), TOGETHER):
            together = windows[first : first + TOGETHER]
            self._keep_or_undo(together[0].start, LOOK_AHEAD)
            self._try_copies(together[-1].stop)
            questions: dict[range, Window] = {}
            for places in together:
                takes = SEARCH_SECONDS * len(places)
                if self.unpaid or self._is_copy(places) or not (window := self.order.window(places)).can_be_shorter:
                    continue
                self.unpaid = self.seconds + takes > seconds
                if not self.unpaid:
                    questions[places] = window
                    self.seconds += takes
            for places, answer in zip(questions, _answers(list(questions.values()), seed, workers), strict=True):
                # Longer timeouts do not give a window more.
                self.effort += replace(answer.effort, points=(), limited=False)
                self.seconds += WORK_SECONDS * answer.effort.deterministic_seconds
                if answer.interrupted:
                    self.interrupted = True
                    return
                if answer.tasks is None:
                    continue
                self.seconds += self._judging_seconds(answer.tasks)
                if self._change(answer.tasks):
                    self._copy(answer.tasks, places.start, seconds)
        self._keep_or_undo(len(self.order.tasks), 0)

    def _change(self, tasks: Sequence[int]) -> bool:
        """Change the order if that helps."""
        changed = self.order.change(tasks)
        self._changed |= changed
        return changed

    def _keep_or_undo(self, place: int, patience: int) -> None:
        """Keep the changes so far if the whole takes no more cycles since. If it takes more, and took as few as before
        the changes at none of the last ``patience`` places, undo the changes since then, unless it takes more without.

        Each change helped those behind it that it was judged by. Transfers that begin at other times meet others on
        links, ever farther behind it.
        """
        cycles = self.order.cycles_at(place)
        if cycles <= self._least + ROUNDING:
            self._keep(place, min(cycles, self._least))
        elif self._changed and place - self._least_place > patience:
            changed, copied = self.order.state, self._copied
            self.order.go_back(self._least_state)
            self._copied = self._least_copied
            without = self.order.cycles_at(place)
            if without > cycles:
                self.order.go_back(changed)
                self._copied = copied
            self._keep(place, min(cycles, without))

    def _keep(self, place: int, cycles: float) -> None:
        """Changes so far are not undone any more; with them, the whole takes so many cycles at this place."""
        if self._changed:
            self._least_state, self._least_copied, self._changed = self.order.state, self._copied.copy(), False
        self._least, self._least_place = cycles, place

    def _judging_seconds(self, tasks: Sequence[int]) -> float:
        return JUDGING_SECONDS * min(len(tasks) + LOOK_AHEAD, len(self.order.tasks))

    def _is_copy(self, places: range) -> bool:
        """Whether most tasks at these places have been given the order of equal ones."""
        return bool(np.mean(self._copied[self.order.tasks[places.start : places.stop]]) > COVERED)

    def _copy(self, tasks: tuple[int, ...], place: int, seconds: float) -> None:
        """Try this order on all equal tasks behind this place that the seconds pay for, when the pass comes to them."""
        takes = self._judging_seconds(tasks)
        for copy in self._equal.copies(tasks):
            first = self.order.places(copy)[0]
            if first <= place:
                continue
            if self.seconds + takes > seconds:
                self.unpaid = True
                return
            self.seconds += takes
            heappush(self._copies, (first, next(self._numbers), copy))

    def _try_copies(self, place: int) -> None:
        """Try the order of equal tasks on those that begin before this place."""
        while self._copies and self._copies[0][0] < place:
            _, _, copy = heappop(self._copies)
            places = self.order.places(copy)
            if places[-1] + 1 - places[0] > SPREAD * len(copy):
                continue
            if self.order.has(copy) or self._change(copy):
                self._copied[list(copy)] = True


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
    tasks, solution = improved(window, Budget(WINDOW_WALL_CLOCK, TASK_LIMIT * len(window.tasks)), seed)
    return WindowAnswer(tasks, solution.effort, solution.interrupted)


def _answers(windows: Sequence[Window], seed: int, workers: Workers | None) -> Iterator[WindowAnswer]:
    """Of each window in turn, by workers if there are several of both; what these do not answer is solved here.

    An interrupt while workers solve is an answer that is ``interrupted``, as it is in this process; it is the last one.
    """
    by_workers: Sequence[WindowAnswer | None] = [None] * len(windows)
    if workers is not None and not workers.idle and len(windows) > 1:
        try:
            by_workers = workers.answers([WindowQuestion(window, seed) for window in windows])
        except KeyboardInterrupt:
            yield WindowAnswer(None, NO_EFFORT, interrupted=True)
            return
    for window, answer in zip(windows, by_workers, strict=True):
        yield solve_window(window, seed) if answer is None else answer


def pass_windows(places: int, width: int, offset: int) -> list[range]:
    """Windows of so many places that follow each other, the first one shorter by ``offset``."""
    firsts = range(-offset if offset < places else 0, places, width)
    return [range(max(0, first), min(places, first + width)) for first in firsts]
