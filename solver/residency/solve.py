"""Residency from end to end: the problem of a schedule, the greedy answers, the solver, and the shared buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Segment, Step
from ...ir.semantics.cell import Cells
from ..cpsat.backend import Budget, Watch
from ..switches import ALL_ON, Disabled
from .buffers import Residency, residency
from .candidates import fetch_candidates
from .decisions import Decisions
from .evaluation import evaluate_decisions
from .greedy import Greedy, SlotOverflow
from .neighbourhood import ResidencyIncumbent, improve
from .problem import ResidencyProblem, residency_problem

__all__ = ["Reservation", "Residency", "SharedOverflow", "decide_residency"]

FILL = 0.95
"""The share of the memory that is given away where there is a choice: a full one can seldom be packed. Chosen, not
measured."""
FAVOURS = (1, 3)
"""How much more the greedy answers count a cycle saved on intermediates than one on other data. Chosen, not
measured."""
HORIZONS = (1, 2, 8)
"""The longest prefetch distances of the greedy answers: those within the model's (see :mod:`.candidates`)."""
STEPS = 16
"""Prefetch distances of a greedy answer: so many equal steps up to the longest. A step of the shortest is half of the
model's finest."""


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
    room = np.full(len(problem.cycles), machine.role("shared").capacity, dtype=np.int64)
    for reservation in reservations:
        room[reservation.live[0] : reservation.live[1]] -= reservation.spare
    spilled = Greedy(problem, room)
    excess = spilled.spill_all()
    if excess is not None:
        return _shared_overflow(excess, segments, steps, int(room[excess.slot]))
    room = np.maximum(room - spilled.room, (room * FILL).astype(np.int64))
    start = _greedy(problem, room, everything_in_main, disabled)
    if everything_in_main:
        timing = evaluate_decisions(problem, start)
        answer = ResidencyIncumbent(start, timing, "fixed", float(timing.objective))
    else:
        answer = improve(problem, room, start, budget=budget, seed=seed, disabled=disabled, watch=watch)
    return residency(graph, machine, problem, answer, budget=budget, seed=seed)


def _greedy(
    problem: ResidencyProblem, room: NDArray[np.int64], everything_in_main: bool, disabled: Disabled
) -> Decisions:
    """The best of several greedy answers."""
    spilled = Greedy(problem, room)
    spilled.spill_all()
    if everything_in_main:
        return spilled.decisions()
    retained = {favour: spilled.copy() for favour in FAVOURS}
    for favour, greedy in retained.items():
        greedy.retain(favour)
    candidates = {h: fetch_candidates(problem, [h * n / STEPS for n in range(STEPS + 1)]) for h in HORIZONS}
    starts: list[Decisions] = []
    variants = list(product(candidates, (True, False), retained))
    for horizon, early, favour in variants[:1] if "greedy-variants" in disabled else variants:
        greedy = retained[favour].copy()
        greedy.prefetch(candidates[horizon], early)
        starts.append(greedy.decisions())
    return min(starts, key=lambda decisions: evaluate_decisions(problem, decisions).objective)


def _shared_overflow(
    excess: SlotOverflow, segments: Sequence[Segment], steps: Sequence[Step], capacity: int
) -> SharedOverflow:
    slots = [(i, op) for i, step in enumerate(steps) for op in segments[step.segment].ops]
    step, op = slots[excess.slot]
    return SharedOverflow(excess.slot, step, op, excess.bytes, capacity, excess.tensors)
