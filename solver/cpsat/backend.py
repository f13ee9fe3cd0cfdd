"""The border to the constraint solver: the only file that imports it.

:class:`Model` is a thin builder: variables, constraints by name, an objective and a hint. Constraints that are added
under ``with model.group("capacity"):`` bear that name, so that an invalid model says which one is wrong.

:func:`solve` is deterministic: one worker, a seed, and a limit in the solver's own deterministic time that is meant to
strike first. The wall clock is a safety net; :attr:`Solution.effort` tells when it struck, and then the answer may
differ on another machine. An interrupt (Ctrl-C) ends the search and keeps the incumbent.

Neither limit bounds the *loading* of a model, so models must be small: at most some 300 tasks with cumulative
constraints, and above 2,000 intervals the linear relaxation is left out. Hints are never repaired (the solver aborts
the process when it does that with one worker).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ortools.sat.python import cp_model

from ..effort import NO_EFFORT, Effort, SearchPoint, thinned

Var: TypeAlias = cp_model.IntVar
"""An integer variable or a Boolean one (0 or 1); ``~b`` negates a Boolean."""
Expr: TypeAlias = "cp_model.LinearExpr | cp_model.IntVar | int"
Interval: TypeAlias = cp_model.IntervalVar
Linear: TypeAlias = "cp_model.BoundedLinearExpression | bool"
Watch: TypeAlias = "Callable[[float | None, float | None], None]"
"""Hears incumbent and bound of a search while it runs; ``None`` while there is none."""
WORK_DIGITS = 9
"""Decimals of deterministic seconds: the solver adds them up in an order that changes the last bits of a sum."""
WATCH_SECONDS = 0.25
"""Between two calls of a watch."""
Status = Literal["optimal", "feasible", "infeasible", "unknown"]

DETERMINISTIC_PER_SECOND = 0.1
"""Deterministic seconds allowed for each second of a budget: few enough that the wall clock rarely strikes. Measured:
one takes ten seconds of wall clock on an idle machine, and up to sixty on a busy one."""
INTERVALS_WITH_RELAXATION = 2000
"""Above this many intervals, loading the linear relaxation takes longer than the search it would help."""


@dataclass(frozen=True)
class Budget:
    """``seconds`` of wall clock at most, and how much ``deterministic`` time (``None``: in proportion)."""

    seconds: float
    deterministic: float | None = None

    @property
    def searches(self) -> bool:
        """Whether there is anything to search with."""
        return self.seconds > 0

    @property
    def limit(self) -> float:
        """The limit in deterministic seconds."""
        return self.seconds * DETERMINISTIC_PER_SECOND if self.deterministic is None else self.deterministic


NO_SEARCH = Budget(0.0, 0.0)
"""A budget with which nothing is searched, not even what presolving finds; parts of it are the same."""


def total(terms: Iterable[Expr]) -> Expr:
    """The sum of the terms."""
    return cp_model.LinearExpr.sum(list(terms))


def weighted(terms: Sequence[Expr], weights: Sequence[int]) -> Expr:
    """The sum of ``weight * term``."""
    return cp_model.LinearExpr.weighted_sum(list(terms), list(weights))


class Model:
    """A constraint model under construction; every number in it is an integer.

    Without ``prepared``, it is searched as it is: no presolve, probing, symmetries or linear relaxation.
    """

    def __init__(self, name: str = "", *, prepared: bool = True) -> None:
        self.proto = cp_model.CpModel()
        self.proto.name = name
        self.intervals = 0
        self.guided = False
        self.prepared = prepared
        self._stack: list[str] = []
        self._hints: dict[int, tuple[Var, int]] = {}

    # Variables.

    def bool(self, name: str) -> Var:
        return self.proto.new_bool_var(name)

    def int(self, lo: int, hi: int, name: str) -> Var:
        """An integer in ``lo .. hi``, both included."""
        return self.proto.new_int_var(lo, hi, name)

    def constant(self, value: int) -> Var:
        return self.proto.new_constant(value)

    def choice(self, values: Sequence[int], name: str) -> Var:
        """An integer out of ``values``."""
        return self.proto.new_int_var_from_domain(cp_model.Domain.from_values(list(values)), name)

    def interval(self, start: Expr, size: Expr, name: str) -> Interval:
        self.intervals += 1
        return self.proto.new_interval_var(start, size, start + size, name)

    # Groups.

    @contextmanager
    def group(self, name: str) -> Generator[None]:
        """Name the constraints added inside."""
        self._stack.append(name)
        try:
            yield
        finally:
            self._stack.pop()

    def _named(self, constraint: cp_model.Constraint, when: Var | None = None) -> None:
        if self._stack:
            constraint.with_name(self._stack[-1])
        if when is not None:
            constraint.only_enforce_if(when)

    # Constraints.

    def add(self, linear: Linear, when: Var | None = None) -> None:
        """A linear comparison, required only if ``when`` is true."""
        self._named(self.proto.add(linear), when)

    def exactly_one(self, literals: Iterable[Var]) -> None:
        self._named(self.proto.add_exactly_one(list(literals)))

    def at_most_one(self, literals: Iterable[Var]) -> None:
        self._named(self.proto.add_at_most_one(list(literals)))

    def any_of(self, literals: Iterable[Var], when: Var | None = None) -> None:
        self._named(self.proto.add_bool_or(list(literals)), when)

    def implication(self, a: Var, b: Var) -> None:
        self._named(self.proto.add_implication(a, b))

    def no_overlap(self, intervals: Iterable[Interval]) -> None:
        self._named(self.proto.add_no_overlap(list(intervals)))

    def cumulative(self, intervals: Sequence[Interval], demands: Sequence[Expr], capacity: Expr) -> None:
        self._named(self.proto.add_cumulative(intervals, demands, capacity))

    def max_equal(self, target: Expr, exprs: Iterable[Expr]) -> None:
        self._named(self.proto.add_max_equality(target, list(exprs)))

    # Objective and guidance.

    def minimize(self, expr: Expr) -> None:
        self.proto.minimize(expr)

    def hint(self, var: Var, value: int) -> None:
        """Try ``value`` first; the last hint of a variable counts."""
        self._hints[var.index] = (var, value)

    def lowest_first(self, variables: Iterable[Var]) -> None:
        """Search by fixing the variable that can be smallest to its smallest value, and nothing else."""
        self.guided = True
        self.proto.add_decision_strategy(list(variables), cp_model.CHOOSE_LOWEST_MIN, cp_model.SELECT_MIN_VALUE)

    def close(self) -> cp_model.CpModel:
        """The finished model, hints included."""
        self.proto.clear_hints()
        for var, value in self._hints.values():
            self.proto.add_hint(var, value)
        return self.proto


@dataclass(frozen=True)
class Solution:
    """What a search ended with; ``objective`` and ``bound`` are ``None`` where there is none.

    ``effort.timed_out``: the wall clock struck before the deterministic limit. ``interrupted``: the user did.
    """

    status: Status
    objective: float | None
    bound: float | None
    effort: Effort
    interrupted: bool = False
    _solver: cp_model.CpSolver | None = field(default=None, repr=False, compare=False)

    @property
    def has_solution(self) -> bool:
        return self.status in ("optimal", "feasible")

    def value(self, expr: Expr) -> int:
        """The value of a variable or an expression in the best solution."""
        if self._solver is None:
            raise RuntimeError(f"a value was asked of a search that found nothing ({self.status})")
        return self._solver.value(expr)

    def true(self, literal: Var) -> bool:
        return self.value(literal) != 0


UNSEARCHED = Solution("unknown", None, None, NO_EFFORT)
"""What a search without a budget answers, so that no model need be built for one."""


@dataclass(frozen=True)
class _Improvement:
    """What a search knew at one of its solutions. ``counted``: the deterministic seconds that it had added up.

    It adds them up seldom; ``propagations`` are counted at once.
    """

    counted: float
    propagations: int
    objective: float
    bound: float


class _Watcher(cp_model.CpSolverSolutionCallback):
    """Notes each solution. Stops the search at the next one once ``stop_requested``, also before it has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.stop_requested = False
        self.improvements: list[_Improvement] = []
        self.latest: tuple[float | None, float | None] = None, None
        """Incumbent and bound, for a watch."""

    def on_bound(self, bound: float) -> None:
        self.latest = self.latest[0], bound

    def on_solution_callback(self) -> None:
        propagations = self.num_binary_propagations + self.num_integer_propagations
        self.improvements.append(
            _Improvement(
                round(self.deterministic_time, WORK_DIGITS),
                propagations,
                self.objective_value,
                self.best_objective_bound,
            )
        )
        self.latest = self.objective_value, self.best_objective_bound
        if self.stop_requested:
            self.stop_search()


def solve(model: Model, *, budget: Budget, seed: int = 0, watch: Watch | None = None) -> Solution:
    """Search for the best solution within ``budget``; ``watch`` sees on, and changes nothing."""
    if not budget.searches:
        return UNSEARCHED
    solver = cp_model.CpSolver()
    p = solver.parameters
    p.num_workers = 1
    p.random_seed = seed % 2**31
    p.linearization_level = 0 if model.intervals > INTERVALS_WITH_RELAXATION else 2
    p.max_deterministic_time = budget.limit
    p.max_time_in_seconds = budget.seconds
    p.catch_sigint_signal = False
    if model.guided:
        p.search_branching = cp_model.FIXED_SEARCH
    if model.guided or not model.prepared:
        # Anything that only prepares or bounds such a search costs more than the search.
        p.linearization_level = 0
        p.cp_model_probing_level = 0
        p.symmetry_level = 0
    p.cp_model_presolve = model.prepared
    closed = model.close()
    began = time.perf_counter()
    watcher = _Watcher()
    if watch is not None and closed.has_objective():
        solver.best_bound_callback = watcher.on_bound
    interrupted = _run(solver, closed, watcher, watch)
    seconds = time.perf_counter() - began
    status = _status(solver, closed)
    has_solution = status in ("optimal", "feasible")
    valued = has_solution and closed.has_objective()
    spent = round(solver.response_proto.deterministic_time, WORK_DIGITS)
    unproven = status in ("feasible", "unknown") and not interrupted
    timed_out = unproven and spent < budget.limit
    objective = solver.objective_value if valued else None
    bound = solver.best_objective_bound if closed.has_objective() and status != "infeasible" else None
    points = _points(solver, watcher.improvements, SearchPoint(spent, objective, bound)) if valued else ()
    size = len(closed.proto.variables), len(closed.proto.constraints)
    return Solution(
        status=status,
        objective=objective,
        bound=bound,
        effort=Effort(seconds, spent, timed_out, unproven and not timed_out, points, 1, *size),
        interrupted=interrupted,
        _solver=solver if has_solution else None,
    )


def _points(
    solver: cp_model.CpSolver, improvements: Sequence[_Improvement], last: SearchPoint
) -> tuple[SearchPoint, ...]:
    """Incumbent and bound against work: at each solution, and ``last``.

    The work up to a solution is in proportion to its propagations, because the solver does not say it.
    """
    response = solver.response_proto
    propagations = max(1, response.num_binary_propagations + response.num_integer_propagations)
    points: list[SearchPoint] = []
    for known in improvements:
        share = min(1.0, known.propagations / propagations)
        work = round(known.counted + share * (last.work - known.counted), WORK_DIGITS)
        points.append(SearchPoint(work, known.objective, known.bound))
    return thinned((*points, last))


def _run(solver: cp_model.CpSolver, model: cp_model.CpModel, watcher: _Watcher, watch: Watch | None) -> bool:
    """Search in a thread, so that an interrupt reaches this one; whether there was an interrupt.

    ``watch`` is called here, a few times a second, if there is something new.
    """
    failures: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            solver.solve(model, watcher)
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    threading.Thread(target=work, daemon=True).start()
    interrupted = False
    last_report = watcher.latest
    while not done.is_set():
        try:
            done.wait(None if watch is None else WATCH_SECONDS)
            if watch is not None and watcher.latest != last_report:
                last_report = watcher.latest
                watch(*last_report)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = watcher.stop_requested = True
            solver.stop_search()
        except BaseException:
            watcher.stop_requested = True
            solver.stop_search()
            raise
    if failures:
        raise failures[0]
    return interrupted


def _status(solver: cp_model.CpSolver, model: cp_model.CpModel) -> Status:
    match solver.response_proto.status:
        case cp_model.OPTIMAL:
            return "optimal"
        case cp_model.FEASIBLE:
            return "feasible"
        case cp_model.INFEASIBLE:
            return "infeasible"
        case cp_model.UNKNOWN:
            return "unknown"
        case other:
            raise RuntimeError(f"model {model.name!r}: the solver answers {other}: {model.validate()}")
