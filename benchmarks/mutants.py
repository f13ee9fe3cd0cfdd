"""Programs with one small mistake, as a compiler could make it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from girih.ir.graph import DTYPES
from girih.ir.isa.assembly import print_instruction
from girih.ir.isa.table import DTYPE_NAMES, Instruction, field
from girih.ir.program import Program

Place = tuple[int, int]
"""Queue and index of an instruction."""


@dataclass(frozen=True)
class Mutant:
    """A program with one mistake; ``before`` and ``after`` are the instruction at ``place`` as text (or nothing)."""

    kind: str
    place: Place
    before: str
    after: str
    program: Program

    def __str__(self) -> str:
        queue, index = self.place
        return f"{self.kind}: queue {queue} ({self.program.queues[queue]}), {index}: {self.before} -> {self.after}"


Mistake = Callable[[Program, Random], tuple[Place, Instruction | None, Program] | None]


def mutate(program: Program, kind: str, rng: Random, memories: tuple[str, ...]) -> Mutant | None:
    """One mistake of a kind at a random place; ``None`` where it cannot be made."""
    mistake = MISTAKES[kind](program, rng)
    if mistake is None:
        return None
    (queue, index), after, wrong = mistake
    before = program.streams[queue][index]
    if after == before:
        return None
    texts = [print_instruction(i, memories) if i is not None else "(none)" for i in (before, after)]
    return Mutant(kind, (queue, index), *texts, wrong)


def changed(instruction: Instruction, fields: dict[str, int]) -> Instruction:
    values = list(instruction.values)
    for name, value in fields.items():
        values[instruction.row.position[name]] = value
    return replace(instruction, values=tuple(values))


def exchanged(program: Program, places: dict[Place, Instruction]) -> Program:
    streams = [list(s) for s in program.streams]
    for (queue, index), instruction in places.items():
        streams[queue][index] = instruction
    return replace(program, streams=tuple(map(tuple, streams)))


def _places(program: Program, wanted: Callable[[Instruction], bool]) -> list[Place]:
    return [(q, i) for q, stream in enumerate(program.streams) for i, x in enumerate(stream) if wanted(x)]


def _is_wait(instruction: Instruction) -> bool:
    return instruction.mnemonic == "wait"


def _works(instruction: Instruction) -> bool:
    return bool(instruction.row.operands)


def _moves(instruction: Instruction) -> bool:
    return instruction.row.kind in ("copy", "broadcast", "dma")


def _at(program: Program, place: Place) -> Instruction:
    return program.streams[place[0]][place[1]]


def _single(program: Program, place: Place, fields: dict[str, int]) -> tuple[Place, Instruction, Program]:
    wrong = changed(_at(program, place), fields)
    return place, wrong, exchanged(program, {place: wrong})


def drop_wait(program: Program, rng: Random) -> tuple[Place, Instruction | None, Program] | None:
    """A wait is missing. The counts of others stay right: it leaves behind one that is always satisfied."""
    places = _places(program, _is_wait)
    return _single(program, rng.choice(places), {"queue": 0, "count": 0}) if places else None


def early_wait(program: Program, rng: Random) -> tuple[Place, Instruction | None, Program] | None:
    """A wait counts one instruction too few."""
    places = _places(program, lambda x: _is_wait(x) and int(field(x, "count")) > 0)
    if not places:
        return None
    place = rng.choice(places)
    return _single(program, place, {"count": int(field(_at(program, place), "count")) - 1})


def late_wait(program: Program, rng: Random) -> tuple[Place, Instruction | None, Program] | None:
    """A wait comes after the instruction that it is for."""
    places = [
        (q, i)
        for q, i in _places(program, _is_wait)
        if i + 1 < len(program.streams[q]) and not _is_wait(program.streams[q][i + 1])
    ]
    if not places:
        return None
    queue, index = rng.choice(places)
    first, second = program.streams[queue][index : index + 2]
    return (queue, index), second, exchanged(program, {(queue, index): second, (queue, index + 1): first})


def other_queue(program: Program, rng: Random) -> tuple[Place, Instruction | None, Program] | None:
    """A wait is for another queue, which has as many instructions."""
    places = _places(program, _is_wait)
    if not places:
        return None
    place = rng.choice(places)
    queue, count = (int(v) for v in _at(program, place).values)
    able = [q for q, s in enumerate(program.streams) if q not in (queue, place[0]) and len(s) >= count]
    return _single(program, place, {"queue": rng.choice(able)}) if able else None


def shift_address(program: Program, rng: Random) -> tuple[Place, Instruction | None, Program] | None:
    """An operand begins a few elements, or a few lines of memory, beside its place."""
    place = rng.choice(_places(program, _works))
    instruction = _at(program, place)
    operand = rng.choice(instruction.row.operands).name
    size = DTYPES[DTYPE_NAMES[int(field(instruction, f"{operand}.dtype"))]]
    base = int(field(instruction, f"{operand}.base")) + rng.choice([-1, 1]) * rng.choice([size, 2 * size, 64, 256])
    return _single(program, place, {f"{operand}.base": base}) if base >= 0 else None


def swap_buffers(program: Program, rng: Random) -> tuple[Place, Instruction | None, Program] | None:
    """An operand looks where another one of its memory does: another operand's, or another instruction's."""
    place = rng.choice(_places(program, _works))
    instruction = _at(program, place)
    operand = rng.choice(instruction.row.operands).name
    memory = field(instruction, f"{operand}.mem")
    bases = {
        int(field(candidate, f"{o.name}.base"))
        for stream in program.streams
        for candidate in stream
        for o in candidate.row.operands
        if field(candidate, f"{o.name}.mem") == memory
    } - {int(field(instruction, f"{operand}.base"))}
    return _single(program, place, {f"{operand}.base": rng.choice(sorted(bases))}) if bases else None


def swap_operands(program: Program, rng: Random) -> tuple[Place, Instruction | None, Program] | None:
    """Two operands of an instruction in one memory are at each other's place."""
    place = rng.choice(_places(program, _works))
    instruction = _at(program, place)
    names = [o.name for o in instruction.row.operands]
    pairs = [
        (a, b)
        for i, a in enumerate(names)
        for b in names[i + 1 :]
        if field(instruction, f"{a}.mem") == field(instruction, f"{b}.mem")
    ]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    bases = {n: int(field(instruction, f"{n}.base")) for n in (a, b)}
    return _single(program, place, {f"{a}.base": bases[b], f"{b}.base": bases[a]})


def shorten_transfer(program: Program, rng: Random) -> tuple[Place, Instruction | None, Program] | None:
    """A transfer leaves out the last of one of its dimensions."""
    place = rng.choice(_places(program, _moves))
    instruction = _at(program, place)
    able = [n for n in ("n0", "n1", "n2", "n3") if int(field(instruction, n)) > 1]
    return _single(program, place, {n: int(field(instruction, n)) - 1 for n in [rng.choice(able)]}) if able else None


def change_stride(program: Program, rng: Random) -> tuple[Place, Instruction | None, Program] | None:
    """An operand walks one of its dimensions in other steps."""
    place = rng.choice(_places(program, _works))
    instruction = _at(program, place)
    operand = rng.choice(instruction.row.operands)
    able = [i for i, dim in enumerate(operand.dims) if int(field(instruction, dim)) > 1]
    if not able:
        return None
    name = f"{operand.name}.s{rng.choice(able)}"
    size = DTYPES[DTYPE_NAMES[int(field(instruction, f"{operand.name}.dtype"))]]
    stride = int(field(instruction, name))
    return _single(program, place, {name: rng.choice([stride - size, stride + size, 2 * stride, -stride, 0])})


def flip_accumulation(program: Program, rng: Random) -> tuple[Place, Instruction | None, Program] | None:
    """A sum begins anew, or goes on where it should begin."""
    places = _places(program, lambda x: "acc" in x.row.position)
    if not places:
        return None
    place = rng.choice(places)
    return _single(program, place, {"acc": 1 - int(field(_at(program, place), "acc"))})


MISTAKES: dict[str, Mistake] = {
    m.__name__.replace("_", "-"): m
    for m in (
        drop_wait, early_wait, late_wait, other_queue, shift_address, swap_buffers, swap_operands, shorten_transfer,
        change_stride, flip_accumulation,
    )
}  # fmt: skip
