"""Static allocation: judged by all pairs, by brute force on small problems, and by packings known to be perfect."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations, islice, permutations

import pytest

from benchmarks.allocation import static_allocation as module
from benchmarks.allocation.backjumping import restarts
from benchmarks.allocation.static_allocation import Allocation, Buffer, allocate
from girih.solver.banks.first_fit import Item
from girih.solver.cpsat.backend import Budget

BUDGET = Budget(30.0, 0.5)


def check(buffers: Sequence[Buffer], answer: Allocation) -> None:
    """Quadratic on purpose."""
    assert len(answer.offsets) == len(buffers)
    assert min(answer.offsets, default=0) >= 0
    assert answer.peak == max((a + b.size for a, b in zip(answer.offsets, buffers, strict=True)), default=0)
    assert answer.bound <= answer.peak
    for (a, x), (b, y) in combinations(zip(answer.offsets, buffers, strict=True), 2):
        if x.lower < y.upper and y.lower < x.upper:
            assert a + x.size <= b or b + y.size <= a, (x, y)


def some(rng: random.Random, count: int, sizes: int, time: int, unit: int = 1) -> list[Buffer]:
    found: list[Buffer] = []
    for i in range(count):
        lower = rng.randrange(time)
        found.append(Buffer(f"b{i}", lower, rng.randint(lower + 1, time), unit * rng.randint(1, sizes)))
    return found


def perfect(rng: random.Random, cuts: int, high: int, wide: int) -> list[Buffer]:
    """A rectangle cut into pieces: they fill the whole capacity at all times."""
    pieces = [(0, wide, high)]
    while len(pieces) < cuts:
        lower, upper, size = pieces.pop(rng.randrange(len(pieces)))
        if rng.random() < 0.5 and upper - lower > 1:
            at = rng.randrange(lower + 1, upper)
            pieces += [(lower, at, size), (at, upper, size)]
        elif size > 1:
            at = rng.randrange(1, size)
            pieces += [(lower, upper, at), (lower, upper, size - at)]
        else:
            pieces.append((lower, upper, size))
    rng.shuffle(pieces)
    return [Buffer(f"b{i}", *piece) for i, piece in enumerate(pieces)]


def lowest_peak(buffers: Sequence[Buffer]) -> int:
    """Pushed down in every order: the order of a best packing's addresses is one of them."""
    best = sum(b.size for b in buffers)
    for order in permutations(buffers):
        tops: list[tuple[Buffer, int]] = []
        for b in order:
            at = max((top for o, top in tops if o.lower < b.upper and b.lower < o.upper), default=0)
            tops.append((b, at + b.size))
        best = min(best, max(top for _, top in tops))
    return best


def test_the_peak_is_that_of_brute_force() -> None:
    rng = random.Random(5)
    for _ in range(30):
        buffers = some(rng, 6, 7, 6, unit=rng.choice((1, 16)))
        lowest = lowest_peak(buffers)
        answer = allocate(buffers, lowest, budget=BUDGET, minimise=True)
        check(buffers, answer)
        assert (answer.status, answer.peak, answer.bound) == ("optimal", lowest, lowest)
        tight = allocate(buffers, lowest, budget=BUDGET)
        check(buffers, tight)
        assert tight.peak == lowest and tight.source != "search"
        small = allocate(buffers, lowest - 1, budget=BUDGET)
        check(buffers, small)
        assert small.status == "infeasible" and small.peak >= lowest and small.bound > lowest - 1


@pytest.mark.parametrize("seed", range(6))
def test_packings_without_a_gap_are_found(seed: int) -> None:
    buffers = perfect(random.Random(seed), 40, 1024, 60)
    answer = allocate(buffers, 1024, budget=BUDGET)
    check(buffers, answer)
    assert (answer.status, answer.peak, answer.bound) == ("optimal", 1024, 1024)


def test_the_search_finds_them_by_itself_and_refutes_what_brute_force_does() -> None:
    rng = random.Random(11)
    for _ in range(40):
        buffers = some(rng, 6, 7, 6)
        items = [Item(b.size, b.lower, b.upper) for b in buffers]
        lowest = lowest_peak(buffers)
        load = max(sum(b.size for b in buffers if b.lower <= t < b.upper) for t in range(6))
        *_, last = islice(restarts(items, lowest, 0), 50)
        assert last.at is not None
        if lowest > load:
            *_, last = islice(restarts(items, lowest - 1, 0), 50)
            assert last.refuted


def test_an_item_that_lives_again_keeps_its_address() -> None:
    items = [Item(4, 0, 2, again=5), Item(4, 1, 3), Item(4, 4, 6), Item(4, 2, 5)]
    *_, last = restarts(items, 8, 0)
    assert last.at is not None
    assert len({last.at[0], last.at[1]}) == len({last.at[0], last.at[2]}) == 2


def test_same_seed_same_answer() -> None:
    buffers = perfect(random.Random(8), 60, 512, 80)
    one, two = (allocate(buffers, 512, budget=BUDGET, seed=3) for _ in range(2))
    assert (one.offsets, one.source, one.effort.deterministic_seconds) == (
        two.offsets,
        two.source,
        two.effort.deterministic_seconds,
    )


def test_the_largest_load_is_a_proof() -> None:
    buffers = [Buffer("a", 0, 3, 700), Buffer("b", 2, 5, 400)]
    for minimise in (False, True):
        answer = allocate(buffers, 1000, budget=BUDGET, minimise=minimise)
        check(buffers, answer)
        assert (answer.status, answer.peak, answer.bound) == ("infeasible", 1100, 1100)


def test_nothing_and_one() -> None:
    for minimise in (False, True):
        nothing = allocate([], 10, budget=BUDGET, minimise=minimise)
        assert (nothing.status, nothing.offsets, nothing.peak) == ("optimal", (), 0)
        one = allocate([Buffer("a", 0, 1, 7)], 10, budget=BUDGET, minimise=minimise)
        assert (one.status, one.offsets, one.bound) == ("optimal", (0,), 7)


@pytest.mark.parametrize("seconds", [0.0, 0.05, 1.0])
def test_without_time_there_is_still_an_answer_and_a_bound(seconds: float) -> None:
    buffers = perfect(random.Random(1), 150, 4096, 100)
    answer = allocate(buffers, 4096, budget=Budget(seconds), minimise=True)
    check(buffers, answer)
    assert answer.bound >= 4096


def test_an_interrupt_keeps_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    buffers = perfect(random.Random(3), 40, 1024, 60)
    assert allocate(buffers, 1024, budget=Budget(0.0)).status == "unknown"
    monkeypatch.setattr(module, "restarts", interrupted)
    answer = allocate(buffers, 1024, budget=BUDGET, minimise=True)
    check(buffers, answer)
    assert answer.interrupted
