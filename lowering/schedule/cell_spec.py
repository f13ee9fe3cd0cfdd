"""One operator in one cell, with every index relative to what the cell has of each tensor: what TIR is built from.

Two cells with equal specs run the same TIR at different addresses, whatever operator or position they came from.
Axes of extent one are dropped; a read that may fall outside of its view is marked with the value it then yields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir.box import Affine, Box, intersect, is_empty, shape_of, volume
from ...ir.errors import GirihError, UnsupportedError
from ...ir.graph import DTYPES, Access, Op, Stage, Tensor
from ...ir.semantics.region import OpBoxes
from .own_producers import with_own_producers
from .stage_spec import ACTIVATIONS_SCOPE, EXCHANGE_SCOPE, SUMS_SCOPE, LoopSpec, StageSpec, View, ViewRead


@dataclass(frozen=True)
class CellSpec:
    """An operator in a cell: its views, and its stages in order.

    ``output`` is the view of the result. ``contraction`` is the stage that the matrix engine runs, if any: its second
    operand, the stationary one, goes through the weight memory. Nothing else reads that view; a tensor that the
    operator also reads elsewhere has two. So has a private buffer that several parts of the result need, one for each.
    ``template`` is the key of the custom operator that schedules it by a template of its own; such a spec keeps axes of
    extent one, so that the template finds all loops.
    """

    views: tuple[View, ...]
    stages: tuple[StageSpec, ...]
    output: int
    contraction: int | None
    template: str = ""

    @property
    def stationary(self) -> int | None:
        """The view of the operand that goes through the weight memory."""
        if self.contraction is None:
            return None
        read = self.stages[self.contraction].operands[1]
        assert isinstance(read, ViewRead)
        return read.view


@dataclass(frozen=True)
class BoundSpec:
    """A spec and what it stands for: ``names[i]`` is the tensor of ``views[i]``, ``boxes[i]`` the cell's box of it.

    ``reduce`` are the tile extents of the contraction's reduce loops, in their order; empty if there is none.
    """

    spec: CellSpec
    names: tuple[str, ...]
    boxes: tuple[Box, ...]
    reduce: tuple[int, ...]


def byte_strides(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    """Byte strides of a dense array."""
    strides: list[int] = []
    step = item
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _local(index: Affine, points: Box, kept: list[int], origin: int) -> Affine:
    """``index`` in terms of the kept axes counted from the box's corner, relative to ``origin``."""
    const = index.const - origin + sum(c * span.lo for c, span in zip(index.coeffs, points, strict=True))
    return Affine(tuple(index.coeffs[a] for a in kept) or (0,), const)


def _outside_everywhere(access: Access, points: Box, boxes: OpBoxes) -> float | None:
    """The number that a read yields at all ``points``, if they fall outside of the tensor altogether."""
    box = boxes.tensors.get(access.tensor)
    if box is not None and not is_empty(intersect(tuple(i.over(points) for i in access.index), box)):
        return None
    if access.fill is None:
        raise GirihError(f"{access.tensor} is read only outside of its bounds")
    return access.fill


def _known_result(stage: Stage, points: Box, known: list[float | None]) -> float | None:
    """What the points combine to, where known operands settle it: windows can lie outside of what they look at."""
    if stage.combine is None:
        return None
    if stage.func == "mul" and 0.0 in known:
        return 0.0
    value = known[0]
    if stage.func != "copy" or value is None:
        return None
    count = volume(tuple(span for span, axis in zip(points, stage.axes, strict=True) if axis.reduce))
    return {"sum": value * count, "prod": value**count}.get(stage.combine, value)


class _Views:
    """The views of a cell in order of first use. What streams through the weight memory has a view of its own."""

    def __init__(
        self, op: Op, tensors: Mapping[str, Tensor], boxes: OpBoxes, strides: Mapping[str, tuple[int, ...]]
    ) -> None:
        self._private = {b.name: b for b in op.buffers}
        self._tensors = tensors
        self._boxes = boxes
        self._strides = strides
        self.views: dict[tuple[str, bool], View] = {}

    def __call__(self, name: str, stationary: bool = False) -> int:
        key = name, stationary
        if key not in self.views:
            self.views[key] = self._view(name, stationary)
        return list(self.views).index(key)

    def _view(self, name: str, stationary: bool) -> View:
        tensor = self._private.get(name) or self._tensors[name]
        shape = shape_of(self._boxes.tensors[name])
        dense = byte_strides(shape, DTYPES[tensor.dtype])
        if name in self._private:
            return View(shape, dense, tensor.dtype, SUMS_SCOPE, True)
        if stationary:
            return View(shape, dense, tensor.dtype, EXCHANGE_SCOPE, False)
        return View(shape, self._strides[name], tensor.dtype, ACTIVATIONS_SCOPE, False)


def _stage_spec(
    name: str, stage: Stage, points: Box, boxes: OpBoxes, view: _Views, *, on_matrix: bool, all_axes: bool
) -> StageSpec:
    """The points of one stage; ``on_matrix``: the matrix engine runs it."""
    known = [_outside_everywhere(o, points, boxes) if isinstance(o, Access) else o for o in stage.operands]
    folded = _known_result(stage, points, known)
    reduced = [a for a, axis in enumerate(stage.axes) if axis.reduce]
    kept = list(range(len(points))) if all_axes else _kept(stage, points)
    if folded is not None:
        kept = [a for a in kept if a not in reduced]

    def local(access: Access) -> tuple[Affine, ...]:
        box = boxes.tensors[access.tensor]
        return tuple(_local(i, points, kept, span.lo) for i, span in zip(access.index, box, strict=True))

    def operand(position: int) -> ViewRead | float:
        number, access = known[position], stage.operands[position]
        if number is not None:
            return number
        assert isinstance(access, Access)
        inside = all(
            span.lo <= i.over(points).lo and i.over(points).hi <= span.hi
            for i, span in zip(access.index, boxes.tensors[access.tensor], strict=True)
        )
        streamed = on_matrix and position == 1
        if streamed and not inside:
            raise UnsupportedError(
                f"the matrix engine cannot read outside of {access.tensor}, only the vector engine can"
            )
        return ViewRead(view(access.tensor, streamed), local(access), None if inside else access.fill)

    loops = tuple(LoopSpec(points[a].size, stage.axes[a].reduce) for a in kept) or (LoopSpec(1, False),)
    target, index = view(stage.write.tensor), local(stage.write)
    start = None if stage.start is None else ViewRead(view(stage.start.tensor), local(stage.start), None)
    if folded is not None:
        return StageSpec(name, loops, target, index, "copy", (folded if start is None else start,), None, None)
    operands = tuple(operand(position) for position in range(len(known)))
    return StageSpec(name, loops, target, index, stage.func, operands, stage.combine, start)


def _kept(stage: Stage, points: Box) -> list[int]:
    """The axes of more than one point, and one that is reduced: a reduction over one point is still a reduction."""
    reduced = [a for a, axis in enumerate(stage.axes) if axis.reduce]
    kept = [a for a, span in enumerate(points) if span.size > 1]
    if reduced and not any(a in kept for a in reduced):
        kept = sorted([*kept, reduced[0]])
    return kept


def _running(op: Op, boxes: OpBoxes) -> list[int]:
    """The stages with points in the cell whose results are read.

    Without axes, a stage has one point in any cell; and a product with zeros does not read what its other factor is.
    """
    if all(stage.axes for stage in op.stages) and not _has_product_with_zeros(op):
        return [position for position, points in enumerate(boxes.points) if not is_empty(points)]
    read = {op.output}
    running: list[int] = []
    for position in reversed(range(len(op.stages))):
        stage, points = op.stages[position], boxes.points[position]
        if not is_empty(points) and stage.write.tensor in read:
            running.append(position)
            read |= _read(stage, points, boxes)
    return running[::-1]


def _has_product_with_zeros(op: Op) -> bool:
    """Whether a product of something private may be known to be zero."""
    private = {buffer.name for buffer in op.buffers}
    return any(
        (o.fill if isinstance(o, Access) else o) == 0.0 and any(read.tensor in private for read in stage.reads)
        for stage in op.stages
        if stage.combine is not None and stage.func == "mul"
        for o in stage.operands
    )


def _read(stage: Stage, points: Box, boxes: OpBoxes) -> set[str]:
    """The tensors of which a stage reads elements: none, but for the start, where its result is known."""
    known = [_outside_everywhere(o, points, boxes) if isinstance(o, Access) else o for o in stage.operands]
    start = set[str]() if stage.start is None else {stage.start.tensor}
    if _known_result(stage, points, known) is not None:
        return start
    pairs = zip(stage.operands, known, strict=True)
    return start | {o.tensor for o, number in pairs if isinstance(o, Access) and number is None}


def cell_spec(
    op: Op,
    tensors: Mapping[str, Tensor],
    boxes: OpBoxes,
    strides: Mapping[str, tuple[int, ...]],
    reduce: tuple[int, ...] | None,
) -> BoundSpec:
    """The spec of the cell with these ``boxes``.

    ``strides`` (bytes) say how the buffer of each graph tensor lies in local memory; private buffers lie in the
    accumulator memory. ``reduce`` are the tile extents of the contraction's reduce axes; ``None`` if the vector engine
    runs it.
    """
    view = _Views(op, tensors, boxes, strides)
    stages: list[StageSpec] = []
    contraction: int | None = None
    cuts: tuple[int, ...] = ()
    for position in _running(op, boxes):
        stage, points = op.stages[position], boxes.points[position]
        on_matrix = reduce is not None and position == op.contraction
        name = op.blocks[position] if op.blocks else f"part{position}"
        stage_spec = _stage_spec(name, stage, points, boxes, view, on_matrix=on_matrix, all_axes=bool(op.template))
        if on_matrix and reduce is not None and stage_spec.combine is not None:
            contraction = len(stages)
            axes = [a for a, axis in enumerate(stage.axes) if axis.reduce]
            kept = _kept(stage, points)
            cuts = tuple(min(size, points[a].size) for size, a in zip(reduce, axes, strict=True) if a in kept)
        stages.append(stage_spec)
    names = [name for name, _ in view.views]
    views = list(view.views.values())
    output = names.index(op.output)
    if not op.template:  # Which finds its blocks by name.
        ordered, copied = with_own_producers(stages, output, len(views), contraction)
        if contraction is not None:
            contraction = [stage.name for stage in ordered].index(stages[contraction].name)
        stages = ordered
        names += [names[v] for v in copied]
        views += [views[v] for v in copied]
    held = tuple(boxes.tensors[name] for name in names)
    spec = CellSpec(tuple(views), tuple(stages), output, contraction, op.template)
    return BoundSpec(spec, tuple(names), held, cuts)
