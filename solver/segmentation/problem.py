"""The data of the segmentation model, and its objective recomputed from an answer alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor

from ...ir.graph import Graph
from ...ir.machine import Machine
from ..cost.operator import Rates
from .candidates import WEIGHT_RESERVE
from .column_cost import Column
from .inter_segment import (
    ActivationCost,
    ActivationIndex,
    ResidentSet,
    activation_costs,
    activations,
    greedy_residency,
    least_main_traffic,
    main_traffic,
    pinned_parts,
    shared_bytes,
)
from .shortest_path import Boundaries, Path, PathBounds, PathCosts, path_bounds, recombined, set_labels

OVERLAP_PENALTY = 10
"""One part in so many of all work counts as time. Measured: 4 and 40 beside it, in turn, gain nothing."""
PATHS_TRIED = 12
"""Paths of each relaxation that are completed to answers before the solver runs. Chosen, not measured."""
MOST_ALTERNATIONS = 8
"""How often the path and the residency of an answer are improved in turn. Chosen; they mostly end by themselves."""
NO_ROOM = 1 << 50
"""Cycles of a column that does not fit beside what is resident: more than any path takes."""
PINNED_FRACTIONS = (1.0, 0.5, 0.0)
"""Of the weights that a column can pin, what the relaxations with typical residency assume: all, half and none. Chosen,
not measured."""


@dataclass(frozen=True)
class SegmentationAnswer:
    """A path with its residency; ``objective`` in units of 1 / :data:`OVERLAP_PENALTY` cycles."""

    path: Path
    residency: ResidentSet
    objective: int


class SegmentationProblem:
    """Columns by their index; all times in cycles, all memory in the cycles that main memory takes to fill it.

    ``headroom``: bytes of shared memory that stay free.
    """

    def __init__(self, columns: Sequence[Column], graph: Graph, machine: Machine, headroom: int = 0) -> None:
        self.graph = graph
        # One clock is for all homes: that of the slower, as most of what is fetched are constants.
        self.main_rate = Rates.from_machine(machine).slowest_home
        self.capacity = machine.levels.exchange.capacity - headroom
        self.reserve = self.capacity // WEIGHT_RESERVE
        self.activations = activations(graph)
        index = ActivationIndex(self.activations, len(graph.ops))
        self.can_reside = frozenset(a.name for a in self.activations if a.read_on_cores)
        self.columns: list[Column] = []
        self.costs: list[tuple[ActivationCost, ...]] = []
        """Of the activations of each column."""
        self.least_main_cycles: list[int] = []
        for column in columns:
            live = index.live_in(column.first, column.last)
            for versions in (2, 1):
                costs = activation_costs(column, live, versions)
                least = least_main_traffic(column, costs, self.capacity, self.reserve)
                if least is not None:
                    self.columns.append(column)
                    self.costs.append(costs)
                    self.least_main_cycles.append(self.cycles(least))
                    break
        self.boundaries = Boundaries(self.columns, len(graph.ops))

    def excess(self, column: Column) -> int:
        """Bytes of shared memory that a column needs beyond the capacity, one instance at a time, nothing resident."""
        costs = activation_costs(column, self.activations, 1)
        return shared_bytes(column, costs, frozenset(), 0, self.reserve) - self.capacity

    def cycles(self, size: float) -> int:
        """Cycles of main memory for ``size`` bytes."""
        return ceil(size / self.main_rate)

    def slack_limit(self, j: int, used: int) -> int:
        """The most prefetch slack at the end of column j, if its activations and pinned weights use ``used`` bytes."""
        return max(0, floor((self.capacity - used) / self.main_rate)) + self.last_instance_cycles(j)

    def last_instance_cycles(self, j: int) -> int:
        """Half the time of the last instance of column j, in which pinned weights give way; none if none can be."""
        column = self.columns[j]
        return column.cycles // (2 * column.instances) if column.refetched_bytes else 0

    def relaxed(self) -> PathCosts:
        """Every column at its best, whatever the others do."""
        limits = [
            self.slack_limit(j, sum(min(i.staged_bytes, i.resident_bytes) for i in costs))
            for j, costs in enumerate(self.costs)
        ]
        return self._path_costs(self.least_main_cycles, limits)

    def typical(self, pinned_fraction: float) -> PathCosts:
        """Every column with all activations resident that can be, and this fraction of the weights that it can pin."""
        main: list[int] = []
        limits: list[int] = []
        for j, (column, costs, alone) in enumerate(zip(self.columns, self.costs, self._residency_alone, strict=True)):
            pinned = int(alone.pinned[0] * pinned_fraction)
            main.append(self.cycles(main_traffic(column, costs, alone.resident, pinned)))
            limits.append(self.slack_limit(j, shared_bytes(column, costs, alone.resident, pinned, 0)))
        return self._path_costs(main, limits)

    def under(self, resident: frozenset[str]) -> PathCosts:
        """Every column with these activations resident, and as many pinned weights as then have room."""
        main: list[int] = []
        limits: list[int] = []
        for j, (column, costs) in enumerate(zip(self.columns, self.costs, strict=True)):
            used = shared_bytes(column, costs, resident, 0, self.reserve)
            if used > self.capacity:
                main.append(NO_ROOM)
                limits.append(0)
                continue
            pinned = pinned_parts(column, self.capacity - used)
            main.append(self.cycles(main_traffic(column, costs, resident, pinned)))
            limits.append(self.slack_limit(j, shared_bytes(column, costs, resident, pinned, 0)))
        return self._path_costs(main, limits)

    @cached_property
    def _residency_alone(self) -> list[ResidentSet]:
        """By column: the residency that it can have if it need not care for others."""
        alone: list[ResidentSet] = []
        for column, costs in zip(self.columns, self.costs, strict=True):
            residency = greedy_residency([column], [costs], self.can_reside, self.capacity, self.reserve)
            assert residency is not None
            alone.append(residency)
        return alone

    def _path_costs(self, main: Sequence[int], slack_limits: Sequence[int]) -> PathCosts:
        core = [c.cycles for c in self.columns]
        penalty = [(c + m) / OVERLAP_PENALTY for c, m in zip(core, main, strict=True)]
        return PathCosts(core, main, slack_limits, penalty)

    def answer(self, path: Path, residency: ResidentSet) -> SegmentationAnswer:
        """The objective, from path and residency alone."""
        cycles = slack = work = 0
        for j, pinned in zip(path, residency.pinned, strict=True):
            column, costs = self.columns[j], self.costs[j]
            need = self.cycles(main_traffic(column, costs, residency.resident, pinned))
            time = max(column.cycles, need - slack)
            limit = self.slack_limit(j, shared_bytes(column, costs, residency.resident, pinned, 0))
            slack = min(limit, slack + time - need)
            cycles += time
            work += column.cycles + need
        return SegmentationAnswer(path, residency, OVERLAP_PENALTY * cycles + work)

    def with_greedy_residency(self, path: Path) -> SegmentationAnswer | None:
        """The path with a greedy residency that pins as many weights as pay; ``None`` if a column does not fit."""
        columns, costs = [self.columns[j] for j in path], [self.costs[j] for j in path]
        residency = greedy_residency(columns, costs, self.can_reside, self.capacity, self.reserve)
        if residency is None:
            return None
        options = [
            self.answer(path, ResidentSet(residency.resident, tuple(n * quarters // 4 for n in residency.pinned)))
            for quarters in (4, 3, 2, 1, 0)
        ]
        return min(options, key=lambda a: a.objective)

    def search(self, *, in_turn: bool = False) -> tuple[PathBounds | None, SegmentationAnswer | None]:
        """The bounds of the relaxation, and the best answer that completes one of many paths.

        ``in_turn``: whether path and residency of that then improve each other (see :meth:`improved`).
        (``None``, ``None``) if no path leads from the first operator to the last.
        """
        bounds = path_bounds(self.boundaries, self.relaxed())
        if bounds is None:
            return None, None
        paths = dict.fromkeys(bounds.paths[:PATHS_TRIED])
        answers: list[SegmentationAnswer] = []
        for fraction in PINNED_FRACTIONS:
            costs = self.typical(fraction)
            typical = path_bounds(self.boundaries, costs)
            assert typical is not None
            paths |= dict.fromkeys(typical.paths[:PATHS_TRIED])
            best = recombined(self.boundaries, costs, list(paths), PATHS_TRIED)
            answers += [a for path in best if (a := self.with_greedy_residency(path)) is not None]
        answer = min(answers, key=lambda a: a.objective, default=None)
        return bounds, self.improved(answer) if answer is not None and in_turn else answer

    def improved(self, best: SegmentationAnswer) -> SegmentationAnswer:
        """The answer, or a better one: the best path under its residency, and the best residency for that, in turn.

        What has to spill depends on all columns that it crosses, of which relaxations know nothing.
        """
        for _ in range(MOST_ALTERNATIONS):
            labels = set_labels(self.boundaries, self.under(best.residency.resident))[-1]
            answers = [a for label in labels[:PATHS_TRIED] if (a := self.with_greedy_residency(label.path)) is not None]
            better = min(answers, key=lambda a: a.objective, default=best)
            if better.objective >= best.objective:
                break
            best = better
        return best
