"""What lives in the shared memory when: everything stays until its last use, and what is too much is spilled.

A result or a constant stays from its first use to its last. Where that is more than the memory holds, the tensor of
the longest life among those in the way goes to main memory (Zhao et al.: the longest, not the largest): a result is
stored as it is written and fetched for each use, a constant is fetched for each use. Addresses are given by first fit,
in the order of the program; where none is free, one more is spilled. In the end the fetches move ahead of their use, as
far as their layer's small buffer has room.

Spilling ends: when nothing stays, each slot has its own buffers alone. Constants that are too large for even that
pass through circular buffers, as in any other strategy (:meth:`girih.solver.residency.greedy.Greedy.spill_all`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ....ir.graph import Graph
from ....ir.machine import Machine, Memory
from ....ir.plan import SharedBuffer
from ...banks.first_fit import Item, by_size, first_fit, lowest_free, neighbours
from ...banks.problem import BufferRequest
from ...banks.solve import Placement, PlacementOverflow, place
from ...cost.local_buffers import round_up
from ...cpsat.backend import NO_SEARCH
from ...residency.buffers import PlannedBuffer, main_buffers, planned_buffers, program_order, requests
from ...residency.decisions import Decisions, NoFetch, Source
from ...residency.evaluation import (
    Effect,
    evaluate_decisions,
    held_bytes,
    resident_effect,
    source_effect,
    spilled_effect,
)
from ...residency.greedy import Greedy, SlotOverflow
from ...residency.problem import ResidencyProblem

ADDRESSED_SINGLY = 200_000
"""Addresses that are given, again and again, while one is spilled at a time. Chosen, not measured."""

SlotSpan = tuple[int, int, int]
"""First slot, the slot after the last, bytes."""


@dataclass(frozen=True)
class Spilling:
    """Buffers of shared and main memory; ``traffic``: cycles of the link between them; ``spilled``: how often."""

    buffers: tuple[SharedBuffer, ...]
    traffic: int
    spilled: int


@dataclass(frozen=True)
class _Candidate:
    """An intermediate or an item, by number, that may stay; what it occupies if it does, and if it is spilled."""

    intermediate: int | None
    item: int | None
    resident: tuple[SlotSpan, ...]
    spilled: tuple[SlotSpan, ...]

    @cached_property
    def hull(self) -> tuple[int, int]:
        """From the first slot in which it lies somewhere to the slot after the last, if it stays."""
        return min(a for a, _, _ in self.resident), max(b for _, b, _ in self.resident)

    @cached_property
    def priority(self) -> tuple[int, int]:
        """The greatest leaves first: by the slots of its life, and by bytes where lives are equally long."""
        first, last = self.hull
        return last - first, max(size for _, _, size in self.resident)

    def blocks(self, first: int, last: int) -> bool:
        """Whether it lives beyond single slots somewhere in ``first .. last``."""
        return any(b - a > 1 and a < last and first < b for a, b, _ in self.resident)

    def change(self, slots: int) -> NDArray[np.int64]:
        """By slot, how many bytes more it takes if it stays."""
        return held_bytes(slots, [Effect(held=self.resident)]) - held_bytes(slots, [Effect(held=self.spilled)])

    def change_at(self, slot: int) -> int:
        """The same in one slot."""
        more = sum(size for first, last, size in self.resident if first <= slot < last)
        return more - sum(size for first, last, size in self.spilled if first <= slot < last)


def first_fit_only(requests: tuple[BufferRequest, ...], memory: Memory) -> Placement | PlacementOverflow:
    """Addresses by first fit in several orders: this strategy searches nothing."""
    return place(requests, memory, budget=NO_SEARCH)


def spill(graph: Graph, machine: Machine, problem: ResidencyProblem, ahead: int) -> Spilling | SlotOverflow:
    """The buffers; or the slot that does not fit, whatever is spilled. ``ahead``: slots between fetch and use."""
    memory = machine.levels.exchange.memory
    greedy = Greedy(problem, np.full(len(problem.cycles), memory.capacity, dtype=np.int64))
    excess = greedy.spill_all()
    if excess is not None:
        return excess
    search = _Search(problem, greedy.decisions(), memory)
    search.by_bytes(greedy.room)
    planned, addresses = search.by_address()
    if ahead:
        planned, addresses = _moved_ahead(problem, planned, addresses, memory, ahead)
    decisions = search.decisions()
    shared = (planned[i].at(memory.name, addresses[i]) for i in program_order(planned))
    return Spilling(
        (*shared, *main_buffers(graph, machine, problem, decisions, planned, first_fit_only).buffers),
        evaluate_decisions(problem, decisions).traffic,
        search.spilled,
    )


class _Search:
    """Who stays. ``everything_spilled``: the decisions with which nothing does."""

    def __init__(self, problem: ResidencyProblem, everything_spilled: Decisions, memory: Memory) -> None:
        self.problem = problem
        self.everything_spilled = everything_spilled
        self.memory = memory
        self.residents = dict(enumerate(self._candidates()))
        """Who stays, by a number of its own."""
        self.spilled = 0

    def _candidates(self) -> Iterator[_Candidate]:
        problem = self.problem
        reads: dict[int, list[SlotSpan]] = {}
        for i, item in enumerate(problem.items):
            if item.intermediate is not None and problem.intermediates[item.intermediate].may_be_resident:
                at_use = [use.slot for use in item.uses]
                reads.setdefault(item.intermediate, []).extend(_spans(problem, i, at_use))
            elif len(item.uses) > 1:
                resident, spilled = (_spans(problem, i, self._sources(i, stays)) for stays in (True, False))
                if resident != spilled:
                    yield _Candidate(None, i, resident, spilled)
        for p, tensor in enumerate(problem.intermediates):
            if tensor.may_be_resident:
                resident, spilled = resident_effect(problem, p).held, spilled_effect(problem, p).held
                yield _Candidate(p, None, resident, (*spilled, *reads.get(p, ())))

    def _sources(self, i: int, stays: bool) -> tuple[Source, ...]:
        """How the uses of an item are served, if it stays between them or not."""
        sources: list[Source] = []
        for source in self.everything_spilled.source[i]:
            retained = stays and sources and NoFetch.CIRCULAR not in (source, sources[-1])
            sources.append(NoFetch.RETAINED if retained else source)
        return tuple(sources)

    def decisions(self) -> Decisions:
        """Fetches in the slots of their uses."""
        resident = {r.intermediate for r in self.residents.values()}
        retained = {r.item for r in self.residents.values()}
        sources = (
            (NoFetch.RESIDENT,) * len(item.uses)
            if item.intermediate is not None and item.intermediate in resident
            else self._sources(i, i in retained)
            for i, item in enumerate(self.problem.items)
        )
        intermediates = range(len(self.problem.intermediates))
        return Decisions(tuple(p in resident for p in intermediates), tuple(sources), self.everything_spilled.circular)

    def _spill(self, numbers: Sequence[int]) -> _Candidate:
        """Of the residents with these numbers, the one of the longest life leaves; the larger of equals, then the
        first."""
        leaves = self.residents.pop(max(numbers, key=lambda number: self.residents[number].priority))
        self.spilled += 1
        return leaves

    def by_bytes(self, room: NDArray[np.int64]) -> None:
        """Spill until each slot has room in bytes; ``room``: what is left of it when nothing stays."""
        slots = len(room)
        free_bytes = room.copy()
        for candidate in self.residents.values():
            free_bytes -= candidate.change(slots)
        # Nobody has left before this, so that numbers are places.
        first, last = np.array([r.hull for r in self.residents.values()], dtype=np.int64).reshape(-1, 2).T
        for slot in range(slots):
            if free_bytes[slot] >= 0:
                continue
            lives = np.flatnonzero((first <= slot) & (slot < last)).tolist()
            lives = [n for n in lives if n in self.residents and self.residents[n].change_at(slot) > 0]
            while free_bytes[slot] < 0:
                free_bytes += self._spill([n for n in lives if n in self.residents]).change(slots)

    def by_address(self) -> tuple[list[PlannedBuffer], list[int]]:
        """Spill until first fit finds an address for everything; what lies in the memory, and where.

        One is spilled at a time, for the first item that has no address; beyond :data:`ADDRESSED_SINGLY`, one for each.
        """
        addressed = 0
        while True:
            planned = list(planned_buffers(self.problem, self.decisions()))
            movable, request_of = requests(planned)
            items = [Item(round_up(m.request.bytes, self.memory.alignment), *m.request.live) for m in movable]
            at = first_fit(items, neighbours(items), by_size(items))
            addressed += len(items)
            over = [item for a, item in zip(at, items, strict=True) if a + item.size > self.memory.capacity]
            if not over:
                return planned, [at[r] for r in request_of]
            over.sort(key=lambda item: item.first)
            before = self.spilled
            for item in over if addressed > ADDRESSED_SINGLY else over[:1]:
                in_the_way = [n for n, r in self.residents.items() if r.blocks(item.first, item.last)]
                if in_the_way:
                    self._spill(in_the_way)
            assert self.spilled > before, "nothing that can leave is in the way of what has no address"


def _spans(problem: ResidencyProblem, i: int, sources: Sequence[Source]) -> tuple[SlotSpan, ...]:
    """What item ``i`` occupies: a fetch and the uses that it is retained for are one span."""
    spans: list[SlotSpan] = []
    for k, source in enumerate(sources):
        for first, stop, size in source_effect(problem, i, k, source).held:
            begin = spans.pop()[0] if source is NoFetch.RETAINED else first
            spans.append((begin, stop, size))
    return tuple(spans)


def _moved_ahead(
    problem: ResidencyProblem, planned: Sequence[PlannedBuffer], addresses: Sequence[int], memory: Memory, ahead: int
) -> tuple[list[PlannedBuffer], list[int]]:
    """Each fetch as early as its place or another one is free, in the order of use, at most ``ahead`` slots."""
    first = np.array([p.live[0] for p in planned])
    last = np.array([p.live[1] for p in planned])
    low = np.array(addresses)
    high = low + np.array([round_up(p.bytes, memory.alignment) for p in planned])
    for i in sorted(range(len(planned)), key=lambda i: (planned[i].use, i)):
        source = planned[i].source
        if source is None:
            continue
        item, use = problem.items[source[0]], source[1]
        size = int(high[i] - low[i])
        for begin in range(max(item.earliest(use), int(first[i]) - ahead, 0), int(first[i])):
            near = np.flatnonzero((first < last[i]) & (last > begin))
            address = lowest_free(sorted((int(low[j]), int(high[j])) for j in near if j != i), size)
            if address + size <= memory.capacity:
                first[i], low[i], high[i] = begin, address, address + size
                break
    moved = [replace(p, live=(int(f), p.live[1])) for p, f in zip(planned, first, strict=True)]
    return moved, [int(address) for address in low]
