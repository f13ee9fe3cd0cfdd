"""The kernels of an operator's tiles, ready to be stamped.

Tiles with equal nests have one kernel, and structurally equivalent operators share all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ...ir.box import Box, Span, is_empty
from ...ir.equivalence import EquivalenceClasses, tensor_names
from ...ir.errors import GirihError
from ...ir.graph import DTYPES, Graph, Op
from ...ir.isa.table import DTYPE_NAMES, ROWS
from ...ir.machine import Machine
from ...ir.plan import Tile
from ...ir.semantics.region import OpBoxes, op_boxes
from ..emission.blocks import Places, placed_fields
from ..emission.engine_shares import divided
from ..emission.kernel import STATIONARY, EmittedKernel
from ..emission.staging import RoomStep, room_of, staged
from ..emission.vector import Emitted, StationaryFetch
from ..kernel_store import TileClasses
from ..loops.tile_nests import without_turn
from ..schedule.cell_spec import BoundSpec, CellSpec, cell_spec
from ..schedule.prim_func import staged_name, view_name
from ..schedule.tile_plan import TilePlan
from .addresses import PlannedBuffers, box_offset
from .compiled_kernels import CompiledKernels
from .stamp import Relocatable, relocatable


@dataclass(frozen=True)
class BoundView:
    """A buffer that the kernel calls ``name``.

    It is ``number`` among the operator's tensors (see :func:`girih.ir.equivalence.tensor_names`). One of the graph's
    begins ``offset`` bytes behind the corner of what the core has of it; a private one takes ``bytes`` of ``version``.
    """

    name: str
    number: int
    private: bool
    offset: int
    version: int
    bytes: int


@dataclass(frozen=True)
class Stamped:
    """An instruction for an ``engine``; ``refs``: buffer and offset of each operand."""

    instruction: Relocatable
    refs: tuple[tuple[str, int], ...]
    engine: str


KernelStep = Stamped | RoomStep | StationaryFetch


@dataclass(frozen=True)
class TileKernel:
    """``stationary``: the box of the operand that goes through the weight memory, if any."""

    steps: tuple[KernelStep, ...]
    views: tuple[BoundView, ...]
    stationary: Box


@dataclass(frozen=True)
class OperatorDegrees:
    """Multi-buffering degrees of an operator's private buffers, by name, and of its weights (0: it has none)."""

    private: tuple[tuple[str, int], ...]
    weights: int


class TileKernels:
    """The kernels of all tiles of an operator, each built once; one instance for one lowering."""

    def __init__(self, graph: Graph, layout: PlannedBuffers, compiled: CompiledKernels) -> None:
        machine = compiled.machine
        self._graph = graph
        self._machine = machine
        self._layout = layout
        self._compiled = compiled
        self._structures = graph.analysis(EquivalenceClasses).class_of
        levels = machine.levels
        self._activations, self._sums, self._weights = (
            layout.memory[level.name] for level in (levels.activations, levels.sums, levels.weights)
        )
        self._known: dict[tuple[object, ...], tuple[TileKernel, ...]] = {}
        self._bound: dict[tuple[object, ...], tuple[BoundSpec, TilePlan]] = {}
        self.cells_of: dict[str, dict[tuple[BoundSpec, TilePlan], None]] = {}
        """The distinct cells of each operator that was walked, in order, and how they are tiled."""
        self._stamped: dict[tuple[EmittedKernel, CellSpec], tuple[KernelStep, ...]] = {}

    def walk(
        self,
        op: Op,
        box: Box,
        tile: Tile,
        held: tuple[Box | None, ...],
        idle: frozenset[int],
        degrees: OperatorDegrees,
        *,
        on_matrix: bool,
    ) -> tuple[TileKernel, ...]:
        """The kernels that compute ``box`` of the result, tile by tile.

        ``held``: what the core has of each of the operator's tensors (see :func:`girih.ir.equivalence.tensor_names`).
        ``idle`` stages do nothing. ``on_matrix``: the matrix engine runs the contraction.
        """
        numbers = {name: n for n, name in enumerate(tensor_names(op))}
        private = tuple((numbers[name], degree) for name, degree in degrees.private)
        decisions = (tile.sizes, tile.order, tile.reduce if on_matrix else None, private, degrees.weights)
        key = (self._structures[op.name], box, held, idle, decisions)
        if key not in self._known:
            try:
                self._known[key] = self._walk(key, op, box, tile, held, idle, degrees, on_matrix=on_matrix)
            except GirihError as error:
                raise error.worded(f"operator {op.name}: {error}") from error
        if key in self._bound:
            bound, plan = self._bound[key]
            known = self.cells_of.setdefault(op.name, {})
            if all((b.spec, p) != (bound.spec, plan) for b, p in known):
                known[bound, plan] = None
        return self._known[key]

    def _walk(
        self,
        key: tuple[object, ...],
        op: Op,
        box: Box,
        tile: Tile,
        held: tuple[Box | None, ...],
        idle: frozenset[int],
        degrees: OperatorDegrees,
        *,
        on_matrix: bool,
    ) -> tuple[TileKernel, ...]:
        boxes = op_boxes(op, self._graph.tensor, box)
        points = tuple((Span(0, 0),) if stage in idle else part for stage, part in enumerate(boxes.points))
        if all(map(is_empty, points)):
            return ()  # Everything is made where it belongs already.
        boxes = OpBoxes(points, boxes.tensors)
        rooms = {name: part for name, part in zip(tensor_names(op), held, strict=True) if part is not None}
        strides = {name: self._layout.strides(name, part) for name, part in rooms.items()}
        bound = cell_spec(op, self._graph.tensor, boxes, strides, tile.reduce if on_matrix else None)
        plan = TilePlan(tile.sizes, tile.order, bound.reduce, _named_degrees(bound, degrees))
        self._bound[key] = bound, plan
        tiled = self._compiled.tiled(bound.spec, plan)
        steps = [self._steps(kernel, bound.spec) for kernel in tiled.kernels]
        numbers = {name: n for n, name in enumerate(tensor_names(op))}
        columns = [
            (position, numbers[name], *_placed(position, bound, tiled, rooms))
            for position, name in enumerate(bound.names)
            if position != bound.spec.stationary
        ]
        views = bound.spec.views
        stationary = _stationary(bound, tiled)
        return tuple(
            TileKernel(
                steps[structural_class],
                tuple(
                    BoundView(view_name(p), number, views[p].private, offsets[i], versions[i], sizes[i])
                    for p, number, offsets, versions, sizes in columns
                ),
                stationary[i],
            )
            for i, structural_class in enumerate(tiled.class_of)
        )

    def _steps(self, kernel: EmittedKernel, spec: CellSpec) -> tuple[KernelStep, ...]:
        """What the kernel of a class of tiles does, wherever its views are."""
        key = kernel, spec
        if key not in self._stamped:
            places: dict[str, tuple[int, int]] = {}
            for position, view in enumerate(spec.views):
                dtype = DTYPE_NAMES.index(view.dtype)
                if position == spec.stationary:
                    places[STATIONARY] = self._weights, dtype
                else:
                    places[view_name(position)] = self._sums if view.private else self._activations, dtype
            self._stamped[key] = tuple(_steps(kernel, places, self._machine))
        return self._stamped[key]


def _named_degrees(bound: BoundSpec, degrees: OperatorDegrees) -> tuple[tuple[str, int], ...]:
    """The degrees of more than one, by the names of the buffers in TIR."""
    private = dict(degrees.private)
    named = [
        (view_name(position), private[name])
        for position, (name, view) in enumerate(zip(bound.names, bound.spec.views, strict=True))
        if view.private and private.get(name, 1) > 1
    ]
    if bound.spec.stationary is not None and degrees.weights > 1:
        named.append((staged_name(bound.spec.stationary), degrees.weights))
    return tuple(named)


def _placed(
    position: int, bound: BoundSpec, tiled: TileClasses, rooms: Mapping[str, Box]
) -> tuple[list[int], list[int], list[int]]:
    """For each tile the byte offset, version and bytes of a view."""
    name, view = view_name(position), bound.spec.views[position]
    count = len(tiled.class_of)
    if name not in tiled.boxes:
        return [0] * count, [0] * count, [0] * count
    low = tiled.boxes[name].low
    if view.private:
        version = tiled.versions[name].tolist() if name in tiled.versions else [0] * count
        turns = [box.extents.prod(axis=1) for buffer, box in tiled.boxes.items() if without_turn(buffer) == name]
        return [0] * count, version, (np.max(turns, axis=0) * DTYPES[view.dtype]).tolist()
    tensor = bound.names[position]
    corner = box_offset(bound.boxes[position], rooms[tensor], view.strides)
    return (corner + low @ np.array(view.strides or (0,), dtype=np.int64)).tolist(), [0] * count, [0] * count


def _stationary(bound: BoundSpec, tiled: TileClasses) -> list[Box]:
    """The box of the stationary operand that each tile reads; none without one, or if only padding is multiplied."""
    name = None if bound.spec.stationary is None else view_name(bound.spec.stationary)
    if bound.spec.stationary is None or name not in tiled.boxes:
        return [()] * len(tiled.class_of)
    boxes = tiled.boxes[name]
    corner = np.array([span.lo for span in bound.boxes[bound.spec.stationary]], dtype=np.int64)
    low, high = (boxes.low + corner).tolist(), (boxes.high + corner).tolist()
    return [tuple(Span(a, b) for a, b in zip(x, y, strict=True)) for x, y in zip(low, high, strict=True)]


def _steps(kernel: EmittedKernel, places: Places, machine: Machine) -> Iterator[KernelStep]:
    """What is done for a kernel: its steps divided among the engines, with the copies of what is staged for them."""
    for step in divided(kernel.steps, places, machine):
        if isinstance(step, StationaryFetch):
            yield step
            continue
        steps, known = staged(step.emitted, places, machine, machine.engine[step.engine])
        for each in steps:
            yield each if isinstance(each, RoomStep) else _stamped(each.emitted, known, each.engine)


def _stamped(step: Emitted, places: Places, engine: str) -> Stamped:
    """The step with everything but addresses; ``places``: memory and dtype of each buffer, by their codes."""
    row = ROWS[step.mnemonic]
    ref = {r.operand: r for r in step.refs}
    refs = tuple((room_of(ref[o.name].buffer), ref[o.name].offset) for o in row.operands)
    return Stamped(relocatable(step.mnemonic, placed_fields(step, places)), refs, engine)
