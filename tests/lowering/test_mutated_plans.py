"""How sharp the judge is: programs with one small mistake, which violations or wrong results must give away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest

from girih.ir.graph import Graph
from girih.ir.isa.table import Instruction, field
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.program import Program
from girih.lowering import lower
from tests.support import graphs
from tests.support.numpy_check import error, expected_of, inputs_of, run
from tests.support.plans.random_plans import random_plan

Place = tuple[int, int]
"""Queue and index of an instruction."""
Mutation = Callable[[Program, Random], Program | None]


def instructions(program: Program) -> Iterator[tuple[Place, Instruction]]:
    for q, stream in enumerate(program.streams):
        for i, instruction in enumerate(stream):
            yield (q, i), instruction


def changed(instruction: Instruction, **fields: int) -> Instruction:
    values = list(instruction.values)
    for name, value in fields.items():
        values[instruction.row.position[name.replace("__", ".")]] = value
    return replace(instruction, values=tuple(values))


def exchanged(program: Program, place: Place, instruction: Instruction) -> Program:
    streams = [list(s) for s in program.streams]
    streams[place[0]][place[1]] = instruction
    return replace(program, streams=tuple(map(tuple, streams)))


def without(program: Program, place: Place) -> Program:
    """The program without an instruction; who waited for later ones of its queue waits for one less."""
    queue, index = place
    streams = [list(s) for s in program.streams]
    del streams[queue][index]
    for stream in streams:
        for i, instruction in enumerate(stream):
            if instruction.mnemonic == "wait" and field(instruction, "queue") == queue:
                count = int(field(instruction, "count"))
                stream[i] = changed(instruction, count=count - (count > index))
    return replace(program, streams=tuple(map(tuple, streams)))


def working(program: Program) -> list[tuple[Place, Instruction]]:
    return [(p, i) for p, i in instructions(program) if i.mnemonic != "wait"]


# Mutations -------------------------------------------------------------------------------------------------------


def drop_a_wait(program: Program, rng: Random) -> Program | None:
    return without(program, rng.choice([p for p, i in instructions(program) if i.mnemonic == "wait"]))


def drop_an_instruction(program: Program, rng: Random) -> Program | None:
    return without(program, rng.choice(working(program))[0])


def shift_an_operand(program: Program, rng: Random) -> Program | None:
    """By one element, one way or the other."""
    place, instruction = rng.choice(working(program))
    name = f"{rng.choice(instruction.row.operands).name}.base"
    base = int(field(instruction, name)) + rng.choice([-4, 4])
    return exchanged(program, place, changed(instruction, **{name: base})) if base >= 0 else None


def swap_buffers(program: Program, rng: Random) -> Program | None:
    """One operand looks where another one of that memory does."""
    place, instruction = rng.choice(working(program))
    operand = rng.choice(instruction.row.operands).name
    memory = field(instruction, f"{operand}.mem")
    bases = {
        int(field(other, f"{o.name}.base"))
        for _, other in working(program)
        for o in other.row.operands
        if field(other, f"{o.name}.mem") == memory
    } - {int(field(instruction, f"{operand}.base"))}
    if not bases:
        return None
    return exchanged(program, place, changed(instruction, **{f"{operand}.base": rng.choice(sorted(bases))}))


def shrink_an_extent(program: Program, rng: Random) -> Program | None:
    place, instruction = rng.choice(working(program))
    names = [
        n
        for n in ("n0", "n1", "n2", "n3", "m", "n", "k", "oh", "ow", "ci", "kh", "kw")
        if n in instruction.row.position
    ]
    long = [n for n in names if int(field(instruction, n)) > 1]
    if not long:
        return None
    name = rng.choice(long)
    return exchanged(program, place, changed(instruction, **{name: int(field(instruction, name)) - 1}))


def flip_accumulation(program: Program, rng: Random) -> Program | None:
    able = [(p, i) for p, i in working(program) if "acc" in i.row.position]
    if not able:
        return None
    place, instruction = rng.choice(able)
    return exchanged(program, place, changed(instruction, acc=1 - int(field(instruction, "acc"))))


def exchange_neighbours(program: Program, rng: Random) -> Program | None:
    """A wait comes one instruction too late."""
    late = [
        (q, i) for (q, i), x in instructions(program)
        if x.mnemonic == "wait" and i + 1 < len(program.streams[q]) and program.streams[q][i + 1].mnemonic != "wait"
    ]  # fmt: skip
    if not late:
        return None
    queue, index = rng.choice(late)
    first, second = program.streams[queue][index : index + 2]
    return exchanged(exchanged(program, (queue, index), second), (queue, index + 1), first)


MUTATIONS: tuple[Mutation, ...] = (
    drop_a_wait,
    exchange_neighbours,
    drop_an_instruction,
    shift_an_operand,
    swap_buffers,
    shrink_an_extent,
    flip_accumulation,
)
NOTICED = 0.9
"""The part of the mistakes of each kind that must be noticed. Some are none: a softmax does not depend on its maximum."""
PROGRAMS = 6
MISTAKES = 8
"""Mistakes of each kind in each program."""


@cache
def subject(number: int) -> tuple[Graph, Machine, Program, dict[str, np.ndarray], dict[str, np.ndarray]]:
    makers: list[Callable[[], Graph]] = [
        lambda: graphs.conv(size=9, channels=5, out=7, dtype="float32"),
        lambda: graphs.chain(3, size=8, channels=6, dtype="float32"),
        lambda: graphs.attention(batch=1, length=7, width=10, dtype="float32"),
    ]
    graph, machine = makers[number % len(makers)](), load_machine("tiny")
    program = lower(graph, random_plan(graph, machine, number, longest=3), machine)
    inputs = inputs_of(graph, number)
    return graph, machine, program, inputs, expected_of(graph, inputs)


def is_noticed(number: int, program: Program) -> bool:
    graph, machine, _, inputs, expected = subject(number)
    trace = run(graph, machine, program, inputs)
    return bool(trace.violations) or any(error(np.asarray(trace.outputs[n]), e) > 2e-5 for n, e in expected.items())


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_mistakes_are_noticed(mutation: Mutation) -> None:
    noticed = tried = 0
    for number in range(PROGRAMS):
        program = subject(number)[2]
        assert not is_noticed(number, program)
        rng = Random(number)
        for _ in range(MISTAKES):
            wrong = mutation(program, rng)
            if wrong is not None:
                tried += 1
                noticed += is_noticed(number, wrong)
    assert tried >= PROGRAMS * MISTAKES // 2
    assert noticed >= NOTICED * tried, f"{noticed} of {tried}"
