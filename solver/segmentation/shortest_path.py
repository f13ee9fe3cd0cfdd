"""Relaxation of the segmentation model by a label-setting shortest path: its bound, good paths, and reduced costs.

A segmentation is a path of columns through the boundaries 0 .. N between operators. Its columns run one after the
other, while main memory delivers what they need, prefetching as far ahead as shared memory has room. With S the
*prefetch slack* at a boundary (by how many cycles main memory is ahead of the cores), a column with c cycles on the
cores, d of main memory and at most s of slack at its end continues the path:

    time += max(c, d - S)            S := min(s, S + max(c, d - S) - d)

    cores  | a ......... | b ... |      | c ...
    memory | a | b | c (until no room)  | c .. | d
                                  ^ c waits: d > S

More slack is never worse, so a label is a pair (time, slack), and it is dominated by one that is earlier by at least
what it lacks in slack. Label setting over the labels that are not dominated is exact (resource-constrained shortest
path: Desrochers and Soumis, INFOR 26, 1988). A second pass, backwards over slack rounded up to a grid, bounds the cost
to go from each boundary. Together they give for every column the least cost of a path through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from .column_cost import Column

Float = NDArray[np.float64]
Path = tuple[int, ...]
"""Indices of columns, in order."""

SLACK_STEPS = 48
"""Steps of the grid of slack in the backward pass. Chosen, not measured: more of them only tighten reduced costs."""
GENERATIONS = 3
"""How often paths are recombined. Chosen, not measured: each generation joins the best paths of the one before."""


@dataclass(frozen=True)
class PathCosts:
    """By column, in cycles: of the cores, of main memory, the most slack at its end, and a penalty besides time."""

    core_cycles: Sequence[float]
    main_cycles: Sequence[float]
    slack_limit: Sequence[float]
    overlap_penalty: Sequence[float]

    def advance(self, column: int, slack: float) -> tuple[float, float]:
        """(cycles, slack at the end) of one column that begins with ``slack``."""
        need = self.main_cycles[column]
        cycles = max(self.core_cycles[column], need - slack)
        return cycles, min(self.slack_limit[column], slack + cycles - need)

    def cost(self, path: Path) -> float:
        """Cycles and penalties of a path."""
        total = slack = 0.0
        for column in path:
            cycles, slack = self.advance(column, slack)
            total += cycles + self.overlap_penalty[column]
        return total


@dataclass(frozen=True)
class Label:
    """A path to a boundary: its cost and slack, and its last column after the path of ``predecessor``."""

    cost: float
    slack: float
    column: int | None = None
    predecessor: Label | None = None

    @property
    def path(self) -> Path:
        columns: list[int] = []
        label: Label | None = self
        while label is not None and label.column is not None:
            columns.append(label.column)
            label = label.predecessor
        return tuple(reversed(columns))


class Boundaries:
    """The boundaries 0 .. ``count`` between operators, and the columns (by index) that start and end there."""

    def __init__(self, columns: Sequence[Column], count: int) -> None:
        self.count = count
        self.start = [c.first for c in columns]
        self.end = [c.last + 1 for c in columns]
        self.entering: list[list[int]] = [[] for _ in range(count + 1)]
        self.leaving: list[list[int]] = [[] for _ in range(count + 1)]
        for j, column in enumerate(columns):
            self.entering[column.last + 1].append(j)
            self.leaving[column.first].append(j)


@dataclass(frozen=True)
class PathBounds:
    """``bound``: no path costs less. ``through[j]``: no path through column j costs less. ``paths``: good ones."""

    bound: float
    through: Float
    paths: tuple[Path, ...]


def set_labels(boundaries: Boundaries, costs: PathCosts) -> list[list[Label]]:
    """For each boundary the labels that are not dominated, by rising cost."""
    labels: list[list[Label]] = [[] for _ in range(boundaries.count + 1)]
    labels[0] = [Label(0.0, 0.0)]
    for boundary in range(1, boundaries.count + 1):
        extended: list[Label] = []
        for j in boundaries.entering[boundary]:
            for label in labels[boundaries.start[j]]:
                cycles, slack = costs.advance(j, label.slack)
                extended.append(Label(label.cost + cycles + costs.overlap_penalty[j], slack, j, label))
        extended.sort(key=lambda label: (label.cost, -label.slack))
        best = -float("inf")
        for label in extended:
            # Waiting turns cost into slack, one for one.
            if label.slack - label.cost > best:
                best = label.slack - label.cost
                labels[boundary].append(label)
    return labels


def costs_to_go(boundaries: Boundaries, costs: PathCosts, unit: float) -> Float:
    """``[boundary, g]``: no path from ``boundary`` to the end costs less if it starts with slack up to ``g * unit``."""
    to_go = np.full((boundaries.count + 1, SLACK_STEPS + 1), np.inf)
    to_go[boundaries.count] = 0.0
    grid = np.arange(SLACK_STEPS + 1) * unit
    by_column = (costs.core_cycles, costs.main_cycles, costs.slack_limit, costs.overlap_penalty)
    core, main, limit, penalty = (np.array(values) for values in by_column)
    for boundary in range(boundaries.count - 1, -1, -1):
        leaving = boundaries.leaving[boundary]
        if leaving:
            c, d, s, p = (values[leaving][:, None] for values in (core, main, limit, penalty))
            cycles = np.maximum(c, d - grid[None, :])
            slack = np.minimum(s, grid[None, :] + cycles - d)
            index = np.minimum(np.ceil(slack / unit).astype(np.int64), SLACK_STEPS)
            ends = np.array([boundaries.end[j] for j in leaving])
            to_go[boundary] = (cycles + p + to_go[ends[:, None], index]).min(axis=0)
    return to_go


def path_bounds(boundaries: Boundaries, costs: PathCosts) -> PathBounds | None:
    """The bound, the least cost through each column, and the paths of the last boundary's labels.

    ``None`` if no path reaches the last boundary.
    """
    labels = set_labels(boundaries, costs)
    complete = labels[boundaries.count]
    if not complete:
        return None
    unit = max(1.0, max(costs.slack_limit) / SLACK_STEPS)
    to_go: list[list[float]] = costs_to_go(boundaries, costs, unit).tolist()
    through: list[float] = []
    for j, (start, end) in enumerate(zip(boundaries.start, boundaries.end, strict=True)):
        least, after, penalty = float("inf"), to_go[end], costs.overlap_penalty[j]
        for label in labels[start]:
            cycles, slack = costs.advance(j, label.slack)
            total = label.cost + cycles + penalty + after[min(SLACK_STEPS, ceil(slack / unit))]
            if total < least:
                least = total
        through.append(least)
    return PathBounds(complete[0].cost, np.array(through), tuple(label.path for label in complete))


def recombined(boundaries: Boundaries, costs: PathCosts, paths: Sequence[Path], most: int) -> list[Path]:
    """The ``most`` best of ``paths`` and of their crossovers, which follow one to a boundary and then another."""
    pool = {path: costs.cost(path) for path in paths}
    for _ in range(GENERATIONS):
        best = sorted(pool, key=lambda path: (pool[path], path))[:most]
        ends = {path: {boundaries.end[j]: i + 1 for i, j in enumerate(path)} for path in best}
        for a in best:
            for b in best:
                for boundary in sorted(ends[a].keys() & ends[b].keys()):
                    child = a[: ends[a][boundary]] + b[ends[b][boundary] :]
                    if child not in pool:
                        pool[child] = costs.cost(child)
    return sorted(pool, key=lambda path: (pool[path], path))[:most]
