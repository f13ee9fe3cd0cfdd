"""Random computes under random plans: lowered, simulated and compared, element for element."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np

from girih.ir.errors import GirihError
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.lowering import lower
from girih.lowering.host import HostKernels
from girih.simulator import simulate
from tests.support.plans.random_plans import NoPlanFitsError, random_plan
from tests.support.random_computes import random_compute

DTYPES = {"tiny": "float32", "stcp920": "float16"}
"""By machine, what its matrix engine multiplies."""

Verdict = Literal["right", "refused", "wrong"]


@cache
def machine(name: str) -> Machine:
    return load_machine(name)


def judge(seed: int) -> tuple[Verdict, str]:
    """The operator of a seed under the plan of that seed, on one machine or the other; and what is wrong with it.

    ``refused``: an error of the compiler that says why, or no plan fits the machine.
    """
    target = machine("tiny" if seed % 2 else "stcp920")
    compute = random_compute(seed, DTYPES[target.name])
    try:
        graph = compute.graph()
        plan = random_plan(graph, target, seed, longest=3)
        trace = simulate(lower(graph, plan, target), target, graph.data, compute.arrays(), host=HostKernels().run)
    except (GirihError, NoPlanFitsError) as error:
        return "refused", f"{error}; {compute}"
    got, expected = trace.outputs["y"], compute.expected()
    if trace.violations:
        return "wrong", f"{trace.violations[0]}; {compute}"
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return "wrong", f"{got.dtype}{list(got.shape)} instead of {expected.dtype}{list(expected.shape)}; {compute}"
    different = int(np.sum(got != expected))
    return ("wrong", f"{different} elements of {got.size} differ; {compute}") if different else ("right", "")
