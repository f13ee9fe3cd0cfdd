"""Which of two forms of a product takes fewer cycles, by the model of tiling.

Both forms are tiled for a cell of a core: the rows of the product divided over the cores as they fill the array best in
each form. The activations stay where that takes less by a margin, and where a core has room for it: its weight memory
for all activations of the cell, so that nothing is brought twice, and a part of its local memory for them, for the
result and for the weights that pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from math import inf

from ...ir.box import Box, Span, volume
from ...ir.errors import UnsupportedError
from ...ir.graph import DTYPES, Graph, Op
from ...ir.machine import Machine
from ...ir.semantics.region import op_boxes
from ..cost.local_buffers import row_room, rows_by_tile
from ..cost.operator import Weights
from ..cpsat.backend import NO_SEARCH
from ..subproblem.time_budget import SHORT, affords
from ..tiling.candidates import column_dims
from ..tiling.solve import ALONE, Choice, Tiler
from .array_fill import MARGIN, array_cycles, even_parts, gains_enough

SHARE = 0.75
"""Of local memory, what an operator may need by itself then. Chosen, not measured."""
JUDGED_SECONDS = 0.1
"""What judging both forms of a product takes, about, for each kind of product."""


def better_swapped(
    graph: Graph, swapped: Graph, names: Collection[str], machine: Machine, timeout: float
) -> frozenset[str]:
    """Of the operators ``names``, which the graph ``swapped`` has in the other form, those that gain by it.

    None if the timeout is too short to judge them, or if all that is gained is too little.
    """
    if timeout < SHORT:
        return frozenset()
    usual, other = (Tiler(g, machine, budget=NO_SEARCH) for g in (graph, swapped))
    # Equal operators in one graph are equal in the other, unless only some of them can be swapped.
    kinds = {
        op.name: (usual.structures.class_of[op.name], other.structures.class_of[op.name])
        for op in graph.ops
        if op.name in names
    }
    if not affords(timeout, JUDGED_SECONDS, 0, len(set(kinds.values()))):
        return frozenset()
    numbers, forms = Counter(kinds.values()), dict[tuple[int, int], _Forms]()
    for kind in numbers:
        # Costs are known by the first operator of each structure.
        op, other_op = (t.structures.representatives[n] for t, n in zip((usual, other), kind, strict=True))
        forms[kind] = _Forms(usual, other, op, other_op, machine)
    rest = sum(array_cycles(op, machine)[0] for op in graph.ops if op.name not in names)

    def gain() -> bool:
        before = rest + sum(number * forms[kind].usual for kind, number in numbers.items())
        after = rest + sum(number * forms[kind].better for kind, number in numbers.items())
        return gains_enough(graph, machine, before, after)

    for form in sorted(forms.values(), key=lambda f: f.better - f.usual):
        # Tiles take most of the time: they are chosen only while enough could be gained by them.
        if not gain():
            return frozenset()
        form.choose_tiles()
    return frozenset(n for n, kind in kinds.items() if forms[kind].gains) if gain() else frozenset()


class _Forms:
    """Cycles of both forms of a product: those of the array, until tiles are chosen; endless without room."""

    def __init__(self, tiler: Tiler, other_tiler: Tiler, op: Op, other_op: Op, machine: Machine) -> None:
        self._tilers, self._ops, self._cores = (tiler, other_tiler), (op, other_op), machine.cores
        self.usual, self.other = array_cycles(op, machine)[0], inf
        self._cells: tuple[Box, Box] | None = None
        if not rows_by_tile(other_tiler.graph, machine, other_op) or not self._by_matrix_engine():
            return
        boxes = list(_cells(tiler, op, machine))
        fitting = [box for box in boxes if _has_room(other_tiler.graph, other_op, box, machine)]
        if boxes and fitting:
            self.usual, first = _busy(tiler, op, boxes)
            self.other, second = _busy(other_tiler, other_op, fitting)
            self._cells = first, second

    def _by_matrix_engine(self) -> bool:
        """Whether the matrix engine runs both forms, and the vector engine all that goes with them."""
        try:
            costs = [tiler.cost(op) for tiler, op in zip(self._tilers, self._ops, strict=True)]
        except UnsupportedError:
            # A bias that the array adds to its columns may be of a type that the vector engine has no lanes for.
            return False
        return all(cost.contraction is not None for cost in costs)

    @property
    def gains(self) -> bool:
        """Whether the activations stay."""
        return self.other < inf and self.other <= MARGIN * self.usual

    @property
    def better(self) -> float:
        return self.other if self.gains else self.usual

    def choose_tiles(self) -> None:
        """Judge what gains by its tiles, in the cells whose arrays are the fullest.

        The usual form loads the weights that all cores load, the other one finds its activations in local memory.
        """
        if self._cells is None or not self.gains:
            return
        weights = (Weights(self._cores, self._cores, local) for local in (False, True))
        cells = zip(self._tilers, self._ops, self._cells, weights, strict=True)
        self.usual, self.other = (_cycles(tiler, op, box, loads) for tiler, op, box, loads in cells)


def _busy(tiler: Tiler, op: Op, boxes: Sequence[Box]) -> tuple[float, Box]:
    """Cycles of the matrix engine in the best of these cells, and that cell."""
    best: tuple[float, Box] = inf, ()
    for box in boxes:
        part = op_boxes(op, tiler.graph.tensor, box)
        best = min(best, (tiler.cost(op).work(part, part.tensors).matrix, box), key=lambda each: each[0])
    return best


def _cycles(tiler: Tiler, op: Op, box: Box, weights: Weights) -> float:
    """Cycles of a cell with well chosen tiles; endless without any."""
    choice = tiler.tile(op, [box], weights, beside=ALONE)
    return choice.cycles if isinstance(choice, Choice) else inf


def _cells(tiler: Tiler, op: Op, machine: Machine) -> Iterator[Box]:
    """The largest cell of each way to divide the rows of a product over all cores, along one or two dimensions."""
    shape = tiler.graph.tensor[op.output].shape
    whole = tuple(Span(0, extent) for extent in shape)
    columns, _ = column_dims(op, tiler.graph, tiler.cost(op), whole)
    rows = [d for d in range(len(shape)) if d not in columns]
    for parts in even_parts([shape[d] for d in rows], machine.cores):
        sizes = dict(zip(rows, parts, strict=True))
        yield tuple(Span(0, sizes.get(d, extent)) for d, extent in enumerate(shape))


def _has_room(graph: Graph, op: Op, box: Box, machine: Machine) -> bool:
    parts = op_boxes(op, graph.tensor, box).tensors
    sizes = {n: volume(parts[n]) * DTYPES[graph.tensor[n].dtype] for n in (*op.inputs, op.output) if n in parts}
    rows = rows_by_tile(graph, machine, op)
    sizes[rows] = min(sizes[rows], row_room(graph, machine, rows))
    levels = machine.levels
    whole = sizes[op.stationary] <= levels.weights.capacity
    return whole and sum(sizes.values()) <= SHARE * levels.activations.capacity
