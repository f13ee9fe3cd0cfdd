"""The schedule template: every decision of a :class:`TilePlan` as primitives of TVM's schedule and annotations."""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from typing import Any

from tvm import s_tir

from .cell_spec import CellSpec
from .stage_spec import WEIGHTS_SCOPE, StageSpec, ViewRead
from .tile_grid import WriterGrid
from .tile_plan import TilePlan

Loop = Any
"""A loop of TVM's schedule."""

TILE, DEGREE = "npu.tile", "npu.degree:"
"""Annotations of loops: a tile loop, with the dimension of the result that it goes along (-1: it cuts a reduction);
the multi-buffering degree of a buffer, whose name follows."""


def apply(sch: s_tir.Schedule, spec: CellSpec, plan: TilePlan, grids: dict[int, WriterGrid]) -> None:
    """Tile every stage that writes the result as planned, and compute at its tiles what only it reads."""
    consumer = _consumers(spec)
    innermost: dict[int, Loop | None] = {}
    outermost: list[Loop] = []
    for position in reversed(range(len(spec.stages))):
        stage = spec.stages[position]
        block = sch.get_sblock(stage.name)
        if position in grids:
            loops = sch.get_loops(block)
            outer = _tile(sch, stage, loops, grids[position])
            innermost[position] = outer[-1] if outer else None
            outermost += outer[:1]
            inner = sch.get_loops(block)[len(outer) :]
        else:
            at = innermost[consumer[position]]
            if at is not None:
                # In front of what was moved before it: the plan has room for the stages in their order.
                sch.compute_at(block, at, preserve_unit_loops=True, index=-2)
            innermost[position] = at
            inner = sch.get_loops(block)[-len(stage.loops) :]
        if stage.combine is not None and any(loop.reduce for loop in stage.loops):
            if position == spec.contraction:
                cuts = _cut_reduction(sch, stage, block, inner, plan, innermost[position])
                if innermost[position] is None:
                    outermost += cuts[:1]
            else:
                _split_off_start(sch, stage, block, inner)
    for name, degree in plan.degrees:
        for loop in outermost:
            sch.annotate(loop, f"{DEGREE}{name}", degree)


def _consumers(spec: CellSpec) -> dict[int, int]:
    """For each stage the last one that reads what it writes."""
    last: dict[int, int] = {}
    for position, stage in enumerate(spec.stages):
        for read in (*stage.operands, stage.start):
            if isinstance(read, ViewRead):
                last[read.view] = position
    return {p: last[stage.write] for p, stage in enumerate(spec.stages) if stage.write in last}


def _tile(sch: s_tir.Schedule, stage: StageSpec, loops: list[Loop], grid: WriterGrid) -> list[Loop]:
    """Split the loops of a stage that writes the result; returns the tile loops, the outermost first."""
    inner = list(loops)
    outer: list[Loop] = []
    for split in grid.splits:
        tile, inner[split.loop] = sch.split(inner[split.loop], [None, split.size], preserve_unit_iters=True)
        sch.annotate(tile, TILE, split.dim)
        outer.append(tile)
    spatial = [loop for loop, info in zip(inner, stage.loops, strict=True) if not info.reduce]
    reduced = [loop for loop, info in zip(inner, stage.loops, strict=True) if info.reduce]
    sch.reorder(*outer, *spatial, *reduced)
    return outer


def _split_off_start(sch: s_tir.Schedule, stage: StageSpec, block: Any, loops: list[Loop]) -> None:
    """Move the initialisation of a combination ahead of all its loops."""
    kinds = [loop.reduce for loop in stage.loops]
    spatial = [loop for loop, reduce in zip(loops, kinds, strict=True) if not reduce]
    reduced = [loop for loop, reduce in zip(loops, kinds, strict=True) if reduce]
    sch.reorder(*spatial, *reduced)
    sch.decompose_reduction(block, (spatial or reduced)[0])


def _cut_reduction(
    sch: s_tir.Schedule, stage: StageSpec, block: Any, loops: list[Loop], plan: TilePlan, at: Loop | None
) -> list[Loop]:
    """Cut the reduction of the contraction as planned, and stage its stationary operand in the weight memory.

    The loops become ``reduce tiles . spatial . reduce``. At each reduce tile a copy brings the tile of the stationary
    operand into the weight memory, and the initialisation moves ahead of the reduce tiles. Returns their loops.
    """
    kinds = [loop.reduce for loop in stage.loops]
    spatial = [loop for loop, reduce in zip(loops, kinds, strict=True) if not reduce]
    reduced = [loop for loop, reduce in zip(loops, kinds, strict=True) if reduce]
    extents = [loop.extent for loop in stage.loops if loop.reduce]
    outer: list[Loop] = []
    inner: list[Loop] = []
    for loop, extent, size in zip(reduced, extents, plan.reduce, strict=True):
        if size < extent:
            tile, rest = sch.split(loop, [None, size])
            sch.annotate(tile, TILE, -1)
            outer.append(tile)
            inner.append(rest)
        else:
            inner.append(loop)
    sch.reorder(*outer, *spatial, *inner)
    staged = sch.cache_read(block, 1, WEIGHTS_SCOPE)
    if outer or at is not None:
        sch.compute_at(staged, outer[-1] if outer else at, preserve_unit_loops=True)
    sch.decompose_reduction(block, [*outer, *spatial, *inner][0])
    return outer
