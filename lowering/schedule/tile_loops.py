"""What a schedule template of a user's own is written with: the tile loops of the plan, in a schedule of TVM."""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false
# pyright: reportOptionalMemberAccess=false

from __future__ import annotations

from typing import Any

from tvm import s_tir

from .tile_plan import TilePlan
from .tile_template import DEGREE, TILE

Loop = Any
"""A loop of TVM's schedule."""


def tile_loops(schedule: s_tir.Schedule, block: str, tile: TilePlan) -> list[Loop]:
    """Split the loops of the block that writes the result into the plan's tiles; returns their loops, outermost first.

    Loops that one tile covers are not split, so that there may be none. Loops over tiles are those that have the
    annotation ``npu.tile``, with the dimension of the result: what a template splits and annotates itself is as good.
    The parts that the compiler made of the block (``block_0``, ``block_1``...) are computed for each tile.
    """
    loops = schedule.get_loops(schedule.get_sblock(block))
    spatial, reduced = loops[: len(tile.sizes)], loops[len(tile.sizes) :]
    inner, outer = list(spatial), []
    for dim in tile.order:
        if tile.sizes[dim] < int(schedule.get(spatial[dim]).extent):
            loop, inner[dim] = schedule.split(spatial[dim], [None, tile.sizes[dim]])
            schedule.annotate(loop, TILE, dim)
            outer.append(loop)
    schedule.reorder(*outer, *inner, *reduced)
    for name, degree in tile.degrees:
        if outer:
            schedule.annotate(outer[0], f"{DEGREE}{name}", degree)
    for part in _parts(schedule, block):
        _compute_at(schedule, part, outer)
    return outer


def compute_at_tile(schedule: s_tir.Schedule, block: str, tile_loops: list[Loop]) -> None:
    """Compute a block, and its parts, in the innermost of these loops, in front of what that has already.

    Reductions get their start ahead of their loops. Blocks that read each other are moved from the last to the first.
    """
    for part in (block, *_parts(schedule, block)):
        _compute_at(schedule, part, tile_loops)


def _parts(schedule: s_tir.Schedule, block: str) -> list[str]:
    """The names of the parts of a block that are not moved yet, the last first."""
    children = schedule.get_child_blocks(schedule.get_sblock("root"))
    names = [str(schedule.get(child).name_hint) for child in children]
    prefix = f"{block}_"
    return [n for n in reversed(names) if n.startswith(prefix) and n.removeprefix(prefix).isdigit()]


def _compute_at(schedule: s_tir.Schedule, block: str, tile_loops: list[Loop]) -> None:
    handle = schedule.get_sblock(block)
    if tile_loops:
        schedule.compute_at(handle, tile_loops[-1], preserve_unit_loops=True, index=-2)
    kinds = [int(axis.iter_type) for axis in schedule.get(handle).iter_vars]
    if _REDUCED in kinds:
        loops = schedule.get_loops(handle)[-len(kinds) :]
        spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != _REDUCED]
        reduced = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == _REDUCED]
        schedule.reorder(*spatial, *reduced)
        schedule.decompose_reduction(handle, (spatial or reduced)[0])


_REDUCED = 2
"""What TVM calls an axis that is reduced."""
