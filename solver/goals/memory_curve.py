"""What bytes of a memory buy: plans between the least memory and all of it, of which none is beaten by another.

    cycles
      |*  least memory
      | *
      |    *
      |          *  * all that is used where there is enough
      '----------------- bytes

Between the least bytes and those that the plan for the whole memory uses, the loop runs for capacities at equal ratios.
A plan for fewer bytes is one for more, so that the curve only falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ...ir.bounds.lower_bound import lower_bound
from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan
from ..options import Judge, Listener, Options
from .least_memory import LeastMemory, MemoryGoal


@dataclass(frozen=True)
class CurvePoint:
    """``cycles`` of the plan, simulated if there is a judge; ``bytes`` of the memory that it takes."""

    bytes: int
    cycles: int
    plan: Plan


@dataclass(frozen=True)
class MemoryCurve:
    """``points`` with more and more bytes and fewer and fewer cycles; no plan has fewer cycles than ``lower_bound``.

    ``interrupted``: the user or the clock ended the search, so that there may be more points.
    """

    least: LeastMemory
    points: tuple[CurvePoint, ...]
    lower_bound: int
    interrupted: bool


def memory_curve(
    graph: Graph, machine: Machine, memory: str, count: int, options: Options,
    progress: Listener | None = None, judge: Judge | None = None,
) -> MemoryCurve:  # fmt: skip
    """The curve of at most ``count`` points, at least 2, all of them within ``options.timeout``.

    Raises as :func:`girih.solver.plan`. After an interrupt, it is that of the plans so far, if there are any; what is
    left to do then, such as their simulations, only a second one ends.
    """
    goal = MemoryGoal(graph, machine, memory, options, progress, judge)
    share = options.timeout / (count + 1)
    with goal.record.interrupts.watch(), goal.record.interrupts.held():
        plans = [goal.search(goal.memory.capacity, share, expendable=False).plan]
        high = goal.bytes_of(plans[0])
        least = goal.least(share, plans[0])
        plans.append(least.plan)
        with suppress(KeyboardInterrupt):
            for capacity in capacities_between(least.bytes, high, count, goal.step):
                if goal.record.interrupts.seen or goal.record.over():
                    break
                goal.record.tell("curve", "running", float(capacity), float(least.bytes), unit="bytes")
                with suppress(InfeasibleError):
                    plans.append(goal.search(capacity, share).plan)
        # All searches are over, whatever comes now.
        ended = goal.record.interrupts.seen or goal.record.over()
        least = goal.with_plans(least, plans)
        cycles = [plan.cycles_predicted if judge is None else judge(plan) for plan in plans]
        points = [CurvePoint(goal.bytes_of(p), c, p) for p, c in zip(plans, cycles, strict=True)]
        return MemoryCurve(least, undominated(points), lower_bound(graph, machine)[0], ended)


def capacities_between(least: int, most: int, count: int, step: int) -> tuple[int, ...]:
    """At most ``count - 1`` capacities from ``least`` to below ``most``, the largest first: multiples of ``step``."""
    ratios = (i / max(1, count - 1) for i in range(count - 1))
    capacities = {int(least * (most / least) ** ratio) // step * step for ratio in ratios}
    return tuple(sorted((c for c in capacities if least <= c < most), reverse=True))


def undominated(points: Sequence[CurvePoint]) -> tuple[CurvePoint, ...]:
    """Those that take fewer cycles than all with as few bytes or fewer, by their bytes."""
    kept: list[CurvePoint] = []
    for point in sorted(points, key=lambda p: (p.bytes, p.cycles)):
        if not kept or point.cycles < kept[-1].cycles:
            kept.append(point)
    return tuple(kept)
