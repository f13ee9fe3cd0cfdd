"""Homes share addresses where main memory is too small for all of them, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from random import Random

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import InfeasibleError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine, Memory
from girih.ir.plan import SharedBuffer
from girih.solver import plan
from girih.solver.banks.problem import BufferRequest
from girih.solver.banks.solve import Placement, PlacementOverflow, place
from girih.solver.cpsat.backend import NO_SEARCH, Budget
from girih.solver.options import Options, Strategy
from girih.solver.residency.homes import place_homes
from tests.support.graphs import Net, branches, host_between
from tests.support.machines import kinds_of, with_capacity
from tests.support.plans.rough_plans import rough_plan
from tests.support.sampled import sampled

TINY = load_machine("tiny")
BUDGET = Budget(5.0)
FLASH = kinds_of(TINY)["main memory to write"]
"""Constants in DDR, everything else in LLB, from where the cores load."""


def placed(requests: tuple[BufferRequest, ...], memory: Memory) -> Placement | PlacementOverflow:
    return place(requests, memory, budget=BUDGET)


@cache
def chain(*rows: int) -> Graph:
    """Results r0, r1 … of so many rows of 64 bytes; the output is as large as the first."""
    net = Net("chain", "float32")
    for number, count in enumerate(rows):
        x = net.input(f"x{number}", count, 16)
        net.elementwise(f"r{number}", "max", x, 0.0)
    return net.graph(net.matmul("out", "r0", 16))


def homes_of(
    graph: Graph, capacity: int, spans: Mapping[str, tuple[int, int]], slots: int, machine: Machine = FLASH
) -> dict[str, SharedBuffer]:
    names = [t.name for t in graph.tensors if t.name in spans or t.name in graph.output_tensors]
    smaller = with_capacity(machine, machine.levels.home.name, capacity)
    homes = place_homes(graph, smaller, names, spans, [f"op{slot}" for slot in range(slots)], placed)
    return {b.tensor: b for b in homes.buffers}


def share(a: SharedBuffer, b: SharedBuffer) -> bool:
    return a.memory == b.memory and a.address < b.address + b.bytes and b.address < a.address + a.bytes


def meet(a: SharedBuffer, b: SharedBuffer) -> bool:
    return a.live[0] < b.live[1] and b.live[0] < a.live[1]


def test_homes_that_fit_lie_side_by_side_for_the_whole_run() -> None:
    graph = chain(4, 8, 4)
    homes = homes_of(graph, 4 * 256 + 1024, {"r0": (0, 1), "r1": (2, 3), "r2": (4, 5)}, 6)
    assert [(b.tensor, b.address, b.live) for b in homes.values()] == [
        ("r0", 0, (0, 6)), ("r1", 256, (0, 6)), ("r2", 768, (0, 6)), ("out", 1024, (0, 6)),
    ]  # fmt: skip


def test_results_live_from_their_first_access_to_their_last() -> None:
    graph = chain(4, 8, 4)
    homes = homes_of(graph, 1024, {"r0": (0, 1), "r1": (1, 3), "r2": (2, 4)}, 6)
    assert {name: b.live for name, b in homes.items()} == {"r0": (0, 2), "r1": (1, 4), "r2": (2, 5), "out": (0, 6)}
    assert homes["out"].address == 0, "what lives all the time lies below"
    assert share(homes["r0"], homes["r2"]) and not share(homes["r0"], homes["r1"])


def test_one_slot_is_enough_to_need_two_homes() -> None:
    """A slot writes its result while it still reads what it is made of."""
    graph = chain(4, 4, 4)
    with pytest.raises(InfeasibleError, match=r"^operator op1: .*LLB .* 512 bytes.*need 768 at once, 256 too many"):
        homes_of(graph, 512, {"r0": (0, 1), "r1": (1, 2)}, 4)
    assert share(*(homes_of(graph, 512, {"r0": (0, 0), "r1": (1, 2)}, 4)[name] for name in ("r0", "r1")))


@pytest.mark.parametrize("seed", sampled(range(30)))
def test_no_two_homes_share_a_byte_in_one_slot(seed: int) -> None:
    rng = Random(f"homes {seed}")
    rows = tuple(rng.randint(1, 9) for _ in range(rng.randint(3, 12)))
    graph, slots = chain(*rows), 12
    spans: dict[str, tuple[int, int]] = {}
    for number in range(len(rows)):
        first = rng.randrange(slots)
        spans[f"r{number}"] = first, min(slots - 1, first + rng.randint(0, 4))
    own = graph.tensor["out"].bytes
    load = own + max(
        sum(graph.tensor[name].bytes for name, (first, last) in spans.items() if first <= slot <= last)
        for slot in range(slots)
    )
    total = own + sum(graph.tensor[name].bytes for name in spans)
    with pytest.raises(InfeasibleError, match=rf"need {load:,} at once, 64 too many"):
        homes_of(graph, load - 64, spans, slots)
    # A little above the load there is a packing of so few.
    homes = list(homes_of(graph, min(total, load + load // 4 // 64 * 64), spans, slots).values())
    assert len(homes) == len(rows) + 1
    for i, a in enumerate(homes):
        assert all(not (share(a, b) and meet(a, b)) for b in homes[:i])


def test_without_search_first_fit_answers() -> None:
    graph = chain(4, 8, 4)

    def by_hand(requests: tuple[BufferRequest, ...], memory: Memory) -> Placement | PlacementOverflow:
        return place(requests, memory, budget=NO_SEARCH)

    smaller = with_capacity(FLASH, "LLB", 1024)
    spans = {"r0": (0, 1), "r1": (1, 3), "r2": (2, 4)}
    homes = place_homes(graph, smaller, ("r0", "r1", "r2", "out"), spans, ["op"] * 6, by_hand)
    assert homes.solved is not None and homes.solved.model == "banks:LLB" and len(homes.buffers) == 4


@pytest.mark.parametrize("strategy", ["layerwise", "graphturbo", "solver"])
@pytest.mark.parametrize("kind", ["main memory to write", "shared memory", ""])
def test_more_main_memory_than_all_homes_need_changes_nothing(kind: str, strategy: Strategy) -> None:
    machine = kinds_of(TINY)[kind] if kind else TINY
    graph, main = branches(), machine.levels.home.name
    whole = plan(graph, machine, Options(1.0, strategy)).plan
    homes = [b for b in whole.shared if b.memory == main]
    assert all(b.live == (0, len(whole.slots)) for b in homes)
    ends = [(b.address, b.address + b.bytes) for b in homes if b.tensor not in graph.constant_names]
    assert all(a[1] <= b[0] for a, b in pairwise(ends))
    smaller = with_capacity(machine, main, max(b.address + b.bytes for b in homes))
    assert plan(graph, smaller, Options(1.0, strategy)).plan.shared == whole.shared


@pytest.mark.parametrize("kind", ["main memory to write", "shared memory", ""])
def test_less_is_a_plan_with_shared_addresses_or_refused(kind: str) -> None:
    machine = kinds_of(TINY)[kind] if kind else TINY
    graph, main = branches(), machine.levels.home.name
    whole = [b for b in plan(graph, machine, Options(1.0, "layerwise")).plan.shared if b.memory == main]
    smaller = with_capacity(machine, main, sum(b.bytes for b in whole) - 64)
    planned = plan(graph, smaller, Options(1.0, "layerwise")).plan
    check_plan(planned, graph, smaller)
    homes = [b for b in planned.shared if b.memory == main]
    assert any(share(a, b) for i, a in enumerate(homes) for b in homes[:i])
    kept = graph.constant_names | graph.input_tensors | graph.output_tensors
    assert all((b.live == (0, len(planned.slots))) == (b.tensor in kept) for b in homes)
    least = max(b.address + b.bytes for b in homes)
    with pytest.raises(InfeasibleError, match=rf"operator .*main memory {main} .* at once, [\d,]+ too many"):
        plan(graph, with_capacity(machine, main, least - 2048), Options(1.0, "layerwise"))


def test_the_home_of_what_the_host_reads_lives_until_then() -> None:
    graph = host_between()
    whole = rough_plan(graph, TINY, group=1, layerwise=True)
    needed = sum(b.bytes for b in whole.shared if b.memory == "DDR")
    smaller = with_capacity(TINY, "DDR", needed - 64)
    planned = rough_plan(graph, smaller, group=1, layerwise=True)
    check_plan(planned, graph, smaller)
    lives = {b.tensor: b.live for b in planned.shared if b.memory == "DDR"}
    assert lives == {"x": (0, 6), "a": (0, 4), "b": (1, 3), "c": (2, 4), "h": (3, 5), "d": (4, 6), "e": (0, 6)}
