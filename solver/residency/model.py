"""Model 2: what lives in the shared memory when: what stays, what is retained, what passes through circular buffers.

When fetches are issued follows from that (:mod:`.fetch_slots`), and is relaxed here to a flow of bytes that may be
divided at will. What is proven for the flow holds for the exact timing of :mod:`.evaluation`.

Sets and data: slots s with c_s cycles of computation; the shared memory's room R_s (bytes; reservations make it
smaller). Items i with b_i bytes and t_i cycles on the link to main memory, used in slots u_i1 < u_i2 < ..., use k with
w_ik cycles of its slot's work left when it needs the data, fetched not before slot e_ik; intermediates p with b_p bytes
that could be resident while they live; circular buffers o for streamed weights (d, u), with b_o bytes for their two
regions, t_o cycles on the link, g_o of them before the slot's work, and w_o cycles of work after them (see
:mod:`.problem` and :mod:`.partition.weight_chunks`). The flow is counted in cycles of the link at its best rate B, the
most bytes a cycle of all items: v_i = floor(b_i / B) <= t_i.

Variables: x_ik, use k of item i is fetched; y_ik, it is served by what is retained since use k - 1; z_duo, by circular
buffer o; h_p, intermediate p is resident (then the items that would read it need nothing); E_s, what slot s takes; C_s,
what has been fetched up to the end of slot s; O_s, what is stored in slot s.
U_s, what slots up to s have used, is the sum of x_ik v_i over their uses.

Constraints:
 (1) each use is served once: x_ik + y_ik + sum_o z_duo + h_p(i) = 1.
 (2) what is retained was there: y_ik + sum_o z_do at use k - 1 <= 1.
 (3) room: what is fetched or retained for a use is there in its slot (and from the use before); a resident intermediate
     is there for its life, a spilled one in the slots that write it: sum of bytes H_s <= R_s.
 (4) room for what is fetched ahead: H_s / B + C_s - U_s <= R_s / B.
 (5) link: C_s - C_(s-1) + O_s + sum_o z (t_o + w_o) <= E_s; the link is idle after the last chunk of a circular buffer.
 (6) what is used was fetched: C_(s-1) <= C_s; U_s <= C_s; of uses k with e_ik = e > 0: sum of x_ik v_i <=
     C_s - C_(e-1).
 (7) computation: E_s >= c_s; E_s >= U_(s-1) - C_(s-1) + sum of x_jl v_j over the uses of slot s with w_jl >= w_ik, plus
     w_ik x_ik; without U - C over those with e_jl = s.
 (8) circular buffers: E_s >= z_duo max(g_o + c_s, t_o + w_o).
 (9) stores: sum of O up to s <= what slots before s wrote.
(10) end >= sum of E + what is not stored by then; end >= traffic.

Objective: minimise 16 * end + traffic, both in cycles.

Of a window only the open decisions are variables: uses in its slots, intermediates that live in them, and what reads
those.

Relaxations: fetches are divided at will, and what a fetch takes beyond its bytes counts for traffic alone; (6) where it
is near; computation of a slot is an estimate, and slots do not overlap; one link for both directions. The hint is
:mod:`girih.solver.residency.greedy`; where it meets the bound of :mod:`.bound`, the solver does not run.
Reference: Checkmate (Jain et al., MLSys 2020) for keep-or-not over a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from ..cpsat.backend import Expr, Model, Solution, Var, total
from ..cpsat.expressions import Sum
from .decisions import STALL_WEIGHT, Decisions, NoFetch, Source
from .evaluation import circular_effect, circular_transfer, resident_effect, spilled_effect
from .problem import ResidencyProblem

NEAR = 12
"""Slots between the first in which a fetch can be issued and its use, up to which (6) is stated. Chosen."""


class ResidencyModel:
    """The constraint model of a window of slots; everything else stays as ``decided``. ``horizon``: no end is later.

    ``resident``, ``circular``, ``fetched`` and ``retained`` are h, z, x and y: literals where they are open, and what
    was decided elsewhere.
    """

    def __init__(
        self, problem: ResidencyProblem, room: NDArray[np.int64], decided: Decisions, window: range, horizon: int
    ) -> None:
        self.problem = problem
        self.decided = decided
        self.window = window
        self.model = Model("residency")
        slots = len(problem.cycles)
        self.best_rate = max((item.bytes / item.cycles for item in problem.items), default=1.0)
        self._room = room
        self._horizon = horizon
        self._flow = [int(item.bytes / self.best_rate) for item in problem.items]
        self.resident = self._open_intermediates()
        self.circular = self._open_circular()
        self.fetched: list[list[Var | bool]] = []
        self.retained: list[list[Var | bool]] = []
        self._held = [Sum() for _ in range(slots)]
        self._moved = [Sum() for _ in range(slots)]
        """By slot: cycles of the link for circular buffers, and those after which it is idle."""
        self._stored = [Sum() for _ in range(slots + 1)]
        self._traffic = Sum()
        self._uses: list[list[tuple[int, int, int, int]]] = [[] for _ in range(slots)]
        """By slot: (w, first slot of its fetch, item, use) of what may be fetched."""
        m = self.model
        self._duration = [m.int(cycles, horizon, f"duration[{s}]") for s, cycles in self._slots()]
        self._done = [m.int(0, horizon, f"fetched[{s}]") for s, _ in self._slots()]
        self._used = [m.int(0, horizon, f"used[{s}]") for s, _ in self._slots()]
        self._end = m.int(0, horizon, "end")
        constraints: tuple[tuple[str, Callable[[], None]], ...] = (
            ("served", self._serve),  # (1), (2)
            ("intermediates", self._intermediates),
            ("circular buffers", self._circular_buffers),  # (8)
            ("room", self._rooms),  # (3), (4)
            ("used", self._use),  # (6)
            ("computation", self._computation),  # (7)
            ("link", self._link),  # (5), (9), (10)
        )
        for name, constrain in constraints:
            with m.group(name):
                constrain()
        m.minimize(STALL_WEIGHT * self._end + self._traffic.expr)

    def _slots(self) -> enumerate[int]:
        return enumerate(self.problem.cycles)

    # What is open.

    def _lives(self, p: int) -> bool:
        live = self.problem.intermediates[p].live
        return live[0] < self.window.stop and self.window.start < live[1]

    def _open_intermediates(self) -> list[Var | bool]:
        return [
            self.model.bool(f"resident[{tensor.block.tensor}]") if tensor.may_be_resident and self._lives(p) else stays
            for p, (tensor, stays) in enumerate(
                zip(self.problem.intermediates, self.decided.resident, strict=True)
            )
        ]  # fmt: skip

    def _open_circular(self) -> dict[tuple[str, int], list[Var | bool]]:
        """By operand and slot: for each circular buffer on offer, whether it is used."""
        chosen: dict[tuple[str, int], list[Var | bool]] = {}
        for operand, buffers in self.problem.circular.items():
            if operand[1] in self.window:
                chosen[operand] = [
                    self.model.bool(f"circular[{operand[0]}, {operand[1]}, {o}]") for o in range(len(buffers))
                ]
            else:
                chosen[operand] = [self.decided.circular.get(operand) == o for o in range(len(buffers))]
        return chosen

    def _open_use(self, i: int, k: int) -> bool:
        """Whether it is open how a use is served."""
        item = self.problem.items[i]
        return item.uses[k].slot in self.window or (item.intermediate is not None and self._lives(item.intermediate))

    def _buffers(self, i: int, k: int) -> Sequence[Var | bool]:
        """The circular buffers that can serve a use."""
        item = self.problem.items[i]
        return self.circular.get((item.streamed, item.uses[k].slot), ()) if item.streamed is not None else ()

    # Constraints.

    def _serve(self) -> None:
        m = self.model
        for i, (item, row) in enumerate(zip(self.problem.items, self.decided.source, strict=True)):
            resident = () if item.intermediate is None else (self.resident[item.intermediate],)
            fetched: list[Var | bool] = []
            retained: list[Var | bool] = []
            for k, use in enumerate(item.uses):
                name = f"{item.blocks[0].tensor}#{i}, {use.slot}"
                if self._open_use(i, k):
                    fetched.append(m.bool(f"fetched[{name}]"))
                    retained.append(m.bool(f"retained[{name}]") if k else False)
                    ways = (fetched[k], retained[k], *self._buffers(i, k), *resident)
                    m.exactly_one([self._literal(way) for way in ways if way is not False])
                else:
                    fetched.append(not isinstance(row[k], NoFetch))
                    retained.append(row[k] is NoFetch.RETAINED)
                before = [b for b in self._buffers(i, k - 1) if b is not False] if k else []
                if before and retained[k] is not False:
                    m.at_most_one([self._literal(way) for way in (retained[k], *before)])
                if fetched[k] is not False:
                    self._uses[use.slot].append((self.problem.remaining(item, use), item.earliest(k), i, k))
                    _plus(self._held[use.slot], item.bytes, fetched[k])
                    _plus(self._traffic, item.cycles, fetched[k])
                for s in range(item.uses[k - 1].slot + 1, use.slot + 1) if retained[k] is not False else ():
                    _plus(self._held[s], item.bytes, retained[k])
            self.fetched.append(fetched)
            self.retained.append(retained)

    def _intermediates(self) -> None:
        for p, stays in enumerate(self.resident):
            for effect, sign in ((spilled_effect(self.problem, p), -1), (resident_effect(self.problem, p), 1)):
                for slot, cycles in effect.load:
                    for target in (self._stored[slot], self._traffic):
                        target.constant += cycles if sign < 0 else 0
                        _plus(target, sign * cycles, stays)
                for first, stop, size in effect.held:
                    for held in self._held[first:stop]:
                        held.constant += size if sign < 0 else 0
                        _plus(held, sign * size, stays)

    def _circular_buffers(self) -> None:
        for operand, chosen in self.circular.items():
            slot = operand[1]
            others = any(other != operand and other[1] == slot for other in self.circular)
            for option, literal in enumerate(chosen):
                effect = circular_effect(self.problem, operand, option)
                transfer = circular_transfer(self.problem, operand, option)
                _plus(self._held[slot], effect.held[0][2], literal)
                _plus(self._traffic, transfer.cycles, literal)
                _plus(self._moved[slot], transfer.cycles + (0 if others else transfer.remaining), literal)
                least = max(transfer.before + self.problem.cycles[slot], transfer.cycles + transfer.remaining)
                if literal is not False:
                    self.model.add(self._duration[slot] >= least * self._literal(literal))

    def _rooms(self) -> None:
        for s, (held, room) in enumerate(zip(self._held, self._room.tolist(), strict=True)):
            if held.terms and held.most > room:
                self.model.add(held.expr <= room)
            in_cycles = Sum(held.terms, [floor(weight / self.best_rate) for weight in held.weights])
            free_cycles = ceil((room - held.constant) / self.best_rate)
            self.model.add(in_cycles.expr + self._done[s] - self._used[s] <= free_cycles)

    def _use(self) -> None:
        m = self.model
        for s, uses in enumerate(self._uses):
            here = self._flow_of(uses)
            m.add(self._used[s] == (self._used[s - 1] if s else 0) + here)
            m.add(self._done[s] >= self._used[s])
            m.add(self._done[s] >= (self._done[s - 1] if s else 0))
            for first in sorted({first for _, first, _, _ in uses if first > 0 and s - first < NEAR}):
                late = self._flow_of([use for use in uses if use[1] >= first])
                m.add(self._done[s] - self._done[first - 1] >= late)

    def _computation(self) -> None:
        for s, uses in enumerate(self._uses):
            ahead = self._used[s - 1] - self._done[s - 1] if s else 0
            in_slot = [use for use in uses if use[1] == s > 0]
            for waiting, known in ((uses, ahead), (in_slot, 0)):
                for w in dict.fromkeys(use[0] for use in waiting):
                    before = self._flow_of([use for use in waiting if use[0] >= w])
                    for _, _, i, k in (use for use in waiting if use[0] == w):
                        fetched = self._literal(self.fetched[i][k])
                        self.model.add(self._duration[s] >= known + before + w * fetched)

    def _link(self) -> None:
        m = self.model
        stored, written = Sum(), Sum()
        for s, duration in enumerate(self._duration):
            _extend(written, self._stored[s])
            before = self._done[s - 1] if s else 0
            link = self._done[s] - before + self._moved[s].expr
            if written.terms or written.constant:
                stores = m.int(0, self._horizon, f"stored[{s}]")
                stored.add(1, stores)
                m.add(stored.expr <= written.expr)
                link = link + stores
            m.add(duration >= link)
        _extend(written, self._stored[-1])
        m.add(self._end >= total(self._duration) + written.expr - stored.expr)
        m.add(self._end >= self._traffic.expr)

    def _flow_of(self, uses: Sequence[tuple[int, int, int, int]]) -> Expr:
        """What is fetched for some uses."""
        flow = Sum()
        for _, _, i, k in uses:
            _plus(flow, self._flow[i], self.fetched[i][k])
        return flow.expr

    def _literal(self, way: Var | bool) -> Var:
        return self.model.constant(int(way)) if isinstance(way, bool) else way

    # Hint and answer.

    def hint(self, decisions: Decisions) -> None:
        """Start the solver from known decisions; their times follow."""
        for stays, resident in zip(self.resident, decisions.resident, strict=True):
            self._hint(stays, resident)
        for fetched, retained, row in zip(self.fetched, self.retained, decisions.source, strict=True):
            for x, y, source in zip(fetched, retained, row, strict=True):
                self._hint(x, not isinstance(source, NoFetch))
                self._hint(y, source is NoFetch.RETAINED)
        for operand, literals in self.circular.items():
            for option, z in enumerate(literals):
                self._hint(z, decisions.circular.get(operand) == option)

    def _hint(self, way: Var | bool, value: bool) -> None:
        if not isinstance(way, bool):
            self.model.hint(way, int(value))

    def decisions(self, solution: Solution) -> Decisions:
        """The solver's answer, with each fetch in the slot of its use."""

        def true(way: Var | bool) -> bool:
            return way if isinstance(way, bool) else solution.true(way)

        circular = {
            operand: option
            for operand, literals in self.circular.items()
            for option, z in enumerate(literals)
            if true(z)
        }

        def source(i: int, k: int) -> Source:
            item = self.problem.items[i]
            if true(self.fetched[i][k]):
                return item.uses[k].slot
            if true(self.retained[i][k]):
                return NoFetch.RETAINED
            return NoFetch.CIRCULAR if (item.streamed, item.uses[k].slot) in circular else NoFetch.RESIDENT

        return Decisions(
            tuple(true(stays) for stays in self.resident),
            tuple(tuple(source(i, k) for k in range(len(row))) for i, row in enumerate(self.fetched)),
            circular,
        )


def _plus(to: Sum, weight: int, way: Var | bool) -> None:
    if isinstance(way, bool):
        to.constant += weight * way
    else:
        to.add(weight, way)


def _extend(to: Sum, other: Sum) -> None:
    to.terms += other.terms
    to.weights += other.weights
    to.constant += other.constant
