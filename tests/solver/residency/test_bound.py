"""The bound of residency without a solver, against all decisions of small problems."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from girih.ir.box import Span
from girih.solver.residency import bound
from girih.solver.residency.bound import lower_bound
from girih.solver.residency.evaluation import evaluate_decisions
from girih.solver.residency.partition.weight_chunks import ChunkFetch, CircularBuffer
from girih.solver.residency.problem import FetchItem, Intermediate, ResidencyProblem, Use
from tests.support.residency_problems import block, every_decision, some, usage


def waiting(rng: random.Random) -> ResidencyProblem:
    """A problem of four slots that compute next to nothing, with what a wrong bound would count twice.

    Two items read parts of one intermediate that overlap; a circular buffer moves less than the items that it replaces.
    """
    slots = 4
    write = rng.randrange(2)
    size = rng.randint(2, 5)

    def uses(first: int = 0) -> tuple[Use, ...]:
        count = rng.randint(1, 2)
        return tuple(Use(s, 1) for s in sorted(rng.sample(range(first, slots), count)))

    def item(name: str, size: int, *where: Use, ready: int = 0, **of: int | str) -> FetchItem:
        return FetchItem((block(name, size, size),), where, ready, **of)

    intermediate = Intermediate(
        block("p", size, size), (write, slots), ((write, block("p", size, size)),), rng.random() < 0.3, True
    )
    streamed = uses()
    items = (
        item("a", rng.randint(1, 6), *uses()),
        item("w", 3, *streamed, streamed="w"),
        item("w", 3, *streamed, streamed="w"),
        item("p", size, Use(slots - 1, 1), ready=write + 1, intermediate=0),
        item("p", size - 1, Use(rng.randrange(write + 1, slots), 1), ready=write + 1, intermediate=0),
    )
    # Two slots may use half of each item, and move that.
    moved = 6 if len(streamed) == 1 else rng.randint(3, 5)
    chunks = tuple(ChunkFetch(p, 0, (Span(0, 1),), 1) for p in range(moved))
    circular = {("w", use.slot): (CircularBuffer(chunks, 2),) for use in streamed if rng.random() < 0.7}
    return ResidencyProblem((1,) * slots, 9, items, (intermediate,), circular, 1.0, ())


def least(d: ResidencyProblem, room: np.ndarray) -> int | None:
    """The objective of the best decisions, by enumeration."""
    fitting = (x for x in every_decision(d) if (usage(d, x) <= room).all())
    return min((evaluate_decisions(d, x).objective for x in fitting), default=None)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_beats_the_bound(seed: int) -> None:
    """Down to where nothing fits."""
    rng = random.Random(seed)
    d = waiting(rng) if seed % 4 else some(rng)[0]
    for size in range(4, 13):
        room = np.array([size + rng.randint(0, 2) for _ in d.cycles])
        best = least(d, room)
        assert best is None or lower_bound(d, room) <= best


def test_what_does_not_fit_beside_each_other_comes_late() -> None:
    """Slots 1 and 2 use 8 bytes each, of which 10 can be there when slot 1 begins: the other 6 take 6 cycles."""
    items = tuple(FetchItem((block(f"w{s}", 8, 8),), (Use(s, 2),)) for s in (1, 2))
    written = Intermediate(block("p", 3, 3), (0, 3), ((0, block("p", 3, 3)),), stored=False, may_be_resident=True)
    d = ResidencyProblem((100, 2, 2), 10, items, (written,), {}, 1.0, ())
    assert lower_bound(d, np.full(3, 19)) == least(d, np.full(3, 19)) == 16 * 104 + 16
    assert lower_bound(d, np.full(3, 10)) == 16 * 106 + 16
    read = FetchItem((block("p", 3, 3),), (Use(2, 2),), 1, intermediate=0)
    d = replace(d, items=(*items, read))
    assert lower_bound(d, np.full(3, 10)) == 16 * 109 + 16, "3 bytes more are there or come again"
    last = Intermediate(block("q", 4, 4), (1, 3), ((1, block("q", 4, 4)),), stored=False, may_be_resident=True)
    d = replace(d, intermediates=(written, last))
    assert lower_bound(d, np.full(3, 10)) == 16 * 113 + 16, "slot 1 needs 4 bytes for what it writes"


def test_two_readers_of_an_intermediate_hold_it_once() -> None:
    """Parts of 5 and 4 of its 6 bytes are read in one slot, in which it lies whole beside 4 bytes of weights."""
    whole = Intermediate(block("p", 6, 6), (0, 3), ((0, block("p", 6, 6)),), stored=False, may_be_resident=True)
    parts = tuple(FetchItem((block("p", size, size),), (Use(2, 1),), 1, intermediate=0) for size in (5, 4))
    d = ResidencyProblem((10, 1, 1), 10, (FetchItem((block("w", 4, 4),), (Use(2, 1),)), *parts), (whole,), {}, 1.0, ())
    assert lower_bound(d, np.full(3, 10)) == least(d, np.full(3, 10)) == 16 * 12 + 4


def test_what_comes_late_may_come_at_the_best_rate() -> None:
    """The 6 bytes that have no room before slot 1 take 3 cycles of a link that moves 2 bytes a cycle."""
    items = tuple(FetchItem((block(f"w{s}", 8, 4),), (Use(s, 1),)) for s in (1, 2))
    d = ResidencyProblem((100, 1, 1), 10, items, (), {}, 1.0, ())
    assert lower_bound(d, np.full(3, 10)) == 16 * 103 + 8 <= (least(d, np.full(3, 10)) or 0)


def test_long_runs_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of six slots uses 4 bytes, and 10 have room: of five slots 10 bytes come late, of six 14."""
    items = tuple(FetchItem((block(f"w{s}", 4, 4),), (Use(s, 1),)) for s in range(1, 7))
    d = ResidencyProblem((100, *(1,) * 6), 10, items, (), {}, 1.0, ())
    bounds: list[int] = []
    for longest in (1, 5, 7):
        monkeypatch.setattr(bound, "LONGEST_RUN", longest)
        bounds.append(lower_bound(d, np.full(7, 10)))
    assert bounds == [16 * t + 24 for t in (106, 111, 114)]
