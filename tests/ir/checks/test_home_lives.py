"""Homes that share addresses: a life that is too short, or bytes that two homes have at one time, are refused.

The lives that a plan needs are found here from what it fetches, stores, loads and calls, not from the solver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.checks.plan_facts import Facts, Geometry
from girih.ir.checks.plan_shared_memory import check_shared
from girih.ir.errors import CheckError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan, SharedBuffer
from girih.solver import plan
from girih.solver.options import Options
from tests.support.graphs import branches, host_between, residual
from tests.support.machines import kinds_of, with_capacity
from tests.support.plans.rough_plans import rough_plan

TINY = load_machine("tiny")
FLASH = kinds_of(TINY)["main memory to write"]
MACHINES = {"loaded from": FLASH, "fetched from": TINY}


@cache
def hosted() -> Graph:
    return host_between()


GRAPHS: dict[str, Callable[[], Graph]] = {
    "branches": branches,
    "residual": lambda: residual(2, size=8, dtype="float32"),
    "hosted": hosted,
}


@cache
def sharing(kind: str, name: str) -> tuple[Graph, Machine, Plan]:
    """A plan whose homes do not fit side by side."""
    graph, machine = GRAPHS[name](), MACHINES[kind]
    main = machine.levels.home.name
    whole = plan(graph, machine, Options(1.0, "layerwise")).plan
    total = max(b.address + b.bytes for b in whole.shared if b.memory == main)
    smaller = with_capacity(machine, main, total - 64)
    return graph, smaller, plan(graph, smaller, Options(1.0, "layerwise")).plan


CASES = [(kind, name) for kind in MACHINES for name in GRAPHS]


def homes(machine: Machine, planned: Plan) -> Iterator[tuple[int, SharedBuffer]]:
    return ((i, b) for i, b in enumerate(planned.shared) if b.memory == machine.levels.home.name)


def accessed(graph: Graph, machine: Machine, planned: Plan, tensor: str) -> list[int]:
    """The slots that access the home of a tensor."""
    slots: list[int] = []
    for slot, (_, name) in enumerate(planned.slots):
        op = graph.op[name]
        # Each operator is a segment: where the cores load from homes, it loads and stores there.
        if (op.host is not None or not machine.levels.has_exchange) and tensor in (*op.inputs, *op.outputs):
            slots.append(slot)
    here = machine.levels.exchange.name
    if machine.levels.has_exchange:
        slots += [b.live[0] for b in planned.shared if b.tensor == tensor and b.memory == here and (b.fetch or b.store)]
    return slots


def changed(planned: Plan, number: int, **values: object) -> Plan:
    buffers = list(planned.shared)
    buffers[number] = replace(buffers[number], **values)  # pyright: ignore[reportArgumentType]
    return replace(planned, shared=tuple(buffers))


def refused(graph: Graph, machine: Machine, broken: Plan, match: str) -> None:
    with pytest.raises(CheckError, match=match):
        check_shared(Facts(broken, machine, Geometry(graph)))


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_life_covers_every_access(kind: str, name: str) -> None:
    graph, machine, valid = sharing(kind, name)
    check_plan(valid, graph, machine)
    kept = graph.constant_names | graph.input_tensors | graph.output_tensors
    shortened = 0
    for number, home in homes(machine, valid):
        first, last = home.live
        shorter = [(first + 1, last), (first, last - 1)]
        if home.tensor in kept:
            for live in shorter:
                refused(graph, machine, changed(valid, number, live=live), "must be there all the time")
            continue
        slots = accessed(graph, machine, valid, home.tensor)
        assert home.live == (min(slots), max(slots) + 1), "no longer than it has to be"
        for live in shorter:
            if live[0] < live[1]:
                match = "outside of the life of|no buffers of the shared memory hold it then|were written there before"
                refused(graph, machine, changed(valid, number, live=live), match)
                shortened += 1
        # A longer life is none that a plan may not have, where nobody else has the bytes.
        alone = 1 << 20
        roomy = with_capacity(machine, home.memory, alone + home.bytes)
        longer = changed(valid, number, live=(0, len(valid.slots)), address=alone)
        check_shared(Facts(longer, roomy, Geometry(graph)))
    assert shortened


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_homes_that_live_in_one_slot_have_no_byte_in_common(kind: str, name: str) -> None:
    graph, machine, valid = sharing(kind, name)
    moved = shared = 0
    own = list(homes(machine, valid))
    for number, home in own:
        for _, other in own:
            if other is home:
                continue
            together = home.live[0] < other.live[1] and other.live[0] < home.live[1]
            overlap = home.address < other.address + other.bytes and other.address < home.address + home.bytes
            assert not (together and overlap)
            shared += overlap
            if together and other.address + home.bytes <= machine.memory[home.memory].capacity:
                refused(graph, machine, changed(valid, number, address=other.address), "share .* bytes")
                moved += 1
    assert moved and shared


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_slot_that_reads_one_and_writes_the_other_counts(kind: str, name: str) -> None:
    """What an operator reads last is not free yet for what it writes first: its tiles, cores and instances overlap."""
    graph, machine, valid = sharing(kind, name)
    kept, tried = graph.constant_names | graph.input_tensors | graph.output_tensors, 0
    number = {b.tensor: i for i, b in homes(machine, valid) if b.tensor not in kept}
    for op in graph.ops:
        for read in op.inputs:
            if read in number and op.output in number:
                address = valid.shared[number[read]].address
                refused(graph, machine, changed(valid, number[op.output], address=address), "share .* bytes")
                tried += 1
    assert tried


def test_a_home_without_its_life_in_the_host() -> None:
    graph = hosted()
    planned = rough_plan(graph, TINY, group=1, layerwise=True)
    number = {b.tensor: i for i, b in homes(TINY, planned)}
    refused(graph, TINY, changed(planned, number["a"], live=(0, 3)), "the host reads a in slot 3, which is outside of")
    refused(graph, TINY, changed(planned, number["h"], live=(4, 6)), "the host makes h in slot 3, which is outside of")
    refused(
        graph, TINY, changed(planned, number["d"], live=(5, 6)), "is stored in slot 4, which is outside of the life"
    )
    refused(
        graph, TINY, changed(planned, number["d"], live=(4, 5)), "is fetched in slot 5, which is outside of the life"
    )
