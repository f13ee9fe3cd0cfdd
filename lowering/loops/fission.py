"""Loop fission: a lowered function as perfect nests, each of them in all tiles at once.

Tile loops, which the schedule annotates, become the axis of the arrays of :class:`NestTiles`. Every other loop around
more than one statement is unrolled, so that what remains are nests with one store. If promotion is on the way: a
condition around statements becomes one of each nest inside.
"""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import tvm
from tvm import tirx
from tvm.ir import Var

from ...ir.errors import GirihError
from ...ir.semantics.box_arrays import Bool, Int
from ..schedule.hints import AXIS, INSTRUCTION
from ..schedule.prim_func import buffer_name
from ..schedule.tile_template import TILE
from ..schedule.versions import annotated_degrees
from .nest_tiles import NestTiles
from .tir_expressions import Scope

_MOST_ROUNDS = 4096
"""Chosen, not measured: plans cut reductions into some hundred tiles at the most."""


@dataclass(frozen=True)
class BufferAllocation:
    """A buffer of the function: its shape, dtype and scope."""

    buffer: str
    shape: tuple[int, ...]
    dtype: str
    scope: str


@dataclass(frozen=True)
class TileGroup:
    """The nests under one set of tile loops, in order, and how many tiles these make."""

    tiles: int
    nests: tuple[NestTiles, ...]


@dataclass(frozen=True)
class TileLoops:
    """A function: its allocations, the multi-buffering degrees that are annotated, and its groups in order."""

    allocations: dict[str, BufferAllocation]
    degrees: dict[str, int]
    groups: tuple[TileGroup, ...]


@dataclass(frozen=True)
class _WalkPosition:
    """Where the walk is: ``values`` of the variables in its instances, which run in ``numbers`` of all tiles."""

    tiles: int
    values: dict[Var, Int]
    numbers: Int
    present: Bool
    conditions: tuple[tvm.ir.Expr, ...]
    rounds: int = 1
    """Of the loops around it that are unrolled."""


def fission(func: tirx.PrimFunc) -> TileLoops:
    """The nests of a lowered function; raises :class:`GirihError` for a statement that no instruction could become."""
    allocations: dict[str, BufferAllocation] = {}
    groups: list[TileGroup] = []
    for statement in _statements(func.body):
        if isinstance(statement, tirx.AllocBuffer):
            _allocate(statement, allocations)
            continue
        tiles = _tiles(statement)
        at = _WalkPosition(tiles, {}, np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.bool_), ())
        groups.append(TileGroup(tiles, tuple(_walk(statement, at, tiles, allocations))))
    return TileLoops(allocations, annotated_degrees(func), tuple(groups))


def _statements(stmt: tirx.Stmt) -> Iterator[tirx.Stmt]:
    if isinstance(stmt, tirx.SeqStmt):
        for child in stmt.seq:
            yield from _statements(child)
    else:
        yield stmt


def _allocate(stmt: tirx.AllocBuffer, allocations: dict[str, BufferAllocation]) -> None:
    buffer = stmt.buffer
    shape = tuple(int(d) for d in buffer.ty.shape)
    name = buffer_name(buffer)
    allocations[name] = BufferAllocation(name, shape, str(buffer.ty.dtype.dtype), buffer.scope())


def _is_tile_loop(stmt: tirx.Stmt) -> bool:
    return isinstance(stmt, tirx.For) and TILE in stmt.annotations and int(stmt.annotations[TILE]) >= 0


def _tiles(stmt: tirx.Stmt) -> int:
    """How many tiles the tile loops in a statement make."""
    if isinstance(stmt, tirx.For):
        inside = _tiles(stmt.body)
        return int(stmt.extent) * inside if _is_tile_loop(stmt) else inside
    if isinstance(stmt, tirx.IfThenElse):
        return _tiles(stmt.then_case)
    if isinstance(stmt, tirx.SeqStmt):
        counts = [n for n in map(_tiles, stmt.seq) if n > 1]
        if len(counts) > 1:
            raise GirihError("two loops over tiles stand side by side inside of another")
        return counts[0] if counts else 1
    return 1


def _walk(
    stmt: tirx.Stmt, at: _WalkPosition, tiles: int, allocations: dict[str, BufferAllocation]
) -> Iterator[NestTiles]:
    """The nests of a statement that makes ``tiles`` tiles; what stands behind tile loops runs in the last of them."""
    leaf = None if tiles > 1 else _leaf(stmt)
    if leaf is not None:
        yield _nest(leaf, at)
    elif isinstance(stmt, tirx.SeqStmt):
        behind = False
        for child in stmt.seq:
            inside = _tiles(child)
            place = replace(at, numbers=at.numbers + tiles - 1) if behind else at
            behind |= inside > 1
            yield from _walk(child, at if inside > 1 else place, inside, allocations)
    elif isinstance(stmt, tirx.AllocBuffer):
        _allocate(stmt, allocations)
    elif isinstance(stmt, tirx.For):
        yield from _loop(stmt, at, tiles, allocations)
    elif isinstance(stmt, tirx.IfThenElse) and stmt.else_case is None:
        yield from _walk(stmt.then_case, replace(at, conditions=(*at.conditions, stmt.condition)), tiles, allocations)
    elif isinstance(stmt, tirx.Evaluate):
        return
    else:
        raise GirihError(f"a statement that no instruction could become: {type(stmt).__name__}")


def _loop(
    loop: tirx.For, at: _WalkPosition, tiles: int, allocations: dict[str, BufferAllocation]
) -> Iterator[NestTiles]:
    if _is_tile_loop(loop):
        extent = int(loop.extent)
        inside = tiles // extent
        count = len(at.numbers)
        values = {var: np.repeat(value, extent) for var, value in at.values.items()}
        values[loop.loop_var] = np.tile(np.arange(extent, dtype=np.int64), count)
        numbers = np.repeat(at.numbers, extent) + values[loop.loop_var] * inside
        place = _WalkPosition(at.tiles, values, numbers, np.repeat(at.present, extent), at.conditions, at.rounds)
        yield from _walk(loop.body, place, inside, allocations)
        return
    if (axis := str(loop.annotations.get(AXIS, "outer"))) != "outer":
        raise GirihError(
            f"the loop {loop.loop_var.name} shall be {axis} of an instruction ({AXIS}), and several statements are in "
            f"it: split the start of a reduction off (decompose_reduction)"
        )
    count = len(at.numbers)
    extents = Scope(count, at.values, []).number(loop.extent)
    rounds = at.rounds * int(extents.max(initial=0))
    if rounds > _MOST_ROUNDS:
        raise GirihError(
            f"loops of {rounds:,} rounds around several statements, of which {_MOST_ROUNDS:,} can be unrolled: the "
            f"schedule has to tile them, or to split the start of a reduction off (decompose_reduction)"
        )
    for value in range(int(extents.max(initial=0))):
        values = {**at.values, loop.loop_var: np.full(count, value, dtype=np.int64)}
        place = replace(at, values=values, present=at.present & (extents > value), rounds=rounds)
        yield from _walk(loop.body, place, tiles, allocations)


@dataclass(frozen=True)
class _Leaf:
    """The loops, conditions and store of a perfect nest, and the family of instructions that is asked for."""

    loops: list[tirx.For]
    conditions: list[tvm.ir.Expr]
    store: tirx.BufferStore
    instruction: str


def _leaf(stmt: tirx.Stmt) -> _Leaf | None:
    """The perfect nest that ``stmt`` is; ``None`` if it is not one."""
    loops: list[tirx.For] = []
    conditions: list[tvm.ir.Expr] = []
    instruction = ""
    while True:
        if isinstance(stmt, tirx.For) and TILE not in stmt.annotations:
            loops.append(stmt)
            stmt = stmt.body
        elif isinstance(stmt, tirx.IfThenElse) and stmt.else_case is None:
            conditions.append(stmt.condition)
            stmt = stmt.then_case
        elif isinstance(stmt, tirx.SeqStmt) and len(stmt.seq) == 1:
            stmt = stmt.seq[0]
        elif isinstance(stmt, tirx.AttrStmt) and stmt.attr_key == INSTRUCTION:
            instruction = stmt.value.value
            stmt = stmt.body
        else:
            break
    return _Leaf(loops, conditions, stmt, instruction) if isinstance(stmt, tirx.BufferStore) else None


def _nest(leaf: _Leaf, at: _WalkPosition) -> NestTiles:
    loops, guards, store = leaf.loops, leaf.conditions, leaf.store
    count = len(at.numbers)
    around = Scope(count, at.values, [])
    low = tuple(around.number(loop.min) for loop in loops)
    high = tuple(start + around.number(loop.extent) for start, loop in zip(low, loops, strict=True))
    scope = Scope(count, at.values, [loop.loop_var for loop in loops])
    conditions = tuple(c for guard in (*at.conditions, *guards) for c in scope.conditions(guard))
    index, func, operands, combine = scope.stored(store)
    axes = tuple(str(loop.annotations.get(AXIS, "")) for loop in loops)
    nest = NestTiles(
        low, high, buffer_name(store.buffer), index, func, operands, combine, conditions, at.present,
        leaf.instruction, axes if any(axes) else (),
    )  # fmt: skip
    return nest.scattered(at.numbers, at.tiles)
