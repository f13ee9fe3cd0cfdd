"""From tiled segments to a whole plan: pipeline, residency, banks, timeline, check. Or a refusal, for the models above.

Each model below is asked with what the ones above have decided. A conflict between banks and residency is settled
here, by reservations of room (see :class:`~girih.solver.residency.solve.Reservation`); everything else goes up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...ir.box import full
from ...ir.checks.check_plan import check_plan
from ...ir.checks.plan_facts import Geometry
from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Machine, Role
from ...ir.plan import LocalBuffer, Plan, Segment, SharedBuffer, Solved, Step
from ...ir.semantics.cell import Cells
from ..banks.placement import LocalOverflow, LocalPlaces, Placing, together
from ..banks.solve import Overflow
from ..cost.tile_walk import TileWalks
from ..cpsat.backend import Budget
from ..options import ModelRun
from ..pipeline.solve import Pipelined, Pipelines, TooLarge
from ..residency.problem import residency_problem
from ..residency.solve import Reservation, Residency, Shortage, decide_residency
from ..switches import ALL_ON, Disabled
from ..timeline.predict import Timeline, predict

MOST_CUTS = 8
"""How often residency may be asked to leave more room before the segments must change."""


@dataclass(frozen=True)
class Refusal:
    """What cannot be: ``op`` in ``segment`` needs ``excess`` bytes too many of the memory with that ``role``."""

    segment: int
    op: str
    role: Role
    need: int
    capacity: int
    message: str

    def error(self) -> InfeasibleError:
        return InfeasibleError(self.message)


@dataclass(frozen=True)
class Realised:
    """A checked plan, and what the timeline predicts for it.

    ``segment_cycles``: by segment, what its instances take on the cores if they never wait for main memory.
    """

    plan: Plan
    timeline: Timeline
    pipelined: tuple[Pipelined, ...]
    segment_cycles: tuple[int, ...]


@dataclass(frozen=True)
class Request:
    """What to realise. Budgets are for one local placement, for residency and for each time that it has to leave more
    room, and for the shared memory."""

    segments: tuple[Segment, ...]
    steps: tuple[Step, ...]
    layerwise: bool
    local: Budget
    residency: Budget
    again: Budget
    shared: Budget


class Realiser:
    """Everything that plans of one graph on one machine have in common, remembered from one to the next."""

    def __init__(
        self, graph: Graph, machine: Machine, cells: Cells, seed: int, note: Callable[[ModelRun], None],
        disabled: Disabled = ALL_ON,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.machine = machine
        self.cells = cells
        self.seed = seed
        self.disabled = disabled
        self.walks = TileWalks(graph, machine)
        self.pipelines = Pipelines(graph, cells, machine, self.walks, seed, disabled)
        self.placing = Placing(graph, cells, machine, self.walks, seed, disabled)
        self._note = note
        self._sha256 = graph.digest
        # What the checker finds out is its own: it must be able to prove everything else here wrong.
        self._geometry = Geometry(graph)

    def realise(self, asked: Request) -> Realised | Refusal:
        """The plan for these segments, or the first reason why there is none."""
        made = self._draft(asked)
        if isinstance(made, Refusal):
            return made
        draft, pipelined, solved = made
        cycles = self.slot_cycles(draft)
        shared = self._shared(draft, asked, cycles)
        if isinstance(shared, Refusal):
            return shared
        buffers, answers = shared
        plan, timeline = self.timed(replace(draft, shared=buffers, solved=(*solved, *answers)))
        return Realised(plan, timeline, pipelined, _by_segment(plan, cycles))

    def timed(self, plan: Plan) -> tuple[Plan, Timeline]:
        """A whole plan with what is predicted for it, checked."""
        timeline = predict(self.graph, self.cells, self.machine, plan, self.walks)
        plan = replace(plan, cycles_predicted=timeline.cycles, predictions=timeline.predictions)
        check_plan(plan, self.graph, self.machine, self._geometry)
        return plan, timeline

    def on_cores(self, asked: Request) -> tuple[int, ...] | Refusal:
        """By segment, what its instances take on the cores if they never wait for main memory."""
        made = self._draft(asked)
        return made if isinstance(made, Refusal) else _by_segment(made[0], self.slot_cycles(made[0]))

    def _draft(self, asked: Request) -> tuple[Plan, tuple[Pipelined, ...], list[Solved]] | Refusal:
        """The plan without the shared memory, its loops, and what was solved for it."""
        deep = self._pipeline(asked)
        if isinstance(deep, Refusal):
            return deep
        segments, pipelined, pipeline = deep
        places = self._local(segments, asked.local)
        if isinstance(places, Refusal):
            return places
        local, banks = places
        draft = Plan(
            "layerwise" if asked.layerwise else "solver", self.machine.name, self._sha256, self.seed, segments,
            asked.steps, local, (), asked.layerwise, 0, 0, "", (), (),
        )  # fmt: skip
        return draft, pipelined, [s for s in (pipeline, *banks) if s is not None]

    def _pipeline(self, asked: Request) -> tuple[tuple[Segment, ...], tuple[Pipelined, ...], Solved | None] | Refusal:
        """The segments with the depths of their tiles (1 if layerwise)."""
        segments: list[Segment] = []
        pipelined: list[Pipelined] = []
        for index, segment in enumerate(asked.segments):
            answer = self.pipelines.segment(index, segment)
            if isinstance(answer, TooLarge):
                return self._too_large(answer)
            segments.append(segment if asked.layerwise else answer[0])
            pipelined += answer[1]
        times = [sum(1 for s in asked.steps if s.segment == i) for i in range(len(segments))]
        cycles = float(sum(p.cycles * times[p.segment] for p in pipelined))
        proven = all(p.schedule.status == "optimal" for p in pipelined)
        status = "fixed" if asked.layerwise else "optimal" if proven else "feasible"
        bound = cycles if proven else None
        solved = Solved("pipeline", status, cycles, bound, "cycles, all tile loops of one core")
        seconds = sum(p.schedule.seconds for p in pipelined)
        self._run(solved, seconds, sum(p.schedule.deterministic_seconds for p in pipelined), f"{len(pipelined)} loops")
        return tuple(segments), tuple(pipelined), solved

    def _too_large(self, found: TooLarge) -> Refusal:
        memory = self.machine.role(found.role)
        what = "weights" if found.role == "weights" else "private buffers"
        return Refusal(
            found.segment, found.op, found.role, found.need, found.capacity,
            f"operator {found.op}: a tile of its {what} takes {found.need:,} bytes of {memory.name}, which has "
            f"{found.capacity:,}",
        )  # fmt: skip

    def _local(
        self, segments: Sequence[Segment], budget: Budget
    ) -> tuple[tuple[LocalBuffer, ...], tuple[Solved, ...]] | Refusal:
        """The buffers of all segments in the memories of a core."""
        found: list[LocalPlaces] = []
        for index, segment in enumerate(segments):
            if not segment.tiles:
                continue
            answer = self.placing.local(index, segment, budget)
            if isinstance(answer, LocalOverflow):
                return self._overflow(answer)
            found.append(answer)
        solved: list[Solved] = []
        for name in dict.fromkeys(s.model for places in found for s in places.solved):
            whole = together(name, (s for places in found for s in places.solved if s.model == name))
            if whole is not None:
                solved.append(whole)
                self._run(whole, sum(p.seconds for p in found), sum(p.deterministic_seconds for p in found), "")
        return tuple(b for places in found for b in places.buffers), tuple(solved)

    def _overflow(self, found: LocalOverflow) -> Refusal:
        over, memory = found.overflow, found.memory
        return Refusal(
            found.segment, found.op, memory.role, over.need, over.capacity,
            f"operator {found.op}: {', '.join(over.names[:4])} take {over.need:,} bytes of {memory.name} at once, "
            f"which has {over.capacity:,}",
        )  # fmt: skip

    def _shared(
        self, draft: Plan, asked: Request, cycles: list[int]
    ) -> tuple[tuple[SharedBuffer, ...], tuple[Solved, ...]] | Refusal:
        """What lives in the shared memory when, and where."""
        memory = self.machine.role("shared")
        problem = residency_problem(
            self.graph, self.cells, self.machine, draft.segments, draft.steps, cycles, self.disabled
        )
        reservations: list[Reservation] = []
        while True:
            answer = decide_residency(
                self.graph, self.cells, self.machine, draft.segments, draft.steps,
                slot_cycles=cycles, reservations=reservations,
                budget=asked.again if reservations else asked.residency, seed=self.seed,
                everything_in_main=asked.layerwise, problem=problem, disabled=self.disabled,
            )  # fmt: skip
            if isinstance(answer, Shortage):
                return self._shortage(draft, answer)
            self._run(
                answer.solved,
                answer.seconds,
                answer.deterministic_seconds,
                f"{len(answer.planned) + len(answer.main)} buffers",
            )
            placed = self.placing.place(answer.requests, memory, (), asked.shared)
            if not isinstance(placed, Overflow):
                self._run(placed.solved, placed.seconds, placed.deterministic_seconds, "")
                return answer.placed(placed.addresses), (answer.solved, placed.solved)
            self._run(placed.solved, placed.seconds, placed.deterministic_seconds, "cut: residency must leave room")
            if len(reservations) == MOST_CUTS:
                return self._unplaced(draft, answer, placed)
            spare = max(memory.capacity // 64, placed.excess)
            reservations.append(Reservation(placed.live, spare * (1 + len(reservations))))

    def _shortage(self, draft: Plan, found: Shortage) -> Refusal:
        segment = draft.steps[found.step].segment
        return Refusal(
            segment, found.op, "shared", found.capacity + found.excess, found.capacity, str(found.error())
        )  # fmt: skip

    def _unplaced(self, draft: Plan, residency: Residency, found: Overflow) -> Refusal:
        step, op = draft.slots[found.live[0]]
        memory = self.machine.role("shared")
        return Refusal(
            draft.steps[step].segment, op, "shared", found.need, found.capacity,
            f"operator {op}: {', '.join(found.names[:4])} could not be packed into {memory.name}: {found.need:,} bytes "
            f"of {found.capacity:,}, in {len(residency.requests)} buffers",
        )  # fmt: skip

    def slot_cycles(self, draft: Plan) -> list[int]:
        """Cycles of each slot if the shared memory were endless and held everything: by how much it moves the end."""
        timeline = predict(self.graph, self.cells, self.machine, self._endless(draft), self.walks)
        cycles: list[int] = []
        before = 0
        for prediction in timeline.predictions:
            cycles.append(max(1, prediction.stop - before))
            before = max(before, prediction.stop)
        return cycles

    def _endless(self, draft: Plan) -> Plan:
        """The plan with each tensor in its own place of shared and of main memory, for good."""
        buffers: list[SharedBuffer] = []
        slots = len(draft.slots)
        for role in ("shared", "main"):
            address = 0
            for tensor in self.graph.tensors:
                place = (self.machine.role(role).name, address, tensor.bytes, (0, slots))
                buffers.append(SharedBuffer(tensor.name, full(tensor.shape), *place))
                address += tensor.bytes
        return replace(draft, shared=tuple(buffers))

    def _run(self, solved: Solved, seconds: float, spent: float, note: str) -> None:
        self._note(
            ModelRun(solved.model, solved.status, solved.objective, solved.bound, seconds, spent, solved.unit, note)
        )


def _by_segment(plan: Plan, cycles: Sequence[int]) -> tuple[int, ...]:
    spent = [0] * len(plan.segments)
    for (step, _), busy in zip(plan.slots, cycles, strict=True):
        spent[plan.steps[step].segment] += busy
    return tuple(spent)
