"""Programs of random instructions, from the table alone, on overlapping operands in all memories."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from girih.ir.errors import UsageError
from girih.ir.isa.table import ROWS, Instruction
from girih.ir.program import Program
from girih.simulator import simulate
from tests.support.simulator.memory_images import copy_of, image, in_order, loosely, simulated
from tests.support.simulator.programs import TINY
from tests.support.simulator.random_operands import EXACT, anything, random_instructions
from tests.support.simulator.scalar_oracle import execute


def ordered(instructions: list[tuple[str, Instruction]], seed: int) -> Program:
    random = np.random.default_rng(seed)
    return in_order(instructions, [str(random.choice(["wait", "token", "barrier"])) for _ in instructions])


@given(seed=st.integers(0, 1 << 32))
@example(seed=2751)  # A window of integers sees nothing of a float below all integers.
@settings(max_examples=60, deadline=None)
def test_a_program_does_what_its_instructions_do_one_after_the_other(seed: int) -> None:
    instructions, before = random_instructions(seed, EXACT), anything(seed)
    expected = copy_of(before)
    for queue, instruction in instructions:
        execute(expected, instruction, int(queue[-1]) if queue[-1].isdigit() else -1)
    after = simulated(ordered(instructions, seed), before)
    for place, data in expected.memory.items():
        assert np.array_equal(after.memory[place], data) or place[0] == "L1W", place


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None)
def test_any_program_survives_its_file_and_runs_the_same_twice(seed: int) -> None:
    """Also with too little order: then races are found, and nothing else is wrong."""
    instructions = random_instructions(seed, [row for row in ROWS.values() if row.operands])
    program = loosely(instructions, np.random.default_rng(seed))
    assert Program.from_bytes(program.to_bytes()) == program
    inputs = {"image": image(anything(seed))}
    first, second = (simulate(program, TINY, {}, inputs) for _ in range(2))
    assert {v.kind for v in first.violations} <= {"race"}
    assert first.summary == second.summary
    assert all(np.array_equal(first.outputs[name], second.outputs[name]) for name in first.outputs)


def damaged(source: Program, random: np.random.Generator) -> Program:
    """The program with one field of a few instructions flipped in one bit, or set to an end of its range."""
    streams = [list(stream) for stream in source.streams]
    for _ in range(int(random.integers(1, 4))):
        queue = int(random.integers(len(streams)))
        index = int(random.integers(len(streams[queue])))
        instruction = streams[queue][index]
        fields = [f for f in instruction.row.fields if f.number != "float"]
        if fields:
            spec = fields[random.integers(len(fields))]
            low, high = (
                (0, (1 << spec.bits) - 1)
                if spec.number == "unsigned"
                else (-1 << spec.bits - 1, (1 << spec.bits - 1) - 1)
            )
            values, at = list(instruction.values), instruction.row.position[spec.name]
            flipped = int(values[at]) ^ 1 << int(random.integers(spec.bits - (spec.number == "signed")))
            values[at] = [low, high, flipped, flipped][random.integers(4)]
            streams[queue][index] = replace(instruction, values=tuple(values))
    return replace(source, streams=tuple(map(tuple, streams)))


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_whatever_is_in_its_fields_a_program_is_run_or_refused(seed: int) -> None:
    random = np.random.default_rng(seed)
    program = damaged(
        loosely(random_instructions(seed, [row for row in ROWS.values() if row.operands]), random), random
    )
    with contextlib.suppress(UsageError):
        trace = simulate(program, TINY, {}, {"image": image(anything(seed))})
        assert trace.cycles == simulate(program, TINY, {}, {}, data=False).cycles
