"""What reports are drawn from: the nouns of one compilation, and of one run of its program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ..ir.graph import Graph
from ..ir.machine import Machine
from ..ir.plan import Plan
from ..ir.program import Program
from ..ir.trace import Trace
from .cycles.account import cycle_breakdown
from .cycles.breakdown import CycleBreakdown
from .cycles.costed_run import CostedRun
from .cycles.engine_loads import Loads, engine_loads
from .model_answers import Log
from .run.execution import Execution, execution


@dataclass(frozen=True)
class Provenance:
    """What is needed to repeat a compilation: its options, and the versions of what compiled it.

    Values are texts, as the command line takes them and prints them; the order is that in which they are shown.
    """

    options: Mapping[str, str]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Compilation:
    """The nouns that are explained; of ``trace``, only times are read, so that a run without data is enough.

    ``described``: the machine as its file describes it, if that is not as it is planned for.
    """

    graph: Graph
    plan: Plan
    program: Program
    machine: Machine
    log: Log
    trace: Trace
    provenance: Provenance = field(default_factory=lambda: Provenance({}, {}))
    described: Machine | None = None

    @cached_property
    def run(self) -> CostedRun:
        """The run with what each instruction costs alone, and what it waited for."""
        return CostedRun(self.program, self.machine, self.trace)

    @cached_property
    def breakdown(self) -> CycleBreakdown:
        """Where the cycles of the run went, by resource, segment and operator."""
        return cycle_breakdown(self.graph, self.plan, self.run)

    @cached_property
    def loads(self) -> Loads:
        """The cycles that each operator alone would keep each engine and link busy."""
        return engine_loads(self.graph, self.plan, self.program, self.machine)

    @cached_property
    def execution(self) -> Execution:
        """The instructions of the run, the slots of the plan that they belong to, and what they touched."""
        return execution(self.graph, self.plan, self.run)
