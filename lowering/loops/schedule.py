"""The plan's tile applied to a kernel's TIR by TVM's schedule primitives, and lowered to plain loops."""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

import tvm
from tvm import s_tir, tirx

from .tile_spec import Spec
from .tir_function import SCOPES, prim_func


def schedule(spec: Spec) -> s_tir.Schedule:
    """Split the contraction's reduction as planned and stage its stationary operand in the weight memory.

    The loops of the contraction become ``reduce tiles . batch . m . n . reduce``; at each reduce tile a copy block
    brings the tile of the stationary operand into the weight scope, and the initialisation moves ahead of the reduce
    tiles. Every other reduction is split from its initialisation.
    """
    sch = s_tir.Schedule(tvm.IRModule({"main": prim_func(spec)}), error_render_level="fast")
    for position, stage in enumerate(spec.stages):
        block = sch.get_sblock(f"part{position}")
        loops = sch.get_loops(block)
        reduced = [a for a, loop in enumerate(stage.loops) if loop.reduce]
        if not reduced:
            continue
        spatial = [loop for loop, info in zip(loops, stage.loops, strict=True) if not info.reduce]
        if position != spec.contraction:
            if stage.combine is not None:
                sch.reorder(*spatial, *(loops[a] for a in reduced))
                sch.decompose_reduction(block, spatial[0] if spatial else loops[reduced[0]])
            continue
        outer, inner = [], []
        for a, size in zip(reduced, stage.reduce_tile, strict=True):
            o, i = sch.split(loops[a], [None, size])
            outer.append(o)
            inner.append(i)
        sch.reorder(*outer, *spatial, *inner)
        staged = sch.cache_read(block, 1, SCOPES["weights"])
        sch.compute_at(staged, outer[-1], preserve_unit_loops=True)
        sch.decompose_reduction(block, outer[0])
    return sch


def _passes() -> tvm.ir.transform.Sequential:
    s, t = s_tir.transform, tirx.transform
    return tvm.ir.transform.Sequential(
        [
            s.CanonicalizeLoop(),
            s.LowerInitBlock(),
            s.PlanAndUpdateBufferAllocationLocation(),
            s.ConvertBlocksToOpaque(),
            s.CompactBufferAllocation(),
            s.LowerMatchBuffer(),
            t.StmtSimplify(),
            s.LowerOpaqueBlock(),
            t.StmtSimplify(),
            t.RemoveNoOp(),
        ]
    )


def loops(spec: Spec) -> tirx.PrimFunc:
    """The kernel as loops, conditions, allocations and stores."""
    return _passes()(schedule(spec).mod)["main"]
