"""Repair of movable intervals: where a request can begin earliest, against every address and every begin."""

from __future__ import annotations

from random import Random

import numpy as np

from girih.ir.machine import Memory
from girih.solver.banks.first_fit import Item, first_fit, neighbours
from girih.solver.banks.problem import BufferRequest
from girih.solver.banks.solve import Placement, place
from girih.solver.cpsat.backend import NO_SEARCH, Budget
from girih.solver.residency.repair import MovableRequest, Repaired, earliest, repair

CAPACITY = 12


def free(item: Item, at: int, others: list[tuple[Item, int]]) -> bool:
    """Whether the item can lie there during its life."""
    return not any(
        o.first < item.last and item.first < o.last and a < at + item.size and at < a + o.size for o, a in others
    )


def drawn(random: Random) -> Item:
    first = random.randrange(8)
    return Item(random.randint(1, 5), first, first + random.randint(1, 5))


def test_the_earliest_begin_and_its_outermost_address() -> None:
    random = Random(0)
    nowhere = 0
    for _ in range(400):
        least = drawn(random)
        wanted = Item(least.size, random.randint(0, least.first), least.last)
        others: list[tuple[Item, int]] = []
        for _ in range(random.randrange(8)):
            other, at = drawn(random), random.randrange(CAPACITY - 4)
            if free(other, at, others):
                others.append((other, at))
        options = [
            (begin, at)
            for begin in range(wanted.first, least.first + 1)
            for at in range(CAPACITY - least.size + 1)
            if free(Item(least.size, begin, least.last), at, others)
        ]
        low = min(options, default=None)
        high = min(options, key=lambda o: (o[0], -o[1]), default=None)
        spans = [(o.first, o.last, at, at + o.size) for o, at in others]
        lives = np.array(spans, dtype=np.int64).reshape(len(spans), 4).T
        assert earliest(wanted, least, *lives, CAPACITY, down=False) == low
        assert earliest(wanted, least, *lives, CAPACITY, down=True) == high
        nowhere += not options
    assert 0 < nowhere < 400


def test_each_in_turn_lies_as_low_as_those_before_it_allow() -> None:
    random = Random(1)
    for _ in range(60):
        items = [drawn(random) for _ in range(8)]
        order = random.sample(range(8), 8)
        at = first_fit(items, neighbours(items), order)
        for number, i in enumerate(order):
            before = [(items[j], at[j]) for j in order[:number]]
            assert at[i] == next(a for a in range(60) if free(items[i], a, before))


FIFTY = Memory("M", "cluster", 50, 1, 1, 0)
"""No multiple of the sizes, which have a common divisor: what lies at its end is at no multiple of that."""


def ten_movable(random: Random) -> list[MovableRequest]:
    return [
        MovableRequest(BufferRequest(f"r{i}", 4 * item.size, (max(0, item.first - 3), item.last)), item.first)
        for i, item in enumerate(drawn(random) for _ in range(10))
    ]


def test_what_was_repaired_keeps_its_addresses() -> None:
    random, budget, memory = Random(2), Budget(5.0, 0.1), FIFTY
    delayed = 0
    for _ in range(60):
        movable = ten_movable(random)
        repaired = repair(movable, memory, cost=lambda requests: -sum(r.live[0] for r in requests), budget=budget)
        if repaired.requests is None:
            continue
        delayed += any(r.live != m.request.live for r, m in zip(repaired.requests, movable, strict=True))
        placed = place(repaired.requests, memory, budget=budget)
        assert isinstance(placed, Placement)
        assert list(placed.addresses) == [r.at for r in repaired.requests]
    assert delayed > 10


def test_of_several_answers_the_one_of_least_cost_is_taken() -> None:
    answers: list[Repaired] = []

    def begins(requests: Repaired) -> int:
        return sum(r.live[0] for r in requests)

    def cost(requests: Repaired) -> int:
        answers.append(requests)
        return begins(requests)

    random, not_the_first = Random(2), 0
    for _ in range(60):
        answers.clear()
        repaired = repair(ten_movable(random), FIFTY, cost=cost, budget=NO_SEARCH)
        if repaired.requests is not None and answers:
            assert begins(repaired.requests) == min(map(begins, answers))
            not_the_first += begins(repaired.requests) < begins(answers[0])
    assert not_the_first >= 3


def test_where_no_order_finds_room_fetches_move_back_from_the_shortest_lifetimes() -> None:
    """First fit packs those, and then nothing else is free for a, which could begin before its use."""
    planned = {"a": (4, (3, 5), 4), "b": (1, (1, 2), 1), "c": (3, (0, 4), 0), "d": (4, (2, 5), 2)}
    movable = [
        MovableRequest(BufferRequest(name, size, live), latest) for name, (size, live, latest) in planned.items()
    ]
    memory = Memory("M", "cluster", 8, 1, 1, 0)
    repaired = repair(movable, memory, cost=lambda _: 0, budget=NO_SEARCH)
    assert repaired.requests is not None
    assert {r.name: r.live for r in repaired.requests} == {"a": (4, 5), "b": (1, 2), "c": (0, 4), "d": (2, 5)}
    assert isinstance(place(repaired.requests, memory, budget=NO_SEARCH), Placement)
