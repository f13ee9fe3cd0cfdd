"""Races among random instructions, against every pair of them, byte by byte."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from girih.ir.isa.footprint import footprint
from girih.ir.isa.table import ROWS, Instruction
from girih.ir.program import Program, Queue
from girih.simulator import simulate
from girih.simulator.tasks import violations
from tests.support.simulator.memory_images import image, loosely
from tests.support.simulator.programs import TINY
from tests.support.simulator.random_operands import anything, random_instructions

Place = tuple[int, int]
"""Queue and index."""
Bytes = dict[tuple[int, int], int]
"""Of each memory and core, its bytes as bits of a number."""


def touched(instruction: Instruction, queue: Queue) -> tuple[Bytes, Bytes]:
    """The bytes that an instruction may read, and those that it may write."""
    reads: Bytes = {}
    writes: Bytes = {}
    for at in footprint(instruction):
        scope = TINY.memories[at.memory].scope
        cores = [queue.core if queue.core is not None and scope == "core" else -1]
        if instruction.mnemonic == "mbcast" and at.writes:
            cores = [c for c in range(TINY.cores) if int(instruction.values[4]) >> c & 1]
        elements, run = [*zip(at.extents, at.strides, strict=True)], at.itemsize
        if elements[-1][1] == run:
            run *= elements.pop()[0]
        mask = 0
        for index in itertools.product(*(range(e) for e, _ in elements)):
            mask |= (1 << run) - 1 << at.start + sum(i * s for i, (_, s) in zip(index, elements, strict=True))
        for core in cores:
            for side, counts in ((reads, at.reads), (writes, at.writes)):
                side[at.memory, core] = side.get((at.memory, core), 0) | (mask if counts else 0)
    return reads, writes


def meet(a: Bytes, b: Bytes) -> bool:
    return any(a[place] & b[place] for place in a.keys() & b.keys())


def before(program: Program) -> dict[Place, set[Place]]:
    """What is certain to be over when an instruction begins."""
    posts: dict[int, Place] = {}
    turns: dict[tuple[int, int], int] = {}
    meetings: dict[int, list[Place]] = {}
    for q, stream in enumerate(program.streams):
        for i, instruction in enumerate(stream):
            if instruction.mnemonic == "post":
                posts[int(instruction.values[0])] = (q, i)
            if instruction.mnemonic == "barrier":
                turn = turns.setdefault((q, 0), 0)
                turns[q, 0] += 1
                meetings.setdefault(turn, []).append((q, i))
    at = {place: places for places in meetings.values() for place in places}
    found: dict[Place, set[Place]] = {}

    def visit(place: Place) -> set[Place]:
        if place in found:
            return found[place]
        queue, index = place
        instruction = program.streams[queue][index]
        direct = {(queue, index - 1)} if index else set()
        if instruction.mnemonic == "wait" and instruction.values[1]:
            direct.add((int(instruction.values[0]), int(instruction.values[1]) - 1))
        if instruction.mnemonic == "take":
            direct.add(posts[int(instruction.values[0])])
        if place in at:
            direct |= {(q, i - 1) for q, i in at[place] if i}
        found[place] = direct.union(*map(visit, sorted(direct)))
        return found[place]

    for q, stream in enumerate(program.streams):
        for i in range(len(stream)):
            visit((q, i))
    return found


def races(program: Program) -> set[frozenset[Place]]:
    """All pairs that touch a byte, which one of them writes, and of which none is certain to be over first."""
    over = before(program)
    bytes_of = {
        (q, i): touched(instruction, program.queues[q])
        for q, stream in enumerate(program.streams)
        for i, instruction in enumerate(stream)
        if instruction.row.operands
    }
    return {
        frozenset((a, b))
        for a, b in itertools.combinations(bytes_of, 2)
        if a[0] != b[0]
        and a not in over[b]
        and b not in over[a]
        and any(meet(bytes_of[x][1], side) for x, y in ((a, b), (b, a)) for side in bytes_of[y])
    }


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=30, deadline=None)
def test_races_are_those_of_all_pairs(seed: int) -> None:
    program = loosely(
        random_instructions(seed, [r for r in ROWS.values() if r.operands], 80), np.random.default_rng(seed)
    )
    expected = races(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(violations, "KEEP", 1000)
        trace = simulate(program, TINY, {}, {"image": image(anything(seed))})
    assert trace.summary.violation_count == len(trace.violations)
    found: set[frozenset[Place]] = set()
    for violation in trace.violations:
        assert violation.kind == "race" and violation.other is not None
        pair = (violation.queue, violation.index), (violation.other.queue, violation.other.index)
        found.add(frozenset(pair))
        # The byte that is named is one that both touch.
        one, other = (touched(program.streams[q][i], program.queues[q]) for q, i in pair)
        both = [a[p] & b[p] for a in one for b in other for p in a.keys() & b.keys()]
        assert any(bits >> violation.address & 1 for bits in both)
        assert violation.cycle == trace.start[violation.queue][violation.index]
        assert violation.other.cycle == trace.start[violation.other.queue][violation.other.index]
    assert found <= expected
    # The later of two is reported, and with it one of those that it races with.
    reported = {(v.queue, v.index) for v in trace.violations}
    for pair in expected:
        ends = {place: int(trace.end[place[0]][place[1]]) for place in pair}
        assert any(place in reported for place in pair if ends[place] == max(ends.values()))
