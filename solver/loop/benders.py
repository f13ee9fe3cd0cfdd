"""The loop among the five models: logic-based Benders decomposition, anytime and deterministic.

    segmentation → tiling → pipeline → residency → banks → timeline and check → plan
       master      '------------------------ subproblem -----------------------'

It begins with the plan of published heuristics, so that there is one soon and none that is worse comes out. Then all
columns of segmentation are priced, once; workers begin with that while the heuristics plan.

The master decides with relaxed costs of the subproblem. What the subproblem finds out returns as a cut:

- pipeline: a tile does not fit even once                    → tiling: a lower cap for the operator
- residency: a slot needs more than the shared memory has     → tiling: a lower cap for the weights; then segmentation
- banks of the shared memory cannot be packed                 → residency: leave room
- banks of the local memories cannot be packed                → tiling: no aliasing; then segmentation: not this column
- timeline: a segment takes longer than its estimate               → segmentation: this column costs what it takes

A search is a sequence of *rounds*. In the first, models answer with their hints, and there are iterations alone:
searches take most of an iteration, and changes of its plan are worth more. In the others, models are searched, and
after the iterations, segmentation does without one segment of the best plan at a time, up to 12 times
(``MOST_DIVERSIONS``); where no segments of several operators are feasible, each operator is one. Then plans for less
memory are tried (:mod:`.smaller_memories`), and at last segments are excluded one after the other and for good, of each
plan the longest: every answer is a segmentation that was not looked at before. Whatever finds a better plan is followed
by changes of that (:mod:`.local_search`). Where searches came to their limit, the next round gives them four times as
long; it goes beyond its iterations only if these find a better plan.

Each cut excludes what caused it, so no answer comes twice in a round. The incumbent is the best plan so far; each step
can only improve it. From 5 s on, a timeout ends the sequence of steps and changes nothing else in it
(:mod:`.spending`), so that the same inputs give the same plan and more time no worse one. The wall clock only ends what
takes far longer than that.

Reference: Hooker and Ottosson, "Logic-based Benders decomposition", Mathematical Programming 96, 2003.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from ...ir.bounds.lower_bound import lower_bound
from ...ir.equivalence import EquivalenceClasses
from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Level, Machine
from ...ir.plan import Plan, Segment
from ..baselines.graphturbo import LEVELS, Heuristics
from ..baselines.layerwise import layerwise_segments
from ..cpsat.log import Record
from ..effort import InfeasibleSearchError
from ..options import Ending, Judge, Listener, Options, Planned
from ..parallel.workers import Workers
from ..segmentation.candidates import Candidates
from ..segmentation.solve import BendersCut, Segmentation
from ..subproblem.plan_builder import EvaluatedPlan, Infeasibility
from ..subproblem.subproblem import Subproblem
from ..subproblem.tiling_alternatives import KnownTiles, TilingCuts
from ..subproblem.time_budget import (
    ENUMERATION_SECONDS,
    ITERATION_SECONDS,
    LEAST_ENUMERATION_SECONDS,
    LIMITED_BY_TIMEOUT,
    MOST_DIVERSIONS,
    MOST_ITERATIONS,
    SEARCHES,
    SHORT,
    SINGLE_SECONDS,
    WALL_CLOCK_FACTOR,
    Iteration,
    Round,
    affords,
    cost,
    rounds,
    searching,
)
from .evaluate import evaluate_segments
from .incumbent import Incumbent
from .local_search import improve
from .master import Cuts, Master, cost_cuts
from .plan_neighbourhood import Neighbourhood
from .precheck import check_smallest, unproven
from .referee import Referee
from .resegment import bare, longest_first
from .smaller_memories import SmallerMemories, WholeMachine
from .spending import Rates, Spending

FRUITLESS = 6
"""Segmentations in a row without a better plan, after which the search is exhausted; chosen."""
MOST_CUTS = 64
"""Infeasibilities in one iteration before it is given up, so that it ends in any case; chosen, not measured."""
LESS_MEMORY_SECONDS = 5.0
"""What a search for less memory may take, counted, beyond the first iterations of its rounds; chosen, so that many of
them fit into a minute."""
COLUMNS = "columns of segments"
"""The kind of the first step, which is never refused."""
ITERATIONS = "iterations"
LOCAL_CHANGES, LESS_MEMORY = "changes of the best plan", "plans for less memory"
"""Kinds of steps, as users read them after "more"."""
STEP_OF_ROOM = 16
"""Where single operators do not fit, they may use one part in so many less of a memory; chosen, not measured."""


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
    alone: bool = False, any_plan: bool = False, workers: Workers | None = None,
) -> Planned:  # fmt: skip
    """The best plan of a search that ``record`` keeps, and ends.

    ``alone``: neither plans for less memory compete, nor are segments excluded for good. ``any_plan``: the first plan
    ends the search.
    """
    check_smallest(graph, machine)
    incumbent = Incumbent(
        record, lower_bound(graph, machine), Referee(graph, options.timeout, judge), any_plan=any_plan
    )
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


def _less_room(level: Level, room: int) -> int:
    """Bytes for the next attempt: down to half of the memory in steps, then half as many each time, at last none."""
    if 2 * room > level.capacity:
        return room - max(1, level.capacity // STEP_OF_ROOM)
    return room // 2 if room // 2 >= level.alignment else 0


@dataclass(frozen=True)
class _Attempt:
    """A segmentation, and the plan that came of it; ``None`` if it was tried before."""

    segmentation: Segmentation
    evaluated: EvaluatedPlan | None


def sorted_columns(segmentation: Segmentation) -> list[BendersCut]:
    """Cuts that each exclude a segment, that with the most estimated cycles first."""
    pairs = zip(segmentation.columns, segmentation.segments, strict=True)
    longest = sorted(pairs, key=lambda pair: -pair[0].cycles)
    return [BendersCut(segment.ops, segment.instances, segment.cores) for _, segment in longest]


class _Search:
    """The one owner of what changes while a plan is looked for: the cuts, and through ``incumbent`` the best plan.

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
        self.cuts = Cuts()
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
        rates = Rates(
            len(graph.ops),
            lambda: candidates.priced_roots,
            lambda: candidates.priced_count,
            lambda: self.subproblem.predicted,
        )
        self.spending = Spending(self.record, rates, options.timeout)
        self._rounds = rounds
        self._round = searching(rounds)
        self._searched = False
        """Whether an iteration has searched models."""
        self._alone = alone
        self._iterations = 0
        self._tried: set[tuple[Segment, ...]] = set()
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
        except KeyboardInterrupt:
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
            self._tried.clear()
            # What a shorter search could not do, or only at a high cost, a longer one may.
            self.cuts = Cuts()
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
                self._diversify()
                if not self._alone:
                    self._compete()
                    self._wander()
            limited = any(r.limited and r.model in LIMITED_BY_TIMEOUT for r in self.record.runs[before:])
            if self.incumbent.is_final or self.spending.refused or not limited:
                return

    def _single_operators(self) -> None:
        """Segments of one operator each, with more of local and shared memory left free at each infeasibility.

        Raises :class:`InfeasibleError` if an operator fits under no split, or else with what came nearest to fitting
        until all margins were tried or the search was over.
        """
        # What was learned of segments of several operators need not hold for one.
        self.cuts = replace(self.cuts, tiling=TilingCuts())
        local, shared = self.machine.levels.activations, self.machine.levels.exchange
        room, shared_room = local.capacity, shared.capacity
        refused: list[Infeasibility] = []
        while not (refused and self.incumbent.is_over):
            margin, shared_margin = local.capacity - room, shared.capacity - shared_room
            try:
                segments = layerwise_segments(self.graph, self.machine, margin=margin, shared_margin=shared_margin)
            except InfeasibleError:
                # That nothing leaves so much free proves nothing; that nothing fits at all does.
                if not refused:
                    raise
                break
            answer = self._evaluate(segments, self._round.iteration(0))
            if isinstance(answer, EvaluatedPlan):
                return
            refused.append(answer)
            self.record.cut(self.options.strategy, answer.message)
            tiling = self.master.smaller_tiles(self.cuts.tiling, answer)
            self.cuts = replace(self.cuts, tiling=tiling or self.cuts.tiling)
            if self.master.is_of_homes(answer) or not (shared_room if answer.level == shared else room):
                break
            if answer.level == shared:
                shared_room = _less_room(shared, shared_room)
            else:
                room = _less_room(local, room)
        raise min(refused, key=lambda r: r.need / r.capacity).error()

    def _graphturbo(self, level: str) -> None:
        """The published heuristics alone."""
        heuristics = Heuristics(
            self.graph, self.machine, self.subproblem.cells, LEVELS[level], self.options.seed, self.incumbent.note
        )
        plan = replace(heuristics.plan().plan, strategy=self.options.strategy)
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
            improve(
                Neighbourhood(self.incumbent, self.subproblem, self.master.candidates, self.cuts.tiling, budgets, paid)
            )

    def _iterate(self) -> None:
        """Iterations, until nothing new comes, or no more segmentations are feasible."""
        for count in range(1 if self.options.timeout < SHORT else MOST_ITERATIONS):
            if self.incumbent.is_final or not (self._begins(count) or self._next(ITERATIONS)):
                return
            try:
                with self._step(ITERATIONS):
                    self._searched = self._searched or not self._round.hints
                    attempt = self._iteration(self._round.iteration(self._iterations))
            except InfeasibleError:
                # These cuts are not taken back in this round, so no later iteration of it can do better.
                return
            if attempt is None or attempt.evaluated is None:
                return
            self._learn(attempt)

    def _begins(self, count: int) -> bool:
        """Whether an iteration, after so many others of its round, is begun at any timeout: the first, the first of a
        round if there is no plan, and both first ones of a search for less memory."""
        return count == 0 and (self._round is self._rounds[0] or self.incumbent.best is None or self._alone)

    def _diversify(self) -> None:
        """Segmentations without one segment of the best plan at a time, the longest first.

        A segmentation is optimal for estimates. Where these mislead, iterations end with the same segments again and
        again, while time is left: what else there is must be asked for.
        """
        if "excluded-segments" in self.options.disabled or self.incumbent.best is None:
            return
        excluded: set[BendersCut] = set()
        while len(excluded) < MOST_DIVERSIONS:
            longest = self._longest_segments(self.incumbent.best.plan)
            column = next((c for c in longest if c not in excluded), None)
            if column is None or not self._next(ITERATIONS):
                return
            excluded.add(column)
            self.cuts = replace(self.cuts, columns=(*self.cuts.columns, column))
            with suppress(InfeasibleError), self._step(ITERATIONS):
                attempt = self._iteration(self._round.diversion(self._iterations))
                if attempt is not None:
                    self._learn(attempt)
            self.cuts = replace(self.cuts, columns=tuple(c for c in self.cuts.columns if c is not column))

    def _compete(self) -> None:
        """Plans for less memory, each of a search of its own: of hints, and with the searches of this round."""
        if "smaller-memories" in self.options.disabled:
            return
        builder = self.subproblem.builder

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
            return builder.timed(replace(plan, lower_bound_cycles=0, lower_bound_reason="", cycles_simulated=None))

        def offer(plan: Plan, origin: str) -> None:
            with self._step(LESS_MEMORY):
                self.incumbent.offer(self._iterations, plan, origin)

        SmallerMemories(WholeMachine(self.machine, solve, timed, offer), self.incumbent).compete()

    def _wander(self) -> None:
        """Segmentations that are ever farther from the first.

        What is excluded stays excluded, and the next to go is the longest segment of the answer without it. It ends
        when nothing is left, or with :data:`FRUITLESS` segmentations in a row without a better plan.
        """
        if "excluded-segments" in self.options.disabled or self.incumbent.best is None:
            return
        before, best, fruitless = self.cuts, self.incumbent.best, 0
        left = [c for c in self._longest_segments(best.plan) if c not in before.columns]
        while left and fruitless < FRUITLESS and self._next(ITERATIONS):
            self.cuts = replace(self.cuts, columns=(*self.cuts.columns, left.pop(0)))
            fruitless += 1
            try:
                with self._step(ITERATIONS):
                    attempt = self._iteration(self._round.diversion(self._iterations))
            except InfeasibleError:
                break
            if attempt is not None:
                left = sorted_columns(attempt.segmentation)
            if self.incumbent.best is not best:
                best, fruitless = self.incumbent.best, 0
        self.cuts = before

    def _longest_segments(self, plan: Plan) -> list[BendersCut]:
        """Cuts that each exclude a segment of a plan, that with the most predicted cycles first."""
        segments = bare(self.graph, plan.segments)
        return [BendersCut(segments[s].ops, segments[s].instances, segments[s].cores) for s in longest_first(plan)]

    def _iteration(self, iteration: Iteration) -> _Attempt | None:
        """From segmentation down to a plan, again after each infeasibility.

        ``None`` if the search is over or there were too many. Raises :class:`InfeasibleError` if no segmentation is
        left.
        """
        for _ in range(MOST_CUTS):
            if self.incumbent.best is not None and self.incumbent.is_over:
                return None
            segmentation = self._segmentation(iteration)
            if segmentation.segments in self._tried:
                return _Attempt(segmentation, None)
            answer = self._evaluate(segmentation.segments, iteration, segmentation)
            if isinstance(answer, EvaluatedPlan):
                self._tried.add(segmentation.segments)
                return _Attempt(segmentation, answer)
            self._exclude(segmentation.segments[answer.segment], answer)
        return None

    def _segmentation(self, iteration: Iteration) -> Segmentation:
        try:
            answer = self.master.segmentation(self.cuts, iteration)
        except InfeasibleSearchError as error:
            self.subproblem.builder.discard("segmentation", (error.effort,))
            raise
        note = f"{len(answer.segments)} segments" + (f", {len(self.cuts.columns)} cuts" if self.cuts.columns else "")
        note += f"; {answer.note}" if answer.note else ""
        self.subproblem.log(answer.solved, answer.effort, note)
        return answer

    def _evaluate(
        self, segments: tuple[Segment, ...], iteration: Iteration, segmentation: Segmentation | None = None
    ) -> EvaluatedPlan | Infeasibility:
        """The plan of these segments; what is learned of their tiles is kept."""
        above = () if segmentation is None else (segmentation.solved,)
        evaluation = evaluate_segments(self.subproblem, self.incumbent, segments, self.cuts.tiling, iteration, *above)
        self.cuts = replace(self.cuts, tiling=evaluation.cuts)
        return evaluation.answer

    def _exclude(self, segment: Segment, infeasibility: Infeasibility) -> None:
        """A feasibility cut."""
        before, self.cuts = self.cuts, self.master.excluding(self.cuts, segment, infeasibility)
        if self.cuts.columns == before.columns:
            self.record.cut("tiling", f"smaller tiles: {infeasibility.message}")
        else:
            what = f"{segment.ops[0]} .. {segment.ops[-1]} not like this: {infeasibility.message}"
            self.record.cut("segmentation", what)

    def _learn(self, attempt: _Attempt) -> None:
        """Optimality cuts."""
        if attempt.evaluated is None or "learned-costs" in self.options.disabled:
            return
        learned = cost_cuts(attempt.segmentation, attempt.evaluated)
        self.cuts = replace(self.cuts, columns=(*self.cuts.columns, *learned))
        if learned:
            what = f"{learned[0].ops[0]} .. {learned[0].ops[-1]} takes {learned[0].cycles:,} cycles"
            self.record.tell("segmentation", "costlier", message=f"{len(learned)} segments; {what}")
