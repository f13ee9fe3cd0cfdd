"""Segmentation: heuristic, bound, model, answer; the formulation is in :mod:`.model`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

import networkx as nx
import numpy as np

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Segment, Solved, Split
from ..cpsat.backend import UNSEARCHED, Budget, Watch, solve
from ..effort import NO_EFFORT, Effort, InfeasibleSearchError, SearchPoint
from .candidates import Candidates
from .column_cost import Column
from .model import SegmentationModel
from .problem import OVERLAP_PENALTY, SegmentationAnswer, SegmentationProblem

MOST_COLUMNS = 300
"""Columns in the model at most, those of least reduced cost. Chosen, not measured: the model stays small enough to be
solved in seconds, and the bound accounts for the columns that are left out."""
MOST_REMOVALS = 12
"""How often columns that turn out not to fit are removed before the search is given up. Chosen, not measured."""


@dataclass(frozen=True)
class BendersCut:
    """What a lower model found out: the column of these operators with this split is infeasible (``cycles`` is
    ``None``) or takes the cores at least ``cycles``. ``None`` for a split stands for every split."""

    ops: tuple[str, ...]
    instances: tuple[Split, ...] | None = None
    cores: tuple[Split, ...] | None = None
    cycles: int | None = None


@dataclass(frozen=True)
class Segmentation:
    """``segments`` without tiles, from ``columns``; ``effort`` of the solver alone.

    ``groups``: for each segment the number of its group, whose segments take turns; none if each runs by itself.
    """

    segments: tuple[Segment, ...]
    columns: tuple[Column, ...]
    groups: tuple[int, ...]
    solved: Solved
    effort: Effort
    note: str


@dataclass(frozen=True)
class _Solution:
    """An answer, and what the solver said of it."""

    answer: SegmentationAnswer
    problem: SegmentationProblem
    solved: Solved
    effort: Effort = NO_EFFORT


def segment(
    graph: Graph,
    machine: Machine,
    *,
    cuts: Sequence[BendersCut] = (),
    budget: Budget | None = None,
    seed: int = 0,
    candidates: Candidates | None = None,
    watch: Watch | None = None,
    in_turn: bool = False,
    headroom: int = 0,
    grouped: Callable[[Sequence[Column]], list[Column]] | None = None,
) -> Segmentation:
    """The best segmentation that the cuts allow; ``watch`` hears of it in cycles.

    ``candidates`` can be handed from call to call, so that columns are priced once. ``in_turn``: whether path and
    residency of the first answer improve each other. ``headroom``: bytes of shared memory to leave free. ``grouped``:
    gives the groups of the columns that the cuts leave. Raises :class:`InfeasibleSearchError` if an operator fits in no
    segment.
    """
    candidates = candidates or Candidates(graph, machine)
    columns = _admitted(candidates.columns(), cuts, graph)
    columns += grouped(columns) if grouped is not None else []
    effort = NO_EFFORT
    removed = 0
    for _ in range(MOST_REMOVALS):
        try:
            problem = SegmentationProblem(columns, graph, machine, headroom)
            solution = _solve(columns, problem, machine, budget or Budget(10.0), seed, watch, in_turn=in_turn)
        except InfeasibleSearchError as error:
            raise InfeasibleSearchError(str(error), effort + error.effort) from None
        effort += solution.effort
        path = [solution.problem.columns[j] for j in solution.answer.path]
        chosen = [segment for column in path for segment in column.segments]
        too_large = [c for c in chosen if c.local_bytes and candidates.exact_local_bytes(c) > candidates.capacity]
        if not too_large:
            note = f"{removed} columns did not fit in all their cells" if removed else ""
            segments = segments_of(chosen, graph)
            return Segmentation(segments, tuple(chosen), _groups(path), solution.solved, effort, note)
        fitting = [c for c in columns if not any(_contains(s, part) for s in c.segments for part in too_large)]
        removed += len(columns) - len(fitting)
        columns = fitting
    raise InfeasibleSearchError(
        f"segments that fit local memory in all their cells were not found, after {MOST_REMOVALS} attempts; use a "
        f"machine with more {machine.levels.activations.name} or a smaller batch",
        effort,
    )


def _groups(path: Sequence[Column]) -> tuple[int, ...]:
    """For each segment the number of the column that it comes from; none if each column is a segment."""
    if not any(column.members for column in path):
        return ()
    return tuple(number for number, column in enumerate(path) for _ in column.segments)


def _contains(column: Column, part: Column) -> bool:
    """Whether a column needs all that ``part`` needs: more operators under the same split of the same root."""
    return (column.last, column.split) == (part.last, part.split) and column.first <= part.first


def _admitted(columns: Sequence[Column], cuts: Sequence[BendersCut], graph: Graph) -> list[Column]:
    """The columns that the cuts leave, at the costs that they ask."""
    by_ops: dict[tuple[str, ...], list[BendersCut]] = {}
    for cut in cuts:
        by_ops.setdefault(cut.ops, []).append(cut)
    admitted: list[Column] = []
    for column in columns:
        ops = tuple(op.name for op in graph.ops[column.first : column.last + 1])
        for cut in by_ops.get(ops, ()):
            if cut.instances not in (None, column.split.instances) or cut.cores not in (None, column.split.cores):
                continue
            if cut.cycles is None:
                break
            column = replace(column, cycles=max(column.cycles, cut.cycles))
        else:
            admitted.append(column)
    return admitted


def _solve(
    columns: Sequence[Column], problem: SegmentationProblem, machine: Machine, budget: Budget, seed: int,
    watch: Watch | None, *, in_turn: bool,
) -> _Solution:  # fmt: skip
    bounds, best = problem.search(in_turn=in_turn)
    if bounds is None:
        raise InfeasibleSearchError(_uncovered(columns, problem, machine), NO_EFFORT)
    ceiling = best.objective / OVERLAP_PENALTY if best else float("inf")
    if best is not None and best.objective <= ceil(OVERLAP_PENALTY * bounds.bound - 1e-3):
        return _Solution(best, problem, Solved("segmentation", "optimal", ceiling, ceiling, "cycles"))
    useful = np.flatnonzero(bounds.through <= ceiling + 1e-6)
    left_out = ceiling
    if len(useful) > MOST_COLUMNS:
        order = useful[np.argsort(bounds.through[useful], kind="stable")]
        left_out = float(bounds.through[order[MOST_COLUMNS]])
        useful = order[:MOST_COLUMNS]

    def in_cycles(incumbent: float | None, bound: float | None) -> None:
        if watch is not None:
            best_cycles = ceiling if incumbent is None else min(ceiling, incumbent / OVERLAP_PENALTY)
            watch(best_cycles, _bound(bound, best_cycles, bounds.bound, left_out))

    solution = UNSEARCHED
    if budget.searches:
        model = SegmentationModel(problem, sorted({*useful.tolist(), *(best.path if best else ())}))
        if best is not None:
            model.hint(best)
        solution = solve(model.model, budget=budget, seed=seed, watch=in_cycles if watch else None)
        if solution.has_solution:
            answer = model.answer(solution.value)
            best = answer if best is None or answer.objective < best.objective else best
    if best is None:
        raise InfeasibleSearchError(_uncovered(columns, problem, machine), solution.effort)
    objective = best.objective / OVERLAP_PENALTY
    bound = _bound(solution.bound, objective, bounds.bound, left_out)
    status = "optimal" if bound >= objective - 1 else "feasible"
    solved = Solved("segmentation", status, objective, bound, "cycles")
    points: list[SearchPoint] = []
    for point in solution.effort.points:
        incumbent = ceiling if point.incumbent is None else min(ceiling, point.incumbent / OVERLAP_PENALTY)
        points.append(SearchPoint(point.work, incumbent, _bound(point.bound, incumbent, bounds.bound, left_out)))
    return _Solution(best, problem, solved, replace(solution.effort, points=tuple(points)))


def _bound(of_model: float | None, objective: float, of_paths: float, left_out: float) -> float:
    """The bound over all columns, of which the model has only those that cost less than ``left_out``."""
    return min(objective, max(of_paths, min((of_model or 0.0) / OVERLAP_PENALTY, left_out)))


def _uncovered(columns: Sequence[Column], problem: SegmentationProblem, machine: Machine) -> str:
    """Which operator no sequence of segments passes, and how far the best segment with it is from fitting."""
    paths: nx.DiGraph[int] = nx.DiGraph()
    paths.add_node(0)
    paths.add_edges_from((column.first, column.last + 1) for column in problem.columns)
    ops = problem.graph.ops
    stuck = min(max(nx.descendants(paths, 0), default=0), len(ops) - 1)
    over = min((problem.excess(c) for c in columns if c.first <= stuck <= c.last), default=0)
    if over <= 0:
        return f"operator {ops[stuck].name}: no segment with it is left that models below have not refused"
    shared = machine.levels.exchange
    return (
        f"operator {ops[stuck].name}: of the segments with it that were looked at, an instance of the smallest needs "
        f"{over:,} bytes more than the {shared.capacity:,} of {shared.name}; use a machine with more {shared.name} or "
        "a smaller batch"
    )


def segments_of(columns: Sequence[Column], graph: Graph) -> tuple[Segment, ...]:
    """The columns as segments of a plan, tiles left open."""
    return tuple(
        Segment(tuple(op.name for op in graph.ops[c.first : c.last + 1]), c.split.instances, c.split.cores, ())
        for c in columns
    )
