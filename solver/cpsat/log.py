"""Keeps the log of a planning: what each model answered, what went up as a cut, how the time is spent."""

from __future__ import annotations

import time

from ..options import Ending, Listener, ModelRun, Progress, SolveLog
from .interrupts import Interrupts


class Record:
    """The log under construction. ``timeout`` in seconds from now; ``listener`` hears of each entry."""

    def __init__(self, timeout: float, listener: Listener | None) -> None:
        self.timeout = timeout
        self.interrupts = Interrupts()
        self._listener = listener
        self._began = time.perf_counter()
        self._runs: list[ModelRun] = []
        self._own_runs: list[ModelRun] = []
        self._struck = False

    @property
    def runs(self) -> tuple[ModelRun, ...]:
        """What was logged so far."""
        return tuple(self._runs)

    @property
    def own_runs(self) -> tuple[ModelRun, ...]:
        """What was logged so far, without what came from parts."""
        return tuple(self._own_runs)

    def part(self) -> Record:
        """The record of a search within this one, which the same interrupts and the same clock end; it tells nobody."""
        part = Record(self.timeout - self.seconds, None)
        part.interrupts = self.interrupts
        return part

    def include(self, part: Record) -> None:
        """Add what the models answered in a part, without its plans: they are none of this search."""
        self._runs += [run for run in part.runs if run.model != "plan"]
        self._struck = self._struck or part.over()

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
        self._own_runs.append(run)
        self.tell(run.model, run.status, run.objective, run.bound, run.note, run.unit)

    def tell(
        self,
        model: str,
        status: str,
        incumbent: float | None = None,
        bound: float | None = None,
        message: str = "",
        unit: str = "",
    ) -> None:
        """Something that is only worth a line on the screen."""
        if self._listener is None:
            return
        try:
            self._listener(Progress(model, status, incumbent, bound, self.seconds, message, unit))
        except KeyboardInterrupt:
            # A listener may end the search in the user's name.
            self.interrupts.seen = True
            raise

    def watch(self, model: str, incumbent: float | None, bound: float | None, unit: str) -> None:
        """What a search knows while it runs."""
        self.tell(model, "running", incumbent, bound, unit=unit)

    def cut(self, model: str, why: str) -> None:
        """A lower model refused what ``model`` decided."""
        self.run(ModelRun(model, "infeasible", None, None, 0.0, 0.0, "", f"cut: {why}"))

    def log(self, ending: Ending = "exhausted", unpaid: tuple[str, ...] = ()) -> SolveLog:
        """All of it. ``ending`` and ``unpaid`` are those of a search that neither the user nor the clock ended.

        A planning that took longer than its budget is not ended by the clock, if nothing was left out.
        """
        if self._struck or any(run.timed_out for run in self._runs):
            ending, unpaid = "timeout", ()
        if self.interrupts.seen:
            ending, unpaid = "interrupted", ()
        return SolveLog(tuple(self._runs), self.seconds, ending, unpaid)

    @property
    def limited(self) -> tuple[str, ...]:
        """The models of which a search came to its deterministic limit."""
        return tuple(dict.fromkeys(run.model for run in self._runs if run.limited))
