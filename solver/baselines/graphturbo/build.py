"""From a graph to a plan by heuristics alone; what does not fit is cut finer until it does."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from ....ir.checks.check_plan import check_plan
from ....ir.graph import Graph
from ....ir.machine import Level, Machine
from ....ir.plan import LocalBuffer, Plan, Segment, Solved, Step
from ....ir.semantics.cell import Cells, OperatorRun
from ....ir.semantics.in_place import replaced
from ...cost.equivalence import renamed, structural_class
from ...cost.local_buffers import local_requests, scratch_groups
from ...cost.tile_walk import TileWalks
from ...effort import Effort
from ...options import ModelRun
from ...residency.greedy import SlotOverflow
from ...residency.homes import homes_without_exchange
from ...residency.problem import residency_problem
from ...residency.solve import SharedOverflow
from ...subproblem.operand_movement import with_movement
from ...subproblem.plan_builder import EvaluatedPlan, Infeasibility
from ...subproblem.step_order import orders, segment_by_segment
from ...timeline.predict import predict
from .level import AblationLevel
from .local_addresses import addresses, in_place_last
from .segments import Segments
from .spill import Spilling, first_fit_only, spill
from .tile_size import OperatorOverflow, Tiles

AHEAD = 3
"""Slots that a fetch may come before its use: weights pass four stages (DMA, hoist, dispatch, compute), one a layer."""
SLOT = 1 << 20
"""Cycles that a slot counts for: heuristics expect nothing, and the order of its weights must stay visible. Chosen, not
measured."""


class Heuristics:
    """The strategy for one graph on one machine; ``note`` hears of each step."""

    def __init__(
        self,
        graph: Graph,
        machine: Machine,
        cells: Cells,
        level: AblationLevel,
        seed: int,
        note: Callable[[ModelRun], None],
    ) -> None:
        self.graph = graph
        self.machine = machine
        self.cells = cells
        self.level = level
        self.seed = seed
        self._note = note
        self._segments = Segments(graph, machine, cells, level)
        self._tiles = Tiles(graph, machine, cells)
        self._walks = TileWalks(graph, machine)
        self._places: dict[Hashable, tuple[OperatorRun, list[LocalBuffer]]] = {}

    def plan(self) -> EvaluatedPlan:
        """The plan. Raises :class:`~girih.ir.errors.InfeasibleError` if an operator fits in no way at all."""
        while True:
            began = time.perf_counter()
            segments = self._segments.segments()
            grouped = self._ran(Solved("segmentation", "fixed", float(len(segments)), None, "segments"), began)
            answer = self._below(segments, grouped)
            if isinstance(answer, EvaluatedPlan):
                return answer
            self._segments.refuse(segments[answer.segment], answer)

    def _below(self, bare: Sequence[Segment], grouped: Solved) -> EvaluatedPlan | Infeasibility:
        """Tiles, addresses and order for these segments, or the first reason why there are none."""
        began = time.perf_counter()
        segments = self._tiled(bare)
        if isinstance(segments, Infeasibility):
            return segments
        tiled = self._ran(Solved("tiling", "fixed", float(sum(len(s.tiles) for s in segments)), None, "tiles"), began)
        local = self._local(segments)
        if isinstance(local, Infeasibility):
            return local
        best: tuple[tuple[Step, ...], Spilling, Solved] | None = None
        for steps in orders(self.graph, self.cells, segments) if self.level.split else [segment_by_segment(segments)]:
            began = time.perf_counter()
            shared = self._shared(segments, steps)
            if isinstance(shared, Infeasibility):
                return shared
            solved = Solved("residency", "fixed", float(shared.traffic), None, "cycles of main memory")
            self._ran(solved, began, f"{shared.spilled} tensors spilled")
            if best is None or shared.traffic < best[1].traffic:
                best = steps, shared, solved
        assert best is not None
        return self._realised(segments, best[0], local, best[1], (grouped, tiled, best[2]))

    def _tiled(self, bare: Sequence[Segment]) -> tuple[Segment, ...] | Infeasibility:
        tiled_segments: list[Segment] = []
        for index, segment in enumerate(bare):
            tiled = self._tiles.segment(segment, self._segments.caps)
            if isinstance(tiled, OperatorOverflow):
                what = "the smallest tile takes"
                return self._too_much(index, tiled.op, tiled.level, what, tiled.need, tiled.capacity)
            tiled_segments.append(tiled)
        return tuple(tiled_segments)

    def _local(self, segments: Sequence[Segment]) -> tuple[LocalBuffer, ...] | Infeasibility:
        """All buffers of the cores; equal segments share theirs."""
        everything: list[LocalBuffer] = []
        for index, segment in enumerate(segments):
            run, key = self.cells.run(segment.ops), structural_class(self.cells, segment)
            if key not in self._places:
                placed = self._placed(index, segment)
                if isinstance(placed, Infeasibility):
                    return placed
                self._places[key] = run, placed
            first, buffers = self._places[key]
            everything += renamed(buffers, first, run, index)
        return tuple(everything)

    def _placed(self, index: int, segment: Segment) -> list[LocalBuffer] | Infeasibility:
        """The buffers of one segment at their addresses."""
        addressed: list[LocalBuffer] = []
        buffers = local_requests(self.graph, self.cells, self.machine, index, segment)
        before = replaced(self.graph, [self.graph.op[n] for n in segment.ops])
        levels = self.machine.levels
        for level in levels.of_core:
            requests = [b for b in buffers if b.use == level.use]
            groupings = in_place_last(requests, before if level == levels.activations else {})
            if level == levels.sums:
                groupings = [scratch_groups(self.graph, segment, requests)]
            at = addresses(requests, groupings, level.memory)
            if isinstance(at, int):
                return self._too_much(index, segment.ops[-1], level, "what it uses takes", at)
            addressed += [replace(b, address=level.base + a) for b, a in zip(requests, at, strict=True)]
        return addressed

    def _shared(self, segments: Sequence[Segment], steps: Sequence[Step]) -> Spilling | Infeasibility:
        """What lives in the shared memory when, for one order."""
        if not self.machine.levels.has_exchange:
            homes = homes_without_exchange(self.graph, self.machine, segments, steps, first_fit_only)
            return Spilling(homes.buffers, 0, 0)
        slots = [(number, op) for number, step in enumerate(steps) for op in segments[step.segment].ops]
        problem = residency_problem(self.graph, self.cells, self.machine, segments, steps, [SLOT] * len(slots))
        answer = spill(self.graph, self.machine, problem, AHEAD if self.level.overlap else 0)
        if not isinstance(answer, SlotOverflow):
            return answer
        step, op = slots[answer.slot]
        room = problem.capacity
        overflow = SharedOverflow(answer.slot, step, op, answer.bytes, room, answer.tensors)
        return Infeasibility(
            steps[step].segment, op, self.machine.levels.exchange, room + answer.bytes, room, str(overflow.error())
        )

    def _too_much(
        self, segment: int, op: str, level: Level, what: str, need: int, capacity: int | None = None
    ) -> Infeasibility:
        """``capacity``: bytes that may be used, if not all that there are."""
        room = level.capacity if capacity is None else capacity
        message = (
            f"operator {op}: {what} {need:,} bytes of {level.name}, {need - room:,} more than the "
            f"{room:,} there are; use a machine with more {level.name} or a smaller batch"
        )
        return Infeasibility(segment, op, level, need, room, message)

    def _realised(
        self, segments: tuple[Segment, ...], steps: tuple[Step, ...], local: tuple[LocalBuffer, ...], shared: Spilling,
        solved: tuple[Solved, ...],
    ) -> EvaluatedPlan:  # fmt: skip
        plan = Plan(
            self.level.strategy, self.machine.name, self.graph.digest, self.seed, segments, (), steps,
            local, shared.buffers, (), (), not self.level.overlap, 0, 0, "", (), solved,
        )  # fmt: skip
        plan = with_movement(plan, self.graph, self.cells, self.machine)
        timeline = predict(self.graph, self.cells, self.machine, plan, self._walks)
        plan = replace(plan, cycles_predicted=timeline.cycles, predictions=timeline.predictions)
        check_plan(plan, self.graph, self.machine)
        return EvaluatedPlan(plan, ())

    def _ran(self, solved: Solved, began: float, note: str = "") -> Solved:
        self._note(ModelRun.from_solved(solved, Effort(time.perf_counter() - began), note))
        return solved
