"""Keeps the log of a planning: what each model answered, what went up as a cut, how the time is spent."""

from __future__ import annotations

import time

from ..options import Listener, ModelRun, Progress, SolveLog
from .interrupts import Interrupts


class Record:
    """The log under construction. ``timeout`` in seconds from now; ``listener`` hears of each entry."""

    def __init__(self, timeout: float, listener: Listener | None) -> None:
        self.timeout = timeout
        self.interrupts = Interrupts()
        self._listener = listener
        self._began = time.perf_counter()
        self._runs: list[ModelRun] = []
        self._struck = False

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.perf_counter() - self._began

    def over(self) -> bool:
        """Whether the budget is used up; who asks ends the search then, so that it is remembered."""
        self._struck = self._struck or self.seconds > self.timeout
        return self._struck

    def run(self, run: ModelRun) -> None:
        """One answer of one model."""
        self._runs.append(run)
        self.tell(run.model, run.status, run.objective, run.bound, run.note)

    def tell(
        self, model: str, status: str, incumbent: float | None = None, bound: float | None = None, message: str = ""
    ) -> None:
        """Something that is only worth a line on the screen."""
        if self._listener is not None:
            self._listener(Progress(model, status, incumbent, bound, self.seconds, message))

    def cut(self, model: str, why: str) -> None:
        """A lower model refused what ``model`` decided."""
        self.run(ModelRun(model, "infeasible", None, None, 0.0, 0.0, "", f"cut: {why}"))

    def log(self) -> SolveLog:
        """All of it. A planning that took longer than its budget is done all the same, if nothing was left out."""
        ended = "timeout" if self._struck or any(run.timed_out for run in self._runs) else "done"
        return SolveLog(tuple(self._runs), self.seconds, "interrupted" if self.interrupts.seen else ended)
