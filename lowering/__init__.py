"""Graph × Plan → Program, through TVM; every decision is the plan's."""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.machine import Machine
from ..ir.plan import Plan
from ..ir.program import Program


def lower(graph: Graph, plan: Plan, machine: Machine) -> Program:
    """The program of a plan; the same inputs give the same bytes.

    Raises :class:`~girih.ir.errors.UnsupportedError` for an operator that no instruction sequence could become.
    """
    # TVM takes two seconds to import: only a lowering pays for it.
    from .program.assemble import assemble

    return assemble(graph, plan, machine)


__all__ = ["lower"]
