"""Model 1, segmentation: which consecutive operators form a segment, and how each segment is cut.

Sets
    C columns (:mod:`.candidates`): runs of operators with a cut; A activations; cut points 0 .. N between operators.
Data, in cycles of main memory where they are bytes
    c_j of column j on the cores, n_j its instances; w_j its weights, v_j what of them is fetched again if none are kept
    between its instances. What activation a moves through main memory in column j, and what it holds of shared memory:
    m_aj, b_aj if it is kept, m'_aj, b'_aj if not. L: shared memory; R: reserve for weights on their way.
Variables
    x_j column j is used; r_a activation a is kept in shared memory while it crosses segments; q_j how many of K shares
    of its weights column j keeps during its instances. At each cut p: t_p when the cores are there, d_p what main
    memory must have moved by then, e_p how far it is ahead of that.
Constraints
    (1) one path: exactly one column leaves cut 0, one enters cut N; as many enter as leave any other cut.
    If x_j, for column j from cut p to cut s, with D_j = w_j + v_j (1 - q_j / K) + sum_a (m_aj r_a + m'_aj (1 - r_a))
    and H_j = W_j q_j / K + sum_a (b_aj r_a + b'_aj (1 - r_a)):
    (2) shared memory: R + H_j <= L.
    (3) cores: t_s >= t_p + c_j.
    (4) main memory: t_s - e_s >= t_p - e_p + D_j, and d_s >= d_p + D_j.
    (5) prefetch has room: e_s + H_j <= L + c_j / 2 n_j, where the last term (only if weights can be kept) is half the
        time of the last instance, in which they give way.
    (6) kept weights: q_j <= K x_j.
Redundant
    (7) t_N >= sum_j c_j x_j; t_N >= d_N >= sum_j l_j x_j, where l_j is the least D_j of column j alone.
Objective
    t_N, plus a share (one in :data:`~.problem.EXPOSED`, or as asked) of sum_j c_j x_j + d_N, because overlap is never
    perfect: small segments have more to hide, and how much of it can be hidden is for the lower models to find out.
Heuristic and bound
    :mod:`.shortest_path`: without (2), and with l_j for D_j, dynamic programming gives the bound and the regret of each
    column; with a typical residence it gives paths. Columns whose regret leads beyond the best solution are left out.
    Where that meets the bound, no solver runs.
Relaxed
    When exactly bytes are needed within a column; halos of what is staged; tiles (a cut that raises the price of a
    column corrects it). Columns are priced on the cells that represent the others, and one that then turns out not to
    fit in all of its cells is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Segment, Solved, Split
from ..cpsat.backend import Budget, Expr, solve
from .candidates import Candidates, Column
from .inter_segment import Residence
from .model import Variables, build, hint
from .problem import EXPOSED, Answer, Problem

MOST_COLUMNS = 300
"""Columns in the model at most, those of least regret."""
ROUNDS = 12
"""How often a column that turns out not to fit is removed."""


@dataclass(frozen=True)
class ColumnCut:
    """What a lower model found out: the column of these operators, cut like this, is infeasible (``cycles`` is
    ``None``) or takes the cores at least ``cycles``. ``None`` for a cut stands for every cut."""

    ops: tuple[str, ...]
    instances: tuple[Split, ...] | None = None
    cores: tuple[Split, ...] | None = None
    cycles: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class Segmentation:
    """``segments`` without tiles, from ``columns``; ``expected`` cycles of each, waiting for main memory included.

    ``spilled``: activations that the model expects to pass through main memory. ``core_cycles`` and ``main_cycles``:
    what it expects of the cores and of main memory; ``seconds`` and ``deterministic_seconds`` of the solver alone.
    """

    segments: tuple[Segment, ...]
    columns: tuple[Column, ...]
    expected: tuple[int, ...]
    spilled: tuple[str, ...]
    core_cycles: int
    main_cycles: int
    solved: Solved
    seconds: float
    deterministic_seconds: float
    note: str


@dataclass(frozen=True)
class _Found:
    """An answer with what the solver said of it."""

    answer: Answer
    problem: Problem
    solved: Solved
    seconds: float = 0.0
    deterministic_seconds: float = 0.0


def segment(
    graph: Graph,
    machine: Machine,
    *,
    cuts: Sequence[ColumnCut] = (),
    margin: int = 0,
    budget: Budget | None = None,
    seed: int = 0,
    candidates: Candidates | None = None,
    exposed: int = EXPOSED,
) -> Segmentation:
    """The best segmentation; ``margin`` bytes of local memory are left free.

    ``candidates`` can be handed from call to call, so that columns are made once. ``exposed``: see the objective.
    Raises :class:`InfeasibleError` if an operator fits in no segment.
    """
    made = candidates or Candidates(graph, machine, margin=margin)
    columns = _admitted(made.columns(), cuts, graph)
    seconds = work = 0.0
    removed = 0
    for _ in range(ROUNDS):
        found = _solve(columns, graph, machine, budget or Budget(10.0), seed, exposed)
        seconds, work = seconds + found.seconds, work + found.deterministic_seconds
        chosen = [found.problem.columns[j] for j in found.answer.path]
        wrong = {id(c) for c in chosen if c.peak and made.exact_peak(c) > made.capacity}
        if not wrong:
            return _finished(replace(found, seconds=seconds, deterministic_seconds=work), graph, removed)
        kept = [c for c in columns if not any(_contains(c, w) for w in chosen if id(w) in wrong)]
        removed += len(columns) - len(kept)
        columns = kept
    raise InfeasibleError("segments that fit local memory in all their cells were not found; use a larger margin")


def _contains(column: Column, part: Column) -> bool:
    """Whether a column needs all that ``part`` needs: more operators under the same cut of the same leader."""
    return (column.last, column.cut) == (part.last, part.cut) and column.first <= part.first


def _admitted(columns: Sequence[Column], cuts: Sequence[ColumnCut], graph: Graph) -> list[Column]:
    """The columns that the cuts leave, at the prices that they ask."""
    by_ops: dict[tuple[str, ...], list[ColumnCut]] = {}
    for cut in cuts:
        by_ops.setdefault(cut.ops, []).append(cut)
    kept: list[Column] = []
    for column in columns:
        ops = tuple(op.name for op in graph.ops[column.first : column.last + 1])
        for cut in by_ops.get(ops, ()):
            if cut.instances not in (None, column.cut.instances) or cut.cores not in (None, column.cut.cores):
                continue
            if cut.cycles is None:
                break
            column = replace(column, cycles=max(column.cycles, cut.cycles))
        else:
            kept.append(column)
    return kept


def _solve(
    columns: Sequence[Column], graph: Graph, machine: Machine, budget: Budget, seed: int, exposed: int
) -> _Found:
    problem = Problem(columns, graph, machine, exposed)
    potentials, best = problem.search()
    if potentials is None:
        raise InfeasibleError(_uncovered(columns, problem, machine))
    ceiling = best.objective / exposed if best else float("inf")
    if best is not None and best.objective <= ceil(exposed * potentials.bound - 1e-3):
        return _Found(best, problem, Solved("segmentation", "optimal", ceiling, ceiling, "cycles"))
    useful = np.flatnonzero(potentials.through <= ceiling + 1e-6)
    dropped = ceiling
    if len(useful) > MOST_COLUMNS:
        order = useful[np.argsort(potentials.through[useful], kind="stable")]
        dropped = float(potentials.through[order[MOST_COLUMNS]])
        useful = order[:MOST_COLUMNS]
    chosen = sorted({*useful.tolist(), *(best.path if best else ())})
    model, variables = build(problem, chosen)
    if best is not None:
        hint(model, variables, problem, best)
    solution = solve(model, budget=budget, seed=seed)
    if solution.found:
        path = tuple(
            sorted((j for j in chosen if solution.true(variables.use[j])), key=lambda j: problem.cuts.first[j])
        )
        answer = problem.answer(path, _residence(variables, path, solution.value))
        best = answer if best is None or answer.objective < best.objective else best
    if best is None:
        raise InfeasibleError(_uncovered(columns, problem, machine))
    objective = best.objective / exposed
    proven = (solution.bound or 0.0) / exposed
    bound = min(objective, max(potentials.bound, min(proven, dropped)))
    status = "optimal" if bound >= objective - 1 else "feasible"
    record = Solved("segmentation", status, objective, bound, "cycles")
    return _Found(best, problem, record, solution.seconds, solution.deterministic_seconds)


def _residence(v: Variables, path: Sequence[int], value: Callable[[Expr], int]) -> Residence:
    kept = frozenset(name for name, var in v.keep.items() if value(var))
    return Residence(kept, tuple(value(v.shares[j]) if j in v.shares else 0 for j in path))


def _uncovered(columns: Sequence[Column], problem: Problem, machine: Machine) -> str:
    """Which operator no sequence of segments passes, and how far the best segment with it is from fitting."""
    reached = {0}
    for column in sorted(problem.columns, key=lambda c: (c.last, c.first)):
        if column.first in reached:
            reached.add(column.last + 1)
    ops = problem.graph.ops
    stuck = min(max(reached), len(ops) - 1)
    over = min((problem.excess(c) for c in columns if c.first <= stuck <= c.last), default=0)
    if over <= 0:
        return f"operator {ops[stuck].name}: every segment with it was refused by what came after"
    shared = machine.role("shared")
    return (
        f"operator {ops[stuck].name}: an instance of any segment with it needs at least {over:,} bytes more than the "
        f"{shared.capacity:,} of {shared.name}; use a machine with more {shared.name} or a smaller batch"
    )


def _finished(found: _Found, graph: Graph, removed: int) -> Segmentation:
    answer, problem = found.answer, found.problem
    chosen = tuple(problem.columns[j] for j in answer.path)
    crossing = {i.name for j in answer.path for i in problem.items[j] if i.keepable}
    return Segmentation(
        segments_of(chosen, graph),
        chosen,
        answer.spans,
        tuple(a.name for a in problem.known if a.name in crossing - answer.residence.kept),
        sum(c.cycles for c in chosen),
        answer.main,
        found.solved,
        found.seconds,
        found.deterministic_seconds,
        f"{removed} columns did not fit in all their cells" if removed else "",
    )


def segments_of(columns: Sequence[Column], graph: Graph) -> tuple[Segment, ...]:
    """The columns as segments of a plan, tiles left open."""
    return tuple(
        Segment(tuple(op.name for op in graph.ops[c.first : c.last + 1]), c.cut.instances, c.cut.cores, ())
        for c in columns
    )
