"""From tiled segments to a whole plan: pipeline, residency, banks, timeline, check. Or why there is none.

Each model below is asked with what the ones above have decided. A conflict between banks and residency is settled
here, by reservations of room (see :class:`~girih.solver.residency.solve.Reservation`); everything else goes up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import ceil

from ...ir.box import full
from ...ir.checks.check_plan import check_plan
from ...ir.checks.plan_facts import Geometry
from ...ir.errors import InfeasibleError
from ...ir.graph import Graph, Tensor
from ...ir.machine import Level, Machine, Memory
from ...ir.plan import LocalBuffer, Plan, Segment, SharedBuffer, Solved, Step
from ...ir.semantics.cell import Cells, count
from ..banks.placement import LocalOverflow, LocalPlaces, Placing, total_answer
from ..banks.problem import BufferRequest
from ..banks.solve import Placement, PlacementOverflow
from ..cost.tile_walk import TileWalks
from ..cpsat.backend import NO_SEARCH, Budget
from ..effort import NO_EFFORT, Effort, InfeasibleSearchError, PartialAnswer, total_effort
from ..options import LiveListener, ModelRun
from ..pipeline.solve import PipelinedLoop, PipelineOverflow, Pipelines
from ..residency.homes import Homes, HomesOverflowError, homes_without_exchange
from ..residency.problem import ResidencyProblem, residency_problem
from ..residency.solve import Reservation, Residency, SharedOverflow, decide_residency
from ..switches import ALL_ON, Disabled
from ..timeline.predict import predict
from .operand_movement import with_movement

MOST_RESERVATIONS = 8
"""Reservations tried before the segments must change; chosen, not measured."""
MOST_INSTANCES = 64
"""Instances of a segment that are predicted at most to compare its alternatives, as small memories ask for very many
of them; chosen, not measured."""


@dataclass(frozen=True)
class Infeasibility:
    """Why there is no plan: ``op`` in ``segment`` needs ``need`` bytes at ``level``, which has ``capacity``."""

    segment: int
    op: str
    level: Level
    need: int
    capacity: int
    message: str

    def error(self) -> InfeasibleError:
        return InfeasibleError(self.message)


@dataclass(frozen=True)
class EvaluatedPlan:
    """A checked plan; by segment, what its instances take on the cores if they never wait for main memory."""

    plan: Plan
    segment_cycles: tuple[int, ...]


@dataclass(frozen=True)
class PlanRequest:
    """What to build a plan for.

    Budgets are for one local placement, for residency and for each time that it has to leave more room, and for the
    shared memory.
    """

    segments: tuple[Segment, ...]
    steps: tuple[Step, ...]
    layerwise: bool
    local: Budget
    residency: Budget
    again: Budget
    shared: Budget


class PlanBuilder:
    """Everything that plans of one graph on one machine have in common, remembered from one to the next.

    ``any_plan``: nobody asks how long a plan takes before it is one; each slot counts as one cycle until then.
    """

    def __init__(
        self, graph: Graph, machine: Machine, cells: Cells, seed: int, note: Callable[[ModelRun], None],
        disabled: Disabled = ALL_ON, live: LiveListener | None = None, *, any_plan: bool = False,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.machine = machine
        self.cells = cells
        self.seed = seed
        self.disabled = disabled
        self.walks = TileWalks(graph, machine)
        self.pipelines = Pipelines(graph, cells, machine, self.walks, disabled)
        self.placing = Placing(graph, cells, machine, self.walks, seed, disabled)
        self._note = note
        self._live = live
        self._sha256 = graph.digest
        self.any_plan = any_plan
        # What the checker finds out is its own: it must be able to prove everything else here wrong.
        self._geometry = Geometry(graph)

    def build(self, request: PlanRequest) -> EvaluatedPlan | Infeasibility:
        """The plan, or the first reason why there is none."""
        drafted = self._draft(request)
        if isinstance(drafted, Infeasibility):
            return drafted
        draft, solved = drafted
        cycles = self._slot_cycles(draft)
        shared = self._shared(draft, request, cycles)
        if isinstance(shared, Infeasibility):
            return shared
        buffers, answers = shared
        plan = self.timed(replace(draft, shared=buffers, solved=(*solved, *answers)))
        return EvaluatedPlan(plan, _by_segment(plan, cycles))

    def timed(self, plan: Plan) -> Plan:
        """A whole plan with what is predicted for it, checked."""
        timeline = predict(self.graph, self.cells, self.machine, plan, self.walks)
        plan = replace(plan, cycles_predicted=timeline.cycles, predictions=timeline.predictions)
        check_plan(plan, self.graph, self.machine, self._geometry)
        return plan

    def on_cores(self, segment: Segment, instances: int | None = None, window: range | None = None) -> int | None:
        """Cycles that a segment's instances take on the cores if all that they read is there before and they are alone;
        ``None`` if packing without a search finds no place for their buffers.

        ``instances``: how many of them, from the first on; ``window``: positions of the operators that are predicted,
        in the segment; all unless they are given. Of all, no more than :data:`MOST_INSTANCES` are predicted; the rest
        follow at the pace of the second half of these. Equal segments take as long.
        """
        every = count(segment.instances)
        predicted = min(every, MOST_INSTANCES) if instances is None else instances
        steps = tuple(Step(0, n) for n in range(predicted))
        request = PlanRequest((segment,), steps, False, NO_SEARCH, NO_SEARCH, NO_SEARCH, NO_SEARCH)
        drafted = self._unheard._draft(request)
        if isinstance(drafted, Infeasibility):
            return None
        names = self.cells.run(segment.ops).tensors
        tensors = [self.graph.tensor[name] for name in names if name in self.graph.tensor]
        endless = self._endless(drafted[0], tensors)
        timeline = predict(self.graph, self.cells, self.machine, endless, self.walks, window)
        cycles = max(prediction.stop for prediction in timeline.predictions)
        if instances is not None or predicted == every:
            return cycles
        half = predicted // 2
        of_half = max((prediction.stop for prediction in timeline.predictions if prediction.step < half), default=0)
        return cycles + ceil((every - predicted) * (cycles - of_half) / (predicted - half))

    @cached_property
    def _unheard(self) -> PlanBuilder:
        return self.heard_by(ignore_run)

    def heard_by(self, note: Callable[[ModelRun], None]) -> PlanBuilder:
        """The same builder, of whose answers somebody else hears."""
        other = copy(self)
        other._note = note
        return other

    def _draft(self, request: PlanRequest) -> tuple[Plan, list[Solved]] | Infeasibility:
        """The plan without the shared memory, and what was solved for it."""
        pipelined = self._pipeline(request)
        if isinstance(pipelined, Infeasibility):
            return pipelined
        segments, pipeline = pipelined
        places = self._local(segments, request.local)
        if isinstance(places, Infeasibility):
            return places
        local, banks = places
        draft = Plan(
            strategy="layerwise" if request.layerwise else "solver", machine=self.machine.name,
            graph_sha256=self._sha256, seed=self.seed, segments=segments, cell_cores=(), steps=request.steps,
            local=local, shared=(), transfers=(), weight_streams=(), barrier=request.layerwise, cycles_predicted=0,
            lower_bound_cycles=0, lower_bound_reason="", predictions=(), solved=(),
        )  # fmt: skip
        return with_movement(draft, self.graph, self.cells, self.machine), [pipeline, *banks]

    def _pipeline(self, request: PlanRequest) -> tuple[tuple[Segment, ...], Solved] | Infeasibility:
        """The segments with the depths of their tiles (1 if layerwise)."""
        segments: list[Segment] = []
        loops: list[PipelinedLoop] = []
        for index, segment in enumerate(request.segments):
            answer = self.pipelines.segment(index, segment)
            if isinstance(answer, PipelineOverflow):
                return self._too_large(answer)
            segments.append(segment if request.layerwise else answer[0])
            loops += answer[1]
        times = Counter(step.segment for step in request.steps)
        cycles = float(sum(loop.cycles * times[loop.segment] for loop in loops))
        status = "fixed" if request.layerwise else "optimal"
        solved = Solved("pipeline", status, cycles, cycles, "cycles, all tile loops of one core")
        self._run(solved, NO_EFFORT, f"{len(loops)} loops")
        return tuple(segments), solved

    def _too_large(self, tile: PipelineOverflow) -> Infeasibility:
        what = "its weights" if tile.level == self.machine.levels.weights else "its private buffers"
        return Infeasibility(
            tile.segment, tile.op, tile.level, tile.need, tile.capacity,
            f"operator {tile.op}: a tile of {what} takes {tile.need:,} bytes of {tile.level.name}, "
            f"{tile.need - tile.capacity:,} more than the {tile.capacity:,} there are; {_ways_out(tile.level)}",
        )  # fmt: skip

    def _local(
        self, segments: Sequence[Segment], budget: Budget
    ) -> tuple[tuple[LocalBuffer, ...], tuple[Solved, ...]] | Infeasibility:
        """The buffers of all segments in the memories of a core."""
        local: list[LocalPlaces] = []
        for index, segment in enumerate(segments):
            if not segment.tiles:
                continue
            answer = self.placing.local(index, segment, budget)
            if isinstance(answer, LocalOverflow):
                efforts = (answer.overflow.effort, *(effort for places in local for effort in places.efforts))
                self.discard(answer.overflow.solved.model, efforts)
                return self._overflow(answer)
            local.append(answer)
        solved: list[Solved] = []
        answers = [answer for places in local for answer in zip(places.solved, places.efforts, strict=True)]
        for name in dict.fromkeys(s.model for s, _ in answers):
            model_answers = [(s, effort) for s, effort in answers if s.model == name]
            whole = total_answer(name, (s for s, _ in model_answers))
            if whole is not None:
                solved.append(whole)
                # Equal segments share an answer, and the time that it took.
                parts = [
                    PartialAnswer(n, s.objective or 0.0, s.bound, e) for (s, e), n in Counter(model_answers).items()
                ]
                self._run(whole, total_effort(parts))
        return tuple(b for places in local for b in places.buffers), tuple(solved)

    def _overflow(self, local: LocalOverflow) -> Infeasibility:
        overflow, level = local.overflow, local.level
        return Infeasibility(
            local.segment, local.op, level, overflow.need, overflow.capacity,
            f"operator {local.op}: {', '.join(overflow.names[:4])} take {overflow.need:,} bytes of {level.name} "
            f"at once, which has {overflow.capacity:,}; {_ways_out(level)}",
        )  # fmt: skip

    def _shared(
        self, draft: Plan, request: PlanRequest, cycles: tuple[int, ...]
    ) -> tuple[tuple[SharedBuffer, ...], tuple[Solved, ...]] | Infeasibility:
        """What lives in the shared memory when, and where; ``cycles``: of each slot."""
        if not self.machine.levels.has_exchange:
            solved = Solved("residency", "fixed", 0.0, 0.0, "cycles, weighted")
            self._run(solved, NO_EFFORT, "the cores load from main memory")
            homes = self._homes_without_exchange(draft, request.shared)
            if isinstance(homes, Infeasibility):
                return homes
            return homes.buffers, (solved, *self._sharing(homes))
        memory = self.machine.levels.exchange.memory
        problem: ResidencyProblem | None = None
        reservations: list[Reservation] = []
        answer: Residency | SharedOverflow | None = None
        while True:
            try:
                if answer is None:
                    problem = problem or residency_problem(
                        self.graph, self.cells, self.machine, draft.segments, draft.steps, cycles, self.disabled
                    )
                    answer = decide_residency(
                        self.graph, self.cells, self.machine, draft.segments, draft.steps,
                        slot_cycles=cycles, reservations=reservations,
                        budget=request.again if reservations else request.residency, seed=self.seed,
                        everything_in_main=request.layerwise, problem=problem, disabled=self.disabled,
                        watch=self._watch if self._live else None,
                    )  # fmt: skip
            except InfeasibleSearchError as error:
                self.discard("residency", (error.effort,))
                raise
            if isinstance(answer, SharedOverflow):
                return self._shared_overflow(draft, answer)
            self._run(answer.solved, answer.effort, f"{len(answer.planned) + len(answer.homes.buffers)} buffers")
            placed = self.placing.place(answer.requests, memory, (), request.shared)
            if not isinstance(placed, PlacementOverflow):
                self._run(placed.solved, placed.effort)
                return answer.placed(placed.addresses), (answer.solved, placed.solved, *self._sharing(answer.homes))
            self._run(placed.solved, placed.effort, "cut: residency must leave room")
            if len(reservations) == MOST_RESERVATIONS:
                return self._unplaced(draft, answer, placed)
            spare = max(memory.capacity // 64, placed.excess)
            reservations.append(Reservation(placed.live, spare * (1 + len(reservations))))
            answer = None

    def _homes_without_exchange(self, draft: Plan, budget: Budget) -> Homes | Infeasibility:
        """Where the cores load from main memory. Raises :class:`InfeasibleSearchError` if that is too small for what is
        there whatever the segments are."""

        def place(requests: tuple[BufferRequest, ...], memory: Memory) -> Placement | PlacementOverflow:
            return self.placing.place(requests, memory, (), budget)

        try:
            return homes_without_exchange(self.graph, self.machine, draft.segments, draft.steps, place)
        except HomesOverflowError as error:
            level = self.machine.levels.home
            self.discard(f"banks:{level.name}", (error.effort,))
            if error.slot is None:
                raise
            step, op = draft.slots[error.slot]
            return Infeasibility(draft.steps[step].segment, op, level, error.need, level.capacity, str(error))

    def _sharing(self, homes: Homes) -> tuple[Solved, ...]:
        """How homes that share addresses were placed; nothing if none do."""
        if homes.solved is None:
            return ()
        self._run(homes.solved, homes.effort, "homes share addresses")
        return (homes.solved,)

    def _shared_overflow(self, draft: Plan, overflow: SharedOverflow) -> Infeasibility:
        segment = draft.steps[overflow.step].segment
        return Infeasibility(
            segment, overflow.op, self.machine.levels.exchange, overflow.capacity + overflow.excess, overflow.capacity,
            str(overflow.error()),
        )  # fmt: skip

    def _unplaced(self, draft: Plan, residency: Residency, overflow: PlacementOverflow) -> Infeasibility:
        step, op = draft.slots[overflow.live[0]]
        level = self.machine.levels.exchange
        return Infeasibility(
            draft.steps[step].segment, op, level, overflow.need, overflow.capacity,
            f"operator {op}: {', '.join(overflow.names[:4])} could not be packed into {level.name}: {overflow.need:,} "
            f"bytes of {overflow.capacity:,}, in {len(residency.requests)} buffers; {_ways_out(level)}",
        )  # fmt: skip

    def _watch(self, incumbent: float | None, bound: float | None) -> None:
        if self._live is not None:
            self._live("residency", incumbent, bound, "cycles, weighted")

    def _slot_cycles(self, draft: Plan) -> tuple[int, ...]:
        """Cycles of each slot if the shared memory were endless and held everything: by how much it moves the end."""
        if self.any_plan:
            return (1,) * len(draft.slots)
        timeline = predict(self.graph, self.cells, self.machine, self._endless(draft, self.graph.tensors), self.walks)
        stops = accumulate((p.stop for p in timeline.predictions), max, initial=0)
        return tuple(max(1, stop - before) for before, stop in pairwise(stops))

    def _endless(self, draft: Plan, tensors: Iterable[Tensor]) -> Plan:
        """The plan with each of these tensors in its own place of shared and of main memory, for good."""
        buffers: list[SharedBuffer] = []
        slots = len(draft.slots)
        levels = self.machine.levels
        for level in (levels.exchange, levels.home) if levels.has_exchange else (levels.home,):
            address = 0
            for tensor in tensors:
                constant = tensor.name in self.graph.constant_names
                held = levels.home_of(constant=constant) if level == levels.home else level
                place = (held.name, address, tensor.bytes, (0, slots))
                buffers.append(SharedBuffer(tensor.name, full(tensor.shape), *place))
                address += tensor.bytes
        return replace(draft, shared=tuple(buffers))

    def discard(self, model: str, efforts: Iterable[Effort]) -> None:
        """Log searches of which no answer is used, if the wall clock ended one: without it there might be one."""
        effort = sum(efforts, NO_EFFORT)
        if effort.timed_out:
            self._run(Solved(model, "timeout", None, None, ""), effort, "no answer in time")

    def _run(self, solved: Solved, effort: Effort, note: str = "") -> None:
        self._note(ModelRun.from_solved(solved, effort, note))


def ignore_run(_: ModelRun) -> None:
    """Nobody hears of what a model answered: the plan is all that counts."""


def _ways_out(level: Level) -> str:
    return f"use a smaller batch, a narrower precision or a machine with more {level.name}"


def _by_segment(plan: Plan, cycles: Sequence[int]) -> tuple[int, ...]:
    totals = [0] * len(plan.segments)
    for (step, _), busy in zip(plan.slots, cycles, strict=True):
        totals[plan.steps[step].segment] += busy
    return tuple(totals)
