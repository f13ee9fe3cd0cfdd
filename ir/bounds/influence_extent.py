"""How far the influence of some elements of a tensor extends through one stage that reads them.

An *influence extent* has a number for each dimension of a tensor: a length, counted in demanded positions
(:mod:`.demanded_elements`; positions between them do not count). It states that all elements of some box with these
side lengths are influenced, wherever in the tensor that box lies. A single element has the extent (1, ..., 1).

A stage is divided into the connected components of its axes and of the dimensions that their accesses index. Components
are independent of each other, so that what is influenced of the stage is the product over the components:

- A component with no dimension of the source (the columns of a product) is influenced as a whole: each of its points
  reads each influenced element.
- So is a component whose dimensions of the source are influenced over their whole length.
- For a component with one dimension of the source and at most one of the target, every place of the box is tried and
  the least result counts: for the target, the longest run of positions; for the weights, the number of elements used.
- For any other component, one position counts if some point reads each combination of positions; otherwise nothing is
  certain to be influenced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import networkx as nx
import numpy as np

from ..box import Affine
from ..graph import Access, Stage
from .demanded_elements import Grid, InBoundsPoints

MOST_POINTS = 1 << 21
"""Most points of a component, and most entries of a table of positions read by positions written. Beyond it, less
influence is assumed, which is safe. Chosen: such a table has 8 MB."""

InfluenceExtent = tuple[int, ...]
"""For each dimension of a tensor, how many consecutive demanded positions are influenced."""

Ints = np.ndarray


@dataclass(frozen=True)
class Influence:
    """What is certainly influenced of a component: ``runs`` of consecutive positions by dimension of the target, and
    how many elements of ``weights`` are used."""

    runs: Mapping[int, int]
    weights: int


@dataclass(frozen=True)
class Component:
    """The points of connected axes, without those that read an element that no demanded point writes.

    ``reads`` and ``writes``: by dimension of the source and of the target, the index of each point's position in the
    grid of demanded positions, of which ``read_sizes`` and ``write_sizes`` are the lengths. ``weights`` numbers, for
    each point, the element of the stationary operand that it uses.
    """

    reads: Mapping[int, Ints]
    writes: Mapping[int, Ints]
    read_sizes: Mapping[int, int]
    write_sizes: Mapping[int, int]
    weights: Ints

    def influence_of(self, extent: InfluenceExtent) -> Influence | None:
        """What a box of this extent of the source influences wherever it lies; ``None`` if that may be nothing."""
        if not len(self.weights):
            return None
        if all(extent[d] == self.read_sizes[d] for d in self.reads):
            return self._influence_of_all()
        if len(self.reads) == 1 and len(self.writes) <= 1:
            ((dim, positions),) = self.reads.items()
            influence = self._least_influence(positions, extent[dim], self.read_sizes[dim])
            if influence is not None:
                return influence
        # One position of each dimension: is every combination of them read?
        combinations = _count_combinations(self.reads, self.read_sizes)
        every_one_read = combinations == prod(self.read_sizes.values())
        return Influence(dict.fromkeys(self.writes, 1), 1) if every_one_read else None

    def _influence_of_all(self) -> Influence:
        """What all points write; single positions if that is no box."""
        weights = _count_distinct(self.weights)
        written = {d: np.bincount(at, minlength=self.write_sizes[d]) > 0 for d, at in self.writes.items()}
        box = prod(int(marks.sum()) for marks in written.values())
        if len(written) > 1 and _count_combinations(self.writes, self.write_sizes) < box:
            return Influence(dict.fromkeys(written, 1), weights)
        return Influence({d: _least_longest_run(marks[None]) for d, marks in written.items()}, weights)

    def _least_influence(self, positions: Ints, length: int, size: int) -> Influence | None:
        """The least that ``length`` consecutive positions of the one dimension read influence, wherever they are."""
        any_point = _labels_in_window(positions, np.zeros_like(positions), length, size)
        if any_point is None or not any_point.all():
            return None
        runs: dict[int, int] = {}
        one_point_each = len(positions) == size == _count_distinct(positions)
        for d, targets in self.writes.items():
            if one_point_each and (np.diff(targets[np.argsort(positions)]) == 1).all():
                runs[d] = length
            else:
                written = _labels_in_window(positions, targets, length, size)
                runs[d] = 1 if written is None else _least_longest_run(written)
        if one_point_each and _count_distinct(self.weights) == size:
            return Influence(runs, length)
        used = _labels_in_window(positions, self.weights, length, size)
        return Influence(runs, 1 if used is None else int(used.sum(axis=1).min()))


def components(
    stage: Stage, in_bounds: InBoundsPoints, read: Access, weights: Access | None, written: Mapping[str, Grid]
) -> list[Component]:
    """The components of a stage for one of its reads.

    ``weights``: the stationary operand, if its elements are to be counted. ``written``: the demanded positions of each
    tensor.
    """
    groups = in_bounds.groups
    dims = [("read", d, index) for d, index in enumerate(read.index)]
    dims += [("write", d, index) for d, index in enumerate(stage.write.index)]
    dims += [("weights", d, index) for d, index in enumerate(() if weights is None else weights.index)]
    group_of = {axis: number for number, group in enumerate(groups) for axis in group}
    # Nodes are the groups of axes, then the dimensions. They are added in order, so that the components have an order.
    connected: nx.Graph[int] = nx.Graph()
    connected.add_nodes_from(range(len(groups) + len(dims)))
    for node, (_, _, index) in enumerate(dims, len(groups)):
        connected.add_edges_from((node, group_of[axis]) for axis, coeff in enumerate(index.coeffs) if coeff)
    grids = {"read": written[read.tensor], "write": written[stage.write.tensor]}
    return [
        _component(
            [groups[n] for n in nodes if n < len(groups)],
            [dims[n - len(groups)] for n in nodes if n >= len(groups)],
            grids,
        )
        for nodes in map(sorted, nx.connected_components(connected))
    ]


def _component(
    groups: Sequence[Mapping[int, Ints]], dims: Sequence[tuple[str, int, Affine]], grids: Mapping[str, Grid]
) -> Component:
    """The component of some groups of axes and dimensions; without points, so without influence, if it is too large."""
    counts = [len(next(iter(group.values()))) for group in groups]
    points = prod(counts)
    if points > MOST_POINTS:
        return Component({}, {}, {}, {}, np.arange(0))
    axis_values: dict[int, Ints] = {}
    for n, group in enumerate(groups):
        inner = prod(counts[n + 1 :])
        for axis, values in group.items():
            axis_values[axis] = np.tile(np.repeat(values, inner), points // (inner * counts[n]))
    indices: dict[str, dict[int, Ints]] = {"read": {}, "write": {}, "weights": {}}
    for use, d, index in dims:
        at = np.full(points, index.const, np.int64)
        for axis, coeff in enumerate(index.coeffs):
            if coeff:
                at += coeff * axis_values[axis]
        indices[use][d] = at
    kept = np.ones(points, np.bool_)
    for use in ("read", "write"):
        for d, at in indices[use].items():
            grid = grids[use][d]
            positions = np.minimum(np.searchsorted(grid, at), len(grid) - 1)
            kept &= grid[positions] == at
            indices[use][d] = positions
    weights = np.zeros(points, np.int64)
    for at in indices["weights"].values():
        weights = weights * (int(at.max()) + 1) + at
    return Component(
        reads={d: positions[kept] for d, positions in indices["read"].items()},
        writes={d: positions[kept] for d, positions in indices["write"].items()},
        read_sizes={d: len(grids["read"][d]) for d in indices["read"]},
        write_sizes={d: len(grids["write"][d]) for d in indices["write"]},
        weights=np.unique(weights[kept], return_inverse=True)[1],
    )


def _count_distinct(labels: Ints) -> int:
    """How many different labels there are; none is negative."""
    return int(np.count_nonzero(np.bincount(labels)))


def _count_combinations(positions: Mapping[int, Ints], sizes: Mapping[int, int]) -> int:
    """How many different combinations of positions the points have."""
    return len(np.unique(np.ravel_multi_index(tuple(positions.values()), tuple(sizes[d] for d in positions))))


def _labels_in_window(positions: Ints, labels: Ints, length: int, size: int) -> np.ndarray | None:
    """Row i: which labels the points at positions i to i + ``length`` have, of ``size`` positions; ``None`` if that
    table is too large."""
    number = int(labels.max()) + 1
    if (size + 1) * number > MOST_POINTS:
        return None
    marks = np.zeros((size + 1, number), np.int32)
    marks[positions + 1, labels] = 1
    np.cumsum(marks, axis=0, out=marks)
    return marks[length:] > marks[:-length]


def _least_longest_run(marked: np.ndarray) -> int:
    """The length of the longest run of true values in a row, in the row where that is least."""
    places = np.arange(1, marked.shape[1] + 1)
    ends = np.maximum.accumulate(np.where(marked, 0, places), axis=1)
    return int((places - ends).max(axis=1).min())
