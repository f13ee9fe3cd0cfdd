"""The kernels of an operator's tiles, ready to be stamped.

Tiles that are structurally equivalent have one kernel, and structurally equivalent operators share all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir.box import Box
from ...ir.equivalence import EquivalenceClasses, tensor_names
from ...ir.errors import GirihError
from ...ir.graph import Access, Graph, Op
from ...ir.isa.row import Kind
from ...ir.isa.table import DTYPE_NAMES, ROWS
from ...ir.machine import Machine
from ...ir.plan import Tile
from ...ir.semantics.box_arrays import Boxes, Int, op_boxes_many, tile_walk
from ...ir.semantics.region import OpBoxes
from ..emission.kernel import WEIGHTS, KernelCache
from ..emission.vector import Emitted, Fetch
from ..loops.tile_spec import Spec, TileSpec, tile_spec
from ..loops.tir_function import view_name
from .addresses import PlannedBuffers
from .stamp import Relocatable, relocatable


@dataclass(frozen=True)
class BoundView:
    """A buffer that the kernel calls ``name``.

    It is ``number`` among the operator's tensors (see :func:`girih.ir.equivalence.tensor_names`), and begins
    ``offset`` bytes behind the corner of what the core has of it.
    """

    name: str
    number: int
    private: bool
    offset: int


@dataclass(frozen=True)
class Stamped:
    """An instruction for the engine of class ``kind``; ``refs``: buffer and offset of each operand."""

    kind: Kind
    instruction: Relocatable
    refs: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class TileKernel:
    """``stationary``: the box of the operand that goes through the weight memory, if any."""

    steps: tuple[Stamped | Fetch, ...]
    views: tuple[BoundView, ...]
    stationary: Box


class TileKernels:
    """The kernels of all tiles of an operator, each built once; one instance for one lowering."""

    def __init__(self, graph: Graph, machine: Machine, layout: PlannedBuffers) -> None:
        self._graph = graph
        self._layout = layout
        self._kernels = KernelCache(machine)
        self._structures = graph.analysis(EquivalenceClasses).class_of
        self._memory = {role: layout.memory[machine.role(role).name] for role in ("local", "accumulator", "weights")}
        self._known: dict[tuple[object, ...], tuple[TileKernel, ...]] = {}
        self._stamped: dict[tuple[Spec, int | None], tuple[Stamped | Fetch, ...]] = {}

    def walk(
        self,
        op: Op,
        box: Box,
        tile: Tile,
        held: tuple[Box | None, ...],
        idle: frozenset[int],
        reduce: tuple[int, ...] | None,
    ) -> tuple[TileKernel, ...]:
        """The kernels that compute ``box`` of the result, tile by tile.

        ``held``: what the core has of each of the operator's tensors (see :func:`girih.ir.equivalence.tensor_names`).
        ``idle`` stages do nothing. ``reduce``: see :func:`girih.lowering.loops.tile_spec.tile_spec`.
        """
        key = (self._structures[op.name], box, tile.sizes, tile.order, held, idle, reduce)
        if key not in self._known:
            try:
                self._known[key] = self._walk(op, box, tile, held, idle, reduce)
            except GirihError as error:
                raise type(error)(f"operator {op.name}: {error}") from error
        return self._known[key]

    def _walk(
        self,
        op: Op,
        box: Box,
        tile: Tile,
        held: tuple[Box | None, ...],
        idle: frozenset[int],
        reduce: tuple[int, ...] | None,
    ) -> tuple[TileKernel, ...]:
        points, tensors = op_boxes_many(op, self._graph.tensor, tile_walk(box, tile.sizes, tile.order))
        for stage in idle:
            points[stage] = Boxes(points[stage].spans, np.zeros(len(points[stage]), dtype=np.bool_))
        boxes = {name: part for name, part in zip(tensor_names(op), held, strict=True) if part is not None}
        strides = {name: self._layout.strides(name, part) for name, part in boxes.items()}
        offsets = {
            name: _offsets(tensors[name], part, strides[name]) for name, part in boxes.items() if name in tensors
        }
        _, firsts, classes = np.unique(
            _structural_keys(op, points, tensors), axis=0, return_index=True, return_inverse=True
        )
        specs = [
            tile_spec(op, self._graph.tensor, _boxes(points, tensors, first), strides, reduce)
            for first in firsts.tolist()
        ]
        steps = [self._steps(named.spec, named.stationary) for named in specs]
        numbers = {name: n for n, name in enumerate(tensor_names(op))}
        kernels: list[TileKernel] = []
        for i, structural_class in enumerate(classes.reshape(-1).tolist()):
            named = specs[structural_class]
            views = tuple(
                BoundView(view_name(p), numbers[name], view.private, 0 if view.private else offsets[name][i])
                for p, (name, view) in enumerate(zip(named.names, named.spec.views, strict=True))
                if p != named.stationary
            )
            kernels.append(TileKernel(steps[structural_class], views, _stationary(named, tensors, i)))
        return tuple(kernels)

    def _steps(self, spec: Spec, stationary: int | None) -> tuple[Stamped | Fetch, ...]:
        """What the kernel of a spec does, wherever its views are."""
        if (spec, stationary) not in self._stamped:
            places: dict[str, tuple[int, int]] = {}
            for position, view in enumerate(spec.views):
                role = "accumulator" if view.private else "local"
                name, role = (WEIGHTS, "weights") if position == stationary else (view_name(position), role)
                places[name] = self._memory[role], DTYPE_NAMES.index(view.dtype)
            steps = self._kernels.get(spec).steps
            stamped = tuple(s if isinstance(s, Fetch) else _stamped(s, places) for s in steps)
            self._stamped[spec, stationary] = stamped
        return self._stamped[spec, stationary]


def _offsets(boxes: Boxes, held: Box, strides: tuple[int, ...]) -> list[int]:
    """Bytes from the corner of ``held`` to that of each box."""
    corner = np.array([span.lo for span in held], dtype=np.int64)
    return ((boxes.spans[:, :, 0] - corner) * np.array(strides, dtype=np.int64)).sum(axis=1).tolist()


def _structural_keys(op: Op, points: list[Boxes], tensors: dict[str, Boxes]) -> Int:
    """A row for each tile; tiles with equal rows are structurally equivalent: they have equal specs.

    They hold the extents of all points and boxes, and where the first point of each stage reads and writes, counted
    from the corner of the box: all that is left of a tile when its place is taken away.
    """
    columns = [column for boxes in (*points, *tensors.values()) for column in (boxes.present[:, None], boxes.sizes)]
    for stage, stage_points in zip(op.stages, points, strict=True):
        for access in (stage.write, *(o for o in (*stage.operands, stage.start) if isinstance(o, Access))):
            boxes = tensors.get(access.tensor)
            if boxes is None:
                continue
            present = stage_points.present & boxes.present
            for dim, index in enumerate(access.index):
                first = stage_points.spans[:, :, 0] @ np.array(index.coeffs, dtype=np.int64).reshape(-1) + index.const
                columns.append(np.where(present, first - boxes.spans[:, dim, 0], 0)[:, None])
    return np.concatenate([column.astype(np.int64) for column in columns], axis=1)


def _boxes(points: list[Boxes], tensors: dict[str, Boxes], tile: int) -> OpBoxes:
    return OpBoxes(
        tuple(boxes.box(tile) for boxes in points),
        {name: boxes.box(tile) for name, boxes in tensors.items() if boxes.present[tile]},
    )


def _stationary(named: TileSpec, tensors: dict[str, Boxes], tile: int) -> Box:
    return () if named.stationary is None else tensors[named.names[named.stationary]].box(tile)


def _stamped(step: Emitted, places: dict[str, tuple[int, int]]) -> Stamped:
    """The step with everything but addresses; ``places``: memory and dtype of each buffer, by their codes."""
    fields: dict[str, int | float] = dict(step.fields)
    for ref in step.refs:
        fields[f"{ref.operand}.mem"], fields[f"{ref.operand}.dtype"] = places[ref.buffer]
        fields |= {f"{ref.operand}.s{i}": s for i, s in enumerate(ref.strides)}
    row = ROWS[step.mnemonic]
    ref = {r.operand: r for r in step.refs}
    refs = tuple((ref[o.name].buffer, ref[o.name].offset) for o in row.operands)
    return Stamped(row.kind, relocatable(step.mnemonic, fields), refs)
