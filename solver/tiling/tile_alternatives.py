"""Tiles that an operator of a finished plan could have had, at the costs of the tiling model.

A plan does not say which of the tiling alternatives of its segment (:mod:`..subproblem.tiling_alternatives`) it has:
waits for vector operators may have counted or not. They did where without them other tiles would have been better, or
where tiles were chosen for each other (:mod:`..subproblem.joint_tiles`), of which some are dearer by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...ir.box import Box
from ...ir.graph import Op
from ...ir.plan import LocalBuffer, Plan, Tile
from ...ir.semantics.cell import Cell, Cells
from ...ir.semantics.contraction_engines import contraction_engines
from ..cost.local_buffers import targets
from .candidates import largest
from .problem import Mode, Shape, TilingProblem
from .producer_stall import Lead
from .solve import ALONE, Beside, Tiler, instance_cells, lead_of

MOST_LISTED_TILES = 8
"""Tiles that are listed, and besides the plan's own."""


@dataclass(frozen=True)
class TileAlternative:
    """A candidate and its cost in the operator's largest cell; versions (depths) as the tiling model would hold them.

    ``cycles`` is ``None`` for the tile of a plan that the model does not allow. ``sums`` and ``weights``: bytes
    of both memories for all versions. ``why_not``: what speaks against it; empty for the one of the plan.
    """

    tile: Tile
    cycles: int | None
    sums: int
    weights: int
    chosen: bool
    why_not: str


@dataclass(frozen=True)
class _Question:
    """What the tiling model was asked about an operator, and the plan's answer."""

    op: Op
    cells: list[Cell]
    problem: TilingProblem
    tile: Tile

    @cached_property
    def fits(self) -> NDArray[np.bool_]:
        """By shape and mode: :meth:`TilingProblem.fits`."""
        problem = self.problem
        columns = np.array([shape.columns for shape in problem.shapes])
        scratch = {
            depth: np.array([shape.scratch.total(depth) for shape in problem.shapes])
            for depth in {mode.depth for mode in problem.modes}
        }
        return np.stack(
            [(scratch[mode.depth] <= problem.sums) & (columns <= problem.column_limit(mode)) for mode in problem.modes],
            axis=1,
        )

    @cached_property
    def candidates(self) -> list[tuple[int, int, bool]]:
        """(shape, mode, whether they fit): each shape and each cut of the reduction once, the cheapest first.

        The mode is the cheapest that fits or, if none does, the cheapest.
        """
        modes_of: dict[tuple[int, ...], list[int]] = {}
        for b, mode in enumerate(self.problem.modes):
            modes_of.setdefault(mode.reduction.sizes, []).append(b)
        alternatives: list[tuple[int, int, bool]] = []
        for modes in modes_of.values():
            cycles, fits = self.problem.cycles[:, modes], self.fits[:, modes]
            some: NDArray[np.bool_] = np.logical_or.reduce(fits, axis=1)
            best = np.where(fits | ~some[:, None], cycles, np.inf).argmin(axis=1)
            alternatives += [(a, modes[b], bool(some[a])) for a, b in enumerate(best.tolist())]
        return sorted(alternatives, key=lambda pair: self.problem.cycles[pair[0], pair[1]])

    def is_chosen(self, a: int, b: int) -> bool:
        """Whether the plan has this tile; how often buffers are held is decided later, by the pipeline."""
        shape, mode = self.problem.shapes[a], self.problem.modes[b]
        return (shape.sizes, shape.order, mode.reduction.sizes) == self.tile.cut

    @cached_property
    def chosen(self) -> tuple[int, int, bool] | None:
        """The candidate that the plan has."""
        return next((pair for pair in self.candidates if self.is_chosen(*pair[:2])), None)

    @property
    def regret(self) -> float:
        """By how many cycles the plan's tile is dearer than the best that fits."""
        best = float(self.problem.cycles[self.fits].min(initial=np.inf))
        return float("inf") if self.chosen is None else float(self.problem.cycles[self.chosen[:2]]) - best


class TileAlternatives:
    """The alternatives to the tiles of one plan."""

    def __init__(self, tiler: Tiler, cells: Cells, plan: Plan) -> None:
        self.tiler = tiler
        self.cells = cells
        self.plan = plan
        self._waits_count: dict[int, bool] = {}
        self._instances: dict[int, list[list[Cell]]] = {}
        self._problems: dict[tuple[object, ...], TilingProblem | None] = {}

    def for_operator(self, name: str) -> tuple[TileAlternative, ...]:
        """The cheapest tiles for an operator, those that do not fit among them, its own, the best on another engine.

        Nothing for the host's.
        """
        index = next(i for i, segment in enumerate(self.plan.segments) if name in segment.ops)
        segment = self.plan.segments[index]
        if name not in segment.tile:
            return ()
        if index not in self._waits_count:
            # Of equal tiles, those for which waits do not count are the plan's.
            self._waits_count[index] = not all(self._is_best_alone(index, n) for n in segment.ops)
        question = self._question(index, name, self._waits_count[index])
        if question is None:
            return (TileAlternative(segment.tile[name], None, 0, 0, True, ""),)
        listed = _listed(self.tiler, question, [b for b in self.plan.local if b.segment == index])
        return (*listed, *self._on_other_engines(index, question))

    def _on_other_engines(self, index: int, question: _Question) -> Iterator[TileAlternative]:
        """The cheapest tile that fits on each engine that could run the contraction, and does not."""
        op, chosen_pair = question.op, question.chosen
        beside = Beside(False) if self._waits_count[index] else ALONE
        for engine in contraction_engines(op, self.tiler.graph, self.tiler.machine):
            if engine == question.tile.engine or "vector-contractions" in self.tiler.disabled:
                continue
            boxes = targets(question.cells, op)
            problem = self._problem(op, replace(question.tile, engine=engine), boxes, self._instances[index], beside)
            if problem is None:
                continue
            other = _Question(op, question.cells, problem, replace(question.tile, engine=engine))
            best = next(((a, b) for a, b, fits in other.candidates if fits), None)
            if best is None:
                continue
            a, b = best
            shape, mode = problem.shapes[a], problem.modes[b]
            cycles = int(problem.cycles[a, b])
            more = cycles - int(question.problem.cycles[chosen_pair[:2]]) if chosen_pair is not None else 0
            why_not = f"{more:,} cycles more" if more > 0 else "no plan with it was predicted to be better"
            sums, weights = shape.scratch.total(mode.depth), _weight_bytes(problem, shape, mode)
            yield TileAlternative(replace(problem.tile(a, b), op=op.name), cycles, sums, weights, False, why_not)

    def _is_best_alone(self, index: int, name: str) -> bool:
        question = self._question(index, name, False)
        return question is None or question.regret <= 0

    def _question(self, index: int, name: str, stalls: bool) -> _Question | None:
        """What the model was asked about an operator of a segment, those before it having the plan's tiles."""
        segment = self.plan.segments[index]
        if index not in self._instances:
            self._instances[index] = instance_cells(segment, self.cells)
        instances = self._instances[index]
        all_cells = [cell for row in instances for cell in row]
        names = segment.ops[: segment.ops.index(name) + 1]
        # Nobody waits for what was made before the last operator of the matrix engine.
        busy = max((i for i, n in enumerate(names[:-1]) if segment.tile[n].engine == "matrix"), default=-1)
        preceding: dict[str, Lead] = {}
        for n in names[busy + 1 :] if stalls else names[-1:]:
            op, tile = self.tiler.graph.op[n], segment.tile[n]
            boxes = targets(all_cells, op)
            lead = lead_of(op, preceding) if tile.engine == "matrix" else None
            beside = Beside(False, lead) if stalls else ALONE
            problem = self._problem(op, tile, boxes, instances, beside) if boxes else None
            if problem is None:
                continue
            question = _Question(op, all_cells, problem, tile)
            if n == name:
                return question
            chosen_pair = question.chosen
            if chosen_pair is not None:
                cycles = int(problem.cycles[chosen_pair[0], chosen_pair[1]])
                scratch = self.tiler.scratch(op, tile, boxes)
                preceding[op.output] = Lead(cycles, largest(boxes), tile.sizes, tile.order, scratch)
        return None

    def _problem(
        self, op: Op, tile: Tile, boxes: list[Box], instances: list[list[Cell]], beside: Beside
    ) -> TilingProblem | None:
        """Judged by the largest box; equal operators with equal boxes have the same."""
        tiler = self.tiler
        weights = tiler.weights(op, instances[len(instances) // 2])
        structure = tiler.structures.class_of[op.name]
        key = structure, tile.engine, tile.cut, tuple(boxes), weights, beside
        if key not in self._problems:
            cost = tiler.cost(op, tile.engine)
            self._problems[key] = tiler.problem(cost, boxes, weights, tiler.capacity(beside), beside, also=tile)
        return self._problems[key]


def _listed(tiler: Tiler, question: _Question, buffers: Sequence[LocalBuffer]) -> tuple[TileAlternative, ...]:
    problem, chosen_pair = question.problem, question.chosen
    cost = None if chosen_pair is None else int(problem.cycles[chosen_pair[0], chosen_pair[1]])
    levels = tiler.machine.levels
    names = [level.name for level in (levels.sums, levels.weights)]
    occupied = {name: _occupied_by_others(question.op.name, buffers, name) for name in names}
    listed: list[TileAlternative] = []
    if chosen_pair is None:
        listed.append(TileAlternative(question.tile, None, 0, 0, True, ""))
    smallest: list[tuple[int, int]] = []
    for a, b, fits in question.candidates:
        shape, mode = problem.shapes[a], problem.modes[b]
        sums, weights = shape.scratch.total(mode.depth), _weight_bytes(problem, shape, mode)
        chosen = question.is_chosen(a, b)
        # One that costs more and saves no room is nobody's choice.
        useful = fits and not any(s <= sums and w <= weights for s, w in smallest)
        if not chosen and not (useful or (not fits and cost is not None and problem.cycles[a, b] < cost)):
            continue
        if fits:
            smallest.append((sums, weights))
        tile = replace(problem.tile(a, b), op=question.op.name)
        other = TileAlternative(tile, int(problem.cycles[a, b]), sums, weights, chosen, "")
        listed.append(other if chosen else replace(other, why_not=_why_not(tiler, question, other, cost, occupied)))
    kept = [alternative for alternative in listed if alternative.chosen or alternative in listed[:MOST_LISTED_TILES]]
    return tuple(sorted(kept, key=lambda alternative: (alternative.cycles is not None, alternative.cycles or 0)))


def _weight_bytes(problem: TilingProblem, shape: Shape, mode: Mode) -> int:
    version = shape.columns * mode.reduction.points * problem.element
    return mode.weight_depth * -(-version // problem.alignment) * problem.alignment


def _why_not(
    tiler: Tiler, question: _Question, other: TileAlternative, chosen_cycles: int | None, occupied: Mapping[str, int]
) -> str:
    """What speaks against another tile than the plan's.

    The latter takes ``chosen_cycles``; what is ``occupied`` in each memory, :func:`_occupied_by_others` says.
    """
    problem, op = question.problem, question.op
    assert other.cycles is not None
    needs = (
        (tiler.machine.levels.sums, other.sums, problem.sums),
        (tiler.machine.levels.weights, other.weights, problem.weights),
    )
    for level, need, room in needs:
        if need > room:
            why = f", which has {room:,}" if room == level.capacity else f", where what runs before it leaves {room:,}"
            return f"needs {need:,} bytes of {level.name}{why}"
    if chosen_cycles is not None and other.cycles > chosen_cycles:
        return f"{other.cycles - chosen_cycles:,} cycles more"
    for memory, need, _ in needs:
        if need + occupied[memory.name] > memory.capacity:
            return (
                f"needs {need:,} bytes of {memory.name}, of which other operators take {occupied[memory.name]:,} of "
                f"{memory.capacity:,} meanwhile"
            )
    if not tiler.fits_everywhere(op, other.tile, targets(question.cells, op), problem.sums, problem.weights):
        return "does not fit in all cells: some read or compute more than the largest"
    if chosen_cycles is not None and other.cycles == chosen_cycles:
        return "costs the same"
    return "no plan with it was predicted to be better, or a cut for the whole plan excluded it"


def _occupied_by_others(op: str, buffers: Sequence[LocalBuffer], memory: str) -> int:
    """Bytes of a memory that other operators of the segment take at most while ``op`` uses it."""
    op_spans = [b.live for b in buffers if b.op == op and b.memory == memory]
    others = [b for b in buffers if b.op != op and b.memory == memory]
    times = sorted({at for lo, hi in op_spans for at in range(lo, hi)})
    return max((sum(b.bytes for b in others if b.live[0] <= at < b.live[1]) for at in times), default=0)
