"""The data of weight separation: weight buffers of the whole program, and what waits where they share bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import gcd, inf

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import LocalBuffer, Plan
from ..cost.operator import Rates

LOOK_BACK = 4
"""Slots with weights before one of which the buffers may still be in use when it loads its own; chosen."""


@dataclass(frozen=True)
class Meeting:
    """Two buffers by number: if ``version`` of the ``later`` shares bytes with the ``earlier`` one, which must be done
    first, loads wait for so many ``cycles`` in all of the program."""

    earlier: int
    later: int
    version: int
    cycles: int


@dataclass(frozen=True)
class SeparationProblem:
    """``sizes`` of the buffers with all of their versions and ``capacity`` are in the same units."""

    sizes: tuple[int, ...]
    depths: tuple[int, ...]
    capacity: int
    meetings: tuple[Meeting, ...]

    @cached_property
    def meetings_by_buffer(self) -> tuple[tuple[Meeting, ...], ...]:
        """The meetings of each buffer."""
        meetings_by_buffer: list[list[Meeting]] = [[] for _ in self.sizes]
        for meeting in self.meetings:
            meetings_by_buffer[meeting.earlier].append(meeting)
            meetings_by_buffer[meeting.later].append(meeting)
        return tuple(tuple(meetings) for meetings in meetings_by_buffer)

    def span(self, meeting: Meeting) -> tuple[int, int]:
        """Where the version of the later buffer begins in it, and its size."""
        size = self.sizes[meeting.later] // self.depths[meeting.later]
        return meeting.version * size, size

    def share(self, meeting: Meeting, earlier: int, later: int) -> bool:
        """Whether they share bytes if the buffers lie at these addresses."""
        offset, size = self.span(meeting)
        return earlier < later + offset + size and later + offset < earlier + self.sizes[meeting.earlier]

    def waits(self, at: Sequence[int]) -> int:
        """The cycles that loads wait for."""
        return sum(m.cycles for m in self.meetings if self.share(m, at[m.earlier], at[m.later]))


def separation_problem(
    graph: Graph, machine: Machine, plan: Plan, buffers: Sequence[LocalBuffer]
) -> tuple[SeparationProblem, int]:
    """The instance for these weight buffers of a plan with predictions, and the bytes of its unit.

    Sizes of versions, addresses in use and the capacity are multiples of the unit.
    """
    level = machine.levels.weights
    capacity = level.capacity // level.alignment * level.alignment
    unit = gcd(capacity, *(size for b in buffers for size in (b.bytes // b.depth, b.address - level.base)))
    return SeparationProblem(
        tuple(b.bytes // unit for b in buffers),
        tuple(b.depth for b in buffers),
        capacity // unit,
        tuple(_meetings(graph, Rates.from_machine(machine), plan, buffers)),
    ), unit


def _meetings(graph: Graph, rates: Rates, plan: Plan, buffers: Sequence[LocalBuffer]) -> list[Meeting]:
    """By predicted times; for equal versions of equal buffers, the cycles of all slots are summed."""
    number = {(b.segment, b.op): i for i, b in enumerate(buffers)}
    cycles: dict[tuple[int, int, int], float] = defaultdict(float)
    before: list[tuple[int, int]] = []  # (buffer, end of the slot) of the last slots with weights
    produced: dict[str, int] = {}  # when results of the running step are there
    running, stopped = -1, 0
    for (step, name), prediction in zip(plan.slots, plan.predictions, strict=True):
        if step != running:
            running, produced = step, {}
        later = number.get((plan.steps[step].segment, name))
        if later is not None:
            buffer = buffers[later]
            produced_at = produced.get(buffer.name, -inf)
            load = buffer.bytes // buffer.depth / rates.into.bytes_per_cycle
            for earlier, done in before:
                if earlier != later:
                    waits = _waits(done, produced_at, stopped, load, rates.latency, buffer.depth)
                    for version, wait in enumerate(waits):
                        cycles[earlier, later, version] += wait
            before = [*before, (later, prediction.stop)][-LOOK_BACK:]
        stopped = max(stopped, prediction.stop)
        produced[graph.op[name].output] = prediction.stop
    return [Meeting(*key, round(wait)) for key, wait in cycles.items() if round(wait) > 0]


def _waits(done: float, produced_at: float, free: float, load: float, latency: float, depth: int) -> list[float]:
    """For each version, by how much later its contents can be used if it is not loaded before ``done``.

    The contents exist from ``produced_at``, the engine is ``free`` for them at some time, and each load takes ``load``.
    """

    def ready(since: float, loads: int) -> float:
        return max(free, since + loads * load + latency) if loads else free

    lost = [ready(max(produced_at, done), n) - ready(produced_at, n) for n in range(depth + 1)]
    return [max(0.0, b - a) for a, b in pairwise(lost)]


def greedily_separated(problem: SeparationProblem, at: Sequence[int]) -> list[int]:
    """Addresses with fewer waits than ``at``: each buffer in turn goes beside those that it meets, as long as any
    gains by that."""
    addresses = list(at)
    turn = list(range(len(addresses)))
    while turn:
        moved: dict[int, None] = {}
        for i in turn:
            best = _best(problem, addresses, i)
            if best != addresses[i]:
                addresses[i] = best
                moved.update(
                    (other, None) for m in problem.meetings_by_buffer[i] for other in (m.earlier, m.later) if other != i
                )
        turn = list(moved)
    return addresses


def _best(problem: SeparationProblem, at: Sequence[int], i: int) -> int:
    """The address of buffer ``i`` with the fewest waits: where it is, or else the lowest of equals."""
    meetings, size = problem.meetings_by_buffer[i], problem.sizes[i]
    cost = {at[i]: _cost(problem, at, i, at[i])}
    if not cost[at[i]]:
        return at[i]
    edges: dict[int, None] = {0: None, problem.capacity - size: None}
    for m in meetings:
        offset, part = problem.span(m)
        if m.later == i:
            low, high = at[m.earlier], at[m.earlier] + problem.sizes[m.earlier]
            edges.update({high - offset: None, low - offset - part: None})
        else:
            low = at[m.later] + offset
            edges.update({low + part: None, low - size: None})
    for address in sorted(edges):
        if 0 <= address <= problem.capacity - size:
            cost.setdefault(address, _cost(problem, at, i, address))
    return min(cost, key=lambda address: (cost[address], address != at[i], address))


def _cost(problem: SeparationProblem, at: Sequence[int], i: int, address: int) -> int:
    where: Mapping[int, int] = {i: address}
    return sum(
        m.cycles
        for m in problem.meetings_by_buffer[i]
        if problem.share(m, where.get(m.earlier, at[m.earlier]), where.get(m.later, at[m.later]))
    )
