"""What bytes of a memory buy: the curve of cycles against them, of plans that no other beats."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ...explain.memory_use import memory_rows
from ...explain.pareto.curve import Curve
from ...explain.pareto.curve_rows import CurveRow
from ...ir.checks.check_machine import check_machine
from ...ir.errors import UsageError
from ...ir.files import as_path
from ...ir.graph import Graph
from ...ir.load_machine import load_machine, telling_lines
from ...ir.machine import Machine
from ...ir.machines.as_planned import as_planned
from ...ir.plan import Plan
from ...solver.options import Listener, Strategy
from ..arguments import listener, whole
from ..held_interrupts import finishing, whole_imports
from ..options import DEFAULT_POINTS, DEFAULT_TARGET, CompileOptions, Precision
from ..plugins.load_plugin import load_installed
from ..turns import TVM, in_turns
from .graph_for import graph_for

if TYPE_CHECKING:
    import onnx

    from ...solver.goals.memory_curve import MemoryCurve

MOST_POINTS = 64


def pareto(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    memory: str | None = None,
    points: int = DEFAULT_POINTS,
    target: str | Path | Machine = DEFAULT_TARGET,
    solver_timeout: float = 60.0,
    strategy: Strategy = "solver",
    precision: Precision = "as-is",
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    progress: Listener | None = None,
) -> Curve:
    """Cycles against bytes of ``memory`` (by default the shared one), at most so many ``points``.

    From the least bytes with which a plan was found to all that a plan makes use of; all of it within
    ``solver_timeout``. The cycles are simulated. The other options are those of :func:`girih.compile`. Ctrl-C keeps
    the points so far, which are simulated then; a second one raises ``KeyboardInterrupt``.
    """
    name = target.name if isinstance(target, Machine) else str(as_path("target", target))
    sizes = cast("dict[str, int]", {} if dims is None else dims)
    options = CompileOptions(name, solver_timeout, strategy, precision, batch, sizes, seed)
    progress = listener("progress", progress)
    if isinstance(target, Machine):
        check_machine(target)
    machine = as_planned(target if isinstance(target, Machine) else load_machine(target))
    with nullcontext() if isinstance(target, Machine) else telling_lines(target):
        return curve_for(model, machine, memory, points, options, progress)


def curve_for(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto, machine: Machine, memory: str | None, points: int,
    options: CompileOptions, progress: Listener | None,
) -> Curve:  # fmt: skip
    """As :func:`pareto`, of options that are put together."""
    if not 2 <= whole("points", points) <= MOST_POINTS:
        raise UsageError(f"{points} points make no curve; give 2 to {MOST_POINTS}")
    with TVM:
        with whole_imports():
            # Imported here because TVM and OR-Tools take seconds to load.
            from ...frontend import import_onnx
            from ...lowering import Lowerer
            from ...solver.goals.memory_curve import memory_curve
            from ..judge import judge
        load_installed()
        graph = import_onnx(
            model, batch=options.batch, dims=options.dims, precision=options.precision, clusters=machine.clusters
        )
    graph = graph_for(graph, machine, options.for_solver)
    name = memory or machine.levels.exchange.name
    simulated = in_turns(judge(Lowerer(graph, machine)))
    curve = memory_curve(graph, machine, name, points, options.for_solver, progress, simulated)
    with finishing():
        return _curve(curve, graph, machine, name)


def _curve(memory_curve: MemoryCurve, graph: Graph, machine: Machine, memory: str) -> Curve:
    rows: list[CurveRow] = []
    for point in memory_curve.points:
        saved = rows[-1].cycles - point.cycles if rows else None
        more = (point.bytes - rows[-1].bytes) / 1024 if rows else 0.0
        ratio = point.cycles / memory_curve.lower_bound if memory_curve.lower_bound else None
        active, constant = _peaks(graph, point.plan, machine, memory)
        rows.append(
            CurveRow(
                point.bytes, point.cycles, point.plan.cycles_predicted, ratio, active, constant,
                len(point.plan.segments), saved, None if saved is None else saved / more,
            )
        )  # fmt: skip
    least = memory_curve.least
    return Curve(
        graph.name, machine.name, memory, machine.memory[memory].capacity, least.bytes, least.bound, least.is_proven,
        not memory_curve.interrupted, memory_curve.lower_bound, tuple(rows),
    )  # fmt: skip


def _peaks(graph: Graph, plan: Plan, machine: Machine, memory: str) -> tuple[int, int]:
    row = next(row for row in memory_rows(graph, plan, machine) if row.memory == memory)
    return row.activations, row.constants
