"""Keeps the log of a planning: what each model answered, what went up as a cut, how the time is spent."""

from __future__ import annotations

import time

from .interrupts import Interrupts
from .options import Listener, ModelRun, Progress, SolveLog


class Record:
    """The log under construction. ``timeout`` in seconds from now; ``listener`` hears of each entry."""

    def __init__(self, timeout: float, listener: Listener | None) -> None:
        self.timeout = timeout
        self.interrupts = Interrupts()
        self._listener = listener
        self._began = time.perf_counter()
        self._runs: list[ModelRun] = []

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.perf_counter() - self._began

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return max(0.0, self.timeout - self.seconds)

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
        ended = "timeout" if self.seconds > self.timeout else "done"
        return SolveLog(tuple(self._runs), self.seconds, "interrupted" if self.interrupts.seen else ended)
