"""Lives of buffers in a run: whole, in order, and never two at one place at one time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from girih.explain.compilation import Compilation
from girih.explain.run.home_lives import home_lives
from girih.explain.run.local_lives import LocalLives, local_lives
from girih.explain.run.shared_lives import SharedLives, shared_lives
from girih.ir.box import volume
from girih.ir.graph import DTYPES
from girih.ir.load_machine import load_machine
from girih.solver import plan
from girih.solver.options import Options
from tests.support.compilations import compilation_of, random_compilation
from tests.support.graphs import attention, branches, chain, residual, with_host
from tests.support.machines import kinds_of, with_capacity
from tests.support.random_graphs import random_graph

GRAPHS = {
    "residual": residual,
    "attention": attention,
    "chain": lambda: chain(4),
    "host": with_host,
    **{f"random {seed}": lambda seed=seed: random_graph(seed, "float16", 6) for seed in range(4)},
}
CASES = [(name, seed) for name in GRAPHS for seed in range(3)]


@cache
def drawn(name: str, seed: int) -> Compilation:
    return random_compilation(GRAPHS[name](), seed)


Rectangle = tuple[int, int, int, int, object]
"""Begin, end, low and high address, and what it is."""


def overlaps(rectangles: list[Rectangle]) -> Iterator[tuple[object, object]]:
    live: list[Rectangle] = []
    for rectangle in sorted(rectangles, key=lambda r: r[:4]):
        live = [r for r in live if r[1] > rectangle[0]]
        yield from ((r[4], rectangle[4]) for r in live if r[2] < rectangle[3] and rectangle[2] < r[3])
        live.append(rectangle)


def locals_of(given: Compilation) -> Iterator[LocalLives]:
    run = given.execution
    for number, memory in enumerate(given.machine.memories):
        if memory.scope == "core":
            yield local_lives(given.plan, given.machine, run.columns, run.slots, run.accesses, number)


def shared_of(given: Compilation) -> SharedLives:
    run = given.execution
    return shared_lives(given.graph, given.plan, given.program, given.machine, run.columns, run.slots, run.accesses)


def follow(one: tuple[int, int], two: tuple[int, int]) -> bool:
    """Whether one planned life ends before the other begins: then each takes over the bytes that it needs, part by part,
    and what touches them is for the simulator's race check to judge."""
    return one[1] <= two[0] or two[1] <= one[0]


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_no_two_lives_share_bytes_but_for_documented_aliases(name: str, seed: int) -> None:
    given = drawn(name, seed)
    lives = shared_of(given)
    assert (lives.begin >= 0).all() and (lives.begin < lives.end).all() and (lives.end <= given.trace.cycles).all()
    times = zip(lives.begin.tolist(), lives.end.tolist(), lives.buffers, strict=True)
    placed = [(begin, end, b.address, b.address + b.bytes, b) for begin, end, b in times]
    assert all(follow(one.live, two.live) for one, two in overlaps(placed))  # type: ignore[attr-defined]
    for local in locals_of(given):
        assert set(local.buffer.tolist()) == set(range(len(local.buffers)))
        rows = np.stack([local.core, local.step, local.buffer, local.version, local.begin, local.end], 1).tolist()
        for core in range(given.machine.cores):
            rectangles: list[Rectangle] = []
            for at, step, number, version, begin, end in rows:
                buffer = local.buffers[number]
                size = buffer.bytes // buffer.depth
                low = buffer.address + version * size
                if at == core:
                    rectangles.append((begin, end, low, low + size, (step, buffer)))
            for (step, one), (later, two) in overlaps(rectangles):  # type: ignore[misc]
                if step != later or follow(one.live, two.live):
                    continue
                # Private buffers of one operator may be one place; a result may replace an input that ends with it.
                assert one.address == two.address, (one, two)
                private = one.op == two.op and one.use == two.use == "scratch"
                assert private or one.use == two.use == "data"


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_what_is_fetched_and_stored_is_what_the_plan_says(name: str, seed: int) -> None:
    given = drawn(name, seed)
    lives = shared_of(given)
    for number, buffer in enumerate(lives.buffers):
        assert (lives.fetch_begin[number] >= 0) == buffer.fetch
        assert (lives.store_begin[number] >= 0) == buffer.store
        if buffer.fetch:
            assert lives.fetch_begin[number] == lives.begin[number]
            peak = min(link.bytes_per_cycle for link in given.machine.links)
            size = volume(buffer.box) * DTYPES[given.graph.tensor[buffer.tensor].dtype]
            assert lives.fetch_end[number] - lives.fetch_begin[number] >= size / peak / 64


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_slots_of_each_queue_are_in_order_and_of_the_operator_that_instructions_are_marked_with(
    name: str, seed: int
) -> None:
    given = drawn(name, seed)
    run = given.execution
    kinds = [c.instruction.row.kind for c in run.columns.classes]
    for first, last in zip(run.columns.first, run.columns.first[1:], strict=False):
        assert (np.diff(run.slots[first:last]) >= 0).all()
    for op, number, slot in zip(run.columns.op, run.columns.class_of, run.slots, strict=True):
        if kinds[number] != "dma":
            assert given.plan.slots[slot][1] == given.program.ops[op].name


def test_tensors_of_the_host_live_in_main_memory_from_their_kernel_on() -> None:
    given = random_compilation(with_host(), 0)
    run = given.execution
    lives = home_lives(given.graph, given.plan, given.program, given.machine, run.columns, given.trace.cycles)
    home = {
        b.tensor: (int(begin), int(end)) for b, begin, end in zip(lives.buffers, lives.begin, lives.end, strict=True)
    }
    for tensor in (*given.graph.constant_names, *given.graph.input_tensors):
        assert home[tensor][0] == 0
    for tensor in given.graph.output_tensors:
        assert home[tensor][1] == given.trace.cycles
    host = next(op for op in given.graph.ops if op.host)
    (call,) = [r for r, c in enumerate(run.columns.class_of) if run.columns.classes[c].instruction.mnemonic == "hcall"]
    assert home[host.output][0] == run.columns.start[call]


@pytest.mark.parametrize("kind", ["", "shared memory", "main memory to write"])
def test_homes_at_one_address_live_one_after_the_other(kind: str) -> None:
    tiny = load_machine("tiny")
    graph, machine = branches(), kinds_of(tiny)[kind] if kind else tiny
    home = machine.levels.home.name
    whole = plan(graph, machine, Options(1.0, "layerwise")).plan
    machine = with_capacity(machine, home, max(b.address + b.bytes for b in whole.shared if b.memory == home) - 64)
    given = compilation_of(graph, plan(graph, machine, Options(1.0, "layerwise")).plan, machine)
    lives = home_lives(
        graph, given.plan, given.program, machine, given.execution.columns, given.trace.cycles
    )  # fmt: skip
    assert (lives.begin >= 0).all() and (lives.begin < lives.end).all()
    times = zip(lives.begin.tolist(), lives.end.tolist(), lives.buffers, strict=True)
    assert not list(overlaps([(begin, end, b.address, b.address + b.bytes, b) for begin, end, b in times]))
