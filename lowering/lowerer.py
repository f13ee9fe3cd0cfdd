"""The lowering of plans of one network for one machine, each kernel and each walk once."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from ..ir.graph import Graph
from ..ir.machine import Machine
from ..ir.plan import Plan
from ..ir.program import Program, uncollected
from ..ir.semantics.task_graph import TaskGraph

if TYPE_CHECKING:
    from .kernel_store import KernelStore
    from .program.compiled_kernels import CompiledKernels
    from .program.program_builder import ProgramBuilder


class Lowerer:
    """Lowers plans of ``graph`` for ``machine``; the same plan gives the same bytes, whatever came before.

    Kernels are compiled once for all plans, or read from ``store``, where new ones are kept. The plan that was walked
    last is not walked again if only the order of its queues, or what it says of itself, has changed: a search asks for
    the instructions of a plan, compares orders of them, and then wants the program of one.

    Methods raise :class:`~girih.ir.errors.UnsupportedError` for an operator that no instruction sequence could become.
    """

    def __init__(self, graph: Graph, machine: Machine, store: KernelStore | None = None) -> None:
        self.graph = graph
        self.machine = machine
        self._store = store
        self._last: tuple[Plan, ProgramBuilder] | None = None

    @uncollected()
    def program(self, plan: Plan) -> Program:
        """The program of a plan."""
        from .program.assemble import assemble

        return assemble(self.graph, plan, self.machine, self._walked(plan))

    @uncollected()
    def tasks(self, plan: Plan) -> TaskGraph:
        """The instructions of a plan before they have an order, and what each of them comes after."""
        from .program.task_costs import task_graph

        return task_graph(self.graph, self.machine, self._walked(plan))

    def _walked(self, plan: Plan) -> ProgramBuilder:
        # TVM takes two seconds to import: only a lowering pays for it.
        from .program.plan_walk import Walker

        walked = replace(
            plan, order=(), cycles_predicted=0, lower_bound_cycles=0, lower_bound_reason="", predictions=(), solved=(),
            cycles_simulated=None,
        )  # fmt: skip
        if self._last is None or self._last[0] != walked:
            walker = Walker(self.graph, plan, self._kernels)
            walker.walk()
            self._kernels.keep()
            self._last = walked, walker.build
        return self._last[1]

    @cached_property
    def _kernels(self) -> CompiledKernels:
        from .program.compiled_kernels import CompiledKernels

        return CompiledKernels(self.machine, self._store)
