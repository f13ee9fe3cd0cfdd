"""The tiles of a lowered operator, sorted into classes of equal nests: what instructions are selected for, once each.

The way of the nests: fission → partition → shift → order of tiles → versions → demand → coordinates of the tile →
classes → preprocess.
"""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import tirx

from ...ir.errors import GirihError
from ...ir.graph import DTYPES
from ...ir.semantics.box_arrays import Int
from ..schedule.cell_spec import CellSpec, byte_strides
from ..schedule.prim_func import view_name
from ..schedule.stage_spec import WEIGHTS_SCOPE
from ..schedule.tile_plan import TilePlan
from .demand import demand
from .fission import BufferAllocation, TileGroup, TileLoops, fission
from .nest_tiles import NestTiles, TileAffine, TileLoad
from .partition import partition
from .perfect_nest import Load, PerfectNest
from .preprocess import preprocess
from .shift import shift
from .tile_boxes import AccessedBoxes, accessed_boxes, relative

TURN = "@"
"""Between the name of an operator's own buffer and the round of a tile after the first (see :func:`_in_order`)."""


@dataclass(frozen=True)
class KernelBuffer:
    """A buffer of a tile as its nests see it: extents, byte strides, dtype and storage scope."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    scope: str


@dataclass(frozen=True)
class TileNests:
    """What one class of tiles does: the nests in order, and the buffers that they access, in their order of names."""

    nests: tuple[PerfectNest, ...]
    buffers: tuple[KernelBuffer, ...]


@dataclass(frozen=True)
class TiledOperator:
    """All tiles of an operator in a cell: tile i is of class ``class_of[i]``, and ``boxes`` says where it lies.

    ``versions[buffer][i]`` is the version that tile i takes of a multi-buffered buffer.
    """

    classes: tuple[TileNests, ...]
    class_of: tuple[int, ...]
    boxes: dict[str, AccessedBoxes]
    versions: dict[str, Int]


def tile_nests(func: tirx.PrimFunc, spec: CellSpec, plan: TilePlan) -> TiledOperator:
    """The tiles of a lowered function, in the plan's order.

    Raises :class:`GirihError` for a statement that no instruction could become, and for buffers of the schedule that
    are neither the operator's nor a copy of its stationary operand.
    """
    loops = fission(func)
    _check_allocations(loops.allocations, spec)
    groups = [TileGroup(g.tiles, tuple(shift(partition(nest)) for nest in g.nests)) for g in loops.groups]
    own_buffers = frozenset((*_private(spec), *loops.allocations))
    nests = [nest for group in _in_order(groups, spec, plan, own_buffers) for nest in group.nests]
    versions: dict[str, Int] = {}
    nests = [_single(nest, loops.degrees, versions) for nest in nests]
    declared = _buffers(loops, spec)
    accessed = {nest.buffer for nest in nests} | {load.buffer for nest in nests for load in nest.loads}
    buffers = {name: declared[without_turn(name)] for name in sorted(accessed)}
    shapes = {n: shape[1:] if without_turn(n) in loops.degrees else shape for n, (shape, _, _) in buffers.items()}
    private = {name: shape for name, shape in shapes.items() if without_turn(name) in own_buffers}
    nests = [shift(nest) for nest in demand(nests, private)]
    # Of its own buffers a tile has what it writes: what it reads beyond is padding.
    stores = [replace(nest, operands=()) for nest in nests if nest.buffer in private]
    boxes = accessed_boxes(nests, shapes) | accessed_boxes(stores, private)
    nests = [relative(nest, boxes) for nest in nests]
    _, firsts, class_of = np.unique(_rows(nests, boxes), axis=0, return_index=True, return_inverse=True)
    strides = {view_name(i): v.strides for i, v in enumerate(spec.views) if not v.private and i != spec.stationary}

    def in_tile(tile: int) -> TileNests:
        every = (preprocess(nest.at(tile)) for nest in nests if nest.present[tile])
        present = tuple(nest for nest in every if nest is not None)
        named = {nest.buffer for nest in present}
        named |= {o.buffer for nest in present for o in nest.operands if isinstance(o, Load)}
        seen = tuple(
            _buffer(name, boxes[name], tile, buffers[name], strides.get(name))
            for name in sorted(boxes)
            if boxes[name].present[tile] or name in named
        )
        return TileNests(present, seen)

    # What differs in conditions that always hold is equal in the end.
    distinct: dict[TileNests, int] = {}
    merged = [distinct.setdefault(in_tile(first), len(distinct)) for first in firsts.tolist()]
    return TiledOperator(tuple(distinct), tuple(merged[n] for n in class_of.reshape(-1).tolist()), boxes, versions)


def _check_allocations(allocations: Mapping[str, BufferAllocation], spec: CellSpec) -> None:
    private = _private(spec)
    if spec.stationary is not None and all(a.scope != WEIGHTS_SCOPE for a in allocations.values()):
        raise GirihError(
            f"the schedule does not bring the second factor of {spec.stages[spec.contraction or 0].name} to "
            f"{WEIGHTS_SCOPE} (cache_read), where the matrix engine reads it"
        )
    for name, allocation in allocations.items():
        if name not in private and allocation.scope != WEIGHTS_SCOPE:
            raise GirihError(
                f"the schedule allocates {name} in {allocation.scope}, where the plan has no room for it: only the "
                f"operator's own buffers and copies into {WEIGHTS_SCOPE} have"
            )


def _private(spec: CellSpec) -> list[str]:
    return [view_name(i) for i, view in enumerate(spec.views) if view.private]


def _buffers(loops: TileLoops, spec: CellSpec) -> dict[str, tuple[tuple[int, ...], str, str]]:
    """Shape, dtype and scope of each buffer as the function declares it."""
    buffers = {view_name(i): (v.shape or (1,), v.dtype, v.scope) for i, v in enumerate(spec.views)}
    return buffers | {a.buffer: (a.shape, a.dtype, a.scope) for a in loops.allocations.values()}


def _buffer(
    name: str,
    box: AccessedBoxes,
    tile: int,
    declared: tuple[tuple[int, ...], str, str],
    strides: tuple[int, ...] | None,
) -> KernelBuffer:
    shape = tuple(box.extents[tile].tolist())
    _, dtype, scope = declared
    return KernelBuffer(name, shape, strides or byte_strides(shape, DTYPES[dtype]), dtype, scope)


def _in_order(
    groups: Sequence[TileGroup], spec: CellSpec, plan: TilePlan, own_buffers: frozenset[str]
) -> list[TileGroup]:
    """The groups with one numbering of tiles, in the plan's order.

    Where several stages write the result, each has tile loops of its own, and where tiles cut a digit, several rounds
    of the loops make up one. The tile of the result that a round writes to says what belongs together.
    """
    groups = _with_what_comes_before(groups, view_name(spec.output))
    coordinates = [_coordinates(group, spec, plan) for group in groups]
    rows = np.concatenate([row for row, _ in coordinates])
    _, numbers = np.unique(rows, axis=0, return_inverse=True)
    numbers = numbers.reshape(-1)
    count = int(numbers.max(initial=-1)) + 1
    ordered: list[TileGroup] = []
    first = 0
    for group, (row, kept) in zip(groups, coordinates, strict=True):
        tiles = numbers[first : first + len(row)]
        first += len(row)
        turns = _turns(tiles)
        for turn in range(int(turns.max(initial=-1)) + 1):
            at_turn = turns == turn
            nests = (nest.selected(kept[at_turn]).scattered(tiles[at_turn], count) for nest in group.nests)
            ordered.append(TileGroup(count, tuple(_in_turn(nest, turn, own_buffers) for nest in nests)))
    return ordered


def _with_what_comes_before(groups: Sequence[TileGroup], output: str) -> list[TileGroup]:
    """Groups that write the result: what stands outside of their tile loops belongs to the first tile that reads it."""
    joined: list[TileGroup] = []
    before: tuple[NestTiles, ...] = ()
    for group in groups:
        if all(nest.buffer != output for nest in group.nests):
            if group.tiles > 1:
                raise GirihError("loops over tiles that write nothing of the result")
            before = (*before, *group.nests)
            continue
        needed_nests, before = _split_by_need(before, group)
        first = tuple(nest.scattered(np.zeros(1, dtype=np.int64), group.tiles) for nest in needed_nests)
        joined.append(TileGroup(group.tiles, (*first, *group.nests)))
    return joined


def _split_by_need(nests: Sequence[NestTiles], group: TileGroup) -> tuple[tuple[NestTiles, ...], tuple[NestTiles, ...]]:
    """The nests whose results the group reads, if only through others of them, and the rest."""
    needed = {load.buffer for nest in group.nests for load in nest.loads}
    needed_nests: list[NestTiles] = []
    rest: list[NestTiles] = []
    for nest in reversed(nests):
        if nest.buffer in needed:
            needed_nests.append(nest)
            needed |= {load.buffer for load in nest.loads}
        else:
            rest.append(nest)
    return tuple(needed_nests[::-1]), tuple(rest[::-1])


def _in_turn(nest: NestTiles, turn: int, own_buffers: frozenset[str]) -> NestTiles:
    """The nest of a round after the first of its tile: what it has of the operator's own buffers is laid out anew."""
    if turn == 0:
        return nest

    def renamed(buffer: str) -> str:
        return f"{buffer}{TURN}{turn}" if buffer in own_buffers else buffer

    operands = tuple(replace(o, buffer=renamed(o.buffer)) if isinstance(o, TileLoad) else o for o in nest.operands)
    return replace(nest, buffer=renamed(nest.buffer), operands=operands)


def without_turn(buffer: str) -> str:
    """The name of the operator's buffer that a nest has in one of its turns."""
    return buffer.partition(TURN)[0]


def _turns(tiles: Int) -> Int:
    """For each round, how many of the same tile came before it."""
    order = np.argsort(tiles, kind="stable")
    turns = np.empty_like(tiles)
    _, starts, counts = np.unique(tiles[order], return_index=True, return_counts=True)
    turns[order] = np.arange(len(tiles)) - np.repeat(starts, counts)
    return turns


def _coordinates(group: TileGroup, spec: CellSpec, plan: TilePlan) -> tuple[Int, Int]:
    """The tile of the result, counted in each dimension in the order of the tile loops, that each round writes to.

    Also the rounds of the group that write at all, which alone have a row.
    """
    output = view_name(spec.output)
    shape = spec.views[spec.output].shape or (1,)
    written = accessed_boxes([replace(n, operands=()) for n in group.nests if n.buffer == output], {output: shape})
    kept = np.flatnonzero(written[output].present)
    low = written[output].low[kept]
    columns = [low[:, dim] // plan.sizes[dim] for dim in plan.order]
    return np.stack(columns or [low[:, 0]], axis=1), kept


def _single(nest: NestTiles, degrees: Mapping[str, int], versions: dict[str, Int]) -> NestTiles:
    """The nest without the leading dimension of multi-buffered buffers; notes which version each tile takes."""

    def without(buffer: str, index: tuple[TileAffine, ...]) -> tuple[TileAffine, ...]:
        buffer = without_turn(buffer)
        if buffer not in degrees:
            return index
        version = np.where(nest.present, index[0].const, 0)
        versions[buffer] = np.maximum(versions.get(buffer, version), version)
        return index[1:]

    operands = tuple(
        replace(o, index=without(o.buffer, o.index)) if isinstance(o, TileLoad) else o for o in nest.operands
    )
    return replace(nest, index=without(nest.buffer, nest.index), operands=operands)


def _rows(nests: Sequence[NestTiles], boxes: Mapping[str, AccessedBoxes]) -> Int:
    """A row for each tile; tiles with equal rows have equal nests and buffers."""
    columns: list[Int] = [boxes[name].extents for name in sorted(boxes)]
    for nest in nests:
        affines = [*nest.index, *nest.conditions]
        for load in nest.loads:
            affines += [*load.index, *load.conditions]
        numbers = np.stack([*nest.high, *(affine.const for affine in affines)], axis=1)
        columns.append(np.where(nest.present[:, None], numbers, 0))
        columns.append(nest.present[:, None].astype(np.int64))
    return np.concatenate(columns, axis=1)
