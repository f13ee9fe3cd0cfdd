"""The data of the segmentation model, and its objective recomputed from an answer alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor

from ...ir.graph import Graph
from ...ir.machine import Machine
from ..cost.operator import Rates
from .candidates import RESERVE, Column
from .inter_segment import Item, Residence, Touching, activations, demand, fit, items, least_moved, moved
from .shortest_path import Cuts, Flow, Path, Potentials, potentials, splices

EXPOSED = 10
"""One part in so many of all work counts as time, because overlap is never perfect; unless something else is asked."""
MOST_PATHS = 12
"""Paths that are made solutions before the solver runs."""


@dataclass(frozen=True)
class Answer:
    """A path with its residence; ``objective`` in units of 1 / :attr:`Problem.exposed` cycles. ``spans``: by column."""

    path: Path
    residence: Residence
    objective: int
    spans: tuple[int, ...]
    main: int


class Problem:
    """Columns by their index; all times in cycles, all memory in the cycles that main memory takes to fill it."""

    def __init__(self, columns: Sequence[Column], graph: Graph, machine: Machine, exposed: int = EXPOSED) -> None:
        self.graph = graph
        self.exposed = exposed
        self.rate = Rates.of(machine).main
        self.capacity = machine.role("shared").capacity
        self.reserve = self.capacity // RESERVE
        self.known = activations(graph)
        by_place = Touching(self.known, len(graph.ops))
        self.keepable = frozenset(a.name for a in self.known if a.reader)
        self.columns: list[Column] = []
        self.items: list[tuple[Item, ...]] = []
        self.least: list[int] = []
        for column in columns:
            known = by_place.between(column.first, column.last)
            for versions in (2, 1):
                of = items(column, known, versions)
                least = least_moved(column, of, self.capacity, self.reserve)
                if least is not None:
                    self.columns.append(column)
                    self.items.append(of)
                    self.least.append(self.cycles(least))
                    break
        self.cuts = Cuts(self.columns, len(graph.ops))

    def excess(self, column: Column) -> int:
        """Bytes of shared memory that a column needs beyond what there is, one instance at a time and nothing kept."""
        return demand(column, items(column, self.known, 1), frozenset(), 0, self.reserve) - self.capacity

    def cycles(self, size: float) -> int:
        """Cycles of main memory for so many bytes."""
        return ceil(size / self.rate)

    def room(self, j: int, used: int) -> int:
        """How far main memory can be ahead when column j ends, if its activations and kept weights use ``used`` bytes.

        Kept weights give way during the last instance, so half of its time counts as well.
        """
        column = self.columns[j]
        last = column.cycles // (2 * column.instances) if column.again else 0
        return max(0, floor((self.capacity - used) / self.rate)) + last

    def relaxed(self) -> Flow:
        """Every column at its best, whatever the others do."""
        ahead = [self.room(j, sum(min(i.held, i.held_kept) for i in of)) for j, of in enumerate(self.items)]
        return self._flow(self.least, ahead)

    def typical(self, share: float) -> Flow:
        """Every column with all activations that it can keep, and ``share`` of the weights that it can keep as well."""
        main: list[int] = []
        ahead: list[int] = []
        for j, (column, of, residence) in enumerate(zip(self.columns, self.items, self._alone, strict=True)):
            shares = int(residence.shares[0] * share)
            main.append(self.cycles(moved(column, of, residence.kept, shares)))
            ahead.append(self.room(j, demand(column, of, residence.kept, shares, 0)))
        return self._flow(main, ahead)

    @cached_property
    def _alone(self) -> list[Residence]:
        """By column: as much as it can keep if it need not care for others."""
        found: list[Residence] = []
        for column, of in zip(self.columns, self.items, strict=True):
            residence = fit([column], [of], self.keepable, self.capacity, self.reserve)
            assert residence is not None
            found.append(residence)
        return found

    def _flow(self, main: Sequence[int], ahead: Sequence[int]) -> Flow:
        core = [c.cycles for c in self.columns]
        return Flow(core, main, ahead, [(c + m) / self.exposed for c, m in zip(core, main, strict=True)])

    def answer(self, path: Path, residence: Residence) -> Answer:
        """The objective, from path and residence alone."""
        spans: list[int] = []
        ahead = work = main = 0
        for j, shares in zip(path, residence.shares, strict=True):
            column, of = self.columns[j], self.items[j]
            need = self.cycles(moved(column, of, residence.kept, shares))
            time = max(column.cycles, need - ahead)
            ahead = min(self.room(j, demand(column, of, residence.kept, shares, 0)), ahead + time - need)
            spans.append(time)
            main += need
            work += column.cycles + need
        return Answer(path, residence, self.exposed * sum(spans) + work, tuple(spans), main)

    def fitted(self, path: Path) -> Answer | None:
        """The path with a greedy residence, and as many kept weights as pay."""
        columns = [self.columns[j] for j in path]
        residence = fit(columns, [self.items[j] for j in path], self.keepable, self.capacity, self.reserve)
        if residence is None:
            return None
        options = [
            self.answer(path, Residence(residence.kept, tuple(q * part // 4 for q in residence.shares)))
            for part in (4, 3, 2, 1, 0)
        ]
        return min(options, key=lambda a: a.objective)

    def search(self) -> tuple[Potentials | None, Answer | None]:
        """The bound and the regrets of the relaxed flow, and the best of many paths made solutions."""
        relaxed = self.relaxed()
        found = potentials(self.cuts, relaxed)
        if found is None:
            return None, None
        paths = dict.fromkeys(found.paths[:MOST_PATHS])
        answers: list[Answer] = []
        for share in (1.0, 0.5, 0.0):
            flow = self.typical(share)
            other = potentials(self.cuts, flow)
            assert other is not None
            paths |= dict.fromkeys(other.paths[:MOST_PATHS])
            best = splices(self.cuts, flow, list(paths), MOST_PATHS)
            answers += [a for path in best if (a := self.fitted(path)) is not None]
        return found, min(answers, key=lambda a: a.objective) if answers else None
