"""Each numbered constraint of the residency model binds: a case that it allows, and the next one that it alone forbids.

Decisions are fixed. What a constraint demands of time is the end of everything, which the horizon allows or cuts off by
one cycle. One byte takes one cycle of the link here, unless a case says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from girih.ir.box import Span
from girih.solver.cpsat.backend import Budget, Var, solve
from girih.solver.residency.decisions import Decisions, NoFetch
from girih.solver.residency.greedy import Greedy
from girih.solver.residency.model import NEAR, ResidencyModel
from girih.solver.residency.partition.weight_chunks import ChunkFetch, CircularBuffer
from girih.solver.residency.problem import FetchItem, Intermediate, ResidencyProblem, Use
from tests.support.residency_problems import block

PLENTY = 1000
RETAINED, RESIDENT, CIRCULAR = NoFetch.RETAINED, NoFetch.RESIDENT, NoFetch.CIRCULAR


def item(size: int, *uses: tuple[int, int], ready: int = 0, cycles: int | None = None, **of: object) -> FetchItem:
    """``uses``: slot, and cycles of its work that remain."""
    return FetchItem((block("a", size, cycles or size),), tuple(Use(*use) for use in uses), ready, **of)  # type: ignore[arg-type]


def ring(size: int, count: int = 3) -> CircularBuffer:
    """A circular buffer of so many chunks of ``size`` bytes."""
    return CircularBuffer(tuple(ChunkFetch(p, 0, (Span(0, size),), size) for p in range(count)), 2 * size)


def result(cycles: int, slot: int, live_until: int, *, size: int = 1, stored: bool = False) -> Intermediate:
    """An intermediate that one slot writes; storing it takes so many cycles."""
    written = block("p", size, cycles)
    return Intermediate(written, (slot, live_until), ((slot, written),), stored=stored, may_be_resident=True)


def problem(
    cycles: Sequence[int],
    *items: FetchItem,
    intermediates: Sequence[Intermediate] = (),
    circular: dict[tuple[str, int], CircularBuffer] | None = None,
) -> ResidencyProblem:
    offers = {operand: (buffer,) for operand, buffer in (circular or {}).items()}
    return ResidencyProblem(tuple(cycles), PLENTY, items, tuple(intermediates), offers, 1.0, ())


def literals(built: ResidencyModel, decisions: Decisions) -> list[tuple[Var | bool, bool]]:
    """Each decision of the model, and its value."""
    values: list[tuple[Var | bool, bool]] = list(zip(built.resident, decisions.resident, strict=True))
    for fetched, retained, sources in zip(built.fetched, built.retained, decisions.source, strict=True):
        for x, y, source in zip(fetched, retained, sources, strict=True):
            values += [(x, not isinstance(source, NoFetch)), (y, source is NoFetch.RETAINED)]
    for operand, options in built.circular.items():
        values += [(z, decisions.circular.get(operand) == o) for o, z in enumerate(options)]
    return values


def holds(built: ResidencyModel, values: Iterable[tuple[Var | bool, bool]]) -> bool:
    """Whether the model has an answer in which some decisions have these values, and the rest any."""
    for literal, value in values:
        if isinstance(literal, bool):
            assert literal == value
        else:
            built.model.add(literal == value)
    return solve(built.model, budget=Budget(10.0)).has_solution


def feasible(
    given: ResidencyProblem, decisions: Decisions, room: Sequence[int], horizon: int, *, are_open: bool
) -> bool:
    """Whether the model has an answer with these decisions: fixed before it is built, or afterwards."""
    window = range(len(given.cycles) if are_open else 0)
    built = ResidencyModel(given, np.array(room, dtype=np.int64), decisions, window, horizon)
    return holds(built, literals(built, decisions))


@dataclass(frozen=True)
class Case:
    """``end``: the least end of everything with these decisions in this room."""

    problem: ResidencyProblem
    source: tuple[tuple[int | NoFetch, ...], ...]
    end: int
    room: tuple[int, ...] | None = None
    resident: tuple[bool, ...] = ()
    circular: tuple[tuple[str, int], ...] = ()

    @property
    def decisions(self) -> Decisions:
        return Decisions(self.resident, self.source, dict.fromkeys(self.circular, 0))


W = ("w", 0)
SIX = ring(2)
"""Six cycles of the link, two of them before the slot's work; a third of that follows."""

CASES = {
    "4: nothing is fetched ahead beyond the room": Case(
        problem((10, 10), item(20, (1, 10))), ((1,),), 10 + 20 - 5 + 10, (5, PLENTY)
    ),
    "4: nor where a resident intermediate takes the room": Case(
        problem((10, 10), item(20, (1, 10)), intermediates=[result(1, 0, 1, size=6)]),
        ((1,),),
        10 + 20 - 4 + 10,
        (10, PLENTY),
        (True,),
    ),
    "5: the link fetches ahead no longer than a slot takes": Case(problem((10, 10), item(20, (1, 10))), ((1,),), 30),
    "5: the link is idle after the last chunk of a circular buffer": Case(
        problem((12, 10), item(20, (1, 10)), circular={W: SIX}), ((1,),), 6 + 4 + 20 + 10, circular=(W,)
    ),
    "5: stores and fetches take turns": Case(
        problem((10, 10), item(10, (1, 1), ready=1), intermediates=[result(7, 0, 1)]), ((1,),), 27, resident=(False,)
    ),
    "5: the store of a resident output, too": Case(
        problem((10, 10), item(10, (1, 1), ready=1), intermediates=[result(7, 0, 1, stored=True)]),
        ((1,),),
        27,
        resident=(True,),
    ),
    "6: what is used was fetched": Case(
        problem((12,), item(10, (0, 1)), circular={W: SIX}), ((0,),), 10 + 6 + 4, circular=(W,)
    ),
    "6: and not before it could be": Case(
        problem((10, 10, 10), item(20, (2, 10), ready=1)), ((2,),), 10 + 20 + 10, (20, 20, 20)
    ),
    "6: nor is it ever fetched less": Case(
        problem((10, 10), intermediates=[result(30, 0, 1)]), (), 20 + 30 - 10, resident=(False,)
    ),
    "7: work remains after the last fetch": Case(problem((20,), item(20, (0, 4)), item(10, (0, 15))), ((0,),) * 2, 34),
    "7: and after the first": Case(problem((20,), item(20, (0, 4)), item(10, (0, 26))), ((0,),) * 2, 36),
    "7: what is fetched in its own slot gains nothing from what was ahead": Case(
        problem((10, 10), item(20, (1, 10), ready=1)), ((1,),), 10 + 20 + 10, (PLENTY, 40)
    ),
    "8: work begins after the first chunk": Case(
        problem((12, 10), circular={W: SIX}), (), 2 + 12 + 10, circular=(W,)
    ),
    "8: and ends after the last, beside another buffer": Case(
        problem((12,), circular={W: ring(10), ("v", 0): ring(1)}), (), 30 + 4, circular=(W, ("v", 0))
    ),
    "9: nothing is stored that was not written": Case(
        problem((10, 10), intermediates=[result(7, 0, 1)]), (), 20, resident=(False,)
    ),
    "9: nor in the slot that writes it": Case(
        problem((10, 10), intermediates=[result(3, 0, 1), result(7, 1, 2)]), (), 20 + 7, resident=(False, False)
    ),
    "10: the end comes after all slots": Case(problem((10, 20)), (), 30),
    "10: and after the last store": Case(problem((10,), intermediates=[result(7, 0, 1)]), (), 17, resident=(False,)),
    "10: and after all traffic, of which bytes are a part": Case(
        problem((20,), item(10, (0, 1), cycles=30), item(1, (0, 1))), ((0,),) * 2, 31
    ),
}  # fmt: skip


@pytest.mark.parametrize("are_open", [False, True], ids=["decided", "open"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_ends_earlier_than_the_constraint_allows(name: str, are_open: bool) -> None:
    case = CASES[name]
    room = case.room or (PLENTY,) * len(case.problem.cycles)
    ends = {
        horizon: feasible(case.problem, case.decisions, room, horizon, are_open=are_open)
        for horizon in (case.end, case.end - 1)
    }
    assert ends == {case.end: True, case.end - 1: False}


HELD = {
    "a fetched item": (problem((10, 10, 10), item(7, (1, 1), cycles=2)), (), ((1,),), (), 1, 7),
    "a retained item, between its uses": (
        problem((10, 10, 10), item(7, (0, 1), (2, 1), cycles=2)), (), ((0, RETAINED),), (), 1, 7,
    ),
    "a resident intermediate, for its life": (
        problem((10, 10, 10), item(7, (2, 1), ready=1, cycles=2, intermediate=0), intermediates=[result(2, 0, 3, size=7)]),
        (True,), ((RESIDENT,),), (), 1, 7,
    ),
    "a spilled one, as it is written": (
        problem((10, 10, 10), item(7, (2, 1), ready=2, cycles=2, intermediate=0), intermediates=[result(2, 1, 3, size=7)]),
        (False,), ((2,),), (), 1, 7,
    ),
    "a circular buffer": (
        problem((10, 10, 10), item(1, (0, 1), cycles=1), item(4, (0, 1), cycles=1), circular={("w", 1): ring(3)}),
        (), ((0,), (0,)), (("w", 1),), 1, 6,
    ),
}  # fmt: skip
"""By case: the problem, who is resident, sources, circular buffers in use, a slot and the bytes that it holds. Several
bytes take one cycle of the link, so that (4), which counts in cycles, is too coarse to forbid the last of them."""


@pytest.mark.parametrize("name", HELD)
def test_3_all_that_is_held_has_room(name: str) -> None:
    given, resident, source, circular, slot, held = HELD[name]
    decisions = Decisions(resident, source, dict.fromkeys(circular, 0))
    for spare, fits in ((0, True), (-1, False)):
        room = [PLENTY] * len(given.cycles)
        room[slot] = held + spare
        assert feasible(given, decisions, room, PLENTY, are_open=True) == fits


def undecided(given: ResidencyProblem) -> ResidencyModel:
    """The model in which everything is open, and neither room nor time is short."""
    room = np.full(len(given.cycles), PLENTY, dtype=np.int64)
    return ResidencyModel(given, room, Greedy(given, room).decisions(), range(len(given.cycles)), PLENTY)


TWICE = problem((10, 10), item(4, (0, 1), (1, 1), streamed="w"), circular={W: SIX})
"""An item that is used twice, the first time perhaps from a circular buffer."""
READ = problem((10, 10), item(4, (1, 1), ready=1, intermediate=0), intermediates=[result(4, 0, 2, size=4)])


SERVED = ((True, False, True), (False, True, True), (False, False, False), (True, True, False))
"""Whether each of two ways serves a use, and whether it is served once."""


@pytest.mark.parametrize(("fetched", "otherwise", "once"), SERVED)
def test_1_each_use_is_served_once(fetched: bool, otherwise: bool, once: bool) -> None:
    model = undecided(TWICE)
    assert holds(model, [(model.fetched[0][0], fetched), (model.circular[W][0], otherwise)]) == once
    model = undecided(TWICE)
    assert holds(model, [(model.fetched[0][1], fetched), (model.retained[0][1], otherwise)]) == once
    model = undecided(READ)
    assert holds(model, [(model.fetched[0][0], fetched), (model.resident[0], otherwise)]) == once


@pytest.mark.parametrize(("circular", "retained"), [(False, False), (False, True), (True, False), (True, True)])
def test_2_what_is_retained_was_there(circular: bool, retained: bool) -> None:
    """What passed through a circular buffer was not."""
    model = undecided(TWICE)
    values = [(model.circular[W][0], circular), (model.retained[0][1], retained)]
    assert holds(model, values) == (not (circular and retained))


@pytest.mark.parametrize("between", [NEAR, NEAR + 1])
def test_6_is_stated_of_near_uses_alone(between: int) -> None:
    """Beyond, what is fetched ahead may stand for it: a relaxation."""
    cycles = (10,) + (0,) * (between - 1) + (10,)
    case = problem(cycles, item(20, (between, 10), ready=1))
    room = (20,) * len(cycles)
    decisions = Decisions((), ((between,),), {})
    earliest = [end for end in (30, 39, 40) if feasible(case, decisions, room, end, are_open=False)]
    assert earliest == ([40] if between == NEAR else [30, 39, 40])
