"""Residency by hand: decisions, what they cost, and a first good answer for the solver to improve.

The timing that every answer is judged by: slot s begins at P[s] and needs c[s] cycles. The link to main memory serves
in order; what is issued in slots up to s has arrived at D[s]:

    D[s] = max(D[s-1], P[s]) + load[s]        load[s]: fetches issued in s, stores of what slot s - 1 made
    P[s+1] = max(P[s] + c[s], D[f] + wait, ...)   for each fetch, issued in slot f, of something that slot s uses
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from .problem import Demand
from .weight_chunks import Ring

KEPT, STAYS, RINGED = -1, -2, -3
"""Instead of a slot that a fetch is issued in: still there since the last use; never left; a ring brings it."""

LEAD = 1 << 20
"""Leads are in multiples of the time that so many bytes take from main memory."""
STALL_WEIGHT = 16
"""One cycle of the whole is worth as much as this many cycles of traffic."""


@dataclass(frozen=True)
class Decisions:
    """``stay``: for each kept piece. ``fetch[i][k]``: slot or code for use ``k`` of item ``i``. ``ring``: by option."""

    stay: tuple[bool, ...]
    fetch: tuple[tuple[int, ...], ...]
    ring: dict[tuple[str, int], int]


@dataclass(frozen=True)
class Outcome:
    """When slots begin, when the link has delivered what was issued up to each slot, the end, and the traffic."""

    begin: tuple[int, ...]
    done: tuple[int, ...]
    end: int
    traffic: int

    @property
    def objective(self) -> int:
        return STALL_WEIGHT * self.end + self.traffic


def least_wait(demand: Demand) -> dict[tuple[str, int], int]:
    """By streamed operand and slot: the work that is left when the last chunk is needed."""
    found: dict[tuple[str, int], int] = {}
    for item in demand.fetched:
        if item.stream is not None:
            for use in item.uses:
                key = (item.stream, use.slot)
                found[key] = min(found.get(key, use.wait), use.wait)
    return found


def evaluate(demand: Demand, decisions: Decisions) -> Outcome:
    """What the decisions cost."""
    slots = len(demand.cycles)
    load = [0] * (slots + 1)
    waits: list[list[tuple[int, int]]] = [[] for _ in range(slots)]
    inline: list[list[tuple[int, int]]] = [[] for _ in range(slots)]
    least = least_wait(demand)
    for piece, stays in zip(demand.kept, decisions.stay, strict=True):
        if stays and piece.stored:
            load[piece.made[0][0] + 1] += piece.part.cycles
        if not stays:
            for slot, part in piece.made:
                load[slot + 1] += part.cycles
    for item, fetch in zip(demand.fetched, decisions.fetch, strict=True):
        for use, f in zip(item.uses, fetch, strict=True):
            if f >= 0:
                load[f] += item.cycles
                wait = use.wait if item.stream is None else least[item.stream, use.slot]
                waits[use.slot].append((f, wait))
                if f == use.slot:
                    inline[f].append((item.cycles, use.wait))
    for (tensor, slot), option in decisions.ring.items():
        made = demand.rings[tensor, slot][option]
        load[slot] += demand.ring_cycles(made)
        waits[slot].append((slot, demand.cycles[slot] // made.phases))
        inline[slot].append((int(made.ahead / demand.rate), demand.cycles[slot]))
    begin, done = [0], list[int]()
    for s, cycles in enumerate(demand.cycles):
        done.append(max(done[-1] if done else 0, begin[s]) + load[s])
        end = max([begin[s] + cycles, *(done[f] + wait for f, wait in waits[s])])
        arrived = begin[s]
        for moved, wait in inline[s]:
            arrived += moved
            end = max(end, arrived + wait)
        begin.append(end)
    last = max(done[-1] if done else 0, begin[-1]) + load[-1] if load[-1] else max(done[-1] if done else 0, begin[-1])
    return Outcome(tuple(begin), tuple(done), last, sum(load))


def bound(demand: Demand) -> int:
    """No decisions have a smaller objective: all computation, and each byte that must move at least once."""
    ringed = {tensor for tensor, _ in demand.rings}
    moved = sum(
        min(p.cycles, int(p.bytes / demand.rate)) if item.stream in ringed else p.cycles
        for item in demand.fetched
        if item.piece is None
        for p in item.parts
    )
    moved += sum(p.part.cycles if p.may_stay else sum(m.cycles for _, m in p.made) for p in demand.kept if p.stored)
    return STALL_WEIGHT * max(sum(demand.cycles), moved) + moved


Offers = Callable[[int, int], Sequence[int]]
"""By item and use: slots in which its fetch may be issued, in order, that of the use last."""


def offers(demand: Demand, leads: Sequence[float]) -> Offers:
    """Slots that begin ``leads`` times what :data:`LEAD` bytes take before the use, in computation alone."""
    starts = np.concatenate([[0], np.cumsum(demand.cycles)])
    unit = LEAD / demand.rate

    @cache
    def choose(i: int, k: int) -> Sequence[int]:
        item = demand.fetched[i]
        slot = item.uses[k].slot
        least = max(item.ready, item.uses[k - 1].slot + 1 if k else 0)
        wanted = np.searchsorted(starts, starts[slot] - np.array(leads) * unit, side="right") - 1
        return sorted({max(int(f), least) for f in wanted} | {slot})

    return choose


@dataclass(frozen=True)
class Excess:
    """A slot that even the least of everything overfills, by ``bytes``; ``tensors`` are what it needs."""

    slot: int
    bytes: int
    tensors: tuple[str, ...]


class _Link:
    """When the link has delivered what is issued up to each slot, if slots begin at ``starts``; loads may change.

    Only what follows a change is computed again, and only when it is asked for.
    """

    def __init__(self, starts: NDArray[np.int64], load: NDArray[np.int64]) -> None:
        self._starts = starts
        self._load = load
        self._done = np.zeros_like(load)
        self._known = 0
        """Slots for which this holds."""

    def change(self, slot: int, by: int) -> None:
        self._load[slot] += by
        self._known = min(self._known, slot)

    def delivered(self, last: int) -> NDArray[np.int64]:
        """By slot, right up to ``last``."""
        if self._known <= last:
            part = slice(self._known, last + 1)
            load = self._load[part]
            moved = np.cumsum(load)
            before = self._done[self._known - 1] if self._known else 0
            self._done[part] = moved + np.maximum(np.maximum.accumulate(self._starts[part] - moved + load), before)
            self._known = last + 1
        return self._done


class Greedy:
    """Builds decisions that fit into ``room`` (bytes by slot), one kind after the other."""

    def __init__(self, demand: Demand, room: NDArray[np.int64]) -> None:
        self.demand = demand
        self.room = room.copy()
        self.stay = [False] * len(demand.kept)
        self.fetch = [[use.slot for use in item.uses] for item in demand.fetched]
        self.ring: dict[tuple[str, int], int] = {}

    def copy(self) -> Greedy:
        """The same decisions, to go on from."""
        other = Greedy(self.demand, self.room)
        other.stay, other.fetch, other.ring = self.stay.copy(), [f.copy() for f in self.fetch], self.ring.copy()
        return other

    def least(self) -> Excess | None:
        """Everything in main memory and fetched where it is used; rings where that is too much."""
        demand = self.demand
        for piece in demand.kept:
            for slot, part in piece.made:
                self.room[slot] -= part.bytes
        for item in demand.fetched:
            for use in item.uses:
                self.room[use.slot] -= item.bytes
        for slot in np.flatnonzero(self.room < 0):
            options = [(tensor, rings) for (tensor, s), rings in demand.rings.items() if s == slot]
            for tensor, rings in sorted(options, key=lambda o: -self._streamed(o[0], int(slot))):
                held = self._streamed(tensor, int(slot))
                choices = [o for o, r in enumerate(rings) if r.bytes < held]
                if self.room[slot] >= 0 or not choices:
                    continue
                fitting = [o for o in choices if self.room[slot] + held - rings[o].bytes >= 0]
                option = fitting[0] if fitting else min(choices, key=lambda o: rings[o].bytes)
                self._use_ring(tensor, int(slot), option, rings[option], held)
            if self.room[slot] < 0:
                return Excess(int(slot), int(-self.room[slot]), self._needed(int(slot)))
        return None

    def keeps(self, favour: float = 1.0) -> None:
        """Let pieces stay and items last to their next use: first what saves most for the memory and time it takes.

        ``favour``: how much more a cycle saved on pieces counts: they are made late and needed soon.
        """
        demand = self.demand
        reads: dict[int, list[int]] = {}
        for i, item in enumerate(demand.fetched):
            if item.piece is not None:
                reads.setdefault(item.piece, []).append(i)
        ranked: list[tuple[float, int, int, int]] = []
        for p, piece in enumerate(demand.kept):
            if piece.may_stay:
                saved = sum(part.cycles for _, part in piece.made) - (piece.part.cycles if piece.stored else 0)
                saved += sum(demand.fetched[i].cycles * len(demand.fetched[i].uses) for i in reads.get(p, []))
                ranked.append((-favour * saved / (piece.part.bytes * (piece.live[1] - piece.live[0])), 0, p, 0))
        for i, item in enumerate(demand.fetched):
            for k, (first, second) in enumerate(zip(item.uses, item.uses[1:], strict=False)):
                if self.fetch[i][k] >= 0 and self.fetch[i][k + 1] >= 0:
                    room = item.bytes * (second.slot - first.slot - 1)
                    ranked.append((-item.cycles / max(1, room), 1, i, k + 1))
        for _, kind, number, k in sorted(ranked):
            if kind == 0:
                self._stay(number, reads.get(number, []))
            else:
                self._keep(number, k)

    def _stay(self, p: int, reads: list[int]) -> None:
        """Keep a piece, if there is room; what its readers kept of it is not needed then."""
        demand, piece = self.demand, self.demand.kept[p]
        change = np.zeros_like(self.room)
        change[piece.live[0] : piece.live[1]] += piece.part.bytes
        for slot, part in piece.made:
            change[slot] -= part.bytes
        for i in reads:
            item = demand.fetched[i]
            for k, use in enumerate(item.uses):
                first = item.uses[k - 1].slot + 1 if self.fetch[i][k] == KEPT else use.slot
                change[first : use.slot + 1] -= item.bytes
        if (change <= self.room).all():
            self.room -= change
            self.stay[p] = True
            for i in reads:
                self.fetch[i] = [STAYS] * len(self.fetch[i])

    def _keep(self, i: int, k: int) -> None:
        """Keep what is there for use ``k - 1`` until use ``k``, if there is room."""
        item = self.demand.fetched[i]
        between = slice(item.uses[k - 1].slot + 1, item.uses[k].slot)
        if self.fetch[i][k] >= 0 and (self.room[between] >= item.bytes).all():
            self.room[between] -= item.bytes
            self.fetch[i][k] = KEPT

    def leads(self, offers: Offers, early: bool) -> None:
        """Fetch ahead, in the order of use: as ``early`` as offered, or just early enough not to be waited for."""
        starts = np.concatenate([[0], np.cumsum(self.demand.cycles)])[:-1]
        link = _Link(starts, self._load())
        wanted = sorted(
            ((use.slot, i, k) for i, item in enumerate(self.demand.fetched) for k, use in enumerate(item.uses)),
            key=lambda w: (w[0], w[1]),
        )
        for slot, i, k in wanted:
            if self.fetch[i][k] != slot:
                continue
            item = self.demand.fetched[i]
            offered = offers(i, k)
            free = slot
            while free > offered[0] and self.room[free - 1] >= item.bytes:
                free -= 1
            fitting = [f for f in offered if f >= free]
            at = fitting[0]
            if not early:
                link.change(slot, -item.cycles)
                done = link.delivered(slot)
                in_time = [f for f in fitting if done[f] + item.cycles <= starts[slot]]
                at = in_time[-1] if in_time else min(fitting, key=lambda f: (done[f], -f))
                link.change(at, item.cycles)
            self.fetch[i][k] = at
            self.room[at:slot] -= item.bytes

    def _load(self) -> NDArray[np.int64]:
        """Cycles of the link for what is issued in each slot, as decided so far."""
        load = np.zeros(len(self.demand.cycles) + 1, dtype=np.int64)
        for piece, stays in zip(self.demand.kept, self.stay, strict=True):
            for slot, part in piece.made:
                load[slot + 1] += 0 if stays else part.cycles
        for item, row in zip(self.demand.fetched, self.fetch, strict=True):
            for at in row:
                if at >= 0:
                    load[at] += item.cycles
        for (tensor, slot), option in self.ring.items():
            load[slot] += self.demand.ring_cycles(self.demand.rings[tensor, slot][option])
        return load[:-1]

    def decisions(self) -> Decisions:
        return Decisions(tuple(self.stay), tuple(tuple(f) for f in self.fetch), dict(self.ring))

    def _streamed(self, tensor: str, slot: int) -> int:
        return sum(
            item.bytes
            for item in self.demand.fetched
            if item.stream == tensor and any(u.slot == slot for u in item.uses)
        )

    def _use_ring(self, tensor: str, slot: int, option: int, made: Ring, held: int) -> None:
        self.ring[tensor, slot] = option
        self.room[slot] += held - made.bytes
        for i, item in enumerate(self.demand.fetched):
            if item.stream == tensor:
                for k, use in enumerate(item.uses):
                    if use.slot == slot:
                        self.fetch[i][k] = RINGED

    def _needed(self, slot: int) -> tuple[str, ...]:
        found = [(part.bytes, part.tensor) for piece in self.demand.kept for s, part in piece.made if s == slot]
        found += [
            (part.bytes, part.tensor)
            for item in self.demand.fetched
            if any(u.slot == slot for u in item.uses)
            for part in item.parts
        ]
        return tuple(dict.fromkeys(name for _, name in sorted(found, key=lambda f: (-f[0], f[1]))))
