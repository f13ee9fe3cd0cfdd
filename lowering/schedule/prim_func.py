"""The spec of a cell as a TIR function: one schedulable block for each stage.

Nodes are built directly: parsing the same function from TVMScript takes a hundred times as long.
"""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from tvm import s_tir, tirx
from tvm.ir import Range

from ...ir.box import Affine
from ...ir.errors import UnsupportedError
from ...ir.graph import FLOATS
from ...ir.isa.scalar_functions import COMBINE_IDENTITY, ELEMENTS, is_int64
from ...ir.isa.tir_operators import BUILDERS, COMBINER_NODES, COMPARISONS
from .cell_spec import CellSpec
from .stage_spec import WEIGHTS_SCOPE, StageSpec, View, ViewRead
from .tile_grid import Leads

Expr = Any
"""A TIR expression; TVM's operator overloading is beyond static types."""

_EXTERN = frozenset(ELEMENTS) - set(BUILDERS) - {"copy"} | {"mod", "and", "or"}
"""Functions without a TIR operator of the same meaning in every dtype; they travel as named calls."""


FUNCTION = "main"
"""The name of a module's one function, by which TVM schedules what has no other."""


def view_name(position: int) -> str:
    """The name of a spec's view in its TIR function."""
    return f"b{position}"


def staged_name(position: int) -> str:
    """The name of the copy of a view in the weight memory."""
    return f"{view_name(position)}_{WEIGHTS_SCOPE}".replace(".", "_")


def buffer_name(buffer: Expr) -> str:
    """The name of a buffer as texts of TIR have it: TVM names copies after scopes, whose dots no text can have."""
    return str(buffer.name).replace(".", "_")


def _index(affine: Affine, axes: list[Expr]) -> Expr:
    terms = [axis if c == 1 else axis * c for axis, c in zip(axes, affine.coeffs, strict=True) if c]
    if affine.const or not terms:
        terms.append(tirx.IntImm("int32", affine.const))
    return reduce(lambda a, b: a + b, terms)


def _number(value: float, dtype: str) -> Expr:
    if dtype not in FLOATS:
        if math.isinf(value):
            return tirx.max_value(dtype) if value > 0 else tirx.min_value(dtype)
        return tirx.const(int(value), dtype)
    return tirx.const(value, dtype)


def _cast(expr: Expr, have: str, want: str) -> Expr:
    return expr if have == want else tirx.Cast(want, expr)


def _would_be_folded(stage: StageSpec) -> bool:
    """Whether TVM's simplification would find a number for the stage, which NaN and infinity do not allow.

    To it ``x - x`` is 0 and ``x != x`` false.
    """
    first, *others = stage.operands
    twice = isinstance(first, ViewRead) and others == [first]
    return twice and (stage.func in COMPARISONS or stage.func in ("sub", "div"))


def _compute_dtype(stage: StageSpec, views: tuple[View, ...]) -> str:
    """Stages compute in float32, or in int64 when everything they touch is integral."""
    dtypes = [views[o.view].dtype for o in stage.operands if isinstance(o, ViewRead)]
    numbers = [o for o in stage.operands if not isinstance(o, ViewRead)]
    integral = dtypes and FLOATS.isdisjoint(dtypes) and all(is_int64(n) for n in numbers)
    return "int64" if integral else "float32"


def _start(stage: StageSpec) -> float:
    """What a combination starts from: the identity, or the stand-in for it that a window yields outside."""
    first = stage.operands[0]
    if stage.combine in ("max", "min") and isinstance(first, ViewRead) and first.fill is not None:
        return first.fill
    return COMBINE_IDENTITY[stage.combine or ""]


class _Builder:
    """Builds the blocks of one spec."""

    def __init__(self, spec: CellSpec, *, whole_reductions: bool) -> None:
        self.spec = spec
        self.whole = _reduced(spec) if whole_reductions else frozenset[int]()
        self.buffers = [
            tirx.decl_buffer(view.shape or (1,), view.dtype, name=view_name(i), layout=None, scope=view.scope)
            for i, view in enumerate(spec.views)
        ]

    def block(self, stage: StageSpec, leads: tuple[int, ...]) -> Expr:
        """The loops around one block, which computes a stage.

        A loop has ``leads`` more points in front that do nothing, so that tiles begin where those of the result do.
        """
        axes = [
            tirx.IterVar(Range(0, loop.extent + lead), f"v{a}", 2 if loop.reduce else 0)
            for a, (loop, lead) in enumerate(zip(stage.loops, leads, strict=True))
        ]
        points = [axis.var - lead if lead else axis.var for axis, lead in zip(axes, leads, strict=True)]
        target = self.buffers[stage.write]
        index = [_index(i, points) for i in stage.index] or [tirx.IntImm("int32", 0)]
        value = self._value(stage, points)
        init = None
        if stage.combine is not None and any(loop.reduce for loop in stage.loops):
            value = getattr(tirx, COMBINER_NODES[stage.combine])(tirx.BufferLoad(target, index), value)
            init = tirx.BufferStore(target, self._initial(stage, points), index)
        reads = [self._region(o, points) for o in (*stage.operands, stage.start) if isinstance(o, ViewRead)]
        writes = [self._written(stage, points)]
        body = tirx.BufferStore(target, value, index)
        block = s_tir.SBlock(axes, reads, writes, stage.name, body, init)
        loops = [tirx.Var(f"i{a}", "int32") for a in range(len(axes))]
        inside = [loop >= lead for loop, lead in zip(loops, leads, strict=True) if lead]
        nest: Expr = s_tir.SBlockRealize(loops, reduce(tirx.And, inside) if inside else True, block)
        for loop, axis in reversed(list(zip(loops, axes, strict=True))):
            nest = tirx.For(loop, tirx.IntImm("int32", 0), axis.dom.extent, tirx.ForKind.SERIAL, nest)
        return nest

    def _initial(self, stage: StageSpec, points: list[Expr]) -> Expr:
        dtype = self._dtype(stage.write)
        return _number(_start(stage), dtype) if stage.start is None else self._operand(stage.start, points, dtype)

    def _dtype(self, view: int) -> str:
        return self.spec.views[view].dtype

    def _region(self, read: ViewRead, points: list[Expr]) -> Expr:
        buffer = self.buffers[read.view]
        if read.fill is not None or read.view in self.whole:
            shape = self.spec.views[read.view].shape or (1,)
            return tirx.BufferRegion(buffer, [Range.from_min_extent(0, extent) for extent in shape])
        # TVM turns a dimension that is read backwards into one with divisions.
        ranges = [
            Range.from_min_extent(0, extent)
            if any(c < 0 for c in affine.coeffs)
            else Range.from_min_extent(_index(affine, points), 1)
            for affine, extent in zip(read.index, self.spec.views[read.view].shape, strict=True)
        ]
        return tirx.BufferRegion(buffer, ranges or [Range.from_min_extent(tirx.IntImm("int32", 0), 1)])

    def _written(self, stage: StageSpec, points: list[Expr]) -> Expr:
        """What one point writes; where several loops write a dimension together, like digits: all below the first.

        From the exact index TVM would narrow each of those loops to what a tile needs, and errs where the tile cuts
        digits: ``compute_at`` inverts the index at the ends of the region alone. Told so, it narrows the first digit;
        :mod:`girih.lowering.loops.demand` does the rest.
        """
        ranges: list[Expr] = []
        for affine in stage.index:
            digits = sorted(((c, loop) for loop, c in enumerate(affine.coeffs) if c), reverse=True)
            if len(digits) > 1 and not affine.const:
                (c, first), *rest = digits
                below = sum(c * (stage.loops[loop].extent - 1) for c, loop in rest) + 1
                ranges.append(Range.from_min_extent(points[first] * c, below))
            else:
                ranges.append(Range.from_min_extent(_index(affine, points), 1))
        zero = Range.from_min_extent(tirx.IntImm("int32", 0), 1)
        return tirx.BufferRegion(self.buffers[stage.write], ranges or [zero])

    def _operand(self, operand: ViewRead | float, points: list[Expr], dtype: str) -> Expr:
        if not isinstance(operand, ViewRead):
            return _number(operand, dtype)
        view = self.spec.views[operand.view]
        index = [_index(i, points) for i in operand.index] or [tirx.IntImm("int32", 0)]
        load: Expr = tirx.BufferLoad(self.buffers[operand.view], index)
        if operand.fill is not None:
            inside = [check for i, extent in zip(index, view.shape, strict=True) for check in (i >= 0, i < extent)]
            load = tirx.if_then_else(reduce(tirx.And, inside), load, _number(operand.fill, view.dtype))
        return _cast(load, view.dtype, dtype)

    def _value(self, stage: StageSpec, points: list[Expr]) -> Expr:
        dtype = _compute_dtype(stage, self.spec.views)
        arguments = [self._operand(o, points, dtype) for o in stage.operands]
        opaque = stage.func in _EXTERN or _would_be_folded(stage)
        if opaque:
            value = tirx.call_pure_extern(dtype, f"girih_{stage.func}", *arguments)
        elif stage.func == "div":
            value = tirx.Div(*arguments) if dtype == "float32" else tirx.FloorDiv(*arguments)
        elif stage.func == "copy":
            (value,) = arguments
        elif stage.func in BUILDERS:
            value = getattr(tirx, BUILDERS[stage.func])(*arguments)
        else:
            raise UnsupportedError(f"no TIR expression is known for the element function {stage.func!r}")
        return _cast(value, "bool" if stage.func in COMPARISONS and not opaque else dtype, self._dtype(stage.write))


def _reduced(spec: CellSpec) -> frozenset[int]:
    """The private views whose values come from a reduction of the operator's own."""
    reduced: set[int] = set()
    for stage in spec.stages:
        reads = (o for o in (*stage.operands, stage.start) if isinstance(o, ViewRead))
        if any(loop.reduce for loop in stage.loops) or any(read.view in reduced for read in reads):
            reduced.add(stage.write)
    return frozenset(view for view in reduced if spec.views[view].private)


def prim_func(spec: CellSpec, leads: Leads, *, whole_reductions: bool = False) -> tirx.PrimFunc:
    """The schedulable TIR function of a spec; the views are its parameters, but for private ones.

    With ``whole_reductions`` each read of what comes from a reduction of the operator says that it may read all of it:
    from strides, diagonals and digits TVM would bind the loops of the reduction to what is no affine map of the tiles'
    loops to all of its points, and call it no reduction any more. :mod:`girih.lowering.loops.demand` does the rest.
    """
    build = _Builder(spec, whole_reductions=whole_reductions)
    blocks = [build.block(stage, lead) for stage, lead in zip(spec.stages, leads, strict=True)]
    body = blocks[0] if len(blocks) == 1 else tirx.SeqStmt(blocks)
    private = [b for b, view in zip(build.buffers, spec.views, strict=True) if view.private]
    parameters = [b for b, view in zip(build.buffers, spec.views, strict=True) if not view.private]
    root = s_tir.SBlock([], [], [], "root", body, None, private)
    func = tirx.PrimFunc(parameters, s_tir.SBlockRealize([], True, root))
    return func.with_attr({"global_symbol": FUNCTION, "s_tir": True, "tirx.noalias": True})
