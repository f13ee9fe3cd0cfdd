"""Rows of a constant in the predicted timeline: versions in local memory that take turns."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.box import Box, Span, intersect, is_empty
from ....ir.plan import Transfer
from ....ir.semantics.box_arrays import Boxes
from ....ir.semantics.cell import Cell
from ....ir.semantics.portions import receivers
from ..data_movement import Movement
from ..link_sharing import Area, Horizon


class RowRing:
    """Which rows each version holds, since when, and until when the matrix engine reads them.

    ``boxes``: what each tile of the walk reads, counted from the corner of what the cell has; ``cells``: of all cores.
    """

    def __init__(
        self, movement: Movement, transfer: Transfer, boxes: Boxes, cells: Sequence[Cell], versions: list[Area]
    ) -> None:
        self._movement, self._transfer, self._versions = movement, transfer, versions
        self._boxes = [boxes.box(i) for i in range(len(boxes))]
        self._dtype = movement.graph.tensor[transfer.tensor].dtype
        broadcast = movement.machine.moves("broadcast", movement.source(transfer.tensor), movement.levels.activations)
        self._groups = receivers((cell.tensors.get(transfer.tensor) for cell in cells), broadcast)
        self._matrix = movement.machine.engine_for("matrix").name
        self._held: list[Box | None] = [None] * len(versions)
        self._next = 0
        self._claimed = versions[0]

    def claim(self, index: int) -> float:
        """When the rows of a tile are there; they are copied in if no version holds them."""
        box = self._boxes[index]
        if box in self._held:
            self._claimed = self._versions[self._held.index(box)]
            return self._claimed.ready.last
        self._claimed = self._versions[self._next]
        self._held[self._next] = box
        self._next = (self._next + 1) % len(self._versions)
        return self._bring(box, self._claimed)

    def release(self, visible: float) -> None:
        """The matrix engine is done with the rows claimed last."""
        self._claimed.use(visible, self._matrix)

    def _bring(self, box: Box, area: Area) -> float:
        movement, name = self._movement, self._transfer.tensor
        way = movement.source(name), movement.levels.activations
        turns = movement.turns(self._transfer)
        free, ready = area.free, Horizon()
        arrivals: list[tuple[float, str | None]] = []
        for wanted, cores in self._groups:
            placed = tuple(Span(s.lo + w.lo, s.hi + w.lo) for s, w in zip(box, wanted, strict=True))
            rows = intersect(placed, wanted)
            if is_empty(rows):
                continue
            for shared, part in movement.holding(name, rows):
                move = movement.transfers.transfer(way, part, (shared.buffer.box, rows), self._dtype)
                arrivals.append(movement.copy(cores, shared, part, way[1], free, move, turns, area))
        for stop, engine in arrivals:
            ready.note(stop, engine)
            area.use(stop, engine)
        area.ready = ready
        return ready.last
