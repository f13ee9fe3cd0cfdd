"""A search: the loop among the five models, in rounds; anytime and deterministic.

    segmentation → tiling → pipeline → residency → banks → timeline and check → plan
       master      '------------------------ subproblem -----------------------'

It begins with the plan of published heuristics, so that there is one soon and none that is worse comes out. Then all
columns of segmentation are priced, once; workers begin with that while the heuristics plan.

A search is a sequence of *rounds*. In the first, models answer with their hints, and there are iterations
(:mod:`.benders`) alone: searches take most of an iteration, and changes of its plan are worth more. Once, where shared
memory costs a segmentation much, two iterations look farther: with path and residency that improve each other, and with
groups of segments that take turns. In the other rounds, models are searched, and after the iterations, segmentation
does without one segment of the best plan at a time, up to 12 times (``MOST_DIVERSIONS``); where no segments of several
operators are feasible, each operator is one (:mod:`.single_operators`). Then plans for less memory are tried
(:mod:`.smaller_memories`), and at last segments are excluded one after the other and for good, of each plan the longest
(:mod:`.excluded_segments`): every answer is a segmentation that was not looked at before. Whatever finds a better plan
is followed by changes of that (:mod:`.changes.local_search`). Where searches came to their limit, the next round gives
them four times as long; it goes beyond its iterations only if these find a better plan.

The incumbent is the best plan so far; each step can only improve it. From 5 s on, and from what pays for columns of
segmentation, a timeout ends the sequence of steps and changes nothing else in it (:mod:`.spending`), so that the same
inputs give the same plan, and more time no worse one. The wall clock only ends what takes far longer than that.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from ...ir.bounds.lower_bound import lower_bound
from ...ir.equivalence import EquivalenceClasses
from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan
from ..baselines.graphturbo import LEVELS, Heuristics
from ..cpsat.log import Record
from ..options import Ending, Judge, Listener, Options, Planned
from ..parallel.workers import Workers
from ..segmentation.candidates import Candidates
from ..segmentation.solve import Segmentation
from ..subproblem.subproblem import Subproblem
from ..subproblem.tiling_alternatives import KnownTiles
from ..subproblem.time_budget import (
    ENUMERATION_SECONDS,
    ITERATION_SECONDS,
    LEAST_ENUMERATION_SECONDS,
    LIMITED_BY_TIMEOUT,
    MOST_ITERATIONS,
    SEARCHES,
    SHORT,
    SINGLE_SECONDS,
    WALL_CLOCK_FACTOR,
    Round,
    affords,
    cost,
    rounds,
    searching,
)
from .benders import MOST_CUTS_FARTHER, Decomposition
from .changes.local_search import improve
from .changes.plan_neighbourhood import Neighbourhood
from .excluded_segments import Diversions, exclude_for_good, exclude_one_at_a_time
from .incumbent import Incumbent, OutOfTimeError
from .master import Cuts, Extent, Master
from .precheck import check_smallest, unproven
from .referee import Referee
from .single_operators import plan_single_operators
from .smaller_memories import SmallerMemories, WholeMachine
from .spending import Spending, WorkCounters

LESS_MEMORY_SECONDS = 5.0
"""What a search for less memory may take, counted, beyond the first iterations of its rounds; chosen, so that many of
them fit into a minute."""
COLUMNS = "columns of segments"
"""The kind of the first step, which is never refused."""
LEAST_GAP = 1.02
"""Segmentations that look farther are tried where the first costs so many times its bound, which knows no room of
shared memory but each column's own. Chosen, not measured."""
LEAST_GAIN = 1.02
"""Segmentations with groups are evaluated if those without cost so many times more. Chosen: the models below do not
keep a smaller promise."""
ITERATIONS = "iterations"
FARTHER = "segmentations that look farther"
LOCAL_CHANGES, LESS_MEMORY = "changes of the best plan", "plans for less memory"
"""Kinds of steps, as users read them after "more"."""


def solve_plan(
    graph: Graph, machine: Machine, options: Options, progress: Listener | None, judge: Judge | None = None,
    workers: Workers | None = None,
) -> Planned:  # fmt: skip
    """See :func:`girih.solver.plan`."""
    record = Record(longest_seconds(graph, options.timeout), progress)
    with record.interrupts.watch():
        return search_plan(graph, machine, options, record, judge, workers=workers)


def longest_seconds(graph: Graph, timeout: float) -> float:
    """When the wall clock ends a search."""
    return WALL_CLOCK_FACTOR * max(timeout, (ENUMERATION_SECONDS + ITERATION_SECONDS) * len(graph.ops))


def search_plan(
    graph: Graph, machine: Machine, options: Options, record: Record, judge: Judge | None = None, *,
    alone: bool = False, any_plan: bool = False, expendable: bool = False, workers: Workers | None = None,
) -> Planned:  # fmt: skip
    """The best plan of a search that ``record`` keeps, and ends.

    ``alone``: neither plans for less memory compete, nor are segments excluded for good. ``any_plan``: the first plan
    ends the search. ``expendable``: the clock may end it before there is a plan; it then raises as if there were none.
    """
    check_smallest(graph, machine)
    incumbent = Incumbent(
        record, lower_bound(graph, machine), Referee(graph, options.timeout, judge),
        any_plan=any_plan, expendable=expendable,
    )  # fmt: skip
    search = _Search(
        graph, machine, options, incumbent, rounds(options.timeout, options.disabled), workers, alone=alone
    )
    search.run()
    return search.planned()


def _more(options: Options, incumbent: Incumbent) -> str:
    """What else could find a plan."""
    if incumbent.is_over:
        return "use a longer timeout"
    return "use the strategy solver, which tries more" if options.strategy != "solver" else ""


class _Search:
    """The rounds of one search and their steps.

    ``alone``: neither plans for less memory nor excluded segments are tried. ``known``: tiles that are shared with
    searches for other machines.
    """

    def __init__(
        self, graph: Graph, machine: Machine, options: Options, incumbent: Incumbent, rounds: tuple[Round, ...],
        workers: Workers | None = None, *, alone: bool = False, known: KnownTiles | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.machine = machine
        self.options = options
        self.incumbent = incumbent
        self.record = incumbent.record
        live = self.record.watch
        self.workers = workers
        self._known = KnownTiles() if known is None else known
        self.subproblem = Subproblem(
            graph, machine, options, incumbent.note, live, workers, self._known, any_plan=incumbent.any_plan
        )
        self._kinds = len(set(graph.analysis(EquivalenceClasses).class_of.values()))
        """Structural equivalence classes of operators."""
        candidates = Candidates(graph, machine, disabled=options.disabled)
        self.master = Master(graph, machine, candidates, options.seed, live, workers)
        self.decomposition = Decomposition(self.master, self.subproblem, incumbent)
        counters = WorkCounters(
            roots=lambda: candidates.priced_roots,
            columns=lambda: candidates.priced_count,
            groups=lambda: self.master.grouped_count,
            built=lambda: self.subproblem.built,
            repredicted=lambda: self.subproblem.repredicted,
            predicted_operators=lambda: self.subproblem.predicted,
        )
        self.spending = Spending(self.record, counters, options.timeout)
        self._rounds = rounds
        self._round = searching(rounds)
        self._extended = False
        """Whether segmentations that look farther were tried."""
        self._searched = False
        """Whether an iteration has searched models."""
        self._alone = alone
        self._iterations = 0
        self._unpaid: list[str] = []
        self._infeasible: InfeasibleError | None = None

    def run(self) -> None:
        """Plan by the strategy of the options; an interrupt ends it, if there is a plan."""
        try:
            if self.options.strategy == "layerwise":
                self._single_operators()
            elif self.options.strategy in LEVELS:
                self._graphturbo(self.options.strategy)
            else:
                self._solver()
        except InfeasibleError as error:
            self._infeasible = error
        except OutOfTimeError:
            self._infeasible = InfeasibleError("the clock ended the search")
        except KeyboardInterrupt:
            # It may come from a signal that nobody here listens to.
            self.record.interrupts.seen = True
            if self.incumbent.best is None:
                raise

    def planned(self) -> Planned:
        """The best plan; raises :class:`InfeasibleError` if there is none."""
        if self.incumbent.best is None:
            assert self._infeasible is not None
            raise unproven(
                self._infeasible, self.graph, self.machine, _more(self.options, self.incumbent)
            ) from self._infeasible
        return self.incumbent.planned(*self.ending())

    def ending(self) -> tuple[Ending, tuple[str, ...]]:
        """What ended the search, if neither the user nor the clock did; and what a longer timeout would pay for."""
        if self.incumbent.is_optimal:
            return "optimal", ()
        if self.options.strategy != "solver":
            return "fixed", ()
        unpaid = [*self._unpaid, *(f"more {kind}" for kind in self.spending.refused)]
        if self.incumbent.referee.unpaid:
            unpaid.append("a simulation of what is predicted to be as good or better")
        searched = [model for model in self.record.limited if model in LIMITED_BY_TIMEOUT]
        if self.spending.refused and not self._searched:
            unpaid.append("searches of the constraint models")
        elif unpaid and searched and self._round.seconds < SEARCHES[-1]:
            unpaid.append(f"a longer search of {', '.join(searched)}")
        return ("budget" if unpaid else "exhausted"), tuple(unpaid)

    # The strategies.

    def _solver(self) -> None:
        """Heuristics, and rounds as long as searches come to their limit and the timeout pays for more."""
        if self._affords(LEAST_ENUMERATION_SECONDS):
            # Workers price columns while the heuristics plan.
            self.master.ask()
        with suppress(InfeasibleError):
            self._graphturbo("graphturbo")
        if self.incumbent.best is not None and not self._affords(LEAST_ENUMERATION_SECONDS):
            seconds = cost(LEAST_ENUMERATION_SECONDS, len(self.graph.ops), self._kinds)
            self._unpaid.append(f"the constraint models, from {seconds:.0f} s on")
            if self.incumbent.is_loose and self._affords(SINGLE_SECONDS):
                with suppress(InfeasibleError):
                    self._single_operators()
            return
        if self.incumbent.is_final:
            self.master.cancel()
        else:
            # A step of its own: no iteration is expected to cost it again.
            with self.spending.step(COLUMNS):
                self.master.price()
        beyond_iterations = False
        for round_ in self._rounds:
            self._round = round_
            before, best = len(self.record.runs), self.incumbent.best
            self.decomposition.begin_round()
            self._iterate()
            if round_.hints and not self.incumbent.is_final and not (self.spending.refused and self.incumbent.best):
                continue
            if self.incumbent.best is None:
                # What segments of several operators do not allow, operators by themselves may.
                try:
                    self._single_operators()
                except InfeasibleError as error:
                    self._infeasible = error
            if self.options.timeout < SHORT:
                if not self.incumbent.is_final:
                    self._unpaid.append(f"more iterations and changes of the best plan, from {SHORT:g} s on")
                return
            if not round_.hints and (self.incumbent.best is not best or not beyond_iterations):
                beyond_iterations = True
                self._divert(exclude_one_at_a_time)
                if not self._alone:
                    self._compete()
                    self._divert(exclude_for_good)
            limited = any(r.limited and r.model in LIMITED_BY_TIMEOUT for r in self.record.runs[before:])
            if self.incumbent.is_final or self.spending.refused or not limited:
                return

    def _graphturbo(self, level: str) -> None:
        """The published heuristics alone."""
        heuristics = Heuristics(
            self.graph, self.machine, self.subproblem.cells, LEVELS[level], self.options.seed, self.incumbent.note
        )
        plan = replace(heuristics.plan().plan, strategy=self.options.strategy)
        self.subproblem.count_built(plan)
        self.incumbent.offer(0, plan)

    # The steps of a round.

    def _affords(self, seconds: float) -> bool:
        """Whether the timeout has so many seconds for each kind of operator, and for another plan."""
        return affords(self.options.timeout, seconds, len(self.graph.ops), self._kinds)

    def _next(self, kind: str) -> bool:
        """Whether there is something to be won by another step of the kind, and the timeout pays for it."""
        return not self.incumbent.is_final and self.spending.pays(kind)

    @contextmanager
    def _step(self, kind: str) -> Generator[None]:
        """A step; a better plan is followed by changes of it."""
        before = self.incumbent.best
        self._iterations += 1
        with self.spending.step(kind):
            yield
        if self.incumbent.best is not before and self.options.timeout >= SHORT:
            budgets = self._round.iteration(self._iterations)
            paid = partial(self.spending.goes_on, LOCAL_CHANGES)
            tiling, candidates = self.decomposition.cuts.tiling, self.master.candidates
            improve(Neighbourhood(self.incumbent, self.subproblem, candidates, tiling, budgets, paid))

    def _iterate(self) -> None:
        """Iterations, until nothing new comes, or no more segmentations are feasible."""
        for count in range(1 if self.options.timeout < SHORT else MOST_ITERATIONS):
            if self.incumbent.is_final or not (self._begins(count) or self._next(ITERATIONS)):
                return
            try:
                with self._step(ITERATIONS):
                    self._searched = self._searched or not self._round.hints
                    attempt = self.decomposition.iteration(self._round.iteration(self._iterations))
            except InfeasibleError:
                # These cuts are not taken back in this round, so no later iteration of it can do better.
                return
            if attempt is None or attempt.evaluated is None:
                return
            self.decomposition.learn(attempt)
            self._extend(attempt.segmentation)

    def _extend(self, segmentation: Segmentation) -> None:
        """Once, where shared memory costs a segmentation more than a little: an iteration in which path and residency
        improve each other, and one that also has groups of segments, which begin where its segments do.

        Like the first iteration, they are begun at any timeout, and without what others learned of costs. Later ones
        look as far as the one with the best plan.
        """
        objective, bound = segmentation.solved.objective, segmentation.solved.bound
        if self._extended or objective is None or bound is None or objective < LEAST_GAP * bound:
            return
        self._extended = True
        disabled = self.options.disabled
        if self.options.timeout < SHORT or self._alone:
            return
        starts = tuple(column.first for column in segmentation.columns)
        in_turn = "residency-in-turn" not in disabled
        grouped = not disabled & {"segment-groups", "step-orders"}
        extents = [(Extent(in_turn=True), 1.0)] if in_turn else []
        extents += [(Extent(in_turn, starts), LEAST_GAIN)] if grouped else []
        for extent, gain in extents:
            if self.incumbent.is_final:
                return
            decomposition, before, attempt = self.decomposition, self.incumbent.best, None
            nearer, cuts = decomposition.extent, decomposition.cuts
            decomposition.extent, decomposition.cuts = extent, Cuts(tiling=cuts.tiling)
            with suppress(InfeasibleError), self._step(FARTHER):
                budgets = self._round.iteration(self._iterations)
                attempt = decomposition.iteration(budgets, objective / gain, MOST_CUTS_FARTHER)
            if attempt is not None and self.incumbent.best is not before:
                decomposition.learn(attempt)
                objective = min(objective, attempt.segmentation.solved.objective or objective)
            else:
                decomposition.extent = nearer
                decomposition.cuts = replace(cuts, tiling=decomposition.cuts.tiling)

    def _begins(self, count: int) -> bool:
        """Whether an iteration, after so many others of its round, is begun at any timeout: the first, the first of a
        round if there is no plan, and both first ones of a search for less memory."""
        return count == 0 and (self._round is self._rounds[0] or self.incumbent.best is None or self._alone)

    def _divert(self, exclude: Callable[[Diversions], None]) -> None:
        """Segmentations without segments of the best plan."""
        if "excluded-segments" in self.options.disabled or self.incumbent.best is None:
            return
        pays, step = partial(self._next, ITERATIONS), partial(self._step, ITERATIONS)
        exclude(Diversions(self.decomposition, pays, step, lambda: self._round.diversion(self._iterations)))

    def _single_operators(self) -> None:
        plan_single_operators(self.decomposition, self._round.iteration(0))

    def _compete(self) -> None:
        """Plans for less memory, each of a search of its own: of hints, and with the searches of this round."""
        if "smaller-memories" in self.options.disabled:
            return
        subproblem = self.subproblem

        def solve(machine: Machine) -> Plan | None:
            if not self._next(LESS_MEMORY):
                return None
            part = self.record.part()
            incumbent = Incumbent(
                part, lower_bound(self.graph, machine), Referee(self.graph, self.options.timeout, None)
            )
            options = replace(self.options, timeout=LESS_MEMORY_SECONDS)
            rounds = tuple(r for r in self._rounds if r.hints or r is self._round)
            search = _Search(
                self.graph, machine, options, incumbent, rounds, self.workers, alone=True, known=self._known
            )
            with self.spending.step(LESS_MEMORY):
                with suppress(InfeasibleError):
                    check_smallest(self.graph, machine)
                    search.run()
                self.record.include(part)
                self.spending.add(search.spending.spent)
            return None if incumbent.best is None else incumbent.best.plan

        def timed(plan: Plan) -> Plan:
            return subproblem.timed(plan.unjudged)

        def offer(plan: Plan, origin: str) -> None:
            with self._step(LESS_MEMORY):
                self.incumbent.offer(self._iterations, plan, origin)

        SmallerMemories(WholeMachine(self.machine, solve, timed, offer), self.incumbent).compete()
