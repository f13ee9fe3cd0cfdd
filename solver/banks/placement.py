"""Model 5 applied: an address for every local buffer of a segment, and for every buffer of the shared memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from ...ir.graph import Graph
from ...ir.machine import Level, Machine, Memory
from ...ir.plan import LocalBuffer, Segment, Solved
from ...ir.semantics.cell import Cell, Cells, OperatorRun
from ...ir.semantics.concat_aliasing import parent_buffers
from ..cost.equivalence import renamed, structural_class
from ..cost.local_buffers import local_requests
from ..cost.tile_walk import TileWalks
from ..cpsat.backend import Budget
from ..effort import NO_EFFORT, Effort
from ..switches import ALL_ON, Disabled
from .arrangement import arrangements
from .problem import BufferRequest
from .solve import Placement, PlacementOverflow, place

Conflict = tuple[int, int, float]


class Placing:
    """Places the buffers of one graph on one machine; equal problems are solved once."""

    def __init__(
        self, graph: Graph, cells: Cells, machine: Machine, walks: TileWalks, seed: int, disabled: Disabled = ALL_ON
    ) -> None:
        self.graph = graph
        self.cells = cells
        self.machine = machine
        self.walks = walks
        self.seed = seed
        self.disabled = disabled
        self._known: dict[tuple[object, ...], tuple[tuple[BufferRequest, ...], Placement | PlacementOverflow]] = {}
        self._places: dict[tuple[Hashable, Budget], tuple[OperatorRun, LocalPlaces]] = {}

    def place(
        self, requests: tuple[BufferRequest, ...], memory: Memory, conflicts: tuple[Conflict, ...], budget: Budget
    ) -> Placement | PlacementOverflow:
        """An address for each request."""
        key = (memory, tuple((r.bytes, r.live, r.again) for r in requests), conflicts, budget)
        if key not in self._known:
            self._known[key] = requests, place(requests, memory, conflicts=conflicts, budget=budget, seed=self.seed)
        first, answer = self._known[key]
        if isinstance(answer, Placement):
            return answer
        # What is in the way has other names here.
        name = {one.name: other.name for one, other in zip(first, requests, strict=True)}
        return replace(answer, names=tuple(name[n] for n in answer.names))

    def local(self, index: int, segment: Segment, budget: Budget) -> LocalPlaces | LocalOverflow:
        """The local buffers of a segment at their addresses, or what does not fit; equal segments share the answer."""
        run, key = self.cells.run(segment.ops), (structural_class(self.cells, segment), budget)
        if key not in self._places:
            answer = self._local(index, segment, budget)
            if isinstance(answer, LocalOverflow):
                return answer
            self._places[key] = run, answer
        first, placement = self._places[key]
        return replace(placement, buffers=renamed(placement.buffers, first, run, index))

    def _local(self, index: int, segment: Segment, budget: Budget) -> LocalPlaces | LocalOverflow:
        buffers = local_requests(self.graph, self.cells, self.machine, index, segment)
        cell = self._busiest(segment)
        placed: dict[int, LocalBuffer] = {}
        solved: list[Solved] = []
        efforts: list[Effort] = []
        for level in self.machine.levels.of_core:
            in_memory = [i for i, b in enumerate(buffers) if b.use == level.use]
            if not in_memory:
                continue
            local, weights = [buffers[i] for i in in_memory], self.machine.levels.weights
            conflicts = tuple(self._conflicts(segment, cell, local, level.memory)) if level != weights else ()
            answer: Placement | PlacementOverflow | None = None
            effort = NO_EFFORT
            for arrangement in arrangements(self.graph, self.machine, segment, local, level, self.disabled):
                group_of = {b: number for number, group in enumerate(arrangement.groups) for b in group}
                pairs = tuple((group_of[local[i]], group_of[local[j]], weight) for i, j, weight in conflicts)
                answer = self.place(arrangement.requests(), level.memory, pairs, budget)
                effort += answer.effort
                if isinstance(answer, Placement):
                    answer = replace(answer, addresses=tuple(answer.addresses[group_of[b]] for b in local))
                    break
            assert answer is not None
            if isinstance(answer, PlacementOverflow):
                whole = sum(efforts, effort)
                return LocalOverflow(index, segment.ops[answer.live[0]], level, replace(answer, effort=whole))
            solved.append(answer.solved)
            efforts.append(effort)
            for i, address in zip(in_memory, answer.addresses, strict=True):
                placed[i] = replace(buffers[i], address=level.base + address)
        return LocalPlaces(tuple(placed[i] for i in range(len(buffers))), tuple(solved), tuple(efforts))

    def _busiest(self, segment: Segment) -> Cell | None:
        if not segment.tiles:
            return None
        return self.cells.busiest(segment, 0)

    def _conflicts(
        self, segment: Segment, cell: Cell | None, buffers: list[LocalBuffer], memory: Memory
    ) -> Iterable[Conflict]:
        """Pairs that the matrix engine and the vector engine use at the same time, by the cycles that both run."""
        if cell is None or memory.banks == 1 or memory.interleave:
            return
        activations = self.machine.levels.activations.use
        number = {("" if b.use == activations else b.op, b.name): i for i, b in enumerate(buffers)}
        for name, whole in parent_buffers(self.graph, segment).items():
            if ("", whole) in number:
                number["", name] = number["", whole]
        weights: dict[tuple[int, int], float] = {}
        for name in segment.ops:
            op, tile = self.graph.op[name], segment.tile[name]
            if name not in cell.ops or op.contraction is None or tile.engine != "matrix":
                continue
            walk = self.walks.walk(op, tile, cell)
            overlap = min(walk.matrix_cycles, walk.vector_cycles)
            anchor = op.stages[op.contraction]
            others = [s for i, s in enumerate(op.stages) if i != op.contraction]
            by_matrix = {anchor.write.tensor, anchor.reads[0].tensor}
            by_vector = {t for s in others for t in (s.write.tensor, *(r.tensor for r in s.reads))}
            private = {b.name for b in op.buffers}
            for a in sorted(by_matrix):
                for b in sorted(by_vector - {a}):
                    i = number.get((name if a in private else "", a))
                    j = number.get((name if b in private else "", b))
                    if i is not None and j is not None and i != j and overlap:
                        pair = (min(i, j), max(i, j))
                        weights[pair] = weights.get(pair, 0.0) + overlap
        yield from ((i, j, weight) for (i, j), weight in sorted(weights.items()))


@dataclass(frozen=True)
class LocalPlaces:
    """The local buffers of one segment, and for each memory the answer and the effort for it."""

    buffers: tuple[LocalBuffer, ...]
    solved: tuple[Solved, ...]
    efforts: tuple[Effort, ...]


@dataclass(frozen=True)
class LocalOverflow:
    """A segment whose buffers do not fit; ``op`` is one where they are too large.

    The effort of ``overflow`` includes that for the memories before.
    """

    segment: int
    op: str
    level: Level
    overflow: PlacementOverflow


def total_answer(model: str, solved: Iterable[Solved]) -> Solved | None:
    """Answers to independent problems as one; ``None`` if there are none."""
    parts = tuple(solved)
    if not parts:
        return None
    order = ("optimal", "feasible", "fixed", "unknown", "infeasible")
    status = max((s.status for s in parts), key=lambda s: order.index(s) if s in order else len(order))
    objectives = [s.objective for s in parts]
    bounds = [s.bound for s in parts]
    return Solved(
        model,
        status,
        None if None in objectives else sum(o for o in objectives if o is not None),
        None if None in bounds else sum(b for b in bounds if b is not None),
        parts[0].unit,
    )
