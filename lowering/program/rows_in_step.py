"""Tiles of a constant that is read by rows, on their way to the local memories of all cores in step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.box import Box, shape_of
from ...ir.graph import Op
from ...ir.plan import Tile
from ...ir.semantics.box_arrays import op_boxes_many, tile_walk
from ...ir.semantics.cell import Cell
from ..schedule.cell_spec import byte_strides
from .dependences import LiveBuffer
from .program_builder import ProgramBuilder, TensorBuffer


@dataclass
class _Versions:
    """The versions on one core, the box that each holds, and the box that each tile of the result reads."""

    areas: list[LiveBuffer]
    boxes: list[Box]
    held: list[Box | None]
    next: int = 0
    current: int = 0

    def claim(self, index: int) -> tuple[int, bool]:
        """The version for a tile, and whether it holds its box already."""
        box = self.boxes[index]
        known = box in self.held
        if not known:
            self.current, self.next = self.next, (self.next + 1) % len(self.areas)
            self.held[self.current] = box
        else:
            self.current = self.held.index(box)
        return self.current, known


class RowRing:
    """``name``: the constant that ``op`` reads by rows, in the slot ``slot``; ``number``: the operator's."""

    def __init__(self, build: ProgramBuilder, op: Op, name: str, tile: Tile, number: int, slot: int) -> None:
        self._build, self._op, self._tile = build, op, tile
        self.name = name
        self._number, self._slot = number, slot
        self._cores: dict[int, _Versions] = {}

    def add(self, core: int, cell: Cell) -> None:
        """A core that runs the operator."""
        target = cell.ops[self._op.name].tensors[self._op.output]
        walk = tile_walk(target, self._tile.sizes, self._tile.order)
        rows = op_boxes_many(self._op, self._build.graph.tensor, walk)[1][self.name]
        areas = self._build.ring(self.name, core)
        boxes = [rows.box(i) for i in range(len(rows))]
        self._cores[core] = _Versions(areas, boxes, [None] * len(areas))

    def bring(self, index: int, cores: Sequence[int]) -> None:
        """What these cores need for their tile ``index``; what several want alike is broadcast."""
        build, name = self._build, self.name
        wanted: dict[tuple[Box, int, int], list[int]] = {}
        broadcast = build.broadcasts(name, build.levels.activations)
        for core in cores:
            version, known = self._cores[core].claim(index)
            if not known:
                box = self._cores[core].boxes[index]
                wanted.setdefault((box, version, 0 if broadcast else core), []).append(core)
        turns = build.turns(build.plan.transfer[build.segment, name])
        for (box, version, _), members in wanted.items():
            areas = tuple(self._cores[core].areas[version] for core in members)
            strides = byte_strides(shape_of(box), build.layout.itemsize(name))
            target = TensorBuffer(build.levels.activations.name, areas, areas[0].address, box, strides)
            kind, mask = "broadcast" if len(members) > 1 else "copy", sum(1 << core for core in members)
            for source, part in build.layout.holding(name, box, self._slot):
                resident = build.resident(source)
                build.copy(kind, self._number, name, part, turns.issuer(members), resident, target, mask)

    def area(self, core: int) -> LiveBuffer:
        """Where the rows of the current tile are."""
        versions = self._cores[core]
        return versions.areas[versions.current]
