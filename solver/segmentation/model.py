"""Model 1, segmentation: which consecutive operators form a segment, and how each segment is split.

Sets
    C columns (:mod:`.candidates`): runs of operators with a split; A activations; boundaries 0 .. N between operators.
Data, in cycles of main memory where they are bytes
    c_j of column j on the cores, n_j its instances; w_j its weights, v_j what of them is fetched again if none are
    pinned between its instances, p_j what has to be pinned so that nothing is: all, or the parts in use where instances
    with the same columns follow one another. What activation a moves through main memory in column j, and what it takes
    of shared memory: m_aj, b_aj if it is resident, m'_aj, b'_aj if not. L: shared memory; R: reserve for weights on
    their way. A group of segments whose instances take turns is a column, too (:mod:`.groups`): its instances are
    turns, and g_j is what passes between its members, 0 for a single segment.
Variables
    x_j column j is used; r_a activation a is resident in shared memory while it crosses segments; q_j how many of K
    parts of p_j column j pins during its instances. At each boundary p: t_p when the cores are there, d_p what
    main memory must have moved by then, e_p its prefetch slack (by how much it is ahead of that).
Constraints
    (1) one path: exactly one column leaves boundary 0, one enters boundary N; as many enter as leave any other.
    If x_j, for column j from boundary p to boundary s, with D_j = w_j + v_j (1 - q_j / K) + sum_a (m_aj r_a +
    m'_aj (1 - r_a)) and H_j = g_j + p_j q_j / K + sum_a (b_aj r_a + b'_aj (1 - r_a)):
    (2) shared memory: R + H_j <= L.
    (3) cores: t_s >= t_p + c_j.
    (4) main memory: t_s - e_s >= t_p - e_p + D_j, and d_s >= d_p + D_j.
    (5) prefetch has room: e_s + H_j <= L + c_j / 2 n_j, where the last term (only if weights can be pinned) is half the
        time of the last instance, in which they give way.
    (6) pinned weights: q_j <= K x_j.
Redundant
    (7) t_N >= sum_j c_j x_j; t_N >= d_N >= sum_j l_j x_j, where l_j is the least D_j of column j alone.
Objective
    t_N, plus an overlap penalty: a share (one in :data:`~.problem.OVERLAP_PENALTY`) of
    sum_j c_j x_j + d_N, because overlap is never perfect: small segments have more to hide, and how much of it can be
    hidden is for the lower models to find out.
Heuristic and bound
    :mod:`.shortest_path`: without (2), and with l_j for D_j, a label-setting shortest path gives the bound and the
    reduced cost of each column; with a typical residency it gives paths. Columns whose reduced cost exceeds the best
    answer are left out. Where that meets the bound, no solver runs.
Relaxed
    When exactly bytes are needed within a column; halos of what is staged; tiles (a Benders cut that raises the cost of
    a column corrects it). Columns are priced on the cells that represent the others, and one that then turns out not to
    fit in all of its cells is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor

from ..cpsat.backend import Expr, Model, Var, total, weighted
from .inter_segment import WEIGHT_PARTS, ResidentSet
from .problem import OVERLAP_PENALTY, SegmentationAnswer, SegmentationProblem


@dataclass(frozen=True)
class _Terms:
    """Of one column, linear in r and q: ``moved`` is D_j, ``held`` is H_j, at most ``most``; in cycles, rounded up."""

    moved: Expr
    held: Expr
    most: int


class SegmentationModel:
    """The model over some ``columns`` of a problem, by index."""

    def __init__(self, problem: SegmentationProblem, columns: Sequence[int]) -> None:
        self.problem = problem
        self.model = model = Model("segmentation")
        chosen = [(j, problem.columns[j]) for j in columns]
        boundaries = range(problem.boundaries.count + 1)
        horizon = self._horizon(columns)
        crossing = dict.fromkeys(i.name for j in columns for i in problem.costs[j] if i.can_reside)
        self.use = {j: model.bool(f"use {c.first}..{c.last} #{j}") for j, c in chosen}
        self.resident = {name: model.bool(f"resident {name}") for name in crossing}
        self.pinned = {j: model.int(0, WEIGHT_PARTS, f"pinned #{j}") for j, c in chosen if c.refetched_bytes}
        self.time = [model.int(0, horizon if p else 0, f"time {p}") for p in boundaries]
        self.main = [model.int(0, horizon if p else 0, f"main {p}") for p in boundaries]
        self.slack = [model.int(0, horizon if p else 0, f"slack {p}") for p in boundaries]

        self.one_path()
        of_column = (self.shared_memory, self.cores, self.main_memory, self.prefetch_has_room, self.pinned_weights)
        for j in columns:
            terms = self._terms(j)
            for constraint in of_column:
                constraint(j, terms)
        self.redundant()
        work = weighted([self.use[j] for j in columns], [c.cycles for _, c in chosen])
        model.minimize(OVERLAP_PENALTY * self.time[-1] + work + self.main[-1])

    def one_path(self) -> None:
        """(1)"""
        boundaries = self.problem.boundaries
        entering: list[list[Var]] = [[] for _ in range(boundaries.count + 1)]
        leaving: list[list[Var]] = [[] for _ in range(boundaries.count + 1)]
        for j, used in self.use.items():
            leaving[boundaries.start[j]].append(used)
            entering[boundaries.end[j]].append(used)
        with self.model.group("one path"):
            self.model.exactly_one(leaving[0])
            self.model.exactly_one(entering[boundaries.count])
            for p in range(1, boundaries.count):
                if entering[p] or leaving[p]:
                    self.model.add(total(entering[p]) == total(leaving[p]))

    def shared_memory(self, j: int, terms: _Terms) -> None:
        """(2)"""
        reserve = self.problem.cycles(min(self.problem.reserve, self.problem.columns[j].weight_bytes))
        if terms.most + reserve > self._capacity:
            with self.model.group("shared memory"):
                self.model.add(terms.held <= self._capacity - reserve, when=self.use[j])

    def cores(self, j: int, _: _Terms) -> None:
        """(3)"""
        p, s = self._ends(j)
        with self.model.group("cores"):
            self.model.add(self.time[s] >= self.time[p] + self.problem.columns[j].cycles, when=self.use[j])

    def main_memory(self, j: int, terms: _Terms) -> None:
        """(4)"""
        p, s = self._ends(j)
        with self.model.group("main memory"):
            done = self.time[p] - self.slack[p] + terms.moved
            self.model.add(self.time[s] - self.slack[s] >= done, when=self.use[j])
            self.model.add(self.main[s] >= self.main[p] + terms.moved, when=self.use[j])

    def prefetch_has_room(self, j: int, terms: _Terms) -> None:
        """(5)"""
        limit = self._capacity + self.problem.last_instance_cycles(j)
        with self.model.group("prefetch"):
            self.model.add(self.slack[self._ends(j)[1]] + terms.held <= limit, when=self.use[j])

    def pinned_weights(self, j: int, _: _Terms) -> None:
        """(6)"""
        if j in self.pinned:
            with self.model.group("pinned weights"):
                self.model.add(self.pinned[j] <= WEIGHT_PARTS * self.use[j])

    def redundant(self) -> None:
        """(7)"""
        used = list(self.use.values())
        columns = [self.problem.columns[j] for j in self.use]
        with self.model.group("redundant"):
            self.model.add(self.time[-1] >= weighted(used, [c.cycles for c in columns]))
            self.model.add(self.main[-1] >= weighted(used, [self.problem.least_main_cycles[j] for j in self.use]))
            self.model.add(self.time[-1] >= self.main[-1])

    def hint(self, answer: SegmentationAnswer) -> None:
        """Begin with a known answer."""
        for j, used in self.use.items():
            self.model.hint(used, int(j in answer.path))
        for name, resident in self.resident.items():
            self.model.hint(resident, int(name in answer.residency.resident))
        pinned = dict(zip(answer.path, answer.residency.pinned, strict=True))
        for j, parts in self.pinned.items():
            self.model.hint(parts, pinned.get(j, 0))

    def answer(self, value: Callable[[Expr], int]) -> SegmentationAnswer:
        """The answer that a solution gives the variables these values."""
        used = (j for j, x in self.use.items() if value(x))
        path = tuple(sorted(used, key=lambda j: self.problem.boundaries.start[j]))
        resident = frozenset(name for name, r in self.resident.items() if value(r))
        pinned = tuple(value(self.pinned[j]) if j in self.pinned else 0 for j in path)
        return self.problem.answer(path, ResidentSet(resident, pinned))

    @property
    def _capacity(self) -> int:
        """L."""
        return floor(self.problem.capacity / self.problem.main_rate)

    def _ends(self, j: int) -> tuple[int, int]:
        """The boundaries p and s of column j."""
        return self.problem.boundaries.start[j], self.problem.boundaries.end[j]

    def _horizon(self, columns: Sequence[int]) -> int:
        """No answer takes longer: all work of all columns, one after the other."""
        problem = self.problem
        moved = sum(i.spilled_traffic + i.resident_traffic for j in columns for i in problem.costs[j])
        refetched = sum(problem.columns[j].refetched_bytes for j in columns)
        work = sum(problem.columns[j].cycles + problem.least_main_cycles[j] for j in columns)
        return work + problem.cycles(moved + refetched)

    def _terms(self, j: int) -> _Terms:
        column, cycles = self.problem.columns[j], self.problem.cycles
        moved: Expr = cycles(column.weight_bytes)
        held: Expr = cycles(column.internal_bytes)
        most = cycles(column.internal_bytes)
        for cost in self.problem.costs[j]:
            spilled, staged = cycles(cost.spilled_traffic), cycles(cost.staged_bytes)
            moved += spilled
            held += staged
            if cost.can_reside and cost.name in self.resident:
                resident = cycles(cost.resident_bytes)
                moved += (cycles(cost.resident_traffic) - spilled) * self.resident[cost.name]
                held += (resident - staged) * self.resident[cost.name]
                most += max(resident, staged)
            else:
                most += staged
        if j in self.pinned:
            refetched, part = cycles(column.refetched_bytes / WEIGHT_PARTS), cycles(column.pin_bytes / WEIGHT_PARTS)
            moved += WEIGHT_PARTS * refetched - refetched * self.pinned[j]
            held += part * self.pinned[j]
            most += WEIGHT_PARTS * part
        return _Terms(moved, held, most)
