"""Model 3, tiling: how one operator runs on one core, for its box of the output.

Sets
    A shapes: tile sizes and loop order (:mod:`.tile_space`); B modes: tiles of the reduction, versions d of the private
    buffers (1 to 8) and w of the weights (1 to 3).
Data
    Of shape a: scratch s_a and columns n_a of the stationary operand (bytes), tiles t_a, changes and sets of its
    columns in loop order, work of both engines. Of mode b: number r_b of reduce tiles and points p_b of one. I, W:
    capacities of the accumulator and the weight memory.
    C_ab cycles: with M, V the busy cycles of the engines (each reduce tile issues the matrix instructions again), l
    the latency between them, N loads of weights that keep a queue busy for u and are there after v cycles,
        C_ab = max(M, V, (M + V + t l) / d, N u, (M + N v) / w) + V / t + first load if the next operator's
               weights do not fit beside these;
    N is sets * r where w versions hold them all, changes * r where they hold one set, else t * r. To these come the
    cycles that the matrix engine waits for the vector operator that makes its input (:mod:`.lead`).
Variables
    x_a the shape is used, y_b the mode is used, T cycles.
Constraints
    (1) one shape, one mode: exactly one x_a, exactly one y_b.
    (2) accumulator: if y_b, then sum_a s_a x_a <= I / d_b.
    (3) weight memory: if y_b, then sum_a n_a x_a <= (W / w_b, rounded down to the alignment) / p_b.
    (4) time: if y_b, then T >= sum_a C_ab x_a.
Objective
    T.
Heuristic and bound
    Hint: for each shape the most versions and the largest reduce tile that fit. Bound: the least C_ab of all, whether
    it fits or not. Where they meet, no solver runs.
Relaxed
    Rates of shared links while others use them; whether neighbours in the segment let the first and the last tile
    overlap. A chosen tile is checked against every tile of every cell; one that does not fit is excluded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from ..ir.box import Box, volume
from ..ir.cell import Cell, Cells, count
from ..ir.errors import InfeasibleError
from ..ir.graph import Graph, Op
from ..ir.machine import Machine
from ..ir.plan import Segment, Solved, Tile
from ..ir.region import op_boxes
from .buffers import round_up, scratch_sizes, targets, weight_size
from .cost import OpCost, Rates, Weights
from .cp import Budget, Model, Var, solve, weighted
from .lead import Lead, overlap
from .tile_space import Reduction, Shape, reductions, tile_shapes

Float = NDArray[np.float64]

DEPTHS = (1, 2, 4, 8)
WEIGHT_DEPTHS = (1, 2, 3)
ATTEMPTS = 8
"""Tiles that turn out not to fit, before the search for one ends."""
LEADING = 4
"""By how much less the last tile of a vector operator counts where the next operator's tiles wait for some of it."""
BUDGET = Budget(5.0, 0.5)
"""For one operator."""


@dataclass(frozen=True)
class Caps:
    """Bytes that an operator may use of two memories; ``None``: all there are."""

    accumulator: int | None = None
    weights: int | None = None


@dataclass(frozen=True)
class Beside:
    """Whether all that comes next waits for all of an operator, and what keeps the vector engine as it begins."""

    alone: bool
    lead: Lead | None = None


ALONE = Beside(True)


@dataclass(frozen=True)
class Infeasible:
    """No tile of an operator fits: the smallest needs ``need`` of ``capacity`` bytes."""

    op: str
    memory: str
    need: int
    capacity: int
    levers: tuple[str, ...]

    def error(self) -> InfeasibleError:
        return InfeasibleError(
            f"operator {self.op}: the smallest tile needs {self.need:,} bytes of {self.memory}, "
            f"{self.need - self.capacity:,} more than the {self.capacity:,} that may be used; "
            f"{' or '.join(self.levers)}"
        )


@dataclass(frozen=True)
class Choice:
    """A tile, what it is expected to take in its largest cell, and how it was found."""

    tile: Tile
    cycles: int
    bound: int
    status: str
    seconds: float = 0.0
    deterministic_seconds: float = 0.0


@dataclass(frozen=True)
class Mode:
    """One b of B."""

    reduction: Reduction
    depth: int
    weight_depth: int


@dataclass(frozen=True)
class Problem:
    """A, B and C_ab of one operator and one box. ``element``: bytes of an element of the stationary operand."""

    shapes: tuple[Shape, ...]
    modes: tuple[Mode, ...]
    cycles: Float
    accumulator: int
    weights: int
    element: int
    alignment: int

    def fits(self, shape: Shape, mode: Mode) -> bool:
        """(2) and (3)."""
        return shape.scratch <= self.accumulator // mode.depth and shape.columns <= self.column_limit(mode)

    def column_limit(self, mode: Mode) -> int:
        """The right side of (3), in elements."""
        if not self.element:
            return 0
        # Each version begins at a multiple of the alignment.
        version = self.weights // mode.weight_depth // self.alignment * self.alignment
        return version // (mode.reduction.points * self.element)


class Table:
    """The shapes as arrays."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        def column(values: Sequence[int]) -> Float:
            return np.array(values, dtype=np.float64)

        self.tiles = column([s.tiles for s in shapes])
        self.changes = column([s.changes for s in shapes])
        self.sets = column([s.sets for s in shapes])
        self.columns = column([s.columns for s in shapes])
        self.matrix = column([s.work.matrix for s in shapes])
        self.vector = column([s.work.vector for s in shapes])
        self.instructions = column([s.work.matrix_instructions for s in shapes])

    def loads(self, reduce_tiles: int, versions: int) -> Float:
        """How often a tile of weights is loaded, when ``versions`` are held and replaced in turn."""
        if reduce_tiles > versions:
            return self.tiles * reduce_tiles
        held = self.sets * reduce_tiles <= versions
        return np.where(held, self.sets, self.changes) * reduce_tiles


def cycles(
    cost: OpCost, table: Table, mode: Mode, weights: Weights, rates: Rates, capacity: int, *, alone: bool = True
) -> Float:
    """C_ab of all shapes for one mode; ``capacity`` of the weight memory in bytes; ``alone``: whatever is next waits
    for the last tile."""
    if cost.anchor is None:
        return np.ceil(table.vector + table.vector / table.tiles / (1 if alone else LEADING))
    matrix = table.matrix + (mode.reduction.count - 1) * table.instructions * cost.matrix.issue
    serial = (matrix + table.vector + table.tiles * cost.latency) / mode.depth
    size = table.columns * (mode.reduction.points * cost.element)
    number = table.loads(mode.reduction.count, mode.weight_depth)
    busy, full = weights.load(size, rates)
    time = np.maximum.reduce(
        [matrix, table.vector, serial, number * busy, (matrix + number * full) / mode.weight_depth]
    )
    first = np.where(2 * size * mode.weight_depth > capacity, full, 0.0)
    return np.ceil(time + table.vector / table.tiles + first)


class Tiler:
    """Tiles of one graph's operators on one machine; equal operators with equal boxes are solved once."""

    def __init__(self, graph: Graph, machine: Machine, *, budget: Budget = BUDGET, seed: int = 0) -> None:
        self.graph = graph
        self.machine = machine
        self.rates = Rates.of(machine)
        self.structures = graph.structures
        self.budget = budget
        self.seed = seed
        self._costs: dict[int, OpCost] = {}
        self._known: dict[tuple[object, ...], Choice | Infeasible] = {}
        self._sizes: dict[tuple[int, Tile, tuple[Box, ...]], int] = {}

    def segment(
        self, segment: Segment, cells: Cells, caps: Mapping[str, Caps] | None = None, *, leads: bool = True
    ) -> tuple[Segment, tuple[Choice, ...]] | Infeasible:
        """The segment with its tiles, and the choice of each operator; or the first operator that has no tile.

        ``leads``: whether waits for vector operators count.
        """
        if self.graph.op[segment.ops[0]].host is not None:
            return segment, ()
        cores = range(count(segment.cores))
        there = [[cells.cell(segment, i, c) for c in cores] for i in range(count(segment.instances))]
        every = [cell for row in there for cell in row]
        caps = caps or {}
        found: list[Choice] = []
        before: dict[str, Lead] = {}
        for name in segment.ops:
            op = self.graph.op[name]
            boxes = targets(every, op)
            beside = Beside(False, _lead(op, before)) if leads else ALONE
            weights = self._weights(op, there[len(there) // 2])
            choice = self.tile(op, boxes, weights, caps.get(name, Caps()), beside)
            if isinstance(choice, Infeasible):
                return choice
            found.append(choice)
            if choice.tile.engine == "matrix":
                # Nobody waits for what was made before this: the matrix engine was busy meanwhile.
                before.clear()
            elif boxes:
                scratch = self._scratch(op, choice.tile, boxes)
                before[op.output] = Lead(choice.cycles, largest(boxes), choice.tile.sizes, choice.tile.order, scratch)
        return replace(segment, tiles=tuple(c.tile for c in found)), tuple(found)

    def tile(
        self, op: Op, boxes: Sequence[Box], weights: Weights, caps: Caps = Caps(), beside: Beside = ALONE
    ) -> Choice | Infeasible:
        """The tile of ``op`` for all ``boxes`` of its result, judged by the largest."""
        structure = self.structures.of[op.name]
        key = (structure, tuple(sorted(boxes)), weights, caps, beside)
        if key not in self._known:
            self._known[key] = self._fitting(self.structures.first[structure], list(boxes), weights, caps, beside)
        choice = self._known[key]
        if isinstance(choice, Infeasible):
            return replace(choice, op=op.name)
        return replace(choice, tile=replace(choice.tile, op=op.name))

    def cost(self, op: Op) -> OpCost:
        number = self.structures.of[op.name]
        if number not in self._costs:
            self._costs[number] = OpCost(self.structures.first[number], self.graph, self.machine)
        return self._costs[number]

    def _weights(self, op: Op, cells: Sequence[Cell]) -> Weights:
        """How the cores of one instance share the stationary operand."""
        if op.anchor is None or self.cost(op).anchor is None:
            return Weights()
        name = op.stages[op.anchor].reads[1].tensor
        held = [c.ops[op.name].tensors.get(name) for c in cells if op.name in c.ops]
        return Weights(max(1, len(held)), max(1, len(held) // max(1, len(set(held)))), not self.cost(op).streamed)

    def _fitting(self, op: Op, boxes: list[Box], weights: Weights, caps: Caps, beside: Beside) -> Choice | Infeasible:
        """The best tile that fits in every tile of every box."""
        accumulator = _cap(self.machine.role("accumulator").capacity, caps.accumulator)
        lead = beside.lead
        if lead is not None and lead.scratch <= accumulator // 2:
            # The two overlap only if their buffers lie apart.
            accumulator -= lead.scratch
        weight_memory = _cap(self.machine.role("weights").capacity, caps.weights)
        excluded: set[Tile] = set()
        for attempt in range(ATTEMPTS):
            choice = self._best(op, boxes, weights, (accumulator, weight_memory), beside, excluded, attempt)
            if isinstance(choice, Infeasible):
                return choice
            if self._fits_everywhere(op, choice.tile, boxes, accumulator, weight_memory):
                return choice
            excluded.add(choice.tile)
        return self._infeasible(op, boxes, accumulator)

    def _best(
        self, op: Op, boxes: list[Box], weights: Weights, capacity: tuple[int, int], beside: Beside,
        excluded: set[Tile], attempt: int,
    ) -> Choice | Infeasible:  # fmt: skip
        problem = self.problem(op, largest(boxes), weights, capacity, beside, all_sizes=attempt == ATTEMPTS - 1)
        if problem is None:
            problem = self.problem(op, largest(boxes), weights, capacity, beside, all_sizes=True)
        if problem is None:
            return self._infeasible(op, boxes, capacity[0])
        wrong = {(t.sizes, t.order) for t in excluded}
        forbidden = {i for i, s in enumerate(problem.shapes) if (s.sizes, s.order) in wrong}
        return self._solve(op, problem, forbidden) or self._infeasible(op, boxes, capacity[0])

    def problem(
        self, op: Op, box: Box, weights: Weights, capacity: tuple[int, int], beside: Beside = ALONE,
        *, all_sizes: bool = False,
    ) -> Problem | None:  # fmt: skip
        """All data for one box; ``None`` if no candidate fits at all."""
        cost = self.cost(op)
        shapes = tile_shapes(op, self.graph, cost, box, capacity[0], all_sizes=all_sizes)
        cuts = reductions(op, cost, op_boxes(op, self.graph.tensor, box))
        matrix = cost.anchor is not None
        modes = [
            Mode(cut, depth, versions)
            for cut in cuts
            for depth in (DEPTHS if matrix and op.buffers else DEPTHS[:1])
            for versions in (WEIGHT_DEPTHS if matrix else WEIGHT_DEPTHS[:1])
        ]
        table = Table(shapes)
        time = [cycles(cost, table, m, weights, self.rates, capacity[1], alone=beside.alone) for m in modes]
        if matrix and beside.lead is not None:
            over = overlap(beside.lead, op, self.graph, box, shapes)
            time = [np.ceil(t + over.wait(t, m.depth)) for t, m in zip(time, modes, strict=True)]
        found = Problem(
            tuple(shapes),
            tuple(modes),
            np.stack(time, axis=1),
            *capacity,
            cost.element,
            self.machine.role("weights").alignment,
        )
        return found if any(found.fits(s, m) for m in modes for s in shapes) else None

    def _solve(self, op: Op, problem: Problem, forbidden: set[int]) -> Choice | None:
        """Hint, bound and, where they differ, the model."""
        best = hint(problem, forbidden)
        if best is None:
            return None
        bound = int(problem.cycles.min())
        value = int(problem.cycles[best])
        cost = self.cost(op)
        if value <= bound:
            return Choice(_tile(op, cost, problem.shapes[best[0]], problem.modes[best[1]]), value, bound, "optimal")
        model, x, y, time = build(problem, forbidden)
        for i, var in enumerate(x):
            model.hint(var, int(i == best[0]))
        for i, var in enumerate(y):
            model.hint(var, int(i == best[1]))
        model.hint(time, value)
        solution = solve(model, budget=self.budget, seed=self.seed)
        if solution.found:
            best = (
                next(i for i, var in enumerate(x) if solution.true(var)),
                next(i for i, var in enumerate(y) if solution.true(var)),
            )
            value = int(problem.cycles[best])
        proven = ceil(solution.bound - 1e-6) if solution.bound is not None else bound
        return Choice(
            _tile(op, cost, problem.shapes[best[0]], problem.modes[best[1]]),
            value,
            min(value, max(bound, proven)),
            "optimal" if proven >= value else "feasible",
            solution.seconds,
            solution.deterministic_seconds,
        )

    def _fits_everywhere(self, op: Op, tile: Tile, boxes: list[Box], accumulator: int, weights: int) -> bool:
        """Whether the tile's buffers fit in all tiles of all boxes."""
        if self._scratch(op, tile, boxes) > accumulator:
            return False
        if tile.engine != "matrix":
            return True
        size = round_up(weight_size(self.graph, op, tile, boxes), self.machine.role("weights").alignment)
        return tile.weight_depth * size <= weights

    def _scratch(self, op: Op, tile: Tile, boxes: list[Box]) -> int:
        """Bytes of all versions of the tile's private buffers; equal operators need as much."""
        key = (self.structures.of[op.name], replace(tile, op=""), tuple(boxes))
        if key not in self._sizes:
            alignment = self.machine.role("accumulator").alignment
            sizes = scratch_sizes(self.graph, op, tile, boxes).values()
            self._sizes[key] = tile.depth * sum(round_up(size, alignment) for size in sizes)
        return self._sizes[key]

    def _infeasible(self, op: Op, boxes: Sequence[Box], capacity: int) -> Infeasible:
        one = Tile(op.name, tuple(1 for _ in boxes[0]), tuple(range(len(boxes[0]))))
        memory = self.machine.role("accumulator")
        sizes = scratch_sizes(self.graph, op, one, [largest(boxes)]).values()
        need = sum(round_up(size, memory.alignment) for size in sizes)
        levers = ("split the operator's inner loop in the model", f"use a machine with more {memory.name}")
        return Infeasible(op.name, memory.name, need, capacity, levers)


def hint(problem: Problem, forbidden: set[int]) -> tuple[int, int] | None:
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


def build(problem: Problem, forbidden: set[int]) -> tuple[Model, list[Var], list[Var], Var]:
    """The model, and x, y and T."""
    model = Model("tiling")
    x = [model.bool(f"shape {'x'.join(map(str, s.sizes))}") for s in problem.shapes]
    y = [model.bool(f"mode {m.reduction.sizes} {m.depth} {m.weight_depth}") for m in problem.modes]
    time = model.int(0, int(problem.cycles.max()), "cycles")
    with model.group("one shape, one mode"):  # (1)
        model.exactly_one(x)
        model.exactly_one(y)
        for a in sorted(forbidden):
            model.add(x[a] == 0)
    for b, mode in enumerate(problem.modes):
        with model.group("accumulator"):  # (2)
            model.add(weighted(x, [s.scratch for s in problem.shapes]) <= problem.accumulator // mode.depth, when=y[b])
        if problem.element:
            with model.group("weight memory"):  # (3)
                model.add(weighted(x, [s.columns for s in problem.shapes]) <= problem.column_limit(mode), when=y[b])
        with model.group("time"):  # (4)
            model.add(time >= weighted(x, [int(c) for c in problem.cycles[:, b].tolist()]), when=y[b])
    model.minimize(time)
    return model, x, y, time


def largest(boxes: Sequence[Box]) -> Box:
    """The box with the most points; among equals the one in the middle, where nothing is cut off."""
    most = max(volume(b) for b in boxes)
    equal = [b for b in boxes if volume(b) == most]
    return equal[len(equal) // 2]


def together(choices: Sequence[Choice]) -> Solved:
    """The answers for many operators as one: the sum of their cycles."""
    proven = all(c.status == "optimal" for c in choices)
    return Solved(
        "tiling",
        "optimal" if proven else "feasible",
        float(sum(c.cycles for c in choices)),
        float(sum(c.bound for c in choices)),
        "cycles, each operator once",
    )


def _lead(op: Op, before: Mapping[str, Lead]) -> Lead | None:
    """What keeps the vector engine when ``op`` begins: ``before``, by what it makes since the matrix engine worked."""
    if op.anchor is None or not before:
        return None
    left = op.stages[op.anchor].reads[0].tensor
    return before.get(left) or Lead(
        sum(lead.cycles for lead in before.values()), scratch=list(before.values())[-1].scratch
    )


def _cap(capacity: int, limit: int | None) -> int:
    return capacity if limit is None else min(capacity, limit)


def _tile(op: Op, cost: OpCost, shape: Shape, mode: Mode) -> Tile:
    return Tile(
        op.name, shape.sizes, shape.order, mode.reduction.sizes, cost.engine, mode.depth, mode.weight_depth
    )  # fmt: skip
