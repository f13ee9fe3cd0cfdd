"""A plain schedule for the host's CPU, so that the comparison takes seconds: register tiles, vectors, two threads."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import s_tir, tirx

from ..net.linear import NotAffine
from ..relax.tir_records import TirBlock, loads, read_kernel, variables

LANES = 32
ROWS = 6
WORTHWHILE = 1 << 16
"""Smaller loop nests are left as they are."""


def schedule_for_cpu(module: Any) -> Any:
    """Schedule every kernel of the module that is large enough to matter."""
    updates = {}
    for gvar, func in module.functions.items():
        if isinstance(func, tirx.PrimFunc):
            updates[gvar] = _scheduled(func)
    for gvar, func in updates.items():
        module.update_func(gvar, func)
    return module


def _scheduled(func: Any) -> Any:
    try:
        kernel = read_kernel(func)
    except NotAffine:
        return func
    schedule = s_tir.Schedule(tvm.IRModule({"main": func}), error_render_level="none")
    for block in kernel.blocks:
        if math.prod(i.extent for i in block.iters) < WORTHWHILE:
            continue
        try:
            trial = schedule.copy()
            if _is_contraction(block):
                _tile(trial, block)
            else:
                _spread(trial, block)
            schedule = trial
        except (s_tir.ScheduleError, NotAffine, RuntimeError):
            continue
    return schedule.mod["main"].with_attrs(dict(func.attrs))


def _is_contraction(block: TirBlock) -> bool:
    store = block.stores[0]
    return len(block.stores) == 1 and store.combine == "sum" and len(loads(store.value)) == 2


def _spread(schedule: Any, block: TirBlock) -> None:
    """Threads over the outermost loops."""
    handle = schedule.get_sblock(block.name)
    loops = schedule.get_loops(handle)
    count = sum(not i.reduce for i in block.iters)
    for last in range(1, count + 1):
        if math.prod(i.extent for i in block.iters[:last]) >= 8:
            outer = schedule.fuse(*loops[:last]) if last > 1 else loops[0]
            schedule.parallel(outer)
            return


def _tile(schedule: Any, block: TirBlock) -> None:
    """A tile of ``ROWS`` by ``LANES`` results in registers, the reduction inside of threads."""
    store = block.stores[0]
    first, second = ({v for i in load.indices for v in variables(i)} for load in loads(store.value))
    spatial = [p for p, i in enumerate(block.iters) if not i.reduce]
    column = spatial[-1]
    column_var = block.iters[column].var
    row_vars = second if column_var in first else first
    rows = [p for p in spatial if p != column and block.iters[p].var in row_vars and block.iters[p].extent > 1]
    rows = [p for p in rows if not (block.iters[p].var in first and block.iters[p].var in second)]
    if not rows:
        raise NotAffine("nothing to keep in registers")
    row = rows[-1]
    handle = schedule.get_sblock(block.name)
    loops = schedule.get_loops(handle)
    row_outer, row_inner = schedule.split(loops[row], [None, min(ROWS, block.iters[row].extent)])
    lanes = _lanes(block.iters[column].extent)
    column_outer, column_inner = schedule.split(loops[column], [None, lanes])
    reduced = [loops[p] for p, i in enumerate(block.iters) if i.reduce]
    outer = [loops[p] for p in spatial if p not in (row, column)]
    schedule.reorder(*outer, row_outer, column_outer, *reduced, row_inner, column_inner)
    schedule.parallel(schedule.fuse(*outer, row_outer))
    result = schedule.cache_write(handle, 0, "local")
    schedule.reverse_compute_at(result, column_outer)
    schedule.vectorize(column_inner)
    schedule.unroll(row_inner)
    schedule.decompose_reduction(handle, reduced[0])


def _lanes(extent: int) -> int:
    """The widest vector that divides the extent."""
    return max(n for n in range(1, LANES + 1) if extent % n == 0)
