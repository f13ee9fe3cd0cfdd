"""How long the searches of models are: rounds of the loop, and seconds for each model in one of their iterations.

What things take is estimated from counts of operators, and searches are limited in deterministic time, so that a busy
machine comes to the same plan. The wall clock is a safety net.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...ir.plan import Segment, Step
from ..cpsat.backend import DETERMINISTIC_PER_SECOND, NO_SEARCH, Budget
from ..switches import ALL_ON, Disabled
from .plan_builder import PlanRequest

SLACK = 2.0
"""Seconds that loading a model may take. Chosen, not measured."""
SHORT = 5.0
"""Seconds below which a timeout pays for one iteration alone. Chosen, not measured."""
MOST_ITERATIONS = 6
"""Iterations at most in a round; more of them repeat segmentations that were tried. Chosen, not measured."""
MOST_DIVERSIONS = 12
"""Iterations without a segment of the best plan at most in a round. Chosen, not measured."""
SEARCHES = (2.0, 8.0, 32.0)
"""Seconds for one search of a model, by round; with half a second in the first, two layers of BERT at 512 positions
took 5 % more cycles after 20 s, and the same after 60. The last ends any timeout. Chosen."""
SEARCHED: Disabled = frozenset(("segmentation-model", "tiling-model", "residency-model", "banks-model"))
"""What is switched off in a round of hints."""
BANKS_SECONDS = 0.2
"""Seconds for one search of addresses in the memories of a core. Chosen, not measured."""
ENUMERATION_SECONDS = 0.2
"""What the columns of segmentation take for each kind of operator, about, with the first plans: 0.24 for DenseNet-121
at batch 32 on `stcp920`."""
LEAST_ENUMERATION_SECONDS = 0.08
"""Seconds of the timeout for each kind of operator from which on columns are priced, although they take longer.
Chosen: without the models, plans of DenseNet-121 and MobileNet-V2 take two and four times the cycles."""
SINGLE_SECONDS = 0.05
"""What a plan of single operators takes for each kind, about, as these are priced without the runs that they end.
Chosen, not measured."""
FREE_KINDS = 16
"""Kinds of operators for which no timeout is too short. Chosen, not measured."""
PLAN_SECONDS = 0.05
"""What everything below the tiles takes for each operator, equal or not, about: addresses, prediction, check. Chosen,
not measured."""
FREE_OPS = 500
"""Operators for which no timeout is too short. Chosen, not measured."""
ITERATION_SECONDS = 0.2
"""What an iteration takes for each operator, about: searches, prediction and check. Chosen, not measured."""
LIMITED_BY_TIMEOUT = ("segmentation", "tiling", "residency")
"""The models whose searches may take longer if the timeout is longer."""
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

    ``number`` counts from 1; what comes before the first is 0. A model whose switch is in ``disabled`` answers with its
    hint.
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


@dataclass(frozen=True)
class Round:
    """All that is done with so many ``seconds`` for each search of a model; the next round has more of them.

    ``hints``: nothing is searched, models answer with their hints.
    """

    seconds: float
    disabled: Disabled = ALL_ON
    hints: bool = False

    def iteration(self, number: int) -> Iteration:
        """One that is as long as it can be."""
        return self._iteration(number, self.seconds)

    def diversion(self, number: int) -> Iteration:
        """One of many: a quarter of the time."""
        return self._iteration(number, self.seconds / 4)

    def _iteration(self, number: int, seconds: float) -> Iteration:
        return Iteration(number, seconds, seconds, seconds, BANKS_SECONDS, self.disabled)


def rounds(timeout: float, disabled: Disabled = ALL_ON) -> tuple[Round, ...]:
    """The rounds of a search; from :data:`SHORT` on they are the same for all timeouts.

    The first of them is one of hints, unless nothing is searched anyway. Without it, the ten published configurations
    took 0.1 to 3.4 % more cycles after 15 s, and from 0.9 % more to 0.2 % fewer after 60.
    """
    if timeout < SHORT:
        return (Round(0.02 * timeout, disabled),)
    first = () if disabled >= SEARCHED else (Round(0.0, disabled | SEARCHED, hints=True),)
    return (*first, *(Round(seconds, disabled) for seconds in SEARCHES))


def searching(rounds: tuple[Round, ...]) -> Round:
    """The first of the rounds in which models are searched."""
    return next(r for r in rounds if not r.hints)


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
