"""What becomes of each operator on the way to instructions: scheduled TIR, lowered TIR, instructions of its tiles.

Each text can be parsed back by TVM and gives the same instructions, see :func:`kernels_from_text`.
"""

# TVM's classes get their fields and conversions from C++, which type checkers cannot see.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportArgumentType=false

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import tvm
from tvm.script import from_source

from ..ir.graph import Graph
from ..ir.machine import Machine
from ..ir.plan import Plan
from .emission.kernel import EmittedKernel, compile_kernel
from .emission.vector import StationaryFetch
from .loops.tile_nests import tile_nests
from .program.compiled_kernels import CompiledKernels
from .program.plan_walk import Walker
from .schedule.cell_spec import BoundSpec
from .schedule.lower_to_loops import lowered, scheduled
from .schedule.prim_func import FUNCTION, view_name
from .schedule.tile_plan import TilePlan

Level = Literal["scheduled", "lowered"]


@dataclass(frozen=True)
class OperatorTir:
    """An operator in cells of one shape.

    ``scheduled`` is TIR in blocks, with the plan applied by TVM's schedule; ``lowered`` is it as loops; ``kernels`` are
    the instructions of each class of tiles, with offsets in bytes from where the tile's part of a buffer begins.
    """

    op: str
    bound: BoundSpec
    plan: TilePlan
    scheduled: str
    lowered: str
    kernels: str


def operator_tir(
    graph: Graph, plan: Plan, machine: Machine, operators: Collection[str] | None = None
) -> tuple[OperatorTir, ...]:
    """For each of the ``operators`` (``None``: all that engines run), and each shape of cell, in the order of the plan.

    Structurally equivalent operators share their TIR, with the names of tensors of the first.
    """
    walker = Walker(graph, plan, CompiledKernels(machine))
    walker.walk()
    return tuple(
        _described(op, bound, tile_plan, machine)
        for op, cells in walker.kernels.cells_of.items()
        if operators is None or op in operators
        for bound, tile_plan in cells
    )


def _described(op: str, bound: BoundSpec, plan: TilePlan, machine: Machine) -> OperatorTir:
    module = scheduled(bound.spec, plan)
    loops = lowered(module)
    head = _head(op, bound, plan)
    return OperatorTir(
        op, bound, plan, f"{head}\n{module.script()}\n", f"{head}\n{loops.script()}\n",
        f"{head}\n{_kernels_text(loops, bound, plan, machine)}\n",
    )  # fmt: skip


def _head(op: str, bound: BoundSpec, plan: TilePlan) -> str:
    rows = [
        f"# {view_name(i)}: {' x '.join(map(str, view.shape)) or 'one'} of {name}"
        for i, (name, view) in enumerate(zip(bound.names, bound.spec.views, strict=True))
    ]
    tile = f"# operator {op}: tiles of {plan.sizes} in the order {plan.order}"
    cut = f", reduction cut by {plan.reduce}" if plan.reduce else ""
    return "\n".join([f"{tile}{cut}", *rows])


def _kernels_text(module: tvm.IRModule, bound: BoundSpec, plan: TilePlan, machine: Machine) -> str:
    tiled = tile_nests(module[FUNCTION], bound.spec, plan)
    tiles = Counter(tiled.class_of)
    lines: list[str] = []
    for number, nests in enumerate(tiled.classes):
        lines += [f"# class {number}: {tiles[number]} of {len(tiled.class_of)} tiles"]
        lines += [f"#   {nest}" for nest in nests.nests]
        lines += kernel_lines(compile_kernel(nests, machine))
    return "\n".join(lines)


def kernel_lines(kernel: EmittedKernel) -> list[str]:
    """A line for each step: instructions with operands as ``buffer+offset(strides)``, and copies to weight memory."""
    lines: list[str] = []
    for step in kernel.steps:
        if isinstance(step, StationaryFetch):
            box = ", ".join(f"{span.lo}:{span.hi}" for span in step.box)
            lines.append(f"fetch {step.buffer}[{box}] to weights, of shape {step.shape}")
        else:
            fields = [f"{name}={value}" for name, value in step.fields]
            refs = [f"{r.operand}={r.buffer}+{r.offset}({','.join(map(str, r.strides))})" for r in step.refs]
            lines.append(" ".join([step.mnemonic, *fields, *refs]))
    return lines


def kernels_from_text(text: str, level: Level, bound: BoundSpec, plan: TilePlan, machine: Machine) -> str:
    """The instructions that a text of :class:`OperatorTir` gives, as its ``kernels`` has them, without the head."""
    module = from_source(text)
    return _kernels_text(lowered(module) if level == "scheduled" else module, bound, plan, machine)
