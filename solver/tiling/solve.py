"""Tiles of a segment's operators, each chosen for all of its cells; equal questions are answered once.

The formulation for one operator is in :mod:`.model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TypeAlias

import numpy as np

from ...ir.box import Box
from ...ir.equivalence import EquivalenceClasses
from ...ir.errors import InfeasibleError
from ...ir.graph import Graph, Op
from ...ir.machine import Level, Machine
from ...ir.plan import Segment, Solved, Tile
from ...ir.semantics.cell import Cell, Cells, count
from ...ir.semantics.contraction_engines import contraction_engines, least_vector_cycles
from ...ir.semantics.region import OpBoxes, op_boxes
from ..cost.local_buffers import round_up, scratch_bytes, targets, weight_size
from ..cost.operator import OpCost, Rates, Weights
from ..cost.smallest_tile import idle_tile, smallest_tile_bytes
from ..cpsat.backend import Budget, Watch, solve
from ..effort import NO_EFFORT, Effort, SearchPoint
from ..options import LiveListener
from ..switches import ALL_ON, Disabled
from .candidates import largest, reductions, tile_shapes
from .model import build
from .problem import ShapeTable, TilingProblem, cycles, tile_modes
from .producer_stall import Lead, producer_overlap

ATTEMPTS = 8
"""Tiles that turn out not to fit, before there is but the smallest left; the last one is from all sizes. Chosen, not
measured."""
BUDGET = Budget(5.0, 0.5)
"""For one operator. Chosen, not measured."""


@dataclass(frozen=True)
class Caps:
    """Bytes that an operator may use of two memories; ``None``: all there are."""

    sums: int | None = None
    weights: int | None = None


@dataclass(frozen=True)
class Beside:
    """Whether all that comes next waits for all of an operator, and what keeps the vector engine as it begins."""

    alone: bool
    lead: Lead | None = None


ALONE = Beside(True)


@dataclass(frozen=True)
class Choice:
    """A tile, what it is expected to take in its largest cell, and how it was found."""

    tile: Tile
    cycles: int
    bound: int
    status: str
    effort: Effort = NO_EFFORT


@dataclass(frozen=True)
class TileOverflow:
    """No tile of an operator fits: the smallest needs ``need`` of ``capacity`` bytes.

    ``effort``: of the searches before that was known, those for the operators before it in its segment included.
    """

    op: str
    level: Level
    need: int
    capacity: int
    levers: tuple[str, ...]
    effort: Effort = NO_EFFORT

    def error(self) -> InfeasibleError:
        return InfeasibleError(
            f"operator {self.op}: the smallest tile needs {self.need:,} bytes of {self.level.name}, "
            f"{self.need - self.capacity:,} more than the {self.capacity:,} that may be used; "
            f"{' or '.join(self.levers)}"
        )


TilerAnswers: TypeAlias = "dict[tuple[object, ...], Choice | TileOverflow]"
"""What a tiler remembers."""


def seen_by_tiles(machine: Machine) -> Machine:
    """The machine without what no tile depends on: how much the memories outside of its cores hold."""
    return replace(
        machine, memories=tuple(m if m.scope == "core" else replace(m, capacity=0) for m in machine.memories)
    )


class Tiler:
    """Tiles of one graph's operators on one machine; equal operators with equal boxes are solved once."""

    def __init__(
        self, graph: Graph, machine: Machine, *, budget: Budget = BUDGET, seed: int = 0, disabled: Disabled = ALL_ON,
        live: LiveListener | None = None, answers: TilerAnswers | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.machine = machine
        self.rates = Rates.from_machine(machine)
        self.structures = graph.analysis(EquivalenceClasses)
        self.budget = budget
        self.seed = seed
        self.disabled = disabled
        self._live = live
        self._costs: dict[tuple[int, str | None], OpCost] = {}
        self.answers: TilerAnswers = {} if answers is None else answers
        """By everything that they depend on besides the machine, the budget and the seed."""
        self._sizes: dict[tuple[int, Tile, tuple[Box, ...]], int] = {}

    def segment(
        self, segment: Segment, cells: Cells, caps: Mapping[str, Caps] | None = None, *, leads: bool = True,
        engines: bool = False,
    ) -> tuple[Segment, tuple[Choice, ...]] | TileOverflow:  # fmt: skip
        """The segment with its tiles, and the choice of each operator; or the first operator that has no tile.

        ``leads``: whether waits for vector operators count. ``engines``: whether the vector engine runs contractions
        of the matrix engine that take it fewer cycles.
        """
        if self.graph.op[segment.ops[0]].host is not None:
            return segment, ()
        instances = instance_cells(segment, cells)
        all_cells = [cell for row in instances for cell in row]
        caps = caps or {}
        choices: list[Choice] = []
        preceding: dict[str, Lead] = {}
        for name in segment.ops:
            op = self.graph.op[name]
            boxes = targets(all_cells, op)
            lead = lead_of(op, preceding) if self.cost(op).contraction is not None else None
            beside = Beside(False, lead) if leads else ALONE
            weights = self.weights(op, instances[len(instances) // 2])
            choice = self.tile(op, boxes, weights, caps.get(name, Caps()), beside)
            if engines and boxes and isinstance(choice, Choice):
                choice = self._on_either(op, boxes, weights, caps.get(name, Caps()), beside, choice)
            if isinstance(choice, TileOverflow):
                return replace(choice, effort=sum((c.effort for c in choices), choice.effort))
            choices.append(choice)
            if choice.tile.engine == "matrix":
                # Nobody waits for what was made before this: the matrix engine was busy meanwhile.
                preceding.clear()
            elif boxes:
                scratch = self.scratch(op, choice.tile, boxes)
                preceding[op.output] = Lead(
                    choice.cycles, largest(boxes), choice.tile.sizes, choice.tile.order, scratch
                )
        return replace(segment, tiles=tuple(c.tile for c in choices)), tuple(choices)

    def tile(
        self, op: Op, boxes: Sequence[Box], weights: Weights, caps: Caps = Caps(), beside: Beside = ALONE,
        engine: str | None = None,
    ) -> Choice | TileOverflow:  # fmt: skip
        """The tile of ``op`` on ``engine`` for all ``boxes`` of its result, judged by the largest; without boxes, any.

        ``None``: on the matrix engine, if that can run it.
        """
        if not boxes:
            return Choice(idle_tile(op, self.graph, self.cost(op, engine).engine), 0, 0, "optimal")
        structure = self.structures.class_of[op.name]
        key = (structure, tuple(boxes), weights, caps, beside, engine)
        if key not in self.answers:
            self.answers[key] = self._fitting(self.cost(op, engine), list(boxes), weights, caps, beside)
        choice = self.answers[key]
        if isinstance(choice, TileOverflow):
            return replace(choice, op=op.name)
        return replace(choice, tile=replace(choice.tile, op=op.name))

    def _on_either(
        self, op: Op, boxes: Sequence[Box], weights: Weights, caps: Caps, beside: Beside, matrix: Choice
    ) -> Choice:
        """The best tile on the vector engine if it takes fewer cycles than ``matrix``, else that one."""
        best, effort = matrix, matrix.effort
        # What kept the vector engine is over when it begins.
        beside = Beside(beside.alone)
        for engine in contraction_engines(op, self.graph, self.machine)[1:]:
            if self._least(self.cost(op, engine), largest(boxes), best.cycles) >= best.cycles:
                continue
            other = self.tile(op, boxes, weights, caps, beside, engine)
            effort += other.effort
            if isinstance(other, Choice) and other.cycles < best.cycles:
                best = other
        return replace(best, effort=effort)

    def _least(self, cost: OpCost, box: Box, enough: int) -> int:
        """About what the vector engine takes at least for a contraction; no more precisely than to tell ``enough``."""
        part = op_boxes(cost.op, self.graph.tensor, box)
        least = least_vector_cycles(cost.op, self.machine, part)
        return least if least >= enough else cost.work(part, part.tensors).vector

    def learn(self, answers: TilerAnswers) -> None:
        """What another tiler of the same kind has answered, this one answers too."""
        for question, answer in answers.items():
            self.answers.setdefault(question, answer)

    def cost(self, op: Op, engine: str | None = None) -> OpCost:
        """What the first operator of equal structure costs on ``engine``; ``None``: on the matrix engine, if it can."""
        key = self.structures.class_of[op.name], engine
        if key not in self._costs:
            self._costs[key] = OpCost(self.structures.representatives[key[0]], self.graph, self.machine, engine)
        return self._costs[key]

    def weights(self, op: Op, cells: Sequence[Cell]) -> Weights:
        """How the cores of one instance share the stationary operand."""
        if op.contraction is None or self.cost(op).contraction is None:
            return Weights()
        name = op.stationary
        held = [c.ops[op.name].tensors.get(name) for c in cells if op.name in c.ops]
        return Weights(max(1, len(held)), max(1, len(held) // max(1, len(set(held)))), not self.cost(op).streamed)

    def _fitting(
        self, cost: OpCost, boxes: list[Box], weights: Weights, caps: Caps, beside: Beside
    ) -> Choice | TileOverflow:
        """The best tile that fits in every tile of every box."""
        sums, weight_memory = self.capacity(beside, caps)
        excluded: set[Tile] = set()
        effort = NO_EFFORT
        for attempt in range(ATTEMPTS + 1):
            choice = self._best(cost, boxes, weights, (sums, weight_memory), beside, excluded, attempt)
            effort += choice.effort
            if isinstance(choice, TileOverflow) or self.fits_everywhere(
                cost.op, choice.tile, boxes, sums, weight_memory
            ):
                return replace(choice, effort=effort)
            excluded.add(choice.tile)
        return replace(self._infeasible(cost, boxes, (sums, weight_memory)), effort=effort)

    def capacity(self, beside: Beside, caps: Caps = Caps()) -> tuple[int, int]:
        """Bytes for sums and for weights that a tile may use."""
        sums = _cap(self.machine.levels.sums.capacity, caps.sums)
        lead = beside.lead
        if lead is not None and lead.scratch <= sums // 2:
            # The two overlap only if their buffers lie apart.
            sums -= lead.scratch
        return sums, _cap(self.machine.levels.weights.capacity, caps.weights)

    def _best(
        self, cost: OpCost, boxes: list[Box], weights: Weights, capacity: tuple[int, int], beside: Beside,
        excluded: set[Tile], attempt: int,
    ) -> Choice | TileOverflow:  # fmt: skip
        all_sizes = attempt >= ATTEMPTS - 1
        problem = self.problem(cost, boxes, weights, capacity, beside, all_sizes=all_sizes)
        if problem is None and not all_sizes:
            problem = self.problem(cost, boxes, weights, capacity, beside, all_sizes=True)
        if problem is None:
            return self._infeasible(cost, boxes, capacity)
        wrong = {(t.sizes, t.order) for t in excluded}
        forbidden = {i for i, s in enumerate(problem.shapes) if (s.sizes, s.order) in wrong}
        if attempt == ATTEMPTS:
            forbidden |= {i for i, s in enumerate(problem.shapes) if any(size > 1 for size in s.sizes)}
        live, unit = self._live, f"cycles of {cost.op.name}"
        watch = None if live is None else lambda incumbent, bound: live("tiling", incumbent, bound, unit)
        choice = choose(problem, forbidden, budget=self.budget, seed=self.seed, watch=watch)
        return choice or self._infeasible(cost, boxes, capacity)

    def problem(
        self, cost: OpCost, boxes: Sequence[Box], weights: Weights, capacity: tuple[int, int], beside: Beside = ALONE,
        *, all_sizes: bool = False, also: Tile | None = None,
    ) -> TilingProblem | None:  # fmt: skip
        """All data for the largest of the boxes, with the candidate ``also`` if it has room; ``None`` if no candidate
        fits at all."""
        box = largest(boxes)
        op, part = cost.op, op_boxes(cost.op, self.graph.tensor, box)
        sizes, reduction = ((), ()) if also is None else (also.sizes, also.reduce)
        shapes = tile_shapes(
            op, self.graph, cost, boxes, capacity[0], all_sizes=all_sizes, also=sizes, disabled=self.disabled
        )
        modes = tile_modes(op, cost, reductions(op, cost, part, reduction))
        table = ShapeTable(shapes)
        time = [cycles(cost, table, m, weights, self.rates, capacity[1], alone=beside.alone) for m in modes]
        if cost.contraction is not None and beside.lead is not None:
            over = producer_overlap(beside.lead, op, self.graph, box, shapes)
            time = [np.ceil(t + over.wait(t, m.depth)) for t, m in zip(time, modes, strict=True)]
        loaded = self._loaded(cost, part, weights)
        time = [np.maximum(t, loaded) for t in time] if loaded else time
        problem = TilingProblem(
            op.name,
            cost.engine,
            tuple(shapes),
            modes,
            np.stack(time, axis=1),
            *capacity,
            cost.element,
            self.machine.levels.weights.alignment,
        )
        return problem if any(problem.fits(s, m) for m in modes for s in shapes) else None

    def _loaded(self, cost: OpCost, part: OpBoxes, weights: Weights) -> int:
        """Cycles of a queue or link for weights that a core holds as a whole: the vector engine multiplies them."""
        contraction = cost.op.contraction
        if contraction is None or cost.contraction is not None:
            return 0
        name = cost.op.stationary
        if name not in self.graph.constant_names:
            return 0
        busy, _ = weights.load(cost.bytes(name, part.tensors.get(name)), self.rates)
        return ceil(float(busy))

    def fits_everywhere(self, op: Op, tile: Tile, boxes: list[Box], sums: int, weights: int) -> bool:
        """Whether the tile's buffers fit in all tiles of all boxes."""
        if self.scratch(op, tile, boxes) > sums:
            return False
        if tile.engine != "matrix":
            return True
        size = round_up(weight_size(self.graph, op, tile, boxes), self.machine.levels.weights.alignment)
        return tile.weight_depth * size <= weights

    def scratch(self, op: Op, tile: Tile, boxes: list[Box]) -> int:
        """Bytes of all versions of the tile's private buffers; equal operators need as much."""
        key = (self.structures.class_of[op.name], replace(tile, op=""), tuple(boxes))
        if key not in self._sizes:
            self._sizes[key] = scratch_bytes(self.graph, self.machine, op, tile, boxes).total(tile.depth)
        return self._sizes[key]

    def _infeasible(self, cost: OpCost, boxes: Sequence[Box], capacity: tuple[int, int]) -> TileOverflow:
        """Of the two memories, the one that has less than the smallest tile needs."""
        needs = smallest_tile_bytes(cost.op, self.graph, self.machine, cost.engine, boxes)
        (level, need), room = max(zip(needs, capacity, strict=True), key=lambda n: n[0][1] - n[1])
        return tile_overflow(cost.op, self.machine, level, need, room)


def tile_overflow(op: Op, machine: Machine, level: Level, need: int, room: int) -> TileOverflow:
    """The smallest tile of ``op`` needs ``need`` of ``room`` bytes at that level."""
    levers = (f"use a machine with more {level.name}", "a narrower precision")
    if level == machine.levels.sums:
        levers = ("split the operator's inner loop in the model", levers[0])
    return TileOverflow(op.name, level, need, room, levers)


def choose(
    problem: TilingProblem, forbidden: set[int], *, budget: Budget, seed: int, watch: Watch | None = None
) -> Choice | None:
    """The best shape that is not ``forbidden`` with its best mode: hint, bound and, where they differ, the model.

    ``None`` if none fits.
    """
    best = hint(problem, forbidden)
    if best is None:
        return None
    bound = int(problem.cycles.min())
    value = first = int(problem.cycles[best])
    if value <= bound:
        return Choice(problem.tile(*best), value, bound, "optimal")
    start = SearchPoint(0.0, float(first), float(bound))
    if not budget.searches:
        return Choice(problem.tile(*best), value, bound, "feasible", replace(NO_EFFORT, points=(start,)))
    model, x, y, time = build(problem, forbidden)
    for i, var in enumerate(x):
        model.hint(var, int(i == best[0]))
    for i, var in enumerate(y):
        model.hint(var, int(i == best[1]))
    model.hint(time, value)
    solution = solve(model, budget=budget, seed=seed, watch=watch)
    if solution.has_solution:
        best = (
            next(i for i, var in enumerate(x) if solution.true(var)),
            next(i for i, var in enumerate(y) if solution.true(var)),
        )
        value = int(problem.cycles[best])
    proven = ceil(solution.bound - 1e-6) if solution.bound is not None else bound
    # The table's own bound may be better than what the solver has proven so far.
    points = (replace(p, bound=max(float(bound), p.bound or 0.0)) for p in solution.effort.points)
    return Choice(
        problem.tile(*best),
        value,
        min(value, max(bound, proven)),
        "optimal" if proven >= value else "feasible",
        replace(solution.effort, points=(start, *points)),
    )


def hint(problem: TilingProblem, forbidden: set[int]) -> tuple[int, int] | None:
    """For each shape the most versions and, with them, the largest reduce tile that fit; the best of these pairs."""
    order = sorted(
        range(len(problem.modes)),
        key=lambda b: (
            -min(2, problem.modes[b].weight_depth) - min(2, problem.modes[b].depth),
            -problem.modes[b].depth,
            problem.modes[b].weight_depth,
            problem.modes[b].reduction.count,
        ),
    )
    best: tuple[int, int] | None = None
    for a, shape in enumerate(problem.shapes):
        if a in forbidden:
            continue
        mode = next((b for b in order if problem.fits(shape, problem.modes[b])), None)
        if mode is not None and (best is None or problem.cycles[a, mode] < problem.cycles[best]):
            best = (a, mode)
    return best


def instance_cells(segment: Segment, cells: Cells) -> list[list[Cell]]:
    """The cells of a segment, by instance and core."""
    cores = range(count(segment.cores))
    return [[cells.cell(segment, i, c) for c in cores] for i in range(count(segment.instances))]


def tiling_answer(choices: Sequence[Choice]) -> Solved:
    """The answers for many operators as one: the sum of their cycles."""
    proven = all(c.status == "optimal" for c in choices)
    return Solved(
        "tiling",
        "optimal" if proven else "feasible",
        float(sum(c.cycles for c in choices)),
        float(sum(c.bound for c in choices)),
        "cycles, each operator once",
    )


def lead_of(op: Op, before: Mapping[str, Lead]) -> Lead | None:
    """What keeps the vector engine when ``op`` begins: ``before``, by what it makes since the matrix engine worked."""
    if op.contraction is None or not before:
        return None
    left_operand = op.stages[op.contraction].reads[0].tensor
    return before.get(left_operand) or Lead(
        sum(lead.cycles for lead in before.values()), scratch=list(before.values())[-1].scratch
    )


def _cap(capacity: int, limit: int | None) -> int:
    return capacity if limit is None else min(capacity, limit)
