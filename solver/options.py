"""What a user can ask of the solver, and what it tells while it works and when it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..ir.plan import Plan, Solved
from .effort import Effort
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
    no such refinement.
    """

    timeout: float = 60.0
    strategy: Strategy = "solver"
    seed: int = 0
    disabled: Disabled = ALL_ON

    def __post_init__(self) -> None:
        checked(self.disabled)


@dataclass(frozen=True)
class Progress:
    """Something to tell about one model while it is solved; ``seconds`` since the whole began."""

    model: str
    status: str
    incumbent: float | None
    bound: float | None
    seconds: float
    message: str = ""

    @property
    def gap(self) -> float | None:
        """Distance between incumbent and bound as a share of the incumbent; ``None`` while either is unknown."""
        return relative_gap(self.incumbent, self.bound)


Listener = Callable[[Progress], None]


@dataclass(frozen=True)
class ModelRun:
    """One answer of one model. Objective and bound are in ``unit``; ``None`` where there is none.

    ``status``: optimal, feasible, infeasible, timeout, interrupted or invalid. ``seconds`` is wall time,
    ``deterministic_seconds`` the work that CP-SAT counted. ``note`` says what is special: a cut, a fallback.
    ``timed_out``: the wall clock ended a search for it.
    """

    model: str
    status: str
    objective: float | None
    bound: float | None
    seconds: float
    deterministic_seconds: float
    unit: str
    note: str = ""
    timed_out: bool = False

    @staticmethod
    def of(solved: Solved, effort: Effort, note: str = "") -> ModelRun:
        """An answer as the plan carries it, and what it took."""
        return ModelRun(
            solved.model, solved.status, solved.objective, solved.bound,
            effort.seconds, effort.deterministic_seconds, solved.unit, note, effort.timed_out,
        )  # fmt: skip

    @property
    def gap(self) -> float | None:
        return relative_gap(self.objective, self.bound)


@dataclass(frozen=True)
class SolveLog:
    """All runs of all models in order, and the wall time of the whole.

    Times are here and not in the plan, because the same inputs must give the same plan to the byte.
    """

    runs: tuple[ModelRun, ...]
    seconds: float
    status: str = "done"
    """done, timeout or interrupted.

    timeout: the wall clock ended the search, or one of a model, so that another run may find something else.
    interrupted: the user did. The plan is the best so far.
    """


@dataclass(frozen=True)
class Planned:
    """The plan, and how it was found."""

    plan: Plan
    log: SolveLog


def relative_gap(objective: float | None, bound: float | None) -> float | None:
    """``|objective - bound| / |objective|``; 0 where both are 0, ``None`` where either is unknown."""
    if objective is None or bound is None:
        return None
    if objective == bound:
        return 0.0
    return abs(objective - bound) / max(abs(objective), 1e-9)
