"""Graph × Plan → Program, through TVM; every decision is the plan's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.graph import Graph
from ..ir.machine import Machine
from ..ir.plan import Plan
from ..ir.program import Program
from ..ir.semantics.task_graph import TaskGraph

if TYPE_CHECKING:
    from .kernel_store import KernelStore


def lower(graph: Graph, plan: Plan, machine: Machine, store: KernelStore | None = None) -> Program:
    """The program of a plan; the same inputs give the same bytes, with or without what ``store`` has kept.

    Raises :class:`~girih.ir.errors.UnsupportedError` for an operator that no instruction sequence could become.
    """
    # TVM takes two seconds to import: only a lowering pays for it.
    from .program.assemble import assemble

    return assemble(graph, plan, machine, store)


def tasks(graph: Graph, plan: Plan, machine: Machine, store: KernelStore | None = None) -> TaskGraph:
    """The instructions of a plan before they have an order, and what each of them comes after."""
    from .program.task_costs import task_graph

    return task_graph(graph, plan, machine, store)


__all__ = ["lower", "tasks"]
