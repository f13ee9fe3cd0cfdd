"""Which weights certainly are used after any one element of a result is there, whichever element that is.

An element influences the points that read it, the elements that these write, the points that read those, and so on. How
far that goes depends on where it lies: what a corner of an image influences sees fewer taps of a kernel than what its
middle does. What is told here holds for *every* element, so that nothing need be known of when a plan makes which.

What is influenced of a tensor is told by a *reach*: a number for each dimension, of needed positions in a row. All
elements of some box of that many positions are influenced, wherever it lies. (:mod:`.demanded_elements` says which
positions are needed; those between them do not count.) A single element is the reach of ones.

A stage passes a reach on in *parts*: axes that decide together what is read, written, or in bounds. As parts are
independent of each other, what is influenced of the stage is the product of what is of each part:

- A part that reads no dimension of the source (the columns of a product) is influenced as a whole: each of its points
  reads each influenced element.
- A part that reads dimensions of which all is influenced is so, too.
- Of a part that reads one dimension and writes one at most, boxes at all places are looked at, and the least counts:
  for the reach of the result, the longest run of positions; for the weights, how many elements are used.
- Of any other part, a single position counts, if there is one whatever elements are influenced; else nothing passes.

Runs longer than four are rounded down to powers of two, so that there are few reaches. A kernel of the host begins when
its inputs are there as a whole, so that all that it makes comes after any element of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from ..box import Affine
from ..equivalence import Signature, signature
from ..graph import DTYPES, Access, Graph, Op, Stage
from .demanded_elements import Grid, InBoundsPoints, Points

MOST_POINTS = 1 << 21
"""Points of a part, or positions it reads times positions it writes, beyond which it is too much to look at."""

Reach = tuple[int, ...]
"""For each dimension of a tensor, how many needed positions in a row are influenced."""

Ints = np.ndarray


def used_after(graph: Graph, points: Mapping[str, tuple[Points, ...]], stationary: Mapping[str, str]) -> dict[str, int]:
    """By operator that runs: bytes of weights whose use needs one of its points, whichever that is, to be done before.

    ``points`` are those that are needed, and the ones that are meant. ``stationary`` names the weights to count: by
    operator, the constant that is the right operand of its anchor. Each element counts once.
    """
    constants = {name: number for number, name in enumerate(dict.fromkeys(stationary.values()))}
    sizes = np.array([DTYPES[graph.tensor[name].dtype] for name in constants], np.int64)
    # For what is influenced: of each constant, how many elements are used at least.
    after: dict[tuple[str, Reach], Ints] = {}
    # Backwards, so that what comes after the results of the readers of a tensor is known.
    for way in reversed(list(_ways(graph, points, stationary))):
        uses = [after[target] for target in way.targets if target in after]
        if way.weights:
            own = np.zeros(len(constants), np.int64)
            own[constants[stationary[way.op]]] = way.weights
            uses.append(own)
        if way.source in after:
            uses.append(after[way.source])
        if uses:
            after[way.source] = reduce(np.maximum, uses)
    found: dict[str, int] = {}
    for op in reversed(graph.ops):
        if op.host is not None or op.name in points:
            starts = [(name, _start(graph, op, name)) for name in op.outputs]
            found[op.name] = max(int(after[start] @ sizes) if start in after else 0 for start in starts)
            if op.host is None and op.output not in graph.output_tensors:
                # A reader needs the element, and with it what comes after one of the reader's points.
                readers = (found[reader.name] for reader in graph.consumers[op.output] if reader.name in found)
                found[op.name] = max(found[op.name], min(readers))
    return {op.name: found[op.name] for op in graph.ops if op.name in points}


@dataclass(frozen=True)
class _Way:
    """Where ``source`` is influenced, ``targets`` are: a tensor and its reach.

    ``weights``: how many elements of its stationary operand the operator ``op`` uses for that.
    """

    op: str
    source: tuple[str, Reach]
    targets: tuple[tuple[str, Reach], ...]
    weights: int


def _start(graph: Graph, op: Op, name: str) -> Reach:
    """What is looked at of a result: one element, but all that the host makes."""
    shape = graph.tensor[name].shape
    return shape if op.host is not None else (1,) * len(shape)


def _ways(graph: Graph, points: Mapping[str, tuple[Points, ...]], stationary: Mapping[str, str]) -> Iterator[_Way]:
    """All ways from the start of each result, in the order of the operators."""
    made = _Made(graph, points)
    reached: dict[str, dict[Reach, None]] = {}
    nests: dict[Signature, _Nest] = {}
    for op in graph.ops:
        if op.host is None and op.name not in points:
            continue
        for name in op.outputs:
            reached.setdefault(name, {})[_start(graph, op, name)] = None
        inputs = [
            (number, name, reach)
            for number, name in enumerate(dict.fromkeys(op.inputs))
            for reach in reached.get(name, ())
        ]
        if op.host is not None:
            targets = tuple((name, _start(graph, op, name)) for name in op.outputs)
            yield from (_Way(op.name, (name, reach), targets, 0) for _, name, reach in inputs)
            continue
        # Operators of equal structure share a nest, in which inputs have numbers.
        key = (signature(graph, op), op.name in stationary, made.key(op))
        nest = nests.get(key) or nests.setdefault(key, _Nest(op, points[op.name], made, op.name in stationary))
        for number, name, reach in inputs:
            after, weights = nest.passed(number, reach)
            if after is not None:
                reached[op.output][after] = None
            yield _Way(op.name, (name, reach), () if after is None else ((op.output, after),), weights)


class _Made:
    """Which positions of each tensor are made by points that are needed: a grid that holds them all."""

    def __init__(self, graph: Graph, points: Mapping[str, tuple[Points, ...]]) -> None:
        self._grids: dict[str, Grid] = {}
        self._keys: dict[str, tuple[bytes, ...]] = {}
        self._points = points
        for op in graph.ops:
            if op.host is not None:
                for name in op.outputs:
                    self._put(name, tuple(np.arange(extent) for extent in graph.tensor[name].shape))
            elif op.name in points:
                self._put(op.output, self.written(op, points[op.name]).get(op.output))

    @staticmethod
    def written(op: Op, points: Sequence[Points]) -> dict[str, Grid]:
        """The result and the private buffers of an operator."""
        found: dict[str, Grid] = {}
        for stage, mine in zip(op.stages, points, strict=True):
            if mine.in_bounds is not None:
                grid = tuple(map(mine.in_bounds.values, stage.write.index))
                before = found.get(stage.write.tensor)
                found[stage.write.tensor] = grid if before is None else tuple(map(np.union1d, before, grid))
        return found

    def _put(self, name: str, grid: Grid | None) -> None:
        if grid is not None:
            self._grids[name] = grid
            self._keys[name] = tuple(positions.tobytes() for positions in grid)

    def get(self, name: str) -> Grid | None:
        return self._grids.get(name)

    def key(self, op: Op) -> Signature:
        """Equal for operators of equal structure only if the same is needed of them and of their inputs."""
        insides = (stage.in_bounds for stage in self._points[op.name])
        groups = tuple(() if inside is None else inside.groups for inside in insides)
        mine = tuple(tuple(tuple((a, v.tobytes()) for a, v in group.items()) for group in stage) for stage in groups)
        return mine, tuple(self._keys.get(name) for name in dict.fromkeys(op.inputs))


class _Nest:
    """How the stages of an operator pass reaches on; ``counted``: whether its stationary operand is of the weights."""

    def __init__(self, op: Op, points: Sequence[Points], made: _Made, counted: bool) -> None:
        self._op = op
        self._points = points
        self._counted = counted
        self._inputs = tuple(dict.fromkeys(op.inputs))
        known = {name: made.get(name) for name in self._inputs}
        self._made: dict[str, Grid] = {name: grid for name, grid in known.items() if grid is not None}
        self._made |= made.written(op, points)
        self._parts: dict[tuple[int, int], list[_Part]] = {}
        self._found: dict[tuple[int, int, int, Reach], _Found | None] = {}
        self._passed: dict[tuple[int, Reach], tuple[Reach | None, int]] = {}

    def passed(self, number: int, reach: Reach) -> tuple[Reach | None, int]:
        """What ``reach`` of the input with this number influences of the result, and how many weights that takes."""
        if (number, reach) not in self._passed:
            self._passed[number, reach] = self._through(self._inputs[number], reach)
        return self._passed[number, reach]

    def _through(self, source: str, reach: Reach) -> tuple[Reach | None, int]:
        """From stage to stage. Of several ways to a tensor the one that reaches most is followed."""
        reaches = {source: reach}
        weights = 0
        for position, (stage, points) in enumerate(zip(self._op.stages, self._points, strict=True)):
            for operand, read in enumerate(stage.reads):
                # What only padding is in has no elements that anything could influence.
                if points.in_bounds is None or read.tensor not in reaches or read.tensor not in self._made:
                    continue
                found = self._influenced(position, operand, stage, points.in_bounds, reaches[read.tensor])
                if found is None:
                    continue
                if self._counts(position, operand):
                    weights = max(weights, prod(one.weights for one in found))
                target = stage.write.tensor
                runs = {d: n for one in found for d, n in one.runs.items()}
                after = tuple(_rounded(n, len(self._made[target][d])) for d, n in sorted(runs.items()))
                reaches[target] = max(reaches.get(target, after), after, key=prod)
        return reaches.get(self._op.output), weights

    def _counts(self, position: int, operand: int) -> bool:
        """Whether points that read this operand use weights that count."""
        return self._counted and position == self._op.anchor and operand == 0

    def _influenced(
        self, position: int, operand: int, stage: Stage, inside: InBoundsPoints, reach: Reach
    ) -> list[_Found] | None:
        """What of each part of a stage is influenced through one of its reads; ``None`` if nothing certainly is."""
        if (position, operand) not in self._parts:
            right = stage.reads[1] if self._counts(position, operand) else None
            self._parts[position, operand] = _parts(stage, inside, stage.reads[operand], right, self._made)
        found: list[_Found] = []
        for number, part in enumerate(self._parts[position, operand]):
            key = position, operand, number, tuple(reach[d] for d in part.reads)
            if key not in self._found:
                self._found[key] = part.passed(reach)
            one = self._found[key]
            if one is None:
                return None
            found.append(one)
        return found


@dataclass(frozen=True)
class _Found:
    """Of a part: for each dimension of the target, positions in a row; and how many elements of weights."""

    runs: Mapping[int, int]
    weights: int


@dataclass(frozen=True)
class _Part:
    """The points of axes that move together, without those that read what no needed point makes.

    ``reads`` and ``writes``: by dimension of the source and of the target, the position of each point in the grid of
    what is needed; ``extents`` and ``sizes`` are those of the grids. ``weights`` numbers the elements of the right
    operand that the part tells apart.
    """

    reads: Mapping[int, Ints]
    writes: Mapping[int, Ints]
    extents: Mapping[int, int]
    sizes: Mapping[int, int]
    weights: Ints

    def passed(self, reach: Reach) -> _Found | None:
        """What is influenced in every case; ``None`` if there is a case in which nothing is."""
        if not len(self.weights):
            return None
        if all(reach[d] == self.extents[d] for d in self.reads):
            return self._together()
        if len(self.reads) == 1 and len(self.writes) <= 1:
            found = self._worst(*next(iter(self.reads.items())), reach)
            if found is not None:
                return found
        # A position of each dimension, whichever they are: is there a point?
        cases = _different(self.reads, self.extents)
        return _Found(dict.fromkeys(self.writes, 1), 1) if cases == prod(self.extents.values()) else None

    def _together(self) -> _Found:
        """What all points write; single positions if that is no box."""
        weights = _number(self.weights)
        marked = {d: np.bincount(positions, minlength=self.sizes[d]) > 0 for d, positions in self.writes.items()}
        if len(marked) > 1 and _different(self.writes, self.sizes) < prod(int(m.sum()) for m in marked.values()):
            return _Found(dict.fromkeys(marked, 1), weights)
        return _Found({d: _run(m[None]) for d, m in marked.items()}, weights)

    def _worst(self, dim: int, positions: Ints, reach: Reach) -> _Found | None:
        """The least that as many positions in a row influence, wherever they are."""
        length, extent = reach[dim], self.extents[dim]
        cases = _cases(positions, np.zeros_like(positions), length, extent)
        if cases is None or not cases.all():
            return None
        runs: dict[int, int] = {}
        alone = len(positions) == extent == _number(positions)
        for d, targets in self.writes.items():
            if alone and (np.diff(targets[np.argsort(positions)]) == 1).all():
                runs[d] = length
            elif (seen := _cases(positions, targets, length, extent)) is not None:
                runs[d] = _run(seen)
            else:
                runs[d] = 1
        if alone and _number(self.weights) == extent:
            return _Found(runs, length)
        used = _cases(positions, self.weights, length, extent)
        return _Found(runs, 1 if used is None else int(used.sum(axis=1).min()))


def _number(labels: Ints) -> int:
    """How many different ones there are; none is negative."""
    return int(np.count_nonzero(np.bincount(labels)))


def _different(positions: Mapping[int, Ints], sizes: Mapping[int, int]) -> int:
    """How many different combinations of positions there are."""
    return len(np.unique(np.ravel_multi_index(tuple(positions.values()), tuple(sizes[d] for d in positions))))


def _cases(positions: Ints, labels: Ints, length: int, extent: int) -> np.ndarray | None:
    """For each run of ``length`` of the ``extent`` positions, which labels its points have; ``None`` if too many."""
    number = int(labels.max()) + 1
    if (extent + 1) * number > MOST_POINTS:
        return None
    marks = np.zeros((extent + 1, number), np.int32)
    marks[positions + 1, labels] = 1
    np.cumsum(marks, axis=0, out=marks)
    return marks[length:] > marks[:-length]


def _run(marked: np.ndarray) -> int:
    """Of the rows, the least of the longest runs of true values."""
    places = np.arange(1, marked.shape[1] + 1)
    ends = np.maximum.accumulate(np.where(marked, 0, places), axis=1)
    return int((places - ends).max(axis=1).min())


def _rounded(run: int, extent: int) -> int:
    """The length that stands for ``run``: all there is, up to four, or a power of two."""
    return run if run == extent or run <= 4 else 1 << (run.bit_length() - 1)


def _parts(
    stage: Stage, inside: InBoundsPoints, read: Access, right: Access | None, made: Mapping[str, Grid]
) -> list[_Part]:
    """The parts of a stage for one of its reads; ``right`` is the operand whose elements are counted."""
    dims = [("read", d, index) for d, index in enumerate(read.index)]
    dims += [("write", d, index) for d, index in enumerate(stage.write.index)]
    dims += [("right", d, index) for d, index in enumerate(() if right is None else right.index)]
    groups = inside.groups
    number = {axis: n for n, group in enumerate(groups) for axis in group}
    # Groups of axes, and dimensions behind them, that something connects have the same name.
    name = list(range(len(groups) + len(dims)))
    for n, (_, _, index) in enumerate(dims, len(groups)):
        together = {name[n], *(name[number[a]] for a, c in enumerate(index.coeffs) if c)}
        name = [min(together) if mine in together else mine for mine in name]
    grids = {"read": made[read.tensor], "write": made[stage.write.tensor]}
    return [
        _part(
            [group for group, mine in zip(groups, name, strict=False) if mine == one],
            [dim for dim, mine in zip(dims, name[len(groups) :], strict=True) if mine == one],
            grids,
        )
        for one in dict.fromkeys(name)
    ]


def _part(
    groups: Sequence[Mapping[int, Ints]], dims: Sequence[tuple[str, int, Affine]], grids: Mapping[str, Grid]
) -> _Part:
    """All points of some groups of axes, and what these dimensions are there; no points if there are too many."""
    counts = [len(next(iter(group.values()))) for group in groups]
    points = prod(counts)
    if points > MOST_POINTS:
        return _Part({}, {}, {}, {}, np.arange(0))
    values: dict[int, Ints] = {}
    for n, group in enumerate(groups):
        inner = prod(counts[n + 1 :])
        for axis, mine in group.items():
            values[axis] = np.tile(np.repeat(mine, inner), points // (inner * counts[n]))
    found: dict[str, dict[int, Ints]] = {"read": {}, "write": {}, "right": {}}
    for use, d, index in dims:
        at = np.full(points, index.const, np.int64)
        for axis, c in enumerate(index.coeffs):
            if c:
                at += c * values[axis]
        found[use][d] = at
    kept = np.ones(points, np.bool_)
    for use in ("read", "write"):
        for d, at in found[use].items():
            grid = grids[use][d]
            positions = np.minimum(np.searchsorted(grid, at), len(grid) - 1)
            kept &= grid[positions] == at
            found[use][d] = positions
    weights = np.zeros(points, np.int64)
    for at in found["right"].values():
        weights = weights * (int(at.max()) + 1) + at
    return _Part(
        {d: positions[kept] for d, positions in found["read"].items()},
        {d: positions[kept] for d, positions in found["write"].items()},
        {d: len(grids["read"][d]) for d in found["read"]},
        {d: len(grids["write"][d]) for d in found["write"]},
        np.unique(weights[kept], return_inverse=True)[1],
    )
