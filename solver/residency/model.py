"""Model 2: what lives in the shared memory when, and when it is fetched.

Sets and data: slots s with c_s cycles of computation; the shared memory's room R_s (bytes; reservations make it
smaller). Items i with b_i bytes and t_i cycles on the link to main memory, used in slots u_i1 < u_i2 < ..., fetched
not before slot r_i; intermediates p with b_p bytes that could be resident while they live; circular buffers o for
streamed weights (d, u), with b_o bytes for their two regions (see :mod:`girih.solver.residency.problem` and
:mod:`girih.solver.residency.weight_chunks`). What each decision adds to link, memory and waits, the coefficients below,
is an :class:`~girih.solver.residency.evaluation.Effect`.

Variables: x_ikf, use k of item i is served by a fetch issued in slot f (out of a few that begin early enough); y_ik,
by what is retained since use k - 1; z_duo, by circular buffer o; h_p, intermediate p is resident (then the items that
would read it need nothing); P_s, slot s begins; D_s, the link has done all that was issued up to s.

Constraints:
 (1) each use is served once: sum_f x_ikf + y_ik + sum_o z_duo + h_p(i) = 1.
 (2) what is retained was there: y_ik + sum_o z_do at use k - 1 <= 1.
 (3) room: what is fetched or retained for a use is there from the fetch (or the use before) up to the use; a resident
     intermediate is there for its life, a spilled one in the slots that write it: sum of bytes <= R_s.
 (4) link: D_s >= D_(s-1) + l_s and D_s >= P_s + l_s, with l_s the cycles of fetches issued in s, and of stores of what
     slot s - 1 wrote.
 (5) computation: P_(s+1) >= P_s + c_s, and x_ikf => P_(s+1) >= D_f + w for s = u_ik, where w is the part of c_s that is
     left when the last chunk of the operand is needed.
 (6) fetches in the slot of their use: x_iks => P_(s+1) >= P_s + (t of this and of those before it) + w_ik.

Objective: minimise 16 * end + traffic, both in cycles; end is the larger of the last P and D.

Of a window only the open decisions are variables; slots before it keep their times, and those after it follow it at
fixed distances.

Relaxations: computation of a slot is an estimate, and slots do not overlap; one link for both directions. The hint is
:mod:`girih.solver.residency.greedy`; where it meets the sum of all work, the solver does not run.
Reference: Checkmate (Jain et al., MLSys 2020) for keep-or-not over a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..cpsat.backend import Model, Solution, Var
from ..cpsat.expressions import Sum
from .decisions import STALL_WEIGHT, Decisions, NoFetch, Source, Timing
from .evaluation import Effect, FetchWait, circular_effect, resident_effect, source_effect, spilled_effect
from .window_problem import Window


@dataclass(frozen=True)
class Variables:
    """By the letters of the formulation: h, x, y, z, P, D and the end; what is decided already has no variable."""

    resident: list[Var | None]
    fetch: list[list[dict[int, Var]]]
    retained: list[list[Var | None]]
    circular: dict[tuple[str, int], list[Var]]
    begin: list[Var]
    done: list[Var]
    end: Var


class ResidencyModel:
    """The constraint model of a window; ``horizon``: no slot begins later."""

    def __init__(self, window: Window, horizon: int) -> None:
        self.window = window
        self.problem = window.problem
        self.model = Model("residency")
        self.variables = self._variables(horizon)
        self.choices = [*self._sources(), *self._circular_buffers()]
        """The effects of all ways to serve uses, and the literals that they follow from (``None``: decided)."""
        self.load = [Sum() for _ in range(len(self.problem.cycles) + 1)]
        self.held = [Sum() for _ in self.problem.cycles]
        for effect, literal in self.choices:
            self._count(effect, literal)
        self._count_intermediates()
        self.waits: list[tuple[Var, list[Var]]] = []
        """Literals that are implied by any of others."""
        constraints: tuple[tuple[str, Callable[[], None]], ...] = (
            ("served", self._served),  # (1), (2)
            ("room", self._room),  # (3)
            ("link", self._link),  # (4)
            ("tail", self._tail),
            ("computation", self._computation),  # (5)
            ("inline fetches", self._inline),  # (6)
        )
        for name, constrain in constraints:
            with self.model.group(name):
                constrain()
        self._minimise()

    # Variables and what they add up to.

    def _variables(self, horizon: int) -> Variables:
        m, w = self.model, self.window
        tensors = zip(self.problem.intermediates, w.intermediates, strict=True)
        resident = [m.bool(f"resident[{t.block.tensor}]") if is_open else None for t, is_open in tensors]
        fetch: list[list[dict[int, Var]]] = []
        retained: list[list[Var | None]] = []
        for i, item in enumerate(self.problem.items):
            fetch.append([])
            retained.append([])
            for k, use in enumerate(item.uses):
                name = f"{item.blocks[0].tensor}#{i}, {use.slot}"
                fetch[i].append({f: m.bool(f"fetch[{name}, {f}]") for f in w.issue[i][k]})
                keeps = w.open_use(i, k) and w.may_be_retained(i, k)
                retained[i].append(m.bool(f"retained[{name}]") if keeps else None)
        circular = {
            operand: [m.bool(f"circular[{operand[0]}, {operand[1]}, {o}]") for o in range(len(buffers))]
            for operand, buffers in self.problem.circular.items()
            if operand[1] in w.slots
        }
        begin: list[Var] = []
        done: list[Var] = []
        for s in range(w.stop + 1):
            begin.append(m.constant(w.timing.begin[s]) if s <= w.first else m.int(0, horizon, f"begin[{s}]"))
            done.append(m.constant(w.timing.done[s]) if s < w.first else m.int(0, horizon, f"done[{s}]"))
        return Variables(resident, fetch, retained, circular, begin, done, m.int(0, horizon, "end"))

    def _sources(self) -> Iterator[tuple[Effect, Var | None]]:
        for i, item in enumerate(self.problem.items):
            for k in range(len(item.uses)):
                if not self.window.open_use(i, k):
                    yield source_effect(self.problem, i, k, self.window.decided.source[i][k]), None
                for f, literal in self.variables.fetch[i][k].items():
                    yield source_effect(self.problem, i, k, f), literal
                retained = self.variables.retained[i][k]
                if retained is not None:
                    yield source_effect(self.problem, i, k, NoFetch.RETAINED), retained

    def _circular_buffers(self) -> Iterator[tuple[Effect, Var | None]]:
        for operand in self.problem.circular:
            if operand in self.variables.circular:
                for option, literal in enumerate(self.variables.circular[operand]):
                    yield circular_effect(self.problem, operand, option), literal
            elif operand in self.window.decided.circular:
                yield circular_effect(self.problem, operand, self.window.decided.circular[operand]), None

    def _count(self, effect: Effect, literal: Var | None, sign: int = 1) -> None:
        for slot, cycles in effect.load:
            self.load[slot].plus(sign * cycles, literal)
        for first, stop, size in effect.held:
            for s in range(first, stop):
                self.held[s].plus(sign * size, literal)

    def _count_intermediates(self) -> None:
        for p, literal in enumerate(self.variables.resident):
            resident, spilled = resident_effect(self.problem, p), spilled_effect(self.problem, p)
            if literal is None:
                self._count(resident if self.window.decided.resident[p] else spilled, None)
            else:
                self._count(spilled, None)
                self._count(spilled, literal, -1)
                self._count(resident, literal)

    # Constraints.

    def _served(self) -> None:
        m, v, w = self.model, self.variables, self.window
        for i, item in enumerate(self.problem.items):
            resident = None if item.intermediate is None else v.resident[item.intermediate]
            for k, use in enumerate(item.uses):
                buffers = v.circular.get((item.streamed, use.slot), []) if item.streamed is not None else []
                if w.open_use(i, k):
                    m.exactly_one(
                        [
                            *v.fetch[i][k].values(),
                            *buffers,
                            *(way for way in (v.retained[i][k], resident) if way is not None),
                        ]
                    )
                if buffers and k + 1 < len(item.uses):
                    later = v.retained[i][k + 1]
                    if later is not None:
                        m.at_most_one([later, *buffers])
                    elif not w.open_use(i, k + 1) and w.decided.source[i][k + 1] is NoFetch.RETAINED:
                        m.at_most_one([m.constant(1), *buffers])

    def _room(self) -> None:
        """Where it can be violated at all."""
        for s, held in enumerate(self.held):
            if held.terms and held.most > self.window.room[s]:
                self.model.add(held.expr <= int(self.window.room[s]))

    def _link(self) -> None:
        """The last entry is what the last slot stores."""
        begin, done = self.variables.begin, self.variables.done
        for s in range(self.window.first, self.window.stop + 1):
            load = self.load[s].expr
            self.model.add(done[s] >= begin[s] + load)
            if s:
                self.model.add(done[s] >= done[s - 1] + load)

    def _tail(self) -> None:
        v, stop, tail = self.variables, self.window.stop, self.window.tail
        self.model.add(v.end >= v.begin[stop] + tail.from_begin)
        self.model.add(v.end >= v.done[stop] + tail.from_done[stop])
        for done, cycles in zip(v.done[:stop], tail.from_done[:stop], strict=True):
            if cycles:
                self.model.add(v.end >= done + cycles)

    def _computation(self) -> None:
        m, begin, done = self.model, self.variables.begin, self.variables.done
        changing = range(self.window.first, self.window.stop)
        any_of: dict[FetchWait, list[Var]] = {}
        always: set[FetchWait] = set()
        for effect, literal in self.choices:
            if effect.wait is not None and literal is None:
                always.add(effect.wait)
            elif effect.wait is not None and literal is not None:
                any_of.setdefault(effect.wait, []).append(literal)
        for s in changing:
            m.add(begin[s + 1] >= begin[s] + self.problem.cycles[s])
        for s, issued, remaining in sorted(always):
            if s in changing:
                m.add(begin[s + 1] >= done[issued] + remaining)
        for wait, literals in any_of.items():
            if wait in always:
                continue
            s, issued, remaining = wait
            waits = literals[0]
            if len(literals) > 1:
                waits = m.bool(f"wait[{s}, {issued}, {remaining}]")
                self.waits.append((waits, literals))
                for literal in literals:
                    m.implication(literal, waits)
            m.add(begin[s + 1] >= done[issued] + remaining, when=waits)

    def _inline(self) -> None:
        moved = [Sum() for _ in self.problem.cycles]
        for effect, literal in self.choices:
            if effect.inline is not None:
                s, cycles, remaining = effect.inline
                moved[s].plus(cycles, literal)
                if self.window.first <= s < self.window.stop:
                    begin = self.variables.begin
                    self.model.add(begin[s + 1] >= begin[s] + moved[s].expr + remaining, when=literal)

    def _minimise(self) -> None:
        traffic = Sum()
        for load in self.load:
            traffic.terms += load.terms
            traffic.weights += load.weights
            traffic.constant += load.constant
        self.model.minimize(STALL_WEIGHT * self.variables.end + traffic.expr)

    # Hint and answer.

    def hint(self, decisions: Decisions, timing: Timing) -> None:
        """Start the solver from known decisions."""
        m, v = self.model, self.variables
        true: set[int] = set()
        for var, resident in zip(v.resident, decisions.resident, strict=True):
            if var is not None:
                m.hint(var, int(resident))
        for i, row in enumerate(decisions.source):
            for k, source in enumerate(row):
                for f, x in v.fetch[i][k].items():
                    m.hint(x, int(f == source))
                    if f == source:
                        true.add(x.index)
                retained = v.retained[i][k]
                if retained is not None:
                    m.hint(retained, int(source is NoFetch.RETAINED))
        for operand, literals in v.circular.items():
            for option, z in enumerate(literals):
                m.hint(z, int(decisions.circular.get(operand) == option))
                if decisions.circular.get(operand) == option:
                    true.add(z.index)
        for wait, literals in self.waits:
            m.hint(wait, int(any(x.index in true for x in literals)))
        changing = range(self.window.first, self.window.stop + 1)
        for s in changing:
            m.hint(v.begin[s], timing.begin[s])
        for s in changing:
            m.hint(v.done[s], timing.done[s] if s < len(timing.done) else timing.end)
        m.hint(v.end, timing.end)

    def decisions(self, solution: Solution) -> Decisions:
        """The solver's answer."""
        decided = self.window.decided
        resident = tuple(
            solution.true(var) if var is not None else known
            for var, known in zip(self.variables.resident, decided.resident, strict=True)
        )
        circular = {key: option for key, option in decided.circular.items() if key not in self.variables.circular}
        for operand, literals in self.variables.circular.items():
            for option, literal in enumerate(literals):
                if solution.true(literal):
                    circular[operand] = option
        source = tuple(
            tuple(
                self._source(solution, i, k, resident, circular) if self.window.open_use(i, k) else known
                for k, known in enumerate(row)
            )
            for i, row in enumerate(decided.source)
        )
        return Decisions(resident, source, circular)

    def _source(
        self, solution: Solution, i: int, k: int, resident: tuple[bool, ...], circular: dict[tuple[str, int], int]
    ) -> Source:
        item, retained = self.problem.items[i], self.variables.retained[i][k]
        if item.intermediate is not None and resident[item.intermediate]:
            return NoFetch.RESIDENT
        if item.streamed is not None and (item.streamed, item.uses[k].slot) in circular:
            return NoFetch.CIRCULAR
        if retained is not None and solution.true(retained):
            return NoFetch.RETAINED
        return next(f for f, x in self.variables.fetch[i][k].items() if solution.true(x))
