"""One operator under many cuts: what it takes of a core in the largest cell of each cut.

Most cuts are never asked for, and equal shapes cost the same; so parts are priced when asked, once for each shape, and
remembered for all operators of equal structure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from ...ir.equivalence import EquivalenceClasses, tensor_names
from ...ir.graph import Graph, Op
from ...ir.machine import Machine
from ...ir.semantics.box_arrays import Boxes, Int
from ...ir.semantics.cell import OpBoxesCache
from ...ir.semantics.contraction_engines import contraction_engines, least_vector_cycles
from ...ir.semantics.region import OpBoxes
from ..cost.operator import EngineWork, OpCost, Rates, Weights, estimate
from ..switches import ALL_ON, Disabled
from .engine_overlap import OperatorTiming

_Estimate = tuple[int, int, int, int]
"""Cycles alone, busy cycles of the matrix and the vector engine, whether it streams."""
HELD_PARTS = 4
"""Weights with which the vector engine is priced are one part in so many of local memory at most. Chosen."""


@dataclass
class _ClassCosts:
    """What is known of the operators of one structure: parts by shape, estimates by (part, sharing, cores).

    ``costs``: on each engine that may run the contraction, the usual one first; ``parts``: with the work on that one.
    """

    costs: tuple[OpCost, ...]
    numbers: dict[bytes, int] = field(default_factory=dict[bytes, int])
    parts: list[tuple[OpBoxes, EngineWork]] = field(default_factory=list[tuple[OpBoxes, EngineWork]])
    estimates: dict[tuple[int, int, int], _Estimate] = field(default_factory=dict[tuple[int, int, int], _Estimate])


class OperatorCosts:
    """Cycles of parts of a graph's operators on one machine; operators of equal structure share them."""

    def __init__(self, graph: Graph, machine: Machine, disabled: Disabled = ALL_ON) -> None:
        self.graph = graph
        self.machine = machine
        self.disabled = disabled
        self.rates = Rates.from_machine(machine)
        self.classes = graph.analysis(EquivalenceClasses)
        self.op_boxes = OpBoxesCache(graph)
        self._known: dict[int, _ClassCosts] = {}

    def of_class(self, op: Op) -> _ClassCosts:
        number = self.classes.class_of[op.name]
        if number not in self._known:
            first = self.classes.representatives[number]
            engines = contraction_engines(first, self.graph, self.machine)
            if "vector-contractions" in self.disabled:
                engines = engines[:1]
            self._known[number] = _ClassCosts(tuple(OpCost(first, self.graph, self.machine, e) for e in engines))
        return self._known[number]

    def cost(self, op: Op) -> OpCost:
        """The cost model of an operator (that of the first one of equal structure), on the matrix engine if it can."""
        return self.of_class(op).costs[0]


class OperatorUnderSplits:
    """One operator: ``points`` of its stages and boxes of its tensors in the largest cell of each cut.

    ``sharing[c]`` of ``cores[c]`` hold the same stationary operand; ``sources`` as in
    :class:`~.engine_overlap.OperatorTiming`.
    """

    def __init__(
        self,
        costs: OperatorCosts,
        op: Op,
        points: Sequence[Boxes],
        parts: Mapping[str, Boxes],
        sharing: Int,
        cores: Int,
        sources: tuple[int, ...],
    ) -> None:
        self.costs, self.op, self.sources = costs, op, sources
        self.points, self.parts = points, parts
        held = [parts[n] for n in tensor_names(op) if n in parts]
        shapes = np.concatenate([b.sizes for b in (*points, *held)], axis=1)
        self._shapes = np.ascontiguousarray(np.concatenate([shapes, sharing[:, None], cores[:, None]], axis=1))
        self._estimates = np.full((len(cores), 4), -1, dtype=np.int64)
        self._left = np.arange(len(cores), dtype=np.int64)
        """Which of the cuts at first those are that are left."""

    def timing(self, splits: Int) -> OperatorTiming:
        """The operator under some of the cuts that are left."""
        splits = self._left[splits]
        unpriced = splits[self._estimates[splits, 0] < 0]
        if len(unpriced):
            self._price(unpriced)
        alone, matrix, vector, streams = self._estimates[splits].T
        return OperatorTiming(alone, matrix, vector, streams > 0, self.sources)

    def select(self, splits: Int) -> None:
        """Forget the other cuts."""
        self._left = self._left[splits]
        if 2 * len(self._left) > len(self._estimates):
            return
        remaining = self._left
        self.points = [points.select(remaining) for points in self.points]
        self.parts = {name: boxes.select(remaining) for name, boxes in self.parts.items()}
        self._shapes, self._estimates = self._shapes[remaining], self._estimates[remaining]
        self._left = np.arange(len(remaining), dtype=np.int64)

    def _price(self, splits: Int) -> None:
        shapes = np.ascontiguousarray(self._shapes[splits])
        view = shapes.view(np.dtype((np.void, shapes.dtype.itemsize * shapes.shape[1]))).reshape(-1)
        _, firsts, inverse = np.unique(view, return_index=True, return_inverse=True)
        estimates = np.array([self._estimate(int(splits[first])) for first in firsts.tolist()], dtype=np.int64)
        self._estimates[splits] = estimates[inverse.reshape(-1)]

    def _estimate(self, split: int) -> _Estimate:
        known = self.costs.of_class(self.op)
        row = self._shapes[split]
        shape = row[:-2].tobytes()
        if shape not in known.numbers:
            known.numbers[shape] = len(known.parts)
            known.parts.append(self._part(known.costs[0], split))
        key = (known.numbers[shape], int(row[-2]), int(row[-1]))
        if key not in known.estimates:
            known.estimates[key] = min(self._on_engines(known, key))
        return known.estimates[key]

    def _on_engines(self, known: _ClassCosts, key: tuple[int, int, int]) -> Iterator[_Estimate]:
        """A part on each engine that may run its contraction; ``key`` as of the estimates.

        Weights that the matrix engine streams are all in local memory before the vector engine begins, if they have
        room there beside others.
        """
        usual, *others = known.costs
        part, work = known.parts[key[0]]
        weights = Weights(key[2], key[1], not usual.streamed)
        estimated = self._estimated(usual, part, work, weights)
        yield estimated
        held = usual.weights(part) if usual.streamed else 0
        if HELD_PARTS * held > self.costs.machine.levels.activations.capacity:
            return
        loaded = ceil(float(weights.load(held, self.costs.rates)[1])) if held else 0
        for cost in others:
            if loaded + least_vector_cycles(cost.op, self.costs.machine, part) < estimated[0]:
                on_vector = cost.work(part, part.tensors)
                cycles, *busy = self._estimated(cost, part, on_vector, weights)
                yield (loaded + cycles, busy[0], busy[1], busy[2])

    def _estimated(self, cost: OpCost, part: OpBoxes, work: EngineWork, weights: Weights) -> _Estimate:
        if cost.op.output not in part.tensors:
            return 0, 0, 0, 1
        at_hand = 2 * cost.weights(part) <= self.costs.machine.levels.weights.capacity
        streams = cost.contraction is None or at_hand or cost.batched
        return estimate(cost, work, part, weights, self.costs.rates), work.matrix, work.vector, int(streams)

    def _part(self, cost: OpCost, split: int) -> tuple[OpBoxes, EngineWork]:
        """The part in the cell of a cut, named as in the first operator of equal structure, and its work."""
        representative_name = dict(zip(tensor_names(self.op), tensor_names(cost.op), strict=True))
        boxes = {representative_name[n]: b.box(split) for n, b in self.parts.items() if b.present[split]}
        part = OpBoxes(tuple(p.box(split) for p in self.points), boxes)
        return part, cost.work(part, boxes) if cost.op.output in boxes else EngineWork()
