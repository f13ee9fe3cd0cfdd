"""Model 5 applied: an address for every local buffer of a segment, and for every buffer of the shared memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from ...ir.graph import Graph
from ...ir.machine import Level, Machine, Memory
from ...ir.plan import LocalBuffer, Segment, Solved
from ...ir.semantics.cell import Cell, Cells, OperatorRun, count, leaving
from ...ir.semantics.concat_aliasing import concat_aliases, loaded_aliases, parent_buffers
from ...ir.semantics.in_place import replaced
from ..cost.equivalence import renamed, structural_class
from ..cost.local_buffers import in_place_groups, local_requests, scratch_groups
from ..cost.tile_walk import TileWalks
from ..cpsat.backend import Budget
from ..effort import NO_EFFORT, Effort
from ..switches import ALL_ON, Disabled
from .problem import BufferRequest
from .solve import Placement, PlacementOverflow, place

Conflict = tuple[int, int, float]
AHEAD = 2
"""Operators before the last one of a segment during which the next instance may be loaded; chosen, not measured."""


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
            for arrangement in self._arrangements(segment, local, level):
                group_of = {b: number for number, group in enumerate(arrangement.groups) for b in group}
                pairs = tuple((group_of[local[i]], group_of[local[j]], weight) for i, j, weight in conflicts)
                answer = self.place(_requests(arrangement), level.memory, pairs, budget)
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

    def _arrangements(self, segment: Segment, buffers: list[LocalBuffer], level: Level) -> Iterator[_Arrangement]:
        """Which buffers share an address, and where there is already room for what comes next: best first.

        What the first operator reads can be loaded for the next instance while the last ones work, and what it makes
        be made, if nothing else is there. Where room is short, results take the place of inputs, which then wait for
        them to be stored. Engines need not wait for each other's tiles where neighbouring operators keep theirs apart,
        nor for data, or at least constants, that could be loaded while the operator before works, nor for results that
        are still being stored. Constants that have room from the first operator on are loaded one behind the other.
        """
        apart = [[b] for b in buffers]
        plain = "extended-lifetimes" in self.disabled
        if level != self.machine.levels.activations:
            if level == self.machine.levels.sums:
                apart = scratch_groups(self.graph, segment, buffers)
            longer = _longer(apart, level.memory) if not plain else frozenset[int]()
            if longer:
                yield _Arrangement(apart, longer=longer)
            yield _Arrangement(apart)
            return
        ops = [self.graph.op[n] for n in segment.ops]
        in_place = in_place_groups(buffers, replaced(self.graph, ops, concat_aliases(self.graph, segment)))
        ways = [apart] if in_place == apart else [apart, in_place]
        if plain:
            yield from map(_Arrangement, ways)
            return
        last = len(segment.ops) - 1
        first = frozenset(b.name for b in buffers if b.live[0] == 0)
        whole = parent_buffers(self.graph, segment)
        loaded = frozenset(b.name for b in buffers) - {self.graph.op[n].output for n in segment.ops}
        loaded |= {whole[name] for name in loaded_aliases(self.graph, segment)}
        constants, nothing = loaded & self.graph.constant_names, frozenset[str]()
        stored = frozenset(whole.get(op.output, op.output) for op in leaving(self.graph, tuple(ops)) if op != ops[-1])
        soon = range(max(1, last - AHEAD), last + 1) if count(segment.instances) > 1 else ()
        known = dict.fromkeys((again, names) for again in soon for names in (first, first & loaded))
        for nexts in (tuple(known), ((None, nothing),)):
            for early in dict.fromkeys((loaded, constants, nothing)):
                for groups in ways:
                    for again, names in nexts:
                        for late, sooner in product(*map(dict.fromkeys, ((stored, nothing), (constants, nothing)))):
                            yield _Arrangement(groups, again, names, early=early, sooner=sooner, late=late)

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
        number = {(b.op if b.use != "data" else "", b.name): i for i, b in enumerate(buffers)}
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
class _Arrangement:
    """Groups of buffers that share an address, in order; the position ``again`` from which on the tensors ``first``,
    that live from the first one on, live as well, if any; positions of which the buffers live one position
    ``longer``; tensors that live from one position ``early``, ``sooner`` still (from the first one on), or until one
    ``late``."""

    groups: list[list[LocalBuffer]]
    again: int | None = None
    first: frozenset[str] = frozenset()
    longer: frozenset[int] = frozenset()
    early: frozenset[str] = frozenset()
    sooner: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()


def _requests(arrangement: _Arrangement) -> tuple[BufferRequest, ...]:
    """One request for each group."""
    last = max((b.live[1] for group in arrangement.groups for b in group), default=0) - 1
    return tuple(
        BufferRequest(
            ", ".join(f"{b.op}:{b.name}" for b in group),
            max(b.bytes for b in group),
            _life(group, arrangement),
            again=_again(group, arrangement, last),
        )
        for group in arrangement.groups
    )


def _again(group: list[LocalBuffer], arrangement: _Arrangement, last: int) -> int | None:
    """From where on there is room for the group as the next instance has it: not before this one is done with it."""
    free = group[-1].live[1]
    if arrangement.again is None or group[0].name not in arrangement.first or free > last:
        return None
    return max(free, arrangement.again)


def _life(group: list[LocalBuffer], arrangement: _Arrangement) -> tuple[int, int]:
    first, last = group[0].live[0], group[-1].live[1]
    later = last - 1 in arrangement.longer or any(b.name in arrangement.late for b in group)
    if group[0].name in arrangement.sooner:
        return 0, last + later
    return max(0, first - (group[0].name in arrangement.early)), last + later


def _longer(groups: list[list[LocalBuffer]], memory: Memory) -> frozenset[int]:
    """The positions of which the buffers have room beside those of the next one."""
    load: dict[int, int] = {}
    for buffer, *_ in groups:
        load[buffer.live[0]] = load.get(buffer.live[0], 0) + buffer.bytes
    return frozenset(p for p in load if p + 1 in load and load[p] + load[p + 1] <= memory.capacity)


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


def together(model: str, solved: Iterable[Solved]) -> Solved | None:
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
