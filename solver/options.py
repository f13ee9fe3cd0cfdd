"""What a user can ask of the solver, and what it tells while it works and when it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from ..ir.plan import Plan, Solved
from ..ir.semantics.task_graph import TaskGraph
from .effort import Effort, SearchPoint
from .switches import ALL_ON, Disabled, checked

Strategy = Literal["solver", "graphturbo", "graphturbo:order", "graphturbo:l1", "graphturbo:llb", "layerwise"]

STRATEGIES: tuple[Strategy, ...] = (
    "solver", "graphturbo", "graphturbo:order", "graphturbo:l1", "graphturbo:llb", "layerwise",
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """``timeout`` in seconds for all models together. The same seed and timeout give the same plan.

    ``strategy``: "solver" decides everything by its models. The others are there to be compared with: "layerwise" runs
    one operator after the other through main memory, as a compiler without a schedule would; "graphturbo" follows
    published heuristics (see :mod:`girih.solver.baselines.graphturbo`), up to the level that may be named behind a
    colon. ``disabled``: refinements to do without (see :mod:`girih.solver.switches`); :class:`UsageError` if there is
    no such refinement. ``minimise``: "cycles"; or "peak:MEMORY", the bytes of that memory that the plan takes, and the
    cycles with so few of them.
    """

    timeout: float = 60.0
    strategy: Strategy = "solver"
    seed: int = 0
    disabled: Disabled = ALL_ON
    minimise: str = "cycles"

    def __post_init__(self) -> None:
        checked(self.disabled)


@dataclass(frozen=True)
class Progress:
    """Something to tell about one model while it is solved; ``seconds`` since the whole began.

    ``incumbent`` and ``bound`` are in ``unit``.
    """

    model: str
    status: str
    incumbent: float | None
    bound: float | None
    seconds: float
    message: str = ""
    unit: str = ""

    @property
    def gap(self) -> float | None:
        """Distance between incumbent and bound as a share of the incumbent; ``None`` while either is unknown."""
        return relative_gap(self.incumbent, self.bound)


Listener = Callable[[Progress], None]
LiveListener = Callable[[str, float | None, float | None, str], None]
"""Hears of a search while it runs: model, incumbent, bound, unit."""
Judge = Callable[[Plan], int]
"""The cycles of a plan by a simulation of its program."""
Tasks = Callable[[Plan], TaskGraph]
"""The instructions that a plan becomes, before they have an order."""
TOLERANCE = 1e-4
"""A plan is said to take no longer than the lower bound up to this part of it; CP-SAT and others stop at such gaps."""


@dataclass(frozen=True)
class ModelRun:
    """One answer of one model. Objective and bound are in ``unit``; ``None`` where there is none.

    ``status``: optimal, feasible, infeasible, timeout, interrupted or invalid. ``seconds`` is wall time,
    ``deterministic_seconds`` the work that CP-SAT counted. ``note`` says what is special: a cut, a fallback.
    ``timed_out``: the wall clock ended a search for it; ``limited``: its limit in deterministic time did. ``points``:
    incumbent and bound against the work since the run began; of a whole plan: the best plan after it. ``searches``: how
    often CP-SAT ran, with ``variables`` and ``constraints`` in the largest of its models.
    """

    model: str
    status: str
    objective: float | None
    bound: float | None
    seconds: float | None = field(compare=False)
    deterministic_seconds: float
    unit: str
    note: str = ""
    timed_out: bool = False
    limited: bool = False
    points: tuple[SearchPoint, ...] = ()
    searches: int = 0
    variables: int = 0
    constraints: int = 0

    @staticmethod
    def from_solved(solved: Solved, effort: Effort, note: str = "") -> ModelRun:
        """An answer as the plan carries it, and what it took."""
        return ModelRun(
            solved.model, solved.status, solved.objective, solved.bound,
            effort.seconds, effort.deterministic_seconds, solved.unit, note, effort.timed_out,
            effort.limited, effort.points, effort.searches, effort.variables, effort.constraints,
        )  # fmt: skip

    @property
    def gap(self) -> float | None:
        return relative_gap(self.objective, self.bound)


Ending = Literal["optimal", "exhausted", "budget", "fixed", "timeout", "interrupted"]
"""What ended a search.

optimal: the plan takes no longer than the lower bound (up to :data:`TOLERANCE`), by a simulation if there is a judge.
exhausted: all iterations that this version tries were used, or all simulations, and no search had a limit that a longer
timeout moves; better plans may exist. budget: what the timeout pays for was used up, in work and not by the clock.
fixed: the strategy decides without a search. timeout: the wall clock ended the search, or one of a model, so that
another run may find something else. interrupted: the user did. With the last two, the plan is the best so far.
"""


@dataclass(frozen=True)
class SolveLog:
    """All runs of all models in order, and the wall time of the whole.

    Times are here and not in the plan, because the same inputs must give the same plan to the byte. ``seconds`` are
    ``None`` in a log from a file: equal compilations give equal files, too. ``status``: what ended the search;
    ``unpaid``: what a longer timeout would pay for.
    """

    runs: tuple[ModelRun, ...]
    seconds: float | None = field(compare=False)
    status: Ending = "exhausted"
    unpaid: tuple[str, ...] = ()

    @property
    def without_clock(self) -> SolveLog:
        """The same without wall times."""
        return replace(self, runs=tuple(replace(run, seconds=None) for run in self.runs), seconds=None)

    @property
    def is_reproducible(self) -> bool:
        """Whether the same compilation again comes to the same plan."""
        return self.status not in ("timeout", "interrupted")

    @property
    def more_time_helps(self) -> bool:
        """Whether a longer timeout may give a better plan."""
        return self.status in ("budget", "timeout", "interrupted")

    @property
    def reason(self) -> str:
        """What ended the search, and whether more time can help, as a sentence."""
        return {
            "optimal": f"the plan takes no longer than the lower bound (up to {TOLERANCE:.2%}), so that none is better",
            "exhausted": "all iterations that this version tries were used, or all simulations; more time cannot help",
            "budget": "the work that the timeout pays for is done (counted without a clock); a longer one pays for "
            + " and ".join(self.unpaid),
            "fixed": "the strategy decides without a search; more time cannot help",
            "timeout": "the wall clock ended it; a longer timeout or an idle machine may help",
            "interrupted": "the user ended it; more time may help",
        }[self.status]


@dataclass(frozen=True)
class Planned:
    """The plan, and how it was found.

    ``rival``: another plan that is predicted to take hardly more, and may take fewer with an order of queues.
    ``first``: that of the heuristics, if another one was predicted to be better.
    """

    plan: Plan
    log: SolveLog
    rival: Plan | None = None
    first: Plan | None = None


def relative_gap(objective: float | None, bound: float | None) -> float | None:
    """``|objective - bound| / |objective|``; 0 where both are 0, ``None`` where either is unknown."""
    if objective is None or bound is None:
        return None
    if objective == bound:
        return 0.0
    return abs(objective - bound) / max(abs(objective), 1e-9)
