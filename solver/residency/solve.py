"""Residency from end to end: the demand of a schedule, by hand, by the solver, and the shared buffers that follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Segment, Step
from ...ir.semantics.cell import Cells
from ..cpsat.backend import Budget
from ..switches import ALL_ON, Disabled
from .greedy import Decisions, Excess, Greedy, evaluate, offers
from .neighbourhood import Improved, improve
from .problem import Demand, demand
from .shared_buffers import Residence, residence

__all__ = ["Cut", "Residence", "Shortage", "reside"]

FILL = 0.95
"""The share of the memory that is given away where there is a choice: a full one cannot be packed."""


@dataclass(frozen=True)
class Cut:
    """Keep ``spare`` bytes of the shared memory free during ``live``: the banks could not be packed without."""

    live: tuple[int, int]
    spare: int


@dataclass(frozen=True)
class Shortage:
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
        return InfeasibleError(
            f"operator {self.op} needs {self.capacity + self.excess:,} bytes of the shared memory at once, "
            f"{self.excess:,} more than the {self.capacity:,} there is room for: {', '.join(self.tensors[:4])}; "
            "use a smaller batch or a machine with more shared memory"
        )


def reside(
    graph: Graph,
    cells: Cells,
    machine: Machine,
    segments: Sequence[Segment],
    steps: Sequence[Step],
    *,
    slot_cycles: Sequence[int],
    cuts: Sequence[Cut] = (),
    budget: Budget,
    seed: int = 0,
    everything_in_main: bool = False,
    wanted: Demand | None = None,
    disabled: Disabled = ALL_ON,
    on_solution: Callable[[float, float], None] | None = None,
) -> Residence | Shortage:
    """Decide what lives in the shared memory when.

    ``slot_cycles``: estimated computation of each slot. ``everything_in_main``: nothing stays, nothing is fetched
    before its slot. ``wanted``: the demand of these segments and steps, if it is known already.
    """
    if wanted is None:
        wanted = demand(graph, cells, machine, segments, steps, slot_cycles, disabled)
    room = np.full(len(wanted.cycles), machine.role("shared").capacity, dtype=np.int64)
    for cut in cuts:
        room[cut.live[0] : cut.live[1]] -= cut.spare
    hand = Greedy(wanted, room)
    excess = hand.least()
    if excess is not None:
        return _shortage(excess, segments, steps, int(room[excess.slot]))
    room = np.maximum(room - hand.room, (room * FILL).astype(np.int64))
    start = _by_hand(wanted, room, everything_in_main, disabled)
    if everything_in_main:
        answer = Improved(start, evaluate(wanted, start), "fixed", float(evaluate(wanted, start).objective))
    else:
        answer = improve(wanted, room, start, budget=budget, seed=seed, on_solution=on_solution, disabled=disabled)
    return residence(graph, machine, wanted, answer, budget=budget, seed=seed)


def _by_hand(wanted: Demand, room: NDArray[np.int64], everything_in_main: bool, disabled: Disabled) -> Decisions:
    """The best of several greedy answers."""
    least = Greedy(wanted, room)
    least.least()
    if everything_in_main:
        return least.decisions()
    kept = {favour: least.copy() for favour in (1, 3)}
    for favour, hand in kept.items():
        hand.keeps(favour)
    leads = {reach: offers(wanted, [reach * n / 16 for n in range(17)]) for reach in (1, 2, 8)}
    starts: list[Decisions] = []
    variants = list(product(leads, (True, False), kept))
    for reach, early, favour in variants[:1] if "greedy-variants" in disabled else variants:
        hand = kept[favour].copy()
        hand.leads(leads[reach], early)
        starts.append(hand.decisions())
    return min(starts, key=lambda d: evaluate(wanted, d).objective)


def _shortage(excess: Excess, segments: Sequence[Segment], steps: Sequence[Step], capacity: int) -> Shortage:
    slots = [(i, op) for i, step in enumerate(steps) for op in segments[step.segment].ops]
    step, op = slots[excess.slot]
    return Shortage(excess.slot, step, op, excess.bytes, capacity, excess.tensors)
