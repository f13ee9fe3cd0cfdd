"""Weight separation: as good as brute force, valid plans, and weights that arrive earlier in the simulation."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import inf
from random import Random

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.load_machine import load_machine
from girih.ir.plan import LocalBuffer, Plan, Segment
from girih.ir.semantics.cell import Cells
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import Options, plan
from girih.solver.banks.separation_model import WINDOW, separate
from girih.solver.banks.separation_problem import (
    Meeting,
    SeparationProblem,
    _waits,  # pyright: ignore[reportPrivateUsage]
    greedily_separated,
)
from girih.solver.banks.weight_depth import fitting_depths, with_deeper_weights
from girih.solver.banks.weight_separation import with_separated_weights
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.cpsat.backend import NO_SEARCH, Budget
from girih.solver.switches import checked
from tests.support import graphs

STCP920, TINY = load_machine("stcp920"), load_machine("tiny")
BUDGET = Budget(10.0)


def problem(sizes: tuple[int, ...], depths: tuple[int, ...], capacity: int, *meetings: Meeting) -> SeparationProblem:
    return SeparationProblem(sizes, depths, capacity, meetings)


def drawn(rng: Random, count: int, capacity: int) -> SeparationProblem:
    depths = tuple(rng.choice((1, 2)) for _ in range(count))
    sizes = tuple(depth * rng.randint(1, capacity // 3) for depth in depths)
    pairs = [(a, b) for a, b in product(range(count), repeat=2) if a != b and rng.random() < 0.5]
    meetings = [Meeting(a, b, v, rng.randint(1, 9)) for a, b in pairs for v in range(depths[b])]
    return problem(sizes, depths, capacity, *meetings)


def fewest(instance: SeparationProblem) -> int:
    ranges = (range(instance.capacity - size + 1) for size in instance.sizes)
    return min(instance.waits(at) for at in product(*ranges))


@pytest.mark.parametrize("seed", range(12))
def test_as_few_waits_as_by_brute_force(seed: int) -> None:
    instance = drawn(Random(seed), 4, 8)
    before = [0] * 4
    greedy = greedily_separated(instance, before)
    at, _ = separate(instance, greedy, BUDGET, 0)
    assert instance.waits(at) == fewest(instance) <= instance.waits(greedy) <= instance.waits(before)
    assert all(0 <= a <= instance.capacity - size for a, size in zip(at, instance.sizes, strict=True))
    assert separate(instance, greedy, NO_SEARCH, 0)[0] == greedy


def test_the_model_finds_what_no_single_move_does() -> None:
    """From some start, moving one buffer at a time ends above the optimum, and the model does not."""
    gains = 0
    for seed in range(60):
        instance = drawn(Random(seed), 4, 8)
        greedy = greedily_separated(instance, [0] * 4)
        gains += instance.waits(separate(instance, greedy, BUDGET, 0)[0]) < instance.waits(greedy)
    assert gains


def test_only_what_is_loaded_early_has_to_lie_apart() -> None:
    """Five units do not fit beside three in seven; the first of five versions does, at the other end."""
    instance = problem((3, 5), (1, 5), 7, Meeting(0, 1, 0, 4))
    assert instance.waits([0, 0]) == 4
    at, _ = separate(instance, greedily_separated(instance, [0, 0]), BUDGET, 0)
    assert instance.waits(at) == 0 and at[1] + 1 <= at[0]


def test_what_loads_lose() -> None:
    """Loads of 10 cycles, and 2 until the contents can be used, of which the engine before is done at 100."""

    def waits(*, produced_at: float = -inf, free: float = 100) -> list[float]:
        return _waits(100, produced_at, free, load=10, latency=2, depth=2)

    assert waits() == [12, 10]
    # Who has other work meanwhile waits for less of it; what is made late could not be loaded before.
    assert waits(free=107) == [5, 10]
    assert waits(free=130) == [0, 0]
    assert waits(produced_at=95) == [5, 0]
    assert waits(produced_at=100) == [0, 0]


def test_equal_windows_are_searched_once() -> None:
    """Pairs of buffers of which one has no room beside the other: nothing can be gained, in window after window."""
    pairs = 3 * WINDOW
    meetings = [Meeting(2 * i, 2 * i + 1, 0, 5) for i in range(pairs)]
    instance = problem((3,) * 2 * pairs, (1,) * 2 * pairs, 5, *meetings)
    at, effort = separate(instance, [0] * 2 * pairs, BUDGET, 0)
    assert effort.searches == 1 and instance.waits(at) == 5 * pairs


def test_buffers_outside_of_a_window_stay() -> None:
    """A chain over several windows, in which neighbours fit beside each other: all waits go."""
    count = 3 * WINDOW
    meetings = [Meeting(i, i + 1, 0, 1) for i in range(count - 1)]
    instance = problem((2,) * count, (1,) * count, 4, *meetings)
    at, _ = separate(instance, [0] * count, BUDGET, 0)
    assert instance.waits(at) == 0


@pytest.fixture(scope="module")
def planned() -> Plan:
    # On the matrix engine, so that there are weights to separate.
    disabled = checked(["weight-separation", "vector-contractions"])
    return plan(graphs.attention(), STCP920, Options(timeout=1.0, disabled=disabled)).plan


def test_more_versions_where_there_is_room() -> None:
    """Beside what they meet, and no more than there are tiles for: one at a time, the earlier first."""
    meetings = (Meeting(0, 1, 0, 5), Meeting(1, 2, 0, 5))
    instance = problem((2, 2, 4, 2), (1, 1, 2, 2), 8, *meetings)
    assert fitting_depths(instance, [3, 3, 3, 3]) == [2, 2, 2, 3]
    assert fitting_depths(instance, [1, 3, 2, 2]) == [1, 2, 2, 2]
    assert fitting_depths(problem((2, 2), (1, 1), 10, *meetings[:1]), [3, 3]) == [3, 2]


def test_a_plan_with_more_versions_is_valid() -> None:
    graph = graphs.attention()
    planned = plan(graph, TINY, Options(timeout=1.0)).plan
    streams = tuple(replace(s, versions=(0,), prefetch=0) for s in planned.weight_streams)
    single = replace(
        planned,
        segments=tuple(map(single_buffered, planned.segments)),
        local=tuple(map(once, planned.local)),
        weight_streams=streams,
    )
    check_plan(single, graph, TINY)
    found = with_deeper_weights(graph, Cells(graph), TINY, TileWalks(graph, TINY), single)
    check_plan(found, graph, TINY)
    lower(graph, found, TINY)
    changed = [new for old, new in zip(single.local, found.local, strict=True) if new != old]
    assert changed and all(b.use == "weights" and b.depth > 1 for b in changed)
    # What is prefetched grows where it filled all versions, and nowhere else.
    filled = replace(single, weight_streams=tuple(replace(s, prefetch=1) for s in streams))
    more = with_deeper_weights(graph, Cells(graph), TINY, TileWalks(graph, TINY), filled)
    assert [s.prefetch for s in found.weight_streams] == [0] * len(streams)
    assert [s.prefetch for s in more.weight_streams] == [len(s.versions) for s in more.weight_streams]
    assert max(s.prefetch for s in more.weight_streams) > 1


def single_buffered(segment: Segment) -> Segment:
    return replace(segment, tiles=tuple(replace(tile, weight_depth=1) for tile in segment.tiles))


def once(buffer: LocalBuffer) -> LocalBuffer:
    return replace(buffer, bytes=buffer.bytes // buffer.depth, depth=1) if buffer.use == "weights" else buffer


def together(made: Plan) -> Plan:
    """The plan with all weights at the same address."""
    return replace(made, local=tuple(replace(b, address=0) if b.use == "weights" else b for b in made.local))


def test_a_plan_stays_valid_and_its_weights_come_earlier(planned: Plan) -> None:
    graph, before = graphs.attention(), together(planned)
    answer = with_separated_weights(graph, STCP920, before, BUDGET, 0)
    assert answer is not None
    found, run = answer
    assert (run.model, run.status, run.objective) == ("banks:L1W", "optimal", 0.0)
    check_plan(found, graph, STCP920)
    for old, new in zip(before.local, found.local, strict=True):
        assert new == replace(old, address=new.address) and (old.use == "weights" or new == old)
    cycles = [simulate(lower(graph, p, STCP920), STCP920, {}, {}, data=False).cycles for p in (before, found)]
    assert cycles[1] < cycles[0]
    # Once is enough.
    assert with_separated_weights(graph, STCP920, found, BUDGET, 0) is None
