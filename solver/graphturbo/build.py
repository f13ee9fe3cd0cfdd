"""From a graph to a plan by heuristics alone; what does not fit is cut finer until it does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...ir.cell import Cells
from ...ir.codec import sha256
from ...ir.errors import InfeasibleError
from ...ir.graph import Graph, Op
from ...ir.in_place import replaced
from ...ir.machine import Machine, Role
from ...ir.plan import LocalBuffer, Plan, Segment, Solved, Step
from ...ir.plan_check import check_plan
from ..buffers import local_requests
from ..candidates import Candidates
from ..demand import demand
from ..options import ModelRun
from ..order import orders, segment_by_segment
from ..prefetch import Excess
from ..realise import Realised, Refusal
from ..timeline import predict
from ..walk import Walks
from .group import group
from .level import Level
from .local import addresses
from .spill import Settled, settle
from .split import SplitInfo, Splitter
from .tile import Tiles

AHEAD = 3
"""Slots that a fetch may come before its use: weights pass four stages (DMA, hoist, dispatch, compute), one a layer."""
SHRINK = 4
"""By how much the room for an operator's weights goes down when they do not fit into the shared memory."""
LEAST_CAP = 4096
"""Bytes below which smaller tiles of weights are no answer."""
MARGINS = 8
"""Shares of local memory that are left free in turn where an operator does not fit under its own split."""
SLOT = 1 << 20
"""Cycles that a slot counts for: heuristics expect nothing, and the order of its weights must stay visible."""


class Heuristics:
    """The strategy for one graph on one machine; ``note`` hears of each step."""

    def __init__(
        self, graph: Graph, machine: Machine, cells: Cells, level: Level, seed: int, note: Callable[[ModelRun], None]
    ) -> None:
        self.graph = graph
        self.machine = machine
        self.cells = cells
        self.level = level
        self.seed = seed
        self._note = note
        self._splitter = Splitter(graph, machine, cells)
        self._tiles = Tiles(graph, machine, cells)
        self._walks = Walks(graph, machine)
        self._position = {op.name: i for i, op in enumerate(graph.ops)}
        self._refused: list[tuple[int, int]] = []
        self._caps: dict[str, int] = {}
        self._finer: dict[str, Iterator[Segment]] = {}
        self._cut: dict[str, Segment] = {}

    def plan(self) -> Realised:
        """The plan. Raises :class:`InfeasibleError` if an operator fits in no way at all."""
        while True:
            answer = self._plan(self._segments())
            if isinstance(answer, Realised):
                return answer
            self._smaller(answer)

    # Segments.

    def _segments(self) -> tuple[Segment, ...]:
        began = time.perf_counter()
        found: list[Segment] = []
        for sub in group(self.graph, self._split):
            ops = self.graph.ops[sub.first : sub.last + 1]
            if ops[0].host is not None:
                found.append(Segment((ops[0].name,), (), (), ()))
            elif ops[0].name in self._cut and len(ops) == 1:
                found.append(self._cut[ops[0].name])
            elif sub.split is not None:
                found.append(self._splitter.segment(ops, sub.split.instances, sub.split.cores))
            else:
                found.append(self._next_cut(ops[0], None))
        self._ran(Solved("segmentation", "fixed", float(len(found)), None, "segments"), began)
        return tuple(found)

    def _split(self, first: int, last: int) -> SplitInfo | None:
        """The split of a run of operators, if the level joins them and nothing has refused them yet."""
        if any(a >= first and b <= last for a, b in self._refused):
            return None
        if first < last and not self.level.join:
            return None
        split = self._splitter.best(first, last)
        if split is not None and first < last and split.factor > 1 and not self.level.split:
            return None
        return split

    def _smaller(self, refusal: Refusal) -> None:
        """Cut what was refused: the sub-graph in parts, then the weights of an operator, then the operator itself."""
        position = self._position[refusal.op]
        run = next((r for r in self._runs if r[0] <= position <= r[1]), (position, position))
        if run[0] < run[1]:
            self._refused.append(run)
            return
        op = self.graph.ops[position]
        cap = self._caps.get(op.name, self.machine.role("weights").capacity) // SHRINK
        if refusal.role in ("weights", "shared") and self._streams(op) and cap >= LEAST_CAP:
            self._caps[op.name] = cap
        else:
            self._next_cut(op, refusal)

    def _next_cut(self, op: Op, refusal: Refusal | None) -> Segment:
        """A finer cut of an operator: those of the layer-wise strategy, one after the other."""
        cuts = self._finer.setdefault(op.name, self._layerwise(op))
        cut = next(cuts, None)
        if cut is None:
            raise refusal.error() if refusal else InfeasibleError(f"operator {op.name} fits under no cut")
        self._cut[op.name] = cut
        return cut

    def _layerwise(self, op: Op) -> Iterator[Segment]:
        seen: set[Segment] = set()
        for part in range(MARGINS):
            margin = part * self.machine.role("local").capacity // (2 * MARGINS)
            made = Candidates(self.graph, self.machine, longest=1, margin=margin)
            for column in made.ending(self._position[op.name]):
                cut = self._splitter.segment((op,), column.cut.instances, column.cut.cores)
                if cut not in seen:
                    seen.add(cut)
                    yield cut

    def _streams(self, op: Op) -> bool:
        """Whether an operator could have a constant as its stationary operand."""
        return op.anchor is not None and op.stages[op.anchor].reads[1].tensor in self.graph.constant_names

    # Everything below the segments.

    def _plan(self, bare: tuple[Segment, ...]) -> Realised | Refusal:
        self._runs = [(self._position[s.ops[0]], self._position[s.ops[-1]]) for s in bare]
        segments = self._tiled(bare)
        if isinstance(segments, Refusal):
            return segments
        local = self._local(segments)
        if isinstance(local, Refusal):
            return local
        found: tuple[tuple[Step, ...], Settled] | None = None
        tried = orders(self.graph, self.cells, segments) if self.level.split else (segment_by_segment(segments),)
        for steps in tried:
            settled = self._shared(segments, steps)
            if isinstance(settled, Refusal):
                return settled
            if found is None or settled.traffic < found[1].traffic:
                found = steps, settled
        assert found is not None
        return self._realised(segments, local, *found)

    def _tiled(self, bare: Sequence[Segment]) -> tuple[Segment, ...] | Refusal:
        began = time.perf_counter()
        found: list[Segment] = []
        for index, segment in enumerate(bare):
            tiled = self._tiles.segment(segment, self._caps) if segment.tiles else segment
            if isinstance(tiled, str):
                return self._too_much(index, tiled, "accumulator", "the smallest tile does not fit")
            found.append(tiled)
        self._ran(Solved("tiling", "fixed", float(sum(len(s.tiles) for s in found)), None, "tiles"), began)
        return tuple(found)

    def _local(self, segments: Sequence[Segment]) -> tuple[LocalBuffer, ...] | Refusal:
        """All buffers of the cores."""
        found: list[LocalBuffer] = []
        for index, segment in enumerate(segments):
            buffers = local_requests(self.graph, self.cells, self.machine, index, segment)
            before = replaced(self.graph, [self.graph.op[n] for n in segment.ops])
            for memory in self.machine.memories:
                mine = [b for b in buffers if b.memory == memory.name]
                at = addresses(mine, before if memory.role == "local" else {}, memory)
                if at is None:
                    return self._too_much(index, segment.ops[-1], memory.role, "its buffers do not fit")
                found += [replace(b, address=a) for b, a in zip(mine, at, strict=True)]
        return tuple(found)

    def _shared(self, segments: Sequence[Segment], steps: Sequence[Step]) -> Settled | Refusal:
        began = time.perf_counter()
        slots = [(step.segment, op) for step in steps for op in segments[step.segment].ops]
        wanted = demand(self.graph, self.cells, self.machine, segments, steps, [SLOT] * len(slots))
        settled = settle(self.graph, self.machine, wanted, AHEAD if self.level.overlap else 0)
        if isinstance(settled, Excess):
            index, op = slots[settled.slot]
            why = f"{', '.join(settled.tensors[:4])} take {settled.bytes:,} bytes too many at once"
            return self._too_much(index, op, "shared", why)
        solved = Solved("residency", "fixed", float(settled.traffic), None, "cycles of main memory")
        self._ran(solved, began, f"{settled.spilled} tensors spilled")
        return settled

    def _too_much(self, segment: int, op: str, role: Role, why: str) -> Refusal:
        memory = self.machine.role(role)
        message = (
            f"operator {op}: {why} into {memory.name}, which has {memory.capacity:,} bytes; use a machine with more"
        )
        return Refusal(segment, op, role, memory.capacity, memory.capacity, message)

    def _realised(
        self, segments: tuple[Segment, ...], local: tuple[LocalBuffer, ...], steps: tuple[Step, ...], settled: Settled
    ) -> Realised:
        plan = Plan(
            self.level.strategy, self.machine.name, sha256(replace(self.graph, data={})), self.seed, segments, steps,
            local, settled.buffers, not self.level.overlap, 0, 0, "", (), (),
        )  # fmt: skip
        timeline = predict(self.graph, self.cells, self.machine, plan, self._walks)
        residency = Solved("residency", "fixed", float(settled.traffic), None, "cycles of main memory")
        plan = replace(
            plan, cycles_predicted=timeline.cycles, predictions=timeline.predictions, solved=(residency,)
        )  # fmt: skip
        check_plan(plan, self.graph, self.machine)
        return Realised(plan, timeline, (), ())

    def _ran(self, solved: Solved, began: float, note: str = "") -> None:
        seconds = time.perf_counter() - began
        self._note(ModelRun(solved.model, solved.status, solved.objective, None, seconds, 0.0, solved.unit, note))
