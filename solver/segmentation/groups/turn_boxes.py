"""What a run of operators reads and writes in some of its turns, which are the parts of a cut of its root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....ir.box import Box
from ....ir.graph import Graph
from ....ir.plan import Segment, Split
from ....ir.semantics.cell import Cells
from ..column_cost import Column


@dataclass(frozen=True)
class Turn:
    """Boxes by tensor: the hull of what is read, constants among it, and what is written for others."""

    reads: Mapping[str, Box]
    writes: Mapping[str, Box]


class TurnBoxes:
    """Turns of columns, by their roots and outermost cuts: the first, one in the middle, and the last.

    Runs with the same root and the same cut compute the same, as far as they go, so that a longer one stands for the
    shorter. It may read more of a tensor than one that begins behind some of the readers; then fewer groups are thought
    possible.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._cells = Cells(graph)
        self._known: dict[tuple[int, Split], tuple[int, tuple[Turn, ...]]] = {}

    def some(self, column: Column, turns: int) -> tuple[Turn, ...]:
        """Of a column whose outermost cut has a multiple of ``turns`` parts, as many of them as make a turn."""
        cut = Split(column.split.instances[0].dim, turns)
        key = column.last, cut
        if key not in self._known or self._known[key][0] > column.first:
            names = tuple(op.name for op in self._graph.ops[column.first : column.last + 1])
            segment = Segment(names, (cut,), (), ())
            cells = [self._cells.cell(segment, turn, 0) for turn in (0, turns // 2, turns - 1)]
            self._known[key] = column.first, tuple(Turn(cell.tensors, cell.owned) for cell in cells)
        return self._known[key][1]
