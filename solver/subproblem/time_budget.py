"""How a timeout is spent: iterations of the loop, and seconds for each model in one of them.

What things take is estimated from counts of operators, and searches are limited in deterministic time, so that a busy
machine comes to the same plan. The wall clock is a safety net.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ...ir.plan import Segment, Step
from ..cpsat.backend import DETERMINISTIC_PER_SECOND, NO_SEARCH, Budget
from ..options import ModelRun
from ..switches import ALL_ON, Disabled
from .plan_builder import PlanRequest

SLACK = 2.0
"""Seconds that loading a model may take. Chosen, not measured."""
SHORT = 5.0
"""Seconds below which a timeout pays for one iteration alone. Chosen, not measured."""
PATIENT = 15.0
"""Timeouts from so many seconds on pay for searches under smaller capacities, each as long as the whole; chosen."""
MOST_ITERATIONS = 6
"""Iterations at most; more of them repeat segmentations that were tried. Chosen, not measured."""
MOST_DIVERSIONS = 12
"""Iterations without a segment of the best plan at most. Chosen, not measured."""
ENUMERATION_SECONDS = 0.2
"""What the columns of segmentation take for each kind of operator, about, with the first plans. Chosen, not
measured."""
FREE_KINDS = 16
"""Kinds of operators for which no timeout is too short. Chosen, not measured."""
PLAN_SECONDS = 0.05
"""What everything below the tiles takes for each operator, equal or not, about: addresses, prediction, check. Chosen,
not measured."""
FREE_OPS = 500
"""Operators for which no timeout is too short. Chosen, not measured."""
LONGEST_SEARCH = 60.0
"""Seconds for one search of one model at most, so that any timeout ends: iterations look elsewhere instead. Chosen, not
measured."""
ITERATION_SECONDS = 0.2
"""What an iteration takes for each operator, about: searches, prediction and check. Chosen, not measured."""
LIMITED_BY_TIMEOUT = ("segmentation", "tiling", "residency")
"""The models whose searches may take longer if the timeout is longer."""
COUNTED_KIND, COUNTED_PLAN, COUNTED_SEARCH = 0.05, 0.02, 4.0
"""Seconds of a search for each kind of operator, for each operator of each plan, and for each second of CP-SAT's work:
what networks of 4 to 23 operators took on `tiny` with 32 to 256 KiB, 0.5 to 6 s, up to a factor of about 2."""
WALL_CLOCK_SLOWER = 12
"""How many times slower than an idle one a machine may be before the wall clock ends a search of a model; chosen: it
has to bear with as many workers as there are cores, beside other work."""
WALL_CLOCK_FACTOR = 3.0
"""The wall clock ends the search after so many times the timeout: a safety net for busy machines.

It is never less than so many times the first iteration: that should run in any case, whatever the load. Chosen, not
measured.
"""


@dataclass(frozen=True)
class Iteration:
    """One pass from segmentation to a plan, and the seconds for each model.

    ``number`` counts from 1; what comes before the first is 0. ``disabled``: switches, of which those of models leave
    them their hints.
    """

    number: int
    segmentation: float
    tiling: float
    residency: float
    banks: float
    disabled: Disabled = ALL_ON

    def budget(self, model: Literal["segmentation", "tiling", "residency", "banks"], seconds: float) -> Budget:
        """What a search of the model for about so many seconds may take."""
        return NO_SEARCH if f"{model}-model" in self.disabled else budget(seconds)

    def request(self, segments: tuple[Segment, ...], steps: tuple[Step, ...], *, layerwise: bool) -> PlanRequest:
        """What everything below the tiles is asked in this iteration."""
        return PlanRequest(
            segments, steps, layerwise,
            local=self.budget("banks", self.banks),
            residency=self.budget("residency", self.residency),
            again=self.budget("residency", self.residency / 4),
            shared=self.budget("banks", self.residency / 4),
        )  # fmt: skip


def iterations(timeout: float, ops: int, kinds: int, disabled: Disabled = ALL_ON) -> tuple[Iteration, ...]:
    """The iterations that a timeout pays for in a graph of so many operators of so many kinds.

    The estimate, not the clock, decides, so that a busy machine comes to the same plan.
    """
    if timeout < SHORT:
        return (Iteration(1, 0.02 * timeout, 0.02 * timeout, 0.02 * timeout, 0.02, disabled),)
    number = max(1, min(MOST_ITERATIONS, _paid(timeout, ops, kinds)))
    share = search_seconds(timeout)
    return tuple(Iteration(n + 1, share, share, share, 0.2, disabled) for n in range(number))


def search_seconds(timeout: float) -> float:
    """What one search of a model may take in an iteration."""
    return min(0.1 * timeout, LONGEST_SEARCH)


def diversions(timeout: float, ops: int, kinds: int, disabled: Disabled = ALL_ON) -> tuple[Iteration, ...]:
    """The iterations that a timeout pays for after :func:`iterations`; each searches for a quarter of the time."""
    if timeout < SHORT:
        return ()
    first = len(iterations(timeout, ops, kinds))
    number = max(0, min(MOST_DIVERSIONS, _paid(timeout, ops, kinds) - first))
    share = search_seconds(timeout) / 4
    return tuple(Iteration(first + n + 1, share, share, share, 0.2, disabled) for n in range(number))


def _paid(timeout: float, ops: int, kinds: int) -> int:
    return int((timeout - ENUMERATION_SECONDS * kinds) / (ITERATION_SECONDS * max(1, ops)))


def counted_seconds(runs: Iterable[ModelRun], ops: int, kinds: int) -> float:
    """About what a search with these runs took, counted without a clock."""
    runs = tuple(runs)
    plans = sum(run.model == "plan" for run in runs)
    searched = sum(run.deterministic_seconds for run in runs)
    return COUNTED_KIND * kinds + COUNTED_PLAN * plans * ops + COUNTED_SEARCH * searched


def budget(seconds: float) -> Budget:
    """About so many seconds, counted in deterministic time; the wall clock strikes only long after."""
    return Budget(SLACK + WALL_CLOCK_SLOWER * seconds, DETERMINISTIC_PER_SECOND * seconds)


def affords(timeout: float, seconds: float, ops: int, kinds: int) -> bool:
    """Whether a timeout is at least the :func:`cost`."""
    return timeout >= cost(seconds, ops, kinds)


def cost(seconds: float, ops: int, kinds: int) -> float:
    """So many seconds for each kind of operator beyond :data:`FREE_KINDS`, and those that another plan of more than
    :data:`FREE_OPS` operators takes."""
    return seconds * max(0, kinds - FREE_KINDS) + PLAN_SECONDS * max(0, ops - FREE_OPS)
