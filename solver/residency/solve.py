"""Residency from end to end: the problem of a schedule, the greedy answers, the solver, and the shared buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Segment, Step
from ...ir.semantics.cell import Cells
from ..cpsat.backend import Budget, Watch
from ..effort import NO_EFFORT
from ..switches import ALL_ON, Disabled
from .buffers import Residency, residency
from .decisions import Decisions
from .evaluation import evaluate_decisions
from .fetch_slots import PASSED_OVER, with_fetch_slots
from .greedy import Greedy, SlotOverflow
from .neighbourhood import ResidencyIncumbent, improve
from .problem import ResidencyProblem, residency_problem

__all__ = ["Reservation", "Residency", "SharedOverflow", "decide_residency"]

FILLS = (1.0, 0.95, 0.9)
"""Shares of the memory that are given away where there is a choice, in this order until one is packed at no further
cost: a full one can seldom be. Chosen."""
FAVOURS = (1, 3)
"""How much more the greedy answers count a cycle saved on intermediates than one on other data. Chosen, not
measured."""


@dataclass(frozen=True)
class Reservation:
    """``spare`` bytes of the shared memory stay free during ``live``: the banks could not be packed without."""

    live: tuple[int, int]
    spare: int


@dataclass(frozen=True)
class SharedOverflow:
    """In ``slot`` even the least of everything needs ``excess`` bytes more than the shared memory has room for.

    ``tensors`` are what that slot needs, the largest first.
    """

    slot: int
    step: int
    op: str
    excess: int
    capacity: int
    tensors: tuple[str, ...]

    def error(self) -> InfeasibleError:
        """The overflow as a message."""
        return InfeasibleError(
            f"operator {self.op} needs {self.capacity + self.excess:,} bytes of the shared memory at once, "
            f"{self.excess:,} more than the {self.capacity:,} there is room for: {', '.join(self.tensors[:4])}; "
            "use a smaller batch or a machine with more shared memory"
        )


def decide_residency(
    graph: Graph,
    cells: Cells,
    machine: Machine,
    segments: Sequence[Segment],
    steps: Sequence[Step],
    *,
    slot_cycles: Sequence[int],
    reservations: Sequence[Reservation] = (),
    budget: Budget,
    seed: int = 0,
    everything_in_main: bool = False,
    problem: ResidencyProblem | None = None,
    disabled: Disabled = ALL_ON,
    watch: Watch | None = None,
) -> Residency | SharedOverflow:
    """Decide what lives in the shared memory when.

    ``slot_cycles``: estimated computation of each slot. ``everything_in_main``: nothing is resident, nothing is fetched
    before its slot. ``problem``: that of these segments and steps, if it is known already.
    """
    if problem is None:
        problem = residency_problem(graph, cells, machine, segments, steps, slot_cycles, disabled)
    room = np.full(len(problem.cycles), machine.levels.exchange.capacity, dtype=np.int64)
    for reservation in reservations:
        room[reservation.live[0] : reservation.live[1]] -= reservation.spare
    spilled = Greedy(problem, room)
    excess = spilled.spill_all()
    if excess is not None:
        return _shared_overflow(excess, segments, steps, int(room[excess.slot]))
    least = room - spilled.room
    if everything_in_main:
        start = spilled.decisions()
        timing = evaluate_decisions(problem, start)
        fixed = ResidencyIncumbent(start, timing, "fixed", float(timing.objective))
        return residency(graph, machine, problem, fixed, budget=budget, seed=seed)
    best: Residency | None = None
    effort, bound = NO_EFFORT, 0.0
    for fill in FILLS:
        capacities = np.maximum(least, (room * fill).astype(np.int64))
        start = _greedy(problem, capacities, disabled)
        answer = improve(problem, capacities, start, budget=budget, seed=seed, disabled=disabled, watch=watch)
        # What is proven for the whole memory holds for a part of it, and what is optimal in a part may not be.
        bound = bound or answer.bound
        status = "feasible" if answer.timing.objective > bound else answer.status
        answer = replace(answer, status=status, bound=bound)
        packed = residency(graph, machine, problem, answer, budget=budget, seed=seed)
        effort += packed.effort
        if best is None or _rank(packed) < _rank(best):
            best = packed
        if packed.is_packed and packed.timing.objective <= answer.timing.objective:
            break
    assert best is not None
    return replace(best, effort=effort)


def _rank(answer: Residency) -> tuple[bool, int]:
    """What has addresses is better than what has none, and then what costs less."""
    return not answer.is_packed, answer.timing.objective


def _greedy(problem: ResidencyProblem, room: NDArray[np.int64], disabled: Disabled) -> Decisions:
    """The best of several greedy answers."""
    starts: list[Decisions] = []
    for favour in FAVOURS[:1] if "greedy-variants" in disabled else FAVOURS:
        greedy = Greedy(problem, room)
        greedy.spill_all()
        greedy.retain(favour)
        starts += [with_fetch_slots(problem, room, greedy.decisions(), n) for n in PASSED_OVER]
    return min(starts, key=lambda decisions: evaluate_decisions(problem, decisions).objective)


def _shared_overflow(
    excess: SlotOverflow, segments: Sequence[Segment], steps: Sequence[Step], capacity: int
) -> SharedOverflow:
    slots = [(i, op) for i, step in enumerate(steps) for op in segments[step.segment].ops]
    step, op = slots[excess.slot]
    return SharedOverflow(excess.slot, step, op, excess.bytes, capacity, excess.tensors)
