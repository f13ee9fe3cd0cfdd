"""How many bytes of weights are certainly used after one element of a result is computed, whichever element it is.

An element influences the points that read it, the elements that these write, the points that read those, and so on:
its forward slice. How large that is depends on where the element lies: what a corner of an image influences sees fewer
taps of a kernel than what its middle does. The numbers here hold for *every* element, so that nothing need be known of
the order in which a plan computes them.

What is influenced of a tensor is described by an extent; :mod:`.influence_extent` says how a stage passes it on.
Lengths above four are rounded down to powers of two, so that there are few extents. A host operator begins when its
inputs are complete, so that all elements of its results come after any element of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from ..equivalence import Signature, signature
from ..graph import DTYPES, Graph, Op, Stage
from .demanded_elements import Grid, InBoundsPoints, Points
from .influence_extent import Component, Influence, InfluenceExtent, components


def used_after(graph: Graph, points: Mapping[str, tuple[Points, ...]], stationary: Mapping[str, str]) -> dict[str, int]:
    """By operator: bytes of weights whose use has to wait for any one of its points, for the worst choice of the point.

    ``points``: those that are demanded, by operator; no others are considered. ``stationary``: the weights to count: by
    operator, the constant that is the right operand of its contraction. Each element counts once.
    """
    constants = {name: number for number, name in enumerate(dict.fromkeys(stationary.values()))}
    sizes = np.array([DTYPES[graph.tensor[name].dtype] for name in constants], np.int64)
    # By what is influenced: of each constant, how many elements are used at least.
    after: dict[tuple[str, InfluenceExtent], np.ndarray] = {}
    # Backwards, so that what comes after the results of the readers of a tensor is known.
    for edge in reversed(list(_influences(graph, points, stationary))):
        uses = [after[target] for target in edge.targets if target in after]
        if edge.weights:
            op_uses = np.zeros(len(constants), np.int64)
            op_uses[constants[stationary[edge.op]]] = edge.weights
            uses.append(op_uses)
        if edge.source in after:
            uses.append(after[edge.source])
        if uses:
            after[edge.source] = reduce(np.maximum, uses)
    least: dict[str, int] = {}
    for op in reversed(graph.ops):
        if op.host is not None or op.name in points:
            starts = [(name, _start(graph, op, name)) for name in op.outputs]
            least[op.name] = max(int(after[start] @ sizes) if start in after else 0 for start in starts)
            if op.host is None and op.output not in graph.output_tensors:
                # A reader needs the element, and with it what comes after one of the reader's points.
                readers = (least[reader.name] for reader in graph.consumers[op.output] if reader.name in least)
                least[op.name] = max(least[op.name], min(readers))
    return {op.name: least[op.name] for op in graph.ops if op.name in points}


@dataclass(frozen=True)
class _InfluenceEdge:
    """Operator ``op``: if ``source`` is influenced, so are ``targets``; each is a tensor and its extent.

    ``weights``: how many elements of its stationary operand the operator uses for that.
    """

    op: str
    source: tuple[str, InfluenceExtent]
    targets: tuple[tuple[str, InfluenceExtent], ...]
    weights: int


def _start(graph: Graph, op: Op, name: str) -> InfluenceExtent:
    """What is looked at of a result: one element, or the whole result of a host operator."""
    shape = graph.tensor[name].shape
    return shape if op.host is not None else (1,) * len(shape)


def _influences(
    graph: Graph, points: Mapping[str, tuple[Points, ...]], stationary: Mapping[str, str]
) -> Iterator[_InfluenceEdge]:
    """All that follows from the start of each result, in the order of the operators."""
    written = _WrittenGrids(graph, points)
    extents: dict[str, dict[InfluenceExtent, None]] = {}
    by_structure: dict[Signature, _OpInfluence] = {}
    for op in graph.ops:
        if op.host is None and op.name not in points:
            continue
        for name in op.outputs:
            extents.setdefault(name, {})[_start(graph, op, name)] = None
        inputs = [
            (number, name, extent)
            for number, name in enumerate(dict.fromkeys(op.inputs))
            for extent in extents.get(name, ())
        ]
        if op.host is not None:
            targets = tuple((name, _start(graph, op, name)) for name in op.outputs)
            yield from (_InfluenceEdge(op.name, (name, extent), targets, 0) for _, name, extent in inputs)
            continue
        # Operators of equal structure share their influence, in which inputs have numbers.
        counted = op.name in stationary
        key = (signature(graph, op), counted, written.key(op))
        if key not in by_structure:
            by_structure[key] = _OpInfluence(op, points[op.name], written, counted)
        for number, name, extent in inputs:
            result, weights = by_structure[key].influence_of(number, extent)
            if result is not None:
                extents[op.output][result] = None
            yield _InfluenceEdge(op.name, (name, extent), () if result is None else ((op.output, result),), weights)


class _WrittenGrids:
    """Which positions of each tensor demanded points write: a grid that holds them all."""

    def __init__(self, graph: Graph, points: Mapping[str, tuple[Points, ...]]) -> None:
        self._grids: dict[str, Grid] = {}
        self._keys: dict[str, tuple[bytes, ...]] = {}
        self._points = points
        for op in graph.ops:
            if op.host is not None:
                for name in op.outputs:
                    self._put(name, tuple(np.arange(extent) for extent in graph.tensor[name].shape))
            elif op.name in points:
                self._put(op.output, self.of_op(op, points[op.name]).get(op.output))

    @staticmethod
    def of_op(op: Op, points: Sequence[Points]) -> dict[str, Grid]:
        """Those of the result and of the private buffers of an operator."""
        grids: dict[str, Grid] = {}
        for stage, stage_points in zip(op.stages, points, strict=True):
            if stage_points.in_bounds is not None:
                grid = tuple(map(stage_points.in_bounds.values, stage.write.index))
                before = grids.get(stage.write.tensor)
                grids[stage.write.tensor] = grid if before is None else tuple(map(np.union1d, before, grid))
        return grids

    def _put(self, name: str, grid: Grid | None) -> None:
        if grid is not None:
            self._grids[name] = grid
            self._keys[name] = tuple(positions.tobytes() for positions in grid)

    def get(self, name: str) -> Grid | None:
        return self._grids.get(name)

    def key(self, op: Op) -> Signature:
        """Equal for operators of equal structure only if the same is demanded of them and of their inputs."""
        stages = [() if p.in_bounds is None else p.in_bounds.groups for p in self._points[op.name]]
        points = tuple(tuple(tuple((a, v.tobytes()) for a, v in group.items()) for group in stage) for stage in stages)
        return points, tuple(self._keys.get(name) for name in dict.fromkeys(op.inputs))


class _OpInfluence:
    """How the stages of an operator pass extents on; ``counted``: whether its stationary operand is to be counted."""

    def __init__(self, op: Op, points: Sequence[Points], written: _WrittenGrids, counted: bool) -> None:
        self._op = op
        self._points = points
        self._counted = counted
        self._inputs = tuple(dict.fromkeys(op.inputs))
        grids = {name: written.get(name) for name in self._inputs}
        self._written: dict[str, Grid] = {name: grid for name, grid in grids.items() if grid is not None}
        self._written |= written.of_op(op, points)
        self._components: dict[tuple[int, int], list[Component]] = {}
        self._of_component: dict[tuple[int, int, int, InfluenceExtent], Influence | None] = {}
        self._of_input: dict[tuple[int, InfluenceExtent], tuple[InfluenceExtent | None, int]] = {}

    def influence_of(self, number: int, extent: InfluenceExtent) -> tuple[InfluenceExtent | None, int]:
        """What this extent of the input with this number influences of the result (``None``: perhaps nothing), and how
        many weights that uses."""
        if (number, extent) not in self._of_input:
            self._of_input[number, extent] = self._through_stages(self._inputs[number], extent)
        return self._of_input[number, extent]

    def _through_stages(self, source: str, extent: InfluenceExtent) -> tuple[InfluenceExtent | None, int]:
        """From stage to stage. Of several ways to a tensor, the one with the largest extent is followed."""
        extents = {source: extent}
        weights = 0
        for position, (stage, points) in enumerate(zip(self._op.stages, self._points, strict=True)):
            for operand, read in enumerate(stage.reads):
                # A tensor that only padding is read of has no elements that anything could influence.
                if points.in_bounds is None or read.tensor not in extents or read.tensor not in self._written:
                    continue
                influences = self._through_read(position, operand, stage, points.in_bounds, extents[read.tensor])
                if influences is None:
                    continue
                if self._is_counted(position, operand):
                    weights = max(weights, prod(influence.weights for influence in influences))
                target = stage.write.tensor
                runs = {d: run for influence in influences for d, run in influence.runs.items()}
                result = tuple(_rounded(run, len(self._written[target][d])) for d, run in sorted(runs.items()))
                extents[target] = max(extents.get(target, result), result, key=prod)
        return extents.get(self._op.output), weights

    def _is_counted(self, position: int, operand: int) -> bool:
        """Whether points that read this operand use weights that count."""
        return self._counted and position == self._op.contraction and operand == 0

    def _through_read(
        self, position: int, operand: int, stage: Stage, in_bounds: InBoundsPoints, extent: InfluenceExtent
    ) -> list[Influence] | None:
        """What of each component of a stage is influenced through one of its reads; ``None`` if perhaps nothing is."""
        if (position, operand) not in self._components:
            weights = stage.reads[1] if self._is_counted(position, operand) else None
            read = stage.reads[operand]
            self._components[position, operand] = components(stage, in_bounds, read, weights, self._written)
        influences: list[Influence] = []
        for number, component in enumerate(self._components[position, operand]):
            key = position, operand, number, tuple(extent[d] for d in component.reads)
            if key not in self._of_component:
                self._of_component[key] = component.influence_of(extent)
            influence = self._of_component[key]
            if influence is None:
                return None
            influences.append(influence)
        return influences


def _rounded(run: int, size: int) -> int:
    """``run`` itself if it is at most four or the whole size, otherwise the next smaller power of two."""
    return run if run == size or run <= 4 else 1 << (run.bit_length() - 1)
