"""What every plan must compute and read at least: the elements that the network's results depend on, found backwards.

A set of points or elements is represented by the positions along each axis or dimension (a :data:`Grid`), so that rows
that a strided read skips are not in it. A set that is no such product is replaced by a subset: a grid holds nothing
that some plan could do without. (:mod:`..semantics.region` errs to the other side: its boxes hold whatever may be
needed.)

A point that reads outside of a tensor need not be computed: a product with padding adds nothing, and the function of a
fill is a constant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from math import prod

import networkx as nx
import numpy as np

from ..box import Affine, Span
from ..equivalence import EquivalenceClasses, tensor_names
from ..graph import Access, Graph, Op, Stage

MOST_POINTS = 1 << 22
"""Most points of a group of axes that are enumerated; of more, only those in the middle are. Chosen: an array of as
many flags has 4 MB."""

Positions = np.ndarray
"""Sorted and distinct."""

Grid = tuple[Positions, ...]
"""Positions for each axis of a stage, or each dimension of a tensor."""


@dataclass(frozen=True)
class Points:
    """Of a stage: how many points run at least, and how many elements of each tensor they read.

    ``in_bounds``: the points themselves; ``None`` if there are none.
    """

    count: int
    elements: Mapping[str, int]
    in_bounds: InBoundsPoints | None = field(default=None, compare=False, repr=False)


def demanded_points(graph: Graph) -> dict[str, tuple[Points, ...]]:
    """The points of each stage, by the names of the operators that a result depends on; none of host operators."""
    demanded: dict[str, Grid] = {name: _whole(graph.tensor[name].shape) for name in sorted(graph.output_tensors)}
    points_of: dict[str, tuple[Points, ...]] = {}
    known: dict[Hashable, tuple[Op, tuple[Points, ...], dict[str, Grid]]] = {}
    for op in reversed(graph.ops):
        if op.host is not None:
            demanded |= {name: _whole(graph.tensor[name].shape) for name in op.inputs}
        elif op.output in demanded:
            # Equal operators of which the same is demanded need the same, but for the names.
            before = tuple(_bytes(demanded.get(name)) for name in (*op.inputs, *op.outputs))
            key = (graph.analysis(EquivalenceClasses).class_of[op.name], before)
            if key not in known:
                points = _of_op(graph, op, demanded)
                known[key] = op, points, {name: demanded[name] for name in op.inputs if name in demanded}
            first, points, grids = known[key]
            names = dict(zip(tensor_names(first), tensor_names(op), strict=True))
            demanded |= {names[name]: grid for name, grid in grids.items()}
            points_of[op.name] = points if first is op else tuple(_renamed(p, names) for p in points)
    return points_of


def _bytes(grid: Grid | None) -> tuple[bytes, ...] | None:
    return None if grid is None else tuple(positions.tobytes() for positions in grid)


def _renamed(points: Points, name: Mapping[str, str]) -> Points:
    return Points(points.count, {name[n]: count for n, count in points.elements.items()}, points.in_bounds)


def _of_op(graph: Graph, op: Op, demanded: dict[str, Grid]) -> tuple[Points, ...]:
    """The points of each stage; what they read is added to ``demanded``."""
    shapes = {b.name: b.shape for b in op.buffers} | {n: graph.tensor[n].shape for n in (*op.inputs, *op.outputs)}
    stages: list[Points] = []
    for stage in reversed(op.stages):
        target = demanded.get(stage.write.tensor)
        grid = axis_values_writing(stage, target) if target is not None else ()
        in_bounds = InBoundsPoints(stage, grid, shapes) if target is not None and all(map(len, grid)) else None
        if in_bounds is None or in_bounds.count == 0:
            stages.append(Points(0, {}))
            continue
        elements: dict[str, int] = {}
        for read in stage.reads:
            touched, count = in_bounds.touched(read)
            demanded[read.tensor] = grid_union(demanded.get(read.tensor), touched)
            elements[read.tensor] = max(elements.get(read.tensor, 0), count, prod(map(len, demanded[read.tensor])))
        stages.append(Points(in_bounds.count, elements, in_bounds))
    for buffer in op.buffers:
        # Another operator may have a private buffer of the same name.
        demanded.pop(buffer.name, None)
    return tuple(reversed(stages))


def _whole(shape: tuple[int, ...]) -> Grid:
    return tuple(np.arange(extent) for extent in shape)


def axis_values_writing(stage: Stage, target: Grid) -> Grid:
    """Values of the axes of ``stage`` with which it writes into ``target``; all of them where an index has one axis."""
    grid = list(_whole(tuple(axis.extent for axis in stage.axes)))
    for index, wanted in zip(stage.write.index, target, strict=True):
        terms = sorted(((c, a) for a, c in enumerate(index.coeffs) if c), reverse=True)
        origin = index.const
        if not terms and origin not in wanted:
            return tuple(positions[:0] for positions in grid)
        for number, (coeff, axis) in enumerate(terms):
            rest = _sums(origin, [(c, grid[a]) for c, a in terms[number + 1 :]])
            hits = _hits(coeff * grid[axis], rest, wanted)
            if (hits == 1).any():
                grid[axis] = grid[axis][hits == 1]
                break
            # No value will do with all of the axes after it: one of them, and a part of those.
            best = int(hits.argmax())
            if not hits[best]:
                return tuple(positions[:0] for positions in grid)
            grid[axis] = grid[axis][best : best + 1]
            origin += coeff * int(grid[axis][0])
    return tuple(grid)


def _hits(first: np.ndarray, rest: np.ndarray, wanted: Positions) -> np.ndarray:
    """Of each of ``first``, the share of its sums with ``rest`` that is in ``wanted``."""
    ends = first.min() + rest.min(), first.max() + rest.max()
    if wanted[0] <= ends[0] and ends[1] <= wanted[-1] and len(wanted) == wanted[-1] - wanted[0] + 1:
        return np.ones(len(first))
    return np.isin(first[:, None] + rest[None, :], wanted).mean(axis=1)


class InBoundsPoints:
    """The points of a grid of axis values whose reads are all in bounds.

    Axes that decide together whether a read is in bounds make a group; ``count`` is exact if no group is too large.
    """

    def __init__(self, stage: Stage, grid: Grid, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._shapes = shapes
        conditions = [
            (index, extent)
            for read in stage.reads
            if read.fill is not None
            for index, extent in zip(read.index, shapes[read.tensor], strict=True)
            if not _within(index, grid, extent)
        ]
        decide_together: nx.Graph[int] = nx.Graph()
        # In order, so that groups are in the order of their first axes.
        decide_together.add_nodes_from(range(len(grid)))
        for index, _ in conditions:
            nx.add_path(decide_together, _used(index))
        groups = list(map(sorted, nx.connected_components(decide_together)))
        self._group = {axis: number for number, axes in enumerate(groups) for axis in axes}
        self._points: dict[int, dict[int, np.ndarray]] = {}
        for number, axes in enumerate(groups):
            of_group = [(index, extent) for index, extent in conditions if not set(_used(index)).isdisjoint(axes)]
            self._points[number] = _points_in_bounds(axes, grid, of_group)
        never = any(not _used(index) and not 0 <= index.const < extent for index, extent in conditions)
        sizes = [len(next(iter(points.values()))) for points in self._points.values()]
        self.count = 0 if never else prod(sizes)

    @property
    def groups(self) -> tuple[Mapping[int, np.ndarray], ...]:
        """Of each group, the values of its axes at each of its points; a point of the stage is one of each group."""
        return tuple(self._points.values())

    def independent_extent(self, axis: int) -> int | None:
        """How many values an axis has, if it decides with no other what is in bounds; else ``None``."""
        points = self._points[self._group[axis]]
        return len(points[axis]) if len(points) == 1 else None

    def line_counts(self, along: Collection[int], others: Collection[int]) -> Counter[int]:
        """By number of points ``along`` some axes: how many combinations of values of the axes ``others`` have it.

        An axis in neither is left out; it has to have an :meth:`independent_extent`.
        """
        lines = Counter({1: 1})
        for points in self._points.values():
            fixed = [points[a] for a in points if a in others]
            if fixed:
                sizes = Counter(_repeats(fixed))
            elif any(a in along for a in points):
                sizes = Counter({len(next(iter(points.values()))): 1})
            else:
                continue
            products: Counter[int] = Counter()
            for (a, times), (b, more) in product(lines.items(), sizes.items()):
                products[a * b] += times * more
            lines = products
        return lines

    def touched(self, read: Access, shape: tuple[int, ...] | None = None) -> tuple[Grid, int]:
        """The elements that a read touches: a grid of them, and how many there are at least.

        The number is larger than the grid's if the elements are no product of positions. ``shape``: of what is read, if
        the read is that of an equal operator.
        """
        values: list[Positions] = []
        groups: list[set[int]] = []
        shape = self._shapes[read.tensor] if shape is None else shape
        for index, extent in zip(read.index, shape, strict=True):
            positions = self.values(index)
            values.append(positions[(positions >= 0) & (positions < extent)])
            groups.append({self._group[a] for a in _used(index)})
        uses = Counter(group for dim in groups for group in dim)
        shared = [any(uses[group] > 1 for group in dim) for dim in groups]
        if not any(shared):
            return tuple(values), prod(map(len, values))
        # Dimensions that move together: their first point alone, though each of their values is touched.
        first = [
            np.array([index.const + sum(c * self._first(a) for a, c in enumerate(index.coeffs) if c)])
            for index in read.index
        ]
        grid = tuple(f if s else v for v, f, s in zip(values, first, shared, strict=True))
        most = max(len(v) for v, s in zip(values, shared, strict=True) if s)
        return grid, most * prod(len(v) for v, s in zip(values, shared, strict=True) if not s)

    def _first(self, axis: int) -> int:
        return int(self._points[self._group[axis]][axis][0])

    def values(self, index: Affine) -> Positions:
        """The positions that an index takes on."""
        by_group: dict[int, np.ndarray] = {}
        for axis in _used(index):
            number = self._group[axis]
            steps = index.coeffs[axis] * self._points[number][axis]
            by_group[number] = by_group[number] + steps if number in by_group else steps
        # The positions of an axis alone are distinct, and so are their multiples.
        alone = {n for n, points in self._points.items() if len(points) == 1}
        terms = [(1, steps if n in alone else np.unique(steps)) for n, steps in by_group.items()]
        return _sums(index.const, terms)


def _repeats(values: list[np.ndarray]) -> list[int]:
    """How often each combination of values occurs."""
    key = np.zeros(len(values[0]), np.int64)
    for column in values:
        key = key * (int(column.max()) + 1) + column
    return np.unique(key, return_counts=True)[1].tolist()


def _used(index: Affine) -> tuple[int, ...]:
    return tuple(a for a, c in enumerate(index.coeffs) if c)


def _within(index: Affine, grid: Grid, extent: int) -> bool:
    span = index.over(tuple(Span(int(positions[0]), int(positions[-1]) + 1) for positions in grid))
    return span.lo >= 0 and span.hi <= extent


def _points_in_bounds(axes: list[int], grid: Grid, conditions: list[tuple[Affine, int]]) -> dict[int, np.ndarray]:
    """By axis: its values at all points of ``axes`` that meet the conditions."""
    if not conditions:
        return {axes[0]: grid[axes[0]]}
    values = [grid[a] for a in axes]
    while prod(map(len, values)) > MOST_POINTS:
        longest = max(range(len(values)), key=lambda n: len(values[n]))
        middle = len(values[longest]) // 4
        values[longest] = values[longest][middle : max(middle + 1, len(values[longest]) - middle)]
    points = np.meshgrid(*values, indexing="ij", sparse=True)
    kept = np.ones([len(v) for v in values], np.bool_)
    for index, extent in conditions:
        at = reduce(np.add, (index.coeffs[a] * p for a, p in zip(axes, points, strict=True)), np.array(index.const))
        kept &= (at >= 0) & (at < extent)
    where = np.nonzero(kept)
    return {a: v[w] for a, v, w in zip(axes, values, where, strict=True)}


def _sums(const: int, terms: list[tuple[int, Positions]]) -> Positions:
    """All sums of ``const`` and, of each term, coefficient times one of its positions."""
    total = np.array([const])
    for coeff, positions in sorted(terms, key=lambda term: abs(term[0])):
        steps = np.sort(coeff * positions)
        if total[-1] - total[0] < len(total) and (len(steps) == 1 or np.diff(steps).max() <= len(total)):
            # Ranges that meet: no need for every sum.
            total = np.arange(total[0] + steps[0], total[-1] + steps[-1] + 1)
        else:
            total = np.unique(total[:, None] + steps[None, :])
    return total


def grid_union(a: Grid | None, b: Grid) -> Grid:
    """The union of two grids where that is one, else the larger of them."""
    if a is None:
        return b
    apart = [n for n, (x, y) in enumerate(zip(a, b, strict=True)) if not np.array_equal(x, y)]
    if len(apart) <= 1:
        return tuple(np.union1d(x, y) if n in apart else x for n, (x, y) in enumerate(zip(a, b, strict=True)))
    return a if prod(map(len, a)) >= prod(map(len, b)) else b
