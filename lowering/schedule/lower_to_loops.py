"""The TIR of an operator in a cell: scheduled by its template, and lowered by TVM to loops, conditions and stores."""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

import tvm
from tvm import s_tir, tirx

from ...ir.custom_operators import blaming, operator_by_key
from .cell_spec import CellSpec
from .hints import with_instruction_hints
from .prim_func import FUNCTION, prim_func
from .tile_grid import writer_grid
from .tile_plan import TilePlan
from .tile_template import apply
from .versions import with_versions


def scheduled(spec: CellSpec, plan: TilePlan) -> tvm.IRModule:
    """The operator with its plan applied, in blocks: by the template of its own, if it has one, or by kind.

    Raises :class:`~girih.ir.errors.UsageError`, with the user's file and line, for what a template of its own raises.
    """
    grids = {p: writer_grid(spec, stage, plan) for p, stage in enumerate(spec.stages) if stage.write == spec.output}
    leads = tuple(grids[p].leads if p in grids else (0,) * len(s.loops) for p, s in enumerate(spec.stages))

    def unscheduled(*, whole_reductions: bool) -> s_tir.Schedule:
        function = prim_func(spec, leads, whole_reductions=whole_reductions)
        return s_tir.Schedule(tvm.IRModule({FUNCTION: function}), error_render_level="fast")

    sch = unscheduled(whole_reductions=False)
    if spec.template:
        operator = operator_by_key(spec.template)
        assert operator.template is not None
        with blaming(operator, "the schedule template"):
            operator.template(sch, plan)
        return sch.mod
    try:
        apply(sch, spec, plan, grids)
    except s_tir.ScheduleError:
        sch = unscheduled(whole_reductions=True)
        apply(sch, spec, plan, grids)
    return sch.mod


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


def lowered(module: tvm.IRModule) -> tvm.IRModule:
    """A scheduled operator as loops, conditions, allocations and stores, with its versions of buffers."""
    return with_versions(_passes()(with_instruction_hints(module)))
