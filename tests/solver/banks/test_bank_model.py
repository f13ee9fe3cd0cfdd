"""Addresses: valid, as good as brute force, and honest about what does not fit."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations, product

import pytest

from girih.ir.machine import Memory
from girih.solver.banks import first_fit as packing
from girih.solver.banks.first_fit import (
    PLACEMENTS,
    ROUNDS,
    Item,
    by_size,
    cliques,
    first_fit,
    neighbours,
    pack,
    peak,
)
from girih.solver.banks.problem import BufferRequest
from girih.solver.banks.solve import Placement, PlacementOverflow, place
from girih.solver.cpsat.backend import Budget

BUDGET = Budget(10.0)


def memory(capacity: int, banks: int = 1, alignment: int = 1, interleave: int = 0) -> Memory:
    return Memory("M", "core", capacity, alignment, banks, interleave)


def check(requests: tuple[BufferRequest, ...], where: Memory, answer: Placement) -> None:
    """Quadratic on purpose."""
    assert len(answer.addresses) == len(requests)
    ranges = [(a, a + r.bytes) for a, r in zip(answer.addresses, requests, strict=True)]
    for (a, b), r in zip(ranges, requests, strict=True):
        assert a >= 0 and a % where.alignment == 0 and b <= where.capacity, r
    for (x, r), (y, s) in combinations(zip(ranges, requests, strict=True), 2):
        if r.live[0] < s.live[1] and s.live[0] < r.live[1]:
            assert x[1] <= y[0] or y[1] <= x[0], (r, s)


def some(rng: random.Random, count: int, sizes: int, time: int) -> tuple[BufferRequest, ...]:
    found: list[BufferRequest] = []
    for i in range(count):
        first = rng.randrange(time)
        found.append(BufferRequest(f"r{i}", rng.randint(1, sizes), (first, rng.randint(first + 1, time))))
    return tuple(found)


def smallest_peak(requests: tuple[BufferRequest, ...]) -> int:
    """By enumeration of all orders of first fit, which holds an optimum."""
    items = [Item(r.bytes, *r.live) for r in requests]
    near = neighbours(items)
    best = sum(i.size for i in items)

    def extend(at: list[int], left: frozenset[int], high: int) -> None:
        nonlocal best
        if high >= best:
            return
        if not left:
            best = high
            return
        for i in left:
            taken = sorted((at[j], at[j] + items[j].size) for j in near[i] if at[j] >= 0)
            low = 0
            for start, stop in taken:
                if start - low >= items[i].size:
                    break
                low = max(low, stop)
            at[i] = low
            extend(at, left - {i}, max(high, low + items[i].size))
            at[i] = -1

    extend([-1] * len(items), frozenset(range(len(items))), 0)
    return best


def test_as_small_as_brute_force() -> None:
    rng = random.Random(3)
    for _ in range(25):
        requests = some(rng, 6, 6, 5)
        need = smallest_peak(requests)
        answer = place(requests, memory(need), budget=BUDGET)
        assert isinstance(answer, Placement)
        check(requests, memory(need), answer)
        assert answer.peak <= need
        too_small = place(requests, memory(need - 1), budget=BUDGET)
        assert isinstance(too_small, PlacementOverflow) and too_small.proven and too_small.need >= need


def test_conflicts_as_small_as_brute_force() -> None:
    rng = random.Random(5)
    for _ in range(5):
        requests = some(rng, 4, 4, 3)
        where = memory(8, banks=4)
        pairs = tuple((i, j, rng.randint(1, 9)) for i, j in combinations(range(4), 2))
        answer = place(requests, where, conflicts=pairs, budget=BUDGET)
        best: int | None = None
        for at in product(range(8), repeat=4):
            try:
                check(requests, where, Placement(at, 0, 0, None))  # type: ignore[arg-type]
            except AssertionError:
                continue
            cost = 0
            for i, j, w in pairs:
                mine = {a // 2 for a in range(at[i], at[i] + requests[i].bytes)}
                theirs = {a // 2 for a in range(at[j], at[j] + requests[j].bytes)}
                cost += w if mine & theirs else 0
            best = cost if best is None else min(best, cost)
        if best is None:
            assert isinstance(answer, PlacementOverflow)
        else:
            assert isinstance(answer, Placement)
            check(requests, where, answer)
            assert answer.conflict == best and answer.solved.status == "optimal"


def test_interleaved_memories_have_no_bank_to_choose() -> None:
    requests = (BufferRequest("a", 4, (0, 1)), BufferRequest("b", 4, (0, 1)))
    answer = place(requests, memory(64, 2, interleave=8), conflicts=((0, 1, 5),), budget=BUDGET)
    assert isinstance(answer, Placement) and answer.conflict == 0
    apart = place(requests, memory(64, 2), conflicts=((0, 1, 5),), budget=BUDGET)
    assert isinstance(apart, Placement) and apart.conflict == 0
    assert {a // 32 for a in apart.addresses} == {0, 1}


def test_shortfall_names_those_who_do_not_fit() -> None:
    requests = (BufferRequest("a", 60, (0, 2)), BufferRequest("b", 50, (1, 3)), BufferRequest("c", 70, (4, 5)))
    answer = place(requests, memory(100, alignment=10), budget=BUDGET)
    assert isinstance(answer, PlacementOverflow)
    assert (answer.names, answer.need, answer.excess, answer.live) == (("a", "b"), 110, 10, (1, 2))
    assert answer.proven and answer.solved.status == "infeasible"


def test_alignment_and_known_addresses() -> None:
    requests = (BufferRequest("a", 33, (0, 2)), BufferRequest("b", 32, (0, 2)), BufferRequest("c", 1, (1, 2)))
    where = memory(256, alignment=32)
    answer = place(requests, where, budget=BUDGET)
    assert isinstance(answer, Placement)
    check(requests, where, answer)

    def at(*addresses: int) -> tuple[BufferRequest, ...]:
        return tuple(replace(r, at=a) for r, a in zip(requests, addresses, strict=True))

    kept = place(at(128, 0, 64), where, budget=BUDGET)
    assert isinstance(kept, Placement) and kept.addresses == (128, 0, 64)
    invalid = place(at(0, 32, 64), where, budget=BUDGET)
    assert isinstance(invalid, Placement)
    check(requests, where, invalid)


def test_known_addresses_need_be_no_multiples_of_the_sizes() -> None:
    """They are kept, though sizes have a larger common divisor."""
    requests = (BufferRequest("a", 6, (0, 2), 1), BufferRequest("b", 3, (1, 3), 13), BufferRequest("c", 6, (0, 3), 7))
    kept = place(requests, memory(16), budget=BUDGET)
    assert isinstance(kept, Placement) and kept.addresses == (1, 13, 7)
    banked = place(requests, memory(18, banks=2), budget=BUDGET)
    assert isinstance(banked, Placement) and banked.addresses == (1, 13, 7)
    # Sizes of six units of two bytes, of which the addresses are three and nine.
    coarse = tuple(BufferRequest(name, 12, (0, 2), at) for name, at in (("a", 6), ("b", 18)))
    placed = place(coarse, memory(32, alignment=2), budget=BUDGET)
    assert isinstance(placed, Placement) and placed.addresses == (6, 18)


def test_many_requests_are_packed_by_hand() -> None:
    rng = random.Random(11)
    requests = tuple(
        BufferRequest(f"r{i}", 64 * rng.randint(1, 300), (s := rng.randrange(400), s + rng.randint(1, 30)))
        for i in range(300)
    )
    items = [Item(r.bytes, *r.live) for r in requests]
    load = max(sum(items[i].size for i in c) for c in cliques(items))
    where = memory(load * 21 // 20, alignment=64)
    answer = place(requests, where, budget=BUDGET)
    assert isinstance(answer, Placement)
    check(requests, where, answer)


def test_tight_packing_needs_the_solver() -> None:
    """First fit fails in every order that is tried, yet there is room."""
    rng = random.Random(2)
    solved = 0
    for _ in range(200):
        requests = some(rng, 10, 12, 7)
        items = [Item(r.bytes, *r.live) for r in requests]
        load = max(sum(items[i].size for i in c) for c in cliques(items))
        if peak(items, pack(items, load)) > load:
            answer = place(requests, memory(load), budget=BUDGET)
            if isinstance(answer, Placement):
                check(requests, memory(load), answer)
                solved += 1
    print(solved)


def test_empty() -> None:
    answer = place((), memory(10), budget=BUDGET)
    assert isinstance(answer, Placement) and answer.peak == 0


@pytest.mark.parametrize("seed", range(3))
def test_same_seed_same_addresses(seed: int) -> None:
    requests = some(random.Random(seed), 12, 8, 6)
    pairs = tuple((i, i + 1, 3) for i in range(11))
    answers = [place(requests, memory(64, 4), conflicts=pairs, budget=BUDGET, seed=seed) for _ in range(2)]
    assert all(isinstance(a, Placement) for a in answers)
    assert answers[0].addresses == answers[1].addresses  # type: ignore[union-attr]


def test_many_items_are_packed_in_fewer_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """No packing is low enough: what comes out is one all the same, after as many rounds as there are."""
    rng = random.Random(0)
    starts = [rng.randrange(100) for _ in range(500)]
    items = [Item(rng.randint(1, 9), first, first + rng.randint(1, 12)) for first in starts]
    rounds: list[int] = []
    fit = packing.first_fit
    monkeypatch.setattr(packing, "first_fit", lambda *args: rounds.append(0) or fit(*args))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    at = pack(items, 0)
    assert len(rounds) == 5 + PLACEMENTS // 500 < 5 + ROUNDS
    for i, near in enumerate(neighbours(items)):
        assert all(at[i] + items[i].size <= at[j] or at[j] + items[j].size <= at[i] for j in near)


def test_first_fit_by_size_puts_the_larger_lower() -> None:
    items = [Item(10, 0, 2), Item(30, 0, 1), Item(30, 1, 3), Item(5, 2, 3)]
    assert first_fit(items, neighbours(items), by_size(items)) == [30, 0, 0, 30]
