"""Cores and main memory as two flows: the bound, good paths and the regrets of the segmentation model.

A segmentation is a path of columns through cut points 0 .. N. Its columns run one after the other, and main memory
delivers what they need, as far ahead as shared memory has room. With E the cycles that main memory is ahead at a cut, a
column with c cycles on the cores, d of main memory and room for at most e ahead at its end goes on like this:

    time += max(c, d - E)            E := min(e, E + max(c, d - E) - d)

    cores  | a ......... | b ... |      | c ...
    memory | a | b | c (until no room)  | c .. | d
                                  ^ c waits: d > E

More ahead is never worse, so each path has one (time, E) at each cut, and of two of them one is useless if it is later
by no less than it is further ahead. Dynamic programming over what remains is exact. A second one, backwards and on a
grid of E rounded up, bounds what follows a cut; together they give for every column the least time through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from .candidates import Column

Float = NDArray[np.float64]
Path = tuple[int, ...]

GRID = 48
"""Points of the grid of E in the backward bound."""
SPLICES = 3
"""How often paths are spliced with one another."""


@dataclass(frozen=True)
class Flow:
    """By column, in cycles: on the cores, of main memory, how far ahead at its end, and what counts besides time."""

    core: Sequence[float]
    main: Sequence[float]
    ahead: Sequence[float]
    always: Sequence[float]

    def step(self, column: int, ahead: float) -> tuple[float, float]:
        """(cycles, how far ahead) after one column."""
        need = self.main[column]
        time = max(self.core[column], need - ahead)
        return time, min(self.ahead[column], ahead + time - need)

    def time(self, path: Path) -> float:
        """Cycles of a path, and what counts besides."""
        total = ahead = 0.0
        for column in path:
            time, ahead = self.step(column, ahead)
            total += time + self.always[column]
        return total


@dataclass(frozen=True)
class Label:
    """The best way to a cut that is ``ahead``: ``cost`` so far, and the column and the label that it came from."""

    cost: float
    ahead: float
    column: int = -1
    before: Label | None = None

    @property
    def path(self) -> Path:
        found: list[int] = []
        label: Label | None = self
        while label is not None and label.column >= 0:
            found.append(label.column)
            label = label.before
        return tuple(reversed(found))


class Cuts:
    """The cut points of a graph with ``count`` operators, and the columns between them, by index."""

    def __init__(self, columns: Sequence[Column], count: int) -> None:
        self.count = count
        self.first = [c.first for c in columns]
        self.after = [c.last + 1 for c in columns]
        self.ending: list[list[int]] = [[] for _ in range(count + 1)]
        self.starting: list[list[int]] = [[] for _ in range(count + 1)]
        for j, column in enumerate(columns):
            self.ending[column.last + 1].append(j)
            self.starting[column.first].append(j)


@dataclass(frozen=True)
class Potentials:
    """``bound`` of all paths; ``through[j]``: the least time of a path through column j, or less; good ``paths``."""

    bound: float
    through: Float
    paths: tuple[Path, ...]


def forward(cuts: Cuts, flow: Flow) -> list[list[Label]]:
    """For each cut the labels of which none makes another useless, by rising cost."""
    labels: list[list[Label]] = [[] for _ in range(cuts.count + 1)]
    labels[0] = [Label(0.0, 0.0)]
    for cut in range(1, cuts.count + 1):
        made: list[Label] = []
        for j in cuts.ending[cut]:
            for label in labels[cuts.first[j]]:
                time, ahead = flow.step(j, label.ahead)
                made.append(Label(label.cost + time + flow.always[j], ahead, j, label))
        made.sort(key=lambda x: (x.cost, -x.ahead))
        best = -float("inf")
        for label in made:
            # Waiting turns cost into being ahead at par.
            if label.ahead - label.cost > best:
                best = label.ahead - label.cost
                labels[cut].append(label)
    return labels


def backward(cuts: Cuts, flow: Flow, unit: float) -> Float:
    """``[cut, g]``: no path from ``cut`` to the end takes less if it starts at most ``g * unit`` ahead."""
    rest = np.full((cuts.count + 1, GRID + 1), np.inf)
    rest[cuts.count] = 0.0
    grid = np.arange(GRID + 1) * unit
    core, main, ahead, always = (np.array(x) for x in (flow.core, flow.main, flow.ahead, flow.always))
    for cut in range(cuts.count - 1, -1, -1):
        there = cuts.starting[cut]
        if there:
            c, d, e, a = (x[there][:, None] for x in (core, main, ahead, always))
            time = np.maximum(c, d - grid[None, :])
            after = np.minimum(e, grid[None, :] + time - d)
            index = np.minimum(np.ceil(after / unit).astype(np.int64), GRID)
            targets = np.array([cuts.after[j] for j in there])
            rest[cut] = (time + a + rest[targets[:, None], index]).min(axis=0)
    return rest


def potentials(cuts: Cuts, flow: Flow) -> Potentials | None:
    """The bound, the paths that reach the end, and the least time through each column; ``None`` without a path."""
    labels = forward(cuts, flow)
    if not labels[cuts.count]:
        return None
    unit = max(1.0, max(flow.ahead) / GRID)
    rest: list[list[float]] = backward(cuts, flow, unit).tolist()
    through: list[float] = []
    for j, (first, after) in enumerate(zip(cuts.first, cuts.after, strict=True)):
        least, ends, always = float("inf"), rest[after], flow.always[j]
        for label in labels[first]:
            time, ahead = flow.step(j, label.ahead)
            total = label.cost + time + always + ends[min(GRID, ceil(ahead / unit))]
            if total < least:
                least = total
        through.append(least)
    return Potentials(labels[cuts.count][0].cost, np.array(through), tuple(x.path for x in labels[cuts.count]))


def splices(cuts: Cuts, flow: Flow, paths: Sequence[Path], most: int) -> list[Path]:
    """The ``most`` best paths among the given ones and those that follow one up to a cut and then another."""
    pool = {p: flow.time(p) for p in paths}
    for _ in range(SPLICES):
        best = sorted(pool, key=lambda p: (pool[p], p))[:most]
        ends = {p: {cuts.after[c]: i + 1 for i, c in enumerate(p)} for p in best}
        for a in best:
            for b in best:
                for cut in sorted(ends[a].keys() & ends[b].keys()):
                    made = a[: ends[a][cut]] + b[ends[b][cut] :]
                    if made not in pool:
                        pool[made] = flow.time(made)
    return sorted(pool, key=lambda p: (pool[p], p))[:most]
