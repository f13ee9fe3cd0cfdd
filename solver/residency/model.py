"""Model 2: what lives in the shared memory when, and when it is fetched.

Sets and data: slots s with c_s cycles of computation; the shared memory's room R_s (bytes; cuts make it smaller).
Items i with b_i bytes and t_i cycles on the link to main memory, used in slots u_i1 < u_i2 < ..., fetched not before
slot r_i; pieces p with b_p bytes that could be kept while they live; rings o for streamed weights (d, u), with b_o
bytes for their two regions (see :mod:`girih.solver.residency.problem` and :mod:`girih.solver.residency.weight_chunks`).

Variables: x_ikf, use k of item i is served by a fetch issued in slot f (out of a few that begin early enough); y_ik,
by what is there since use k - 1; z_duo, by ring o; h_p, piece p stays (then the items that would read it need
nothing); P_s, slot s begins; D_s, the link has done all that was issued up to s.

Constraints:
 (1) each use is served once: sum_f x_ikf + y_ik + sum_o z_duo + h_p(i) = 1.
 (2) what is still there was there: y_ik + sum_o z_do at use k - 1 <= 1.
 (3) room: what is fetched or kept for a use is there from the fetch (or the use before) up to the use; a piece that
     stays is there for its life, one that does not is there in the slots that make it: sum of bytes <= R_s.
 (4) link: D_s >= D_(s-1) + l_s and D_s >= P_s + l_s, with l_s the cycles of fetches issued in s, and of stores of what
     slot s - 1 made.
 (5) computation: P_(s+1) >= P_s + c_s, and x_ikf => P_(s+1) >= D_f + w for s = u_ik, where w is the part of c_s that is
     left when the last chunk of the operand is needed.
 (6) fetches in the slot of their use: x_iks => P_(s+1) >= P_s + (t of this and of those before it) + w_ik.

Objective: minimise 16 * end + traffic, both in cycles; end is the larger of the last P and D.

Relaxations: computation of a slot is an estimate, and slots do not overlap; one link for both directions. Without the
solver, :mod:`girih.solver.residency.greedy` decides, and where it meets the sum of all work the solver is not asked.
Reference: Checkmate (Jain et al., MLSys 2020) for keep-or-not over a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..cpsat.backend import Model, Var
from ..cpsat.expressions import Sum
from .greedy import KEPT, RINGED, STALL_WEIGHT, Decisions, Offers, Outcome, least_wait, offers
from .problem import Demand

LEADS: tuple[tuple[int, tuple[float, ...]], ...] = (
    (500, (0, 0.125, 0.25, 0.5, 1, 2, 4, 8)),
    (1500, (0, 0.25, 0.5, 1, 2, 4, 8)),
)
FEW_LEADS = (0, 0.5, 1, 2, 5)
"""By number of uses: how early the model offers to issue a fetch (see :func:`girih.solver.residency.greedy.offers`)."""


def affordable(demand: Demand) -> Offers:
    """The fetch slots that a model of this size can afford."""
    uses = sum(len(item.uses) for item in demand.fetched)
    return offers(demand, next((options for most, options in LEADS if uses <= most), FEW_LEADS))


@dataclass
class Variables:
    stay: list[Var | None]
    begin: list[Var] = field(default_factory=list[Var])
    done: list[Var] = field(default_factory=list[Var])
    ends: list[Var] = field(default_factory=list[Var])
    fetch: list[list[dict[int, Var]]] = field(default_factory=list[list[dict[int, Var]]])
    keep: list[list[Var | None]] = field(default_factory=list[list["Var | None"]])
    ring: dict[tuple[str, int], list[Var]] = field(default_factory=dict[tuple[str, int], list[Var]])
    any_of: list[tuple[Var, list[Var]]] = field(default_factory=list[tuple[Var, list[Var]]])
    """Literals that are implied by any of others."""

    @property
    def end(self) -> Var:
        return self.ends[0]


@dataclass(frozen=True)
class Window:
    """Only uses in ``slots``, and pieces that live in them, are decided anew; the rest stays as ``decided``."""

    decided: Decisions
    outcome: Outcome
    slots: range


class ResidencyModel:
    """The constraint model of one demand, or of a window of it; ``disabled`` groups are left out."""

    def __init__(
        self,
        demand: Demand,
        room: NDArray[np.int64],
        choose: Offers,
        horizon: int,
        window: Window | None = None,
        disabled: frozenset[str] = frozenset(),
    ) -> None:
        self.demand = demand
        self.room = room
        self.window = window
        self.model = m = Model("residency", disabled=disabled)
        self.slots = len(demand.cycles)
        self.load = [Sum() for _ in range(self.slots + 1)]
        self.held = [Sum() for _ in range(self.slots)]
        pieces = enumerate(demand.kept)
        stay = [m.bool(f"stay[{p.part.tensor}]") if p.may_stay and self._free_piece(i) else None for i, p in pieces]
        self.v = Variables(stay)
        self._choices(choose)
        self._pieces()
        self._times(horizon)
        self._served()
        self._room()
        self._link()
        self._computation()
        self._inline()
        traffic = Sum()
        for load in self.load:
            traffic.terms += load.terms
            traffic.weights += load.weights
            traffic.constant += load.constant
        m.minimize(STALL_WEIGHT * self.v.end + traffic.expr)

    def _free_piece(self, p: int) -> bool:
        if self.window is None:
            return True
        live, slots = self.demand.kept[p].live, self.window.slots
        return live[0] < slots.stop and slots.start < live[1]

    def fixed(self, i: int, k: int) -> int | None:
        """The slot or code that use ``k`` of item ``i`` is bound to; ``None`` if it is decided here."""
        item = self.demand.fetched[i]
        if self.window is None or item.uses[k].slot in self.window.slots:
            return None
        if item.piece is not None and self._free_piece(item.piece):
            return None
        return self.window.decided.fetch[i][k]

    def _choices(self, choose: Offers) -> None:
        """The variables of fetches, and what each adds to link and memory."""
        m, d, v = self.model, self.demand, self.v
        for i, item in enumerate(d.fetched):
            name = item.parts[0].tensor
            fetch: list[dict[int, Var]] = []
            keep: list[Var | None] = []
            for k, use in enumerate(item.uses):
                before = item.uses[k - 1].slot if k else -1
                fixed = self.fixed(i, k)
                if fixed is not None:
                    fetch.append({})
                    keep.append(None)
                    if fixed >= 0:
                        self.load[fixed].constant += item.cycles
                    first = fixed if fixed >= 0 else before + 1
                    for s in range(first, use.slot + 1) if fixed >= KEPT else ():
                        self.held[s].constant += item.bytes
                    continue
                slots = set(choose(i, k))
                if self.window is not None and self.window.decided.fetch[i][k] >= 0:
                    slots.add(self.window.decided.fetch[i][k])
                fetch.append({f: m.bool(f"fetch[{name}#{i}, {use.slot}, {f}]") for f in sorted(slots, reverse=True)})
                left = k > 0 and self.fixed(i, k - 1) != RINGED
                keep.append(m.bool(f"keep[{name}#{i}, {use.slot}]") if left else None)
                for f, x in fetch[k].items():
                    self.load[f].add(item.cycles, x)
                    for s in range(f, use.slot + 1):
                        self.held[s].add(item.bytes, x)
                still = keep[k]
                if still is not None:
                    for s in range(before + 1, use.slot + 1):
                        self.held[s].add(item.bytes, still)
            v.fetch.append(fetch)
            v.keep.append(keep)
        for (tensor, slot), rings in d.rings.items():
            if self.window is not None and slot not in self.window.slots:
                option = self.window.decided.ring.get((tensor, slot))
                if option is not None:
                    self.load[slot].constant += d.ring_cycles(rings[option])
                    self.held[slot].constant += rings[option].bytes
                continue
            v.ring[tensor, slot] = [m.bool(f"ring[{tensor}, {slot}, {o}]") for o in range(len(rings))]
            for z, made in zip(v.ring[tensor, slot], rings, strict=True):
                self.load[slot].add(d.ring_cycles(made), z)
                self.held[slot].add(made.bytes, z)

    def _pieces(self) -> None:
        """What pieces add to link and memory, staying or not."""
        for p, (piece, stay) in enumerate(zip(self.demand.kept, self.v.stay, strict=True)):
            stays = stay is None and self.window is not None and self.window.decided.stay[p]
            if not stays:
                for slot, part in piece.made:
                    self.load[slot + 1].constant += part.cycles
                    self.held[slot].constant += part.bytes
            if stay is not None:
                for slot, part in piece.made:
                    self.load[slot + 1].add(-part.cycles, stay)
                    self.held[slot].add(-part.bytes, stay)
            if stays or stay is not None:
                for s in range(*piece.live):
                    self.held[s].plus(piece.part.bytes, stay)
                if piece.stored:
                    self.load[piece.made[0][0] + 1].plus(piece.part.cycles, stay)

    def _times(self, horizon: int) -> None:
        """Slots before the first that anything is decided for begin when they did; those after the last follow."""
        m, first = self.model, 0
        if self.window is not None:
            first = next((s for s, load in enumerate(self.load) if load.terms), self.window.slots.start)
            first = min(first, self.window.slots.start)
        self.stop = min(self.slots, self._changes() + 1)
        for s in range(self.stop + 1):
            early = self.window is not None and s <= first
            self.v.begin.append(
                m.constant(self.window.outcome.begin[s])
                if early and self.window is not None
                else m.int(0, horizon, f"begin[{s}]")
            )
            before = self.window is not None and s < first
            self.v.done.append(
                m.constant(self.window.outcome.done[s])
                if before and self.window is not None
                else m.int(0, horizon, f"done[{s}]")
            )
        self.v.ends.append(m.int(0, horizon, "end"))
        self.first = first

    def _changes(self) -> int:
        """The last slot whose times anything that is decided here can change by itself."""
        if self.window is None:
            return self.slots
        loads = (s for s, load in enumerate(self.load) if load.terms)
        uses = (
            use.slot + 1
            for i, item in enumerate(self.demand.fetched)
            for k, use in enumerate(item.uses)
            if self.fixed(i, k) is None
        )
        return max((self.window.slots.stop, *loads, *uses))

    def _served(self) -> None:
        """(1) and (2)."""
        with self.model.group("served"):
            for i, item in enumerate(self.demand.fetched):
                stay = None if item.piece is None else self.v.stay[item.piece]
                for k, use in enumerate(item.uses):
                    rings = self.v.ring.get((item.stream, use.slot), []) if item.stream is not None else []
                    still = self.v.keep[i][k]
                    if self.fixed(i, k) is None:
                        ways = [*self.v.fetch[i][k].values(), *rings]
                        ways += [way for way in (still, stay) if way is not None]
                        self.model.exactly_one(ways)
                    if rings and k + 1 < len(item.uses):
                        later = self.v.keep[i][k + 1]
                        if later is not None:
                            self.model.at_most_one([later, *rings])
                        elif self.fixed(i, k + 1) == KEPT:
                            self.model.at_most_one([self.model.constant(1), *rings])

    def _room(self) -> None:
        """(3), where it can be violated at all."""
        with self.model.group("room"):
            for s, held in enumerate(self.held):
                if held.terms and held.most > self.room[s]:
                    self.model.add(held.expr <= int(self.room[s]))

    def _link(self) -> None:
        """(4); the last entry is what the last slot stores."""
        for s, load in enumerate(self.load[: self.stop + 1]):
            if s < self.first:
                continue
            self.model.add(self.v.done[s] >= self.v.begin[s] + load.expr)
            if s:
                self.model.add(self.v.done[s] >= self.v.done[s - 1] + load.expr)
        self._tail()

    def _tail(self) -> None:
        """What is decided already after the last slot that can change: its longest ways to the end."""
        stop, slots = self.stop, self.slots
        waits, inline = self._decided_after(stop)
        load = [x.constant for x in self.load]
        # From the begin of each slot, and from when the link has done what was issued up to it.
        begin, done = [0] * (slots + 1), [0] * (slots + 1)
        begin[slots] = load[slots] if stop < slots else 0
        for s in range(slots - 1, stop - 1, -1):
            for f, wait in waits[s]:
                done[f] = max(done[f], begin[s + 1] + wait)
            done[s] = max(done[s], load[s + 1] + done[s + 1])
            begin[s] = max(begin[s + 1] + max(self.demand.cycles[s], inline[s]), load[s] + done[s])
        self.model.add(self.v.end >= self.v.begin[stop] + begin[stop])
        self.model.add(self.v.end >= self.v.done[stop] + done[stop])
        for f in range(stop):
            if done[f]:
                self.model.add(self.v.end >= self.v.done[f] + done[f])

    def _decided_after(self, stop: int) -> tuple[list[list[tuple[int, int]]], list[int]]:
        """(5) and (6) of the slots from ``stop`` on: (slot, wait) of each fetch that is waited for, and what fetches in
        the slot of their use take with the work after them."""
        d, window = self.demand, self.window
        waits: list[list[tuple[int, int]]] = [[] for _ in range(self.slots)]
        moved, inline = [0] * self.slots, [0] * self.slots
        if window is None or stop == self.slots:
            return waits, inline
        least = least_wait(d)
        for item, row in zip(d.fetched, window.decided.fetch, strict=True):
            for use, f in zip(item.uses, row, strict=True):
                if use.slot >= stop and f >= 0:
                    wait = use.wait if item.stream is None else least[item.stream, use.slot]
                    waits[use.slot].append((f, wait))
                    if f == use.slot:
                        moved[f] += item.cycles
                        inline[f] = max(inline[f], moved[f] + use.wait)
        for (tensor, slot), option in window.decided.ring.items():
            if slot >= stop:
                made = d.rings[tensor, slot][option]
                waits[slot].append((slot, d.cycles[slot] // made.phases))
                moved[slot] += int(made.ahead / d.rate)
                inline[slot] = max(inline[slot], moved[slot] + d.cycles[slot])
        return waits, inline

    def _computation(self) -> None:
        """(5)"""
        least = least_wait(self.demand)
        waits: dict[tuple[int, int, int], list[Var]] = {}
        always: set[tuple[int, int, int]] = set()
        for i, item in enumerate(self.demand.fetched):
            for k, use in enumerate(item.uses):
                wait = use.wait if item.stream is None else least[item.stream, use.slot]
                fixed = self.fixed(i, k)
                if fixed is not None and fixed >= 0:
                    always.add((use.slot, fixed, wait))
                for f, x in self.v.fetch[i][k].items():
                    waits.setdefault((use.slot, f, wait), []).append(x)
        for (tensor, slot), rings in self.demand.rings.items():
            for o, made in enumerate(rings):
                key = (slot, slot, self.demand.cycles[slot] // made.phases)
                if (tensor, slot) in self.v.ring:
                    waits.setdefault(key, []).append(self.v.ring[tensor, slot][o])
                elif self.window is not None and self.window.decided.ring.get((tensor, slot)) == o:
                    always.add(key)
        for s, cycles in enumerate(self.demand.cycles[: self.stop]):
            if s >= self.first:
                self.model.add(self.v.begin[s + 1] >= self.v.begin[s] + cycles)
        for s, f, wait in sorted(always):
            if self.first <= s < self.stop:
                self.model.add(self.v.begin[s + 1] >= self.v.done[f] + wait)
        for (s, f, wait), any_of in waits.items():
            if (s, f, wait) in always:
                continue
            need = any_of[0]
            if len(any_of) > 1:
                need = self.model.bool(f"wait[{s}, {f}, {wait}]")
                self.v.any_of.append((need, any_of))
                for x in any_of:
                    self.model.implication(x, need)
            self.model.add(self.v.begin[s + 1] >= self.v.done[f] + wait, when=need)

    def _inline(self) -> None:
        """(6)"""
        here: list[Sum] = [Sum() for _ in range(self.slots)]
        for i, item in enumerate(self.demand.fetched):
            for k, use in enumerate(item.uses):
                x = self.v.fetch[i][k].get(use.slot)
                if x is not None or self.fixed(i, k) == use.slot:
                    here[use.slot].plus(item.cycles, x)
                    self._arrives(use.slot, here[use.slot], use.wait, x)
        for (tensor, slot), rings in self.demand.rings.items():
            for o, made in enumerate(rings):
                z = self.v.ring[tensor, slot][o] if (tensor, slot) in self.v.ring else None
                if z is not None or (self.window and self.window.decided.ring.get((tensor, slot)) == o):
                    here[slot].plus(int(made.ahead / self.demand.rate), z)
                    self._arrives(slot, here[slot], self.demand.cycles[slot], z)

    def _arrives(self, slot: int, moved: Sum, wait: int, when: Var | None) -> None:
        if self.first <= slot < self.stop:
            self.model.add(self.v.begin[slot + 1] >= self.v.begin[slot] + moved.expr + wait, when=when)
