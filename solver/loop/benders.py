"""The loop among the five models: logic-based Benders decomposition, anytime and deterministic.

    segmentation → tiling → pipeline → residency → banks → timeline and check → plan

It begins with a plan of published heuristics, as it is and with the models below segmentation, so that there is one
soon and none that is worse comes out.

An upper model decides with relaxed costs of the lower ones. What a lower model finds out goes up as a cut:

- pipeline: a tile does not fit even once                    → tiling: a lower cap for the operator
- residency: a slot needs more than the shared memory has     → tiling: a lower cap for the weights; then segmentation
- banks of the shared memory cannot be packed                 → residency: leave room
- banks of the local memories cannot be packed                → segmentation: this column is forbidden
- timeline: a segment takes longer than it was promised to     → segmentation: this column is as dear as it is

After the rounds, the best plan is tried with other cuts for its segments, with results made again where they are read,
with residency searched once more, and with local memories upside down (:mod:`.local_search`).

Each cut excludes what caused it, so no answer comes twice. The best plan so far is kept; each round can only improve
it. How many rounds there are, and how long each model may search in deterministic time, depends on the timeout and the
size of the graph, so that the same inputs give the same plan. The wall clock only ends what takes far longer than that.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from ...ir.bounds.lower_bound import lower_bound
from ...ir.checks.check_plan import check_plan
from ...ir.equivalence import EquivalenceClasses
from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan, Segment
from ..baselines.graphturbo import LEVELS, Heuristics, Level
from ..baselines.layerwise import layerwise_segments
from ..cpsat.log import Record
from ..options import Listener, Options, Planned
from ..segmentation.candidates import Candidates
from ..segmentation.solve import BendersCut, Segmentation, segment
from ..subproblem.plan_builder import Realised, Refusal
from ..subproblem.subproblem import Below
from ..subproblem.time_budget import (
    ENUMERATION_SECONDS,
    EXPOSURES,
    HEURISTIC_SECONDS,
    PATIENCE,
    ROUND_SECONDS,
    Round,
    affords,
    budget,
    rounds,
)
from ..tiling.solve import Caps
from .local_search import refined
from .precheck import check_smallest

MOST_CUTS = 64
"""Refusals in one round before it is given up."""
SHRINK = 4
"""By how much a cap on tiles goes down at each refusal."""
LEAST_CAP = 4096
"""Bytes below which smaller tiles are no answer."""
MOST_MARGINS = 8
"""Attempts at segments of one operator each."""
DEARER = 1.1
"""A segment that takes so many times what was promised is worth another round."""


def solve_plan(graph: Graph, machine: Machine, options: Options, progress: Listener | None) -> Planned:
    """See :func:`girih.solver.plan`."""
    _fits_main_memory(graph, machine)
    check_smallest(graph, machine)
    first = (ENUMERATION_SECONDS + ROUND_SECONDS) * len(graph.ops)
    record = Record(PATIENCE * max(options.timeout, first), progress)
    with record.interrupts.watch():
        loop = _Loop(graph, machine, options, record)
        try:
            loop.run()
        except KeyboardInterrupt:
            if loop.best is None:
                raise
    return loop.finish()


def _fits_main_memory(graph: Graph, machine: Machine) -> None:
    """Constants, inputs and outputs always have their place there."""
    memory = machine.role("main")
    names = graph.constant_names | graph.input_tensors | graph.output_tensors
    need = sum(graph.tensor[name].bytes for name in names)
    if need > memory.capacity:
        raise InfeasibleError(
            f"constants, inputs and outputs of {graph.name} need {need:,} bytes of {memory.name}, "
            f"{need - memory.capacity:,} more than the {memory.capacity:,} there are; use a smaller batch"
        )


@dataclass(frozen=True)
class _Attempt:
    """A whole plan, and the segmentation that it came from."""

    realised: Realised
    segmentation: Segmentation


class _Loop:
    def __init__(self, graph: Graph, machine: Machine, options: Options, record: Record) -> None:
        self.graph = graph
        self.machine = machine
        self.options = options
        self.record = record
        self.below = Below(graph, machine, options, record, lower_bound(graph, machine))
        self.cuts: list[BendersCut] = []
        self._kinds = len(set(graph.analysis(EquivalenceClasses).class_of.values()))
        self._tried: set[tuple[Segment, ...]] = set()
        self._candidates = Candidates(graph, machine, disabled=options.disabled)

    @property
    def best(self) -> Plan | None:
        return self.below.best

    def run(self) -> None:
        """All rounds."""
        if self.below.is_layerwise:
            self._layerwise()
            return
        if self.options.strategy in LEVELS:
            self._graphturbo(LEVELS[self.options.strategy])
            return
        asked = rounds(self.options.timeout, len(self.graph.ops), self._kinds)
        if "overlap-variety" in self.options.disabled:
            asked = tuple(replace(now, exposed=asked[0].exposed) for now in asked)
        searches = self._affords(ENUMERATION_SECONDS)
        first = asked[0]
        self._incumbent(first, below=not searches or len(asked) > 1)
        if self.best is not None and not searches:
            return
        refusal: InfeasibleError | None = None
        stale = 0
        for number, now in enumerate(asked, 1):
            if self.below.is_done:
                break
            try:
                attempt = self._round(number, now)
            except InfeasibleError as error:
                # Cuts are never taken back, so no later round can do better.
                refusal = error
                break
            if attempt is not None and "learned-costs" not in self.options.disabled:
                self._learn(attempt)
            stale = 0 if attempt is not None else stale + 1
            if stale == len(EXPOSURES):
                break
        if self.best is None:
            raise refusal or InfeasibleError(f"no plan of {self.graph.name} was found for {self.machine.name}")
        refined(self.below, self._candidates, len(asked) + 1, first, self._adopt)

    def _adopt(self, below: Below) -> None:
        """From now on, the best plan is that of ``below``."""
        self.below = below

    def finish(self) -> Planned:
        """The best plan, as one for the network, with the log."""
        assert self.best is not None
        best = replace(self.best, graph_sha256=self.graph.digest, recomputed=self.below.recomputed)
        if best.recomputed:
            check_plan(best, self.graph, self.machine)
        return Planned(best, self.record.log())

    def _incumbent(self, now: Round, *, below: bool) -> None:
        """What the rounds must beat: published heuristics, as they are and with the models ``below`` segmentation.

        The latter costs as much as a round does: where there is time for one round, our own segments get it.
        """
        with suppress(InfeasibleError):
            found = self._graphturbo(LEVELS["graphturbo"])
            below = below and "heuristic-segments" not in self.options.disabled
            if below and self._affords(HEURISTIC_SECONDS) and not self.below.over:
                self.below.planned(0, tuple(s.bare for s in found.plan.segments), now)

    def _affords(self, seconds: float) -> bool:
        """Whether the timeout has so many seconds for each kind of operator, and for another plan."""
        return affords(self.options.timeout, seconds, len(self.graph.ops), self._kinds)

    # One round.

    def _round(self, number: int, now: Round) -> _Attempt | None:
        """From segmentation down to a plan, again after each refusal.

        ``None`` if time or patience ends first, or if that segmentation was tried before.
        """
        refusal: Refusal | None = None
        for _ in range(MOST_CUTS):
            if self.best is not None and self.below.over:
                return None
            try:
                made = self._segmentation(now)
            except InfeasibleError as error:
                # What the first refusals said is nearer to the cause than that nothing is left.
                raise (error if refusal is None else refusal.error()) from error
            if made.segments in self._tried:
                return None
            answer = self.below.planned(number, made.segments, now, made.solved)
            if isinstance(answer, Realised):
                self._tried.add(made.segments)
                return _Attempt(answer, made)
            refusal = answer
            self._refused(made.segments[answer.segment], answer)
        if refusal is not None and self.best is None:
            raise refusal.error()
        return None

    def _segmentation(self, now: Round) -> Segmentation:
        made = segment(
            self.graph, self.machine, cuts=tuple(self.cuts), budget=budget(now.segmentation),
            seed=self.options.seed, candidates=self._candidates, overlap_penalty=now.exposed,
        )  # fmt: skip
        note = f"{len(made.segments)} segments" + (f", {len(self.cuts)} cuts" if self.cuts else "")
        self.below.log(
            made.solved, made.seconds, made.deterministic_seconds, "; ".join(filter(None, (note, made.note)))
        )
        return made

    def _refused(self, made: Segment, refusal: Refusal) -> None:
        """Send a cut up: to tiling, as long as smaller tiles may help; then the column goes."""
        if self._shrunk(refusal):
            self.record.cut("tiling", f"smaller tiles: {refusal.message}")
            return
        self.cuts.append(BendersCut(made.ops, made.instances, made.cores))
        self.record.cut("segmentation", f"{made.ops[0]} .. {made.ops[-1]} not like this: {refusal.message}")

    def _shrunk(self, refusal: Refusal) -> bool:
        """Whether the refused operator gets a lower cap on its tiles.

        Smaller tiles of weights make finer chunks in shared memory, of which only some need to be there at a time.
        """
        old = self.below.ways.caps.get(refusal.op, Caps())
        if refusal.role == "accumulator":
            cap = (old.accumulator or self.machine.role("accumulator").capacity) // SHRINK
            new = replace(old, accumulator=cap)
        elif refusal.role in ("weights", "shared") and self._streams(refusal.op):
            most = min(self.machine.role(role).capacity for role in ("weights", "shared"))
            cap = (old.weights or most) // SHRINK
            new = replace(old, weights=cap)
        else:
            return False
        if cap < LEAST_CAP:
            return False
        self.below.ways.caps[refusal.op] = new
        return True

    def _streams(self, name: str) -> bool:
        """Whether an operator could have a constant as its stationary operand."""
        op = self.graph.op[name]
        return op.anchor is not None and op.stages[op.anchor].reads[1].tensor in self.graph.constant_names

    def _layerwise(self) -> None:
        """One operator after the other, with a little more of local memory left free at each refusal."""
        now = rounds(self.options.timeout, len(self.graph.ops), self._kinds)[0]
        refusal: Refusal | None = None
        for attempt in range(MOST_MARGINS):
            margin = attempt * self.machine.role("local").capacity // 16
            answer = self.below.planned(0, layerwise_segments(self.graph, self.machine, margin=margin), now)
            if isinstance(answer, Realised):
                return
            refusal = answer
            self.record.cut("layerwise", answer.message)
            self._shrunk(answer)
        assert refusal is not None
        raise refusal.error()

    def _graphturbo(self, level: Level) -> Realised:
        """The published heuristics alone."""
        made = Heuristics(self.graph, self.machine, self.below.cells, level, self.options.seed, self.below.note).plan()
        made = replace(made, plan=replace(made.plan, strategy=self.options.strategy))
        self.below.keep(0, made.plan, None)
        return made

    def _learn(self, attempt: _Attempt) -> None:
        """Make segments as dear as they turned out to be."""
        dearer: list[tuple[float, str]] = []
        for column, made, cycles in zip(
            attempt.segmentation.columns, attempt.segmentation.segments, attempt.realised.segment_cycles, strict=True
        ):
            if cycles > DEARER * column.cycles:
                self.cuts.append(BendersCut(made.ops, made.instances, made.cores, cycles))
                what = f"{made.ops[0]} .. {made.ops[-1]} takes {cycles:,} cycles, not {column.cycles:,}"
                dearer.append((cycles / max(1, column.cycles), what))
        if dearer:
            self.record.tell("segmentation", "dearer", message=f"{len(dearer)} segments; {max(dearer)[1]}")
