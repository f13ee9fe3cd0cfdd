"""Where memories are fullest: by counting every byte in every slot, and with ties that are made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.explain.compilation import Compilation
from girih.explain.details.segment_details import segment_details
from girih.explain.memory_use import Peak, memory_rows, plan_peak
from girih.ir.plan import LocalBuffer, SharedBuffer
from tests.support.compilations import random_compilation
from tests.support.graphs import attention, residual, with_host

GRAPHS = {"residual": residual, "attention": attention, "host": with_host}
Buffers = list[SharedBuffer | LocalBuffer]


def living(given: Compilation, buffers: Buffers, slot: int) -> list[int]:
    """The numbers of the buffers that live in a slot."""
    plan = given.plan
    step, op = plan.slots[slot]
    segment = plan.steps[step].segment
    position = plan.segments[segment].ops.index(op)
    return [
        number
        for number, b in enumerate(buffers)
        if (isinstance(b, SharedBuffer) and b.live[0] <= slot < b.live[1])
        or (isinstance(b, LocalBuffer) and b.segment == segment and b.live[0] <= position < b.live[1])
    ]


def buffers_of(given: Compilation, memory: str) -> Buffers:
    return [b for b in (*given.plan.shared, *given.plan.local) if b.memory == memory]


@pytest.mark.parametrize(("name", "seed"), [("residual", 1), ("residual", 6), ("attention", 1), ("host", 1)])
def test_the_peak_is_the_first_slot_in_which_most_bytes_are_covered(name: str, seed: int) -> None:
    """With seed 6, the segment that fills the local memory runs twice."""
    given = random_compilation(GRAPHS[name](), seed)
    for row, memory in zip(memory_rows(given.graph, given.plan, given.machine), given.machine.memories, strict=True):
        buffers = buffers_of(given, memory.name)
        used: list[int] = []
        for slot in range(len(given.plan.slots)):
            here = [buffers[n] for n in living(given, buffers, slot)]
            # In units of two bytes, of which all sizes here are multiples.
            used.append(2 * len({at for b in here for at in range(b.address // 2, (b.address + b.bytes) // 2)}))
        peak = plan_peak(given.plan, buffers)
        assert peak.bytes == row.peak == max(used)
        assert peak.slot == used.index(peak.bytes)
        assert sorted(peak.buffers) == living(given, buffers, peak.slot)
        sizes = [buffers[n].bytes for n in peak.buffers]
        assert sizes == sorted(sizes, reverse=True)
        step, op = given.plan.slots[peak.slot]
        segment = given.plan.steps[step].segment
        assert row.at == (f"{op}, segment {segment}" if memory.scope == "core" else f"{op}, step {step}")


def test_of_two_segments_that_take_the_same_the_first_to_run_is_named() -> None:
    given = random_compilation(residual(), 1, longest=2)
    memory = given.machine.roles["local"].name
    large = given.machine.memory[memory].capacity
    first, second = (
        next(b for b in given.plan.local if (b.memory, b.segment) == (memory, segment)) for segment in (1, 2)
    )
    equal = tuple(replace(b, bytes=large, address=0, live=(0, 1)) for b in (second, first))
    plan = replace(given.plan, local=(*(b for b in given.plan.local if b not in (first, second)), *equal))
    row = next(r for r in memory_rows(given.graph, plan, given.machine) if r.memory == memory)
    assert (row.peak, row.at) == (large, f"{plan.segments[1].ops[0]}, segment 1")
    fullest = replace(given, plan=plan)
    for index in (1, 2):
        room = next(r for r in segment_details(fullest, index).rooms if r.memory == memory)
        assert (room.peak, room.at) == (large, plan.segments[index].ops[0])


def test_a_memory_without_buffers_is_never_used() -> None:
    given = random_compilation(residual(), 1)
    assert plan_peak(given.plan, []) == Peak(0, -1, ())
    name = given.machine.roles["local"].name
    plan = replace(given.plan, local=tuple(b for b in given.plan.local if b.memory != name))
    row = next(r for r in memory_rows(given.graph, plan, given.machine) if r.memory == name)
    assert (row.peak, row.at, row.buffers, row.extent) == (0, "", 0, 0)
