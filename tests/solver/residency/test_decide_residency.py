"""Residency from end to end: reservations, how much of the memory is given away, and what is claimed of the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import pytest

from girih.ir.errors import InfeasibleError
from girih.ir.load_machine import load_machine
from girih.ir.semantics.cell import Cells
from girih.solver.cpsat.backend import Budget
from girih.solver.residency.buffers import residency as buffers_of
from girih.solver.residency.neighbourhood import ResidencyIncumbent, improve
from girih.solver.residency.repair import MovableRequest, Repair
from girih.solver.residency.solve import Reservation, Residency, SharedOverflow, decide_residency
from tests.support.graphs import residual
from tests.support.plans.rough_plans import in_order, rough_cycles, rough_segments

STCP = load_machine("stcp920")
BUDGET = Budget(20.0)


def decided(*reserved: Reservation) -> Residency | SharedOverflow:
    """The answer for a small network."""
    graph = residual(2, size=16)
    cells = Cells(graph)
    segments = rough_segments(graph, STCP, group=1)
    steps = in_order(segments)
    cycles = rough_cycles(graph, segments, steps, cells)
    return decide_residency(
        graph, cells, STCP, segments, steps, slot_cycles=cycles, reservations=reserved, budget=BUDGET
    )


def test_reservation_leaves_room() -> None:
    capacity = STCP.levels.exchange.capacity
    free = decided()
    assert isinstance(free, Residency)
    slots = len(free.timing.begin) - 1
    tight = decided(Reservation((0, slots), capacity - 76_000))
    assert isinstance(tight, Residency)

    def most(answer: Residency) -> int:
        held = np.zeros(slots, dtype=np.int64)
        for request in answer.requests:
            held[request.live[0] : request.live[1]] += request.bytes
        return int(held.max())

    assert most(tight) <= 76_000 < most(free) and tight.timing.objective >= free.timing.objective
    short = decided(Reservation((2, 3), capacity - 1000))
    assert isinstance(short, SharedOverflow) and (short.slot, short.op) == (2, "b0")
    assert short.excess > 0 and short.capacity == 1000 and "b0.w" in short.tensors
    assert isinstance(short.error(), InfeasibleError) and "b0" in str(short.error())


@pytest.mark.parametrize(
    ("packed", "delays", "chosen", "tried"),
    [
        ((True, True, True), (0, 0, 0), 0, 1),
        ((False, True, True), (0, 0, 0), 1, 2),
        ((False, False, True), (0, 0, 50), 2, 3),
        ((False, False, False), (9, 0, 0), 1, 3),
        ((True, True, False), (90, 50, 0), 1, 3),
    ],
)
def test_fills_are_tried_until_one_is_packed_at_no_further_cost(
    packed: tuple[bool, ...], delays: tuple[int, ...], chosen: int, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By fill: whether it has addresses, and by how much its fetches are delayed."""
    answers: list[Residency] = []

    def packed_or_delayed(*args: Any, **options: Any) -> Residency:
        answer, number = buffers_of(*args, **options), len(answers)
        requests = tuple(replace(r, at=r.at if packed[number] else None) for r in answer.requests)
        timing = replace(answer.timing, end=answer.timing.end + delays[number])
        answers.append(replace(answer, requests=requests, timing=timing))
        return answers[-1]

    monkeypatch.setattr("girih.solver.residency.solve.residency", packed_or_delayed)
    answer = decided()
    assert isinstance(answer, Residency) and len(answers) == tried
    assert answer.requests == answers[chosen].requests and answer.timing == answers[chosen].timing


def proven(bounds: Iterator[float], **of: Any) -> ResidencyIncumbent:
    """What the search answers, as if it had proven so much of the objective."""
    answer = improve(**of)
    return replace(answer, status="optimal", bound=next(bounds) * answer.timing.objective)


def test_what_was_optimal_is_so_no_longer_once_fetches_are_delayed(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_late(movable: Sequence[MovableRequest], *_: Any, **__: Any) -> Repair:
        late = (replace(m.request, live=(m.latest, m.request.live[1]), at=0) for m in movable)
        return Repair(tuple(late))

    monkeypatch.setattr(
        "girih.solver.residency.solve.improve",
        lambda problem, room, start, **of: proven(repeat(1.0), problem=problem, room=room, start=start, **of),
    )
    answer = decided()
    assert isinstance(answer, Residency) and answer.solved.status == "optimal"
    monkeypatch.setattr("girih.solver.residency.buffers.repair", all_late)
    late = decided()
    assert isinstance(late, Residency) and late.timing.objective > answer.timing.objective
    assert (late.solved.status, late.solved.objective) == ("feasible", float(late.timing.objective))
    assert late.solved.bound == answer.solved.bound


@pytest.mark.parametrize(("of_all", "status"), [(0.5, "feasible"), (1.0, "optimal")])
def test_what_is_optimal_in_a_part_of_the_memory_may_not_be_in_all_of_it(
    of_all: float, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is that of the whole memory, of which a part is given away after that could not be packed."""
    answers: list[ResidencyIncumbent] = []
    shares = iter((of_all, 1.0, 1.0))

    def bounded(problem: Any, room: Any, start: Any, **of: Any) -> ResidencyIncumbent:
        answers.append(proven(shares, problem=problem, room=room, start=start, **of))
        return answers[-1]

    def unpacked(*args: Any, **options: Any) -> Residency:
        answer = buffers_of(*args, **options)
        return answer if len(answers) > 1 else replace(answer, requests=(replace(answer.requests[0], at=None),))

    monkeypatch.setattr("girih.solver.residency.solve.improve", bounded)
    monkeypatch.setattr("girih.solver.residency.solve.residency", unpacked)
    answer = decided()
    assert isinstance(answer, Residency) and len(answers) == 2
    assert (answer.solved.status, answer.solved.bound) == (status, answers[0].bound)
