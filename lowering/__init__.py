"""Graph × Plan → Program, through TVM; every decision is the plan's."""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.machine import Machine
from ..ir.plan import Plan
from ..ir.program import Program
from .lowerer import Lowerer


def lower(graph: Graph, plan: Plan, machine: Machine) -> Program:
    """The program of one plan, see :class:`Lowerer`."""
    return Lowerer(graph, machine).program(plan)


__all__ = ["Lowerer", "lower"]
