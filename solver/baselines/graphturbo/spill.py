"""What lives in the shared memory when: everything stays until its last use, and what is too much is spilled.

A result or a constant stays from its first use to its last. Where that is more than the memory holds, the tensor of
the longest life among those in the way goes to main memory (Zhao et al.: the longest, not the largest): a result is
stored as it is made and fetched for each use, a constant is fetched for each use. Addresses are given by first fit, in
the order of the program; where none is free, one more is spilled. In the end the fetches move ahead of their use, as
far as their layer's small buffer has room.

Spilling ends: when nothing stays, each slot has its own buffers alone. Constants that are too large for even that
pass through rings, as in any other strategy (:meth:`girih.solver.residency.greedy.Greedy.least`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....ir.graph import Graph
from ....ir.machine import Machine, Memory
from ....ir.plan import SharedBuffer
from ...cost.local_buffers import round_up
from ...residency.greedy import KEPT, RINGED, STAYS, Decisions, Excess, Greedy, evaluate
from ...residency.main_addresses import homes
from ...residency.problem import Demand, Fetched
from ...residency.shared_buffers import Spot, occupied, places
from .fit import Item, first_fit, lowest

Span = tuple[int, int, int]
"""First slot, the slot after the last, bytes."""


@dataclass(frozen=True)
class Settled:
    """Buffers of shared and main memory; ``traffic``: cycles of the link between them; ``spilled``: how many."""

    buffers: tuple[SharedBuffer, ...]
    traffic: int
    spilled: int


@dataclass(frozen=True)
class _Tenant:
    """A result (a piece of the demand) or an item of it that may stay; what it occupies if it does and if not."""

    piece: int | None
    item: int | None
    stays: tuple[Span, ...]
    spilled: tuple[Span, ...]

    @property
    def life(self) -> int:
        return max(b for _, b, _ in self.stays) - min(a for a, _, _ in self.stays)

    def blocks(self, first: int, last: int) -> bool:
        """Whether it lives beyond single slots somewhere in ``first .. last``."""
        return any(b - a > 1 and a < last and first < b for a, b, _ in self.stays)


def settle(graph: Graph, machine: Machine, wanted: Demand, ahead: int) -> Settled | Excess:
    """The buffers; or the slot that does not fit, whatever is spilled. ``ahead``: slots between fetch and use."""
    memory = machine.role("shared")
    slots = len(wanted.cycles)
    hand = Greedy(wanted, np.full(slots, memory.capacity, dtype=np.int64))
    excess = hand.least()
    if excess is not None:
        return excess
    spilling = _Spilling(wanted, hand.decisions(), memory)
    spilling.by_bytes(hand.room)
    there, at = spilling.by_address()
    buffers = [replace(spot.buffer, address=a) for spot, a in zip(there, at, strict=True)]
    if ahead:
        buffers = _moved_ahead(wanted, there, buffers, memory, ahead)
    decided = spilling.decisions()
    away = (p.part.tensor for p, stays in zip(wanted.kept, decided.stay, strict=True) if not stays)
    order = sorted(range(len(there)), key=lambda i: (buffers[i].live[0], there[i].use, i))
    return Settled(
        (*(buffers[i] for i in order), *homes(graph, machine, (*wanted.homes, *away), slots)),
        evaluate(wanted, decided).traffic,
        spilling.spilled,
    )


class _Spilling:
    """Who stays. ``least``: the decisions with which nothing does."""

    def __init__(self, wanted: Demand, least: Decisions, memory: Memory) -> None:
        self.wanted = wanted
        self.least = least
        self.memory = memory
        self.tenants = list(self._tenants())
        self.spilled = 0

    def _tenants(self) -> Iterator[_Tenant]:
        readers: dict[int, list[int]] = {}
        for i, item in enumerate(self.wanted.fetched):
            if item.piece is not None and self.wanted.kept[item.piece].may_stay:
                readers.setdefault(item.piece, []).append(i)
            elif len(item.uses) > 1:
                tenant = _Tenant(None, i, self._runs(item, self._row(i, True)), self._runs(item, self._row(i, False)))
                if tenant.stays != tenant.spilled:
                    yield tenant
        for p, piece in enumerate(self.wanted.kept):
            if piece.may_stay:
                items = [self.wanted.fetched[i] for i in readers.get(p, [])]
                made = [(slot, slot + 1, part.bytes) for slot, part in piece.made]
                read = [(use.slot, use.slot + 1, item.bytes) for item in items for use in item.uses]
                yield _Tenant(p, None, ((*piece.live, piece.part.bytes),), (*made, *read))

    def _row(self, i: int, stays: bool) -> tuple[int, ...]:
        """How the uses of an item are served, if it stays between them or not."""
        row: list[int] = []
        for at in self.least.fetch[i]:
            row.append(KEPT if stays and at != RINGED and row and row[-1] != RINGED else at)
        return tuple(row)

    def _runs(self, item: Fetched, row: Sequence[int]) -> tuple[Span, ...]:
        found: list[Span] = []
        for use, at in zip(item.uses, row, strict=True):
            if at == KEPT:
                found[-1] = (found[-1][0], use.slot + 1, item.bytes)
            elif at != RINGED:
                found.append((use.slot, use.slot + 1, item.bytes))
        return tuple(found)

    def decisions(self) -> Decisions:
        """Fetches in the slots of their uses."""
        pieces = {t.piece for t in self.tenants}
        items = {t.item for t in self.tenants}
        rows = (
            (STAYS,) * len(item.uses) if item.piece is not None and item.piece in pieces else self._row(i, i in items)
            for i, item in enumerate(self.wanted.fetched)
        )
        return Decisions(tuple(p in pieces for p in range(len(self.wanted.kept))), tuple(rows), self.least.ring)

    def _spill(self, tenants: Sequence[_Tenant]) -> _Tenant:
        """The one of the longest life leaves; the larger of equals, then the first."""
        leaves = max(tenants, key=lambda t: (t.life, max(size for _, _, size in t.stays)))
        self.tenants.remove(leaves)
        self.spilled += 1
        return leaves

    def by_bytes(self, room: np.ndarray) -> None:
        """Spill until each slot has room in bytes; ``room``: what is left of it when nothing stays."""
        left = room.astype(np.int64)
        for tenant in self.tenants:
            left -= _change(tenant, len(left))
        for slot in range(len(left)):
            while left[slot] < 0:
                left += _change(self._spill([t for t in self.tenants if _change(t, len(left))[slot] > 0]), len(left))

    def by_address(self) -> tuple[list[Spot], list[int]]:
        """Spill until first fit finds an address for everything; what lies in the memory, and where."""
        while True:
            there = list(occupied(self.wanted, self.decisions(), self.memory.name))
            wished, place_of = places(there)
            items = [Item(round_up(w.request.bytes, self.memory.alignment), *w.request.live) for w in wished]
            at = first_fit(items)
            over = [item for a, item in zip(at, items, strict=True) if a + item.size > self.memory.capacity]
            if not over:
                return there, [at[p] for p in place_of]
            early = min(over, key=lambda item: item.first)
            self._spill([t for t in self.tenants if t.blocks(early.first, early.last)])


def _change(tenant: _Tenant, slots: int) -> np.ndarray:
    """By slot, how many bytes more a tenant takes if it stays."""
    change = np.zeros(slots, dtype=np.int64)
    for sign, spans in ((1, tenant.stays), (-1, tenant.spilled)):
        for first, last, size in spans:
            change[first:last] += sign * size
    return change


def _moved_ahead(
    wanted: Demand, there: Sequence[Spot], buffers: Sequence[SharedBuffer], memory: Memory, ahead: int
) -> list[SharedBuffer]:
    """Each fetch as early as its place or another one is free, in the order of use, at most ``ahead`` slots."""
    first = np.array([b.live[0] for b in buffers])
    last = np.array([b.live[1] for b in buffers])
    low = np.array([b.address for b in buffers])
    high = low + np.array([round_up(b.bytes, memory.alignment) for b in buffers])
    for i in sorted(range(len(there)), key=lambda i: (there[i].use, i)):
        source = there[i].source
        if source is None:
            continue
        item, use = wanted.fetched[source[0]], source[1]
        before = item.uses[use - 1].slot + 1 if use else 0
        size = int(high[i] - low[i])
        for begin in range(max(item.ready, before, int(first[i]) - ahead, 0), int(first[i])):
            near = np.flatnonzero((first < last[i]) & (last > begin))
            address = lowest(sorted((int(low[j]), int(high[j])) for j in near if j != i), size)
            if address + size <= memory.capacity:
                first[i], low[i], high[i] = begin, address, address + size
                break
    return [replace(b, address=int(a), live=(int(f), b.live[1])) for b, a, f in zip(buffers, low, first, strict=True)]
