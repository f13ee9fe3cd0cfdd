"""Compilations without the solver: a graph, a plan made by hand or at random, and a run of its program in time."""

from __future__ import annotations

from girih.explain.compilation import Compilation
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan
from girih.lowering import lower
from girih.simulator import simulate
from tests.support.compiled import LOG
from tests.support.plans.random_plans import random_plan


def compilation_of(graph: Graph, plan: Plan, machine: str | Machine = "stcp920") -> Compilation:
    """The nouns of a compilation with this plan."""
    described = load_machine(machine) if isinstance(machine, str) else machine
    program = lower(graph, plan, described)
    return Compilation(graph, plan, program, described, LOG, simulate(program, described, {}, {}, data=False))


def random_compilation(graph: Graph, seed: int, *, machine: str = "stcp920", longest: int = 4) -> Compilation:
    """One with a plan drawn at random."""
    return compilation_of(graph, random_plan(graph, load_machine(machine), seed, longest=longest), machine)
