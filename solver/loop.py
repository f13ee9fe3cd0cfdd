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

After the rounds, the best plan is tried with other cuts for its segments (:mod:`.recut`), with residency searched once
more, and with local memories upside down (:mod:`.mirror`).

Each cut excludes what caused it, so no answer comes twice. The best plan so far is kept; each round can only improve
it. How many rounds there are, and how long each model may search in deterministic time, depends on the timeout and the
size of the graph, so that the same inputs give the same plan. The wall clock only ends what takes far longer than that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from ..ir.cell import Cells
from ..ir.errors import InfeasibleError
from ..ir.graph import Graph
from ..ir.lower_bound import lower_bound
from ..ir.machine import Machine
from ..ir.plan import Plan, Segment, Solved
from .candidates import Candidates
from .graphturbo import LEVELS, Heuristics, Level
from .layerwise import layerwise_segments
from .mirror import mirrored
from .options import Listener, ModelRun, Options, Planned
from .order import orders
from .realise import Realised, Realiser, Refusal, Request
from .record import Record
from .recut import aligned, bare, coarser, shifted, uniform
from .rounds import (
    ENUMERATION_SECONDS,
    EXPOSURES,
    HEURISTIC_SECONDS,
    LONGEST_SEARCH,
    PATIENCE,
    ROUND_SECONDS,
    SHORT,
    Round,
    affords,
    budget,
    rounds,
)
from .segmentation import ColumnCut, Segmentation, segment
from .smallest import check_smallest
from .tiling import Caps, together
from .ways import Tiled, Ways

MOST_CUTS = 64
"""Refusals in one round before it is given up."""
SHRINK = 4
"""By how much a cap on tiles goes down at each refusal."""
LEAST_CAP = 4096
"""Bytes below which smaller tiles are no answer."""
MOST_MARGINS = 8
"""Attempts at segments of one operator each."""
POLISH = 0.5
"""The share of the timeout that residency may search once more for the best plan, about."""
OPEN_GAP = 0.01
"""A gap of residency that is worth it."""
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


def _under(above: tuple[Solved, ...], found: Realised) -> Realised:
    """With what the models above answered."""
    return replace(found, plan=replace(found.plan, solved=(*above, *found.plan.solved)))


class _Loop:
    def __init__(self, graph: Graph, machine: Machine, options: Options, record: Record) -> None:
        self.graph = graph
        self.machine = machine
        self.options = options
        self.record = record
        self.bound, self.reason = lower_bound(graph, machine)
        self._kinds = len(set(graph.structures.of.values()))
        self.cells = Cells(graph)
        self.realiser = Realiser(graph, machine, self.cells, options.seed, self._note)
        self._is_layerwise = options.strategy == "layerwise"
        self.ways = Ways(graph, machine, self.cells, self.realiser, options.seed, layerwise=self._is_layerwise)
        self.best: Plan | None = None
        self._asked: Request | None = None
        """What the best plan is the answer to, if the models made it."""
        self.cuts: list[ColumnCut] = []
        self._tried: set[tuple[Segment, ...]] = set()
        self._candidates = Candidates(graph, machine)

    def run(self) -> None:
        """All rounds."""
        if self._is_layerwise:
            self._layerwise()
            return
        if self.options.strategy in LEVELS:
            self._graphturbo(LEVELS[self.options.strategy])
            return
        asked = rounds(self.options.timeout, len(self.graph.ops), self._kinds)
        searches = self._affords(ENUMERATION_SECONDS)
        first = asked[0]
        self._incumbent(first, below=not searches or len(asked) > 1)
        if self.best is not None and not searches:
            return
        refusal: InfeasibleError | None = None
        stale = 0
        for number, now in enumerate(asked, 1):
            if self.best is not None and (self.best.cycles_predicted <= self.bound or self._over()):
                break
            try:
                attempt = self._round(number, now)
            except InfeasibleError as error:
                # Cuts are never taken back, so no later round can do better.
                refusal = error
                break
            if attempt is not None:
                self._learn(attempt)
            stale = 0 if attempt is not None else stale + 1
            if stale == len(EXPOSURES):
                break
        if self.best is None:
            raise refusal or InfeasibleError(f"no plan of {self.graph.name} was found for {self.machine.name}")
        self._recut(len(asked) + 1, first)
        self._coarsen(len(asked) + 1, first)
        self._polish(len(asked) + 1)
        self._mirror(len(asked) + 1)

    def _recut(self, number: int, now: Round) -> None:
        """Once more with each way to cut the segments of the best plan otherwise (see :mod:`.recut`)."""
        changes: tuple[Callable[[Plan], tuple[Segment, ...]], ...] = (
            lambda best: aligned(self.graph, self.cells, self._candidates, best),
            lambda best: shifted(self.graph, best),
            lambda best: uniform(self.graph, self.cells, bare(self.graph, best.segments)),
        )
        for change in changes:
            assert self.best is not None
            if self.best.cycles_predicted <= self.bound or self.options.timeout < SHORT or self._over():
                return
            segments = change(self.best)
            if segments != bare(self.graph, self.best.segments):
                above = tuple(s for s in self.best.solved if s.model == "segmentation")
                self._below(number, segments, now, *above)

    def _coarsen(self, number: int, now: Round) -> None:
        """Once more with fewer instances, where the prediction says that they take the cores less time."""
        assert self.best is not None
        if self.best.cycles_predicted <= self.bound or self.options.timeout < SHORT:
            return
        above = tuple(s for s in self.best.solved if s.model == "segmentation")
        segments = bare(self.graph, self.best.segments)
        also = coarser(self.graph, self._candidates, segments)
        if also == segments or self._over():
            return
        made = self.ways.chosen(segments, now, also)
        if not isinstance(made, Refusal) and any(
            of[0].instances != s.instances for of, s in zip(made, segments, strict=True)
        ):
            self._realised(number, made, now, *above)

    def _polish(self, number: int) -> None:
        """Residency once more for the best plan, for longer: it has the widest gap, and gains most from time."""
        assert self.best is not None
        gap = next((s for s in self.best.solved if s.model == "residency"), None)
        closed = gap is None or gap.objective is None or gap.objective <= (1 + OPEN_GAP) * (gap.bound or 0.0)
        if self._asked is None or closed or self._over() or self.best.cycles_predicted <= self.bound:
            return
        longer = budget(min(POLISH * self.options.timeout, LONGEST_SEARCH))
        asked = replace(self._asked, residency=longer, again=self._asked.residency)
        if asked.residency.limit <= self._asked.residency.limit:
            return
        found = self.realiser.realise(asked)
        if isinstance(found, Realised):
            above = tuple(s for s in self.best.solved if s.model in ("segmentation", "tiling"))
            self._found(number, _under(above, found), asked)

    def _mirror(self, number: int) -> None:
        """The best plan with the local memory of some segments upside down (see :mod:`.mirror`)."""
        assert self.best is not None
        if self.best.cycles_predicted <= self.bound or self.options.timeout < SHORT or self._over():
            return
        plan = mirrored(self.graph, self.machine, self.best)
        if plan.local != self.best.local:
            self._keep(number, self.realiser.timed(plan)[0], self._asked)

    def finish(self) -> Planned:
        assert self.best is not None
        return Planned(self.best, self.record.log())

    def _incumbent(self, now: Round, *, below: bool) -> None:
        """What the rounds must beat: published heuristics, as they are and with the models ``below`` segmentation.

        The latter costs as much as a round does: where there is time for one round, our own segments get it.
        """
        with suppress(InfeasibleError):
            found = self._graphturbo(LEVELS["graphturbo"])
            if below and self._affords(HEURISTIC_SECONDS) and not self._over():
                self._below(0, tuple(s.bare for s in found.plan.segments), now)

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
            if self.best is not None and self._over():
                return None
            try:
                made = self._segmentation(now)
            except InfeasibleError as error:
                # What the first refusals said is nearer to the cause than that nothing is left.
                raise (error if refusal is None else refusal.error()) from error
            if made.segments in self._tried:
                return None
            answer = self._below(number, made.segments, now, made.solved)
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
            seed=self.options.seed, candidates=self._candidates, exposed=now.exposed,
        )  # fmt: skip
        note = f"{len(made.segments)} segments" + (f", {len(self.cuts)} cuts" if self.cuts else "")
        self._log(made.solved, made.seconds, made.deterministic_seconds, "; ".join(filter(None, (note, made.note))))
        return made

    def _below(self, number: int, segments: tuple[Segment, ...], now: Round, *above: Solved) -> Realised | Refusal:
        """Tiles and everything below; a plan that comes out is remembered if it is the best."""
        made = self.ways.chosen(segments, now)
        if isinstance(made, Refusal):
            return made
        answer = self._realised(number, made, now, *above)
        chosen = tuple(of[0] for of in made)
        if isinstance(answer, Refusal) and answer.role == "local" and chosen[answer.segment].inside:
            # It may fit with every tensor in a buffer of its own.
            self.ways.keep_apart(chosen[answer.segment])
            return self._below(number, segments, now, *above)
        return answer

    def _realised(self, number: int, made: list[Tiled], now: Round, *above: Solved) -> Realised | Refusal:
        """Everything below these tiles."""
        choices = [c for of in made for c in of[1]]
        solved = together(choices)
        # Equal operators share an answer, and the time that it took.
        answers = dict.fromkeys(replace(c, tile=replace(c.tile, op="")) for c in choices)
        self._log(solved, sum(c.seconds for c in answers), sum(c.deterministic_seconds for c in answers), "")
        return self._ordered(number, tuple(of[0] for of in made), now, *above, solved)

    def _ordered(self, number: int, tiled: tuple[Segment, ...], now: Round, *above: Solved) -> Realised | Refusal:
        """Everything below the tiles, for each order of the instances; the better plan, or the first refusal."""
        tried = orders(self.graph, self.cells, tiled)
        if self._is_layerwise:
            tried = tried[:1]
        best: Realised | None = None
        refusal: Refusal | None = None
        for steps in tried:
            if self.best is not None and best is not None and self._over():
                break
            asked = now.request(tiled, steps, layerwise=self._is_layerwise)
            found = self.realiser.realise(asked)
            if isinstance(found, Refusal):
                refusal = refusal or found
                continue
            found = _under(above, found)
            self._found(number, found, asked)
            if best is None or found.plan.cycles_predicted < best.plan.cycles_predicted:
                best = found
        if best is not None:
            return best
        assert refusal is not None
        return refusal

    def _refused(self, made: Segment, refusal: Refusal) -> None:
        """Send a cut up: to tiling, as long as smaller tiles may help; then the column goes."""
        if self._shrunk(refusal):
            self.record.cut("tiling", f"smaller tiles: {refusal.message}")
            return
        self.cuts.append(ColumnCut(made.ops, made.instances, made.cores, None, refusal.message))
        self.record.cut("segmentation", f"{made.ops[0]} .. {made.ops[-1]} not like this: {refusal.message}")

    def _shrunk(self, refusal: Refusal) -> bool:
        """Whether the refused operator gets a lower cap on its tiles.

        Smaller tiles of weights make finer chunks in shared memory, of which only some need to be there at a time.
        """
        old = self.ways.caps.get(refusal.op, Caps())
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
        self.ways.caps[refusal.op] = new
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
            answer = self._below(0, layerwise_segments(self.graph, self.machine, margin=margin), now)
            if isinstance(answer, Realised):
                return
            refusal = answer
            self.record.cut("layerwise", answer.message)
            self._shrunk(answer)
        assert refusal is not None
        raise refusal.error()

    def _graphturbo(self, level: Level) -> Realised:
        """The published heuristics alone."""
        made = Heuristics(self.graph, self.machine, self.cells, level, self.options.seed, self._note).plan()
        made = replace(made, plan=replace(made.plan, strategy=self.options.strategy))
        self._found(0, made)
        return made

    def _found(self, number: int, realised: Realised, asked: Request | None = None) -> None:
        """A checked plan, ``asked`` of the models (``None``: by heuristics): keep it if it is the best."""
        plan = replace(realised.plan, lower_bound_cycles=self.bound, lower_bound_reason=self.reason)
        self._keep(number, plan, asked)

    def _keep(self, number: int, plan: Plan, asked: Request | None) -> None:
        """Keep ``plan`` if it is the best."""
        better = self.best is None or plan.cycles_predicted < self.best.cycles_predicted
        if better:
            self.best, self._asked = plan, asked
        cycles = float(plan.cycles_predicted)
        status = "optimal" if plan.cycles_predicted <= self.bound else "feasible"
        note = f"round {number}, {len(plan.segments)} segments" + ("" if better else ", not better")
        self._log(Solved("plan", status, cycles, float(self.bound), "cycles"), self.record.seconds, 0.0, note)

    def _learn(self, attempt: _Attempt) -> None:
        """Make segments as dear as they turned out to be."""
        dearer: list[tuple[float, str]] = []
        for column, made, cycles in zip(
            attempt.segmentation.columns, attempt.segmentation.segments, attempt.realised.segment_cycles, strict=True
        ):
            if cycles > DEARER * column.cycles:
                self.cuts.append(ColumnCut(made.ops, made.instances, made.cores, cycles, "dearer than promised"))
                what = f"{made.ops[0]} .. {made.ops[-1]} takes {cycles:,} cycles, not {column.cycles:,}"
                dearer.append((cycles / max(1, column.cycles), what))
        if dearer:
            self.record.tell("segmentation", "dearer", message=f"{len(dearer)} segments; {max(dearer)[1]}")

    def _over(self) -> bool:
        return self.record.interrupts.seen or self.record.over()

    def _log(self, solved: Solved, seconds: float, spent: float, note: str) -> None:
        run = ModelRun(solved.model, solved.status, solved.objective, solved.bound, seconds, spent, solved.unit, note)
        self._note(run)

    def _note(self, run: ModelRun) -> None:
        """Log a run. A model that the user interrupted stops with what it has: that is the end if there is no plan."""
        self.record.run(run)
        if self.record.interrupts.seen and self.best is None:
            raise KeyboardInterrupt
