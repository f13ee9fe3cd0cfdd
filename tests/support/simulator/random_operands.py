"""Random operands for any row of the table: what the fuzzers of single instructions and of whole programs draw from."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from girih.ir.graph import DTYPES
from girih.ir.isa.row import Operand, Row
from girih.ir.isa.table import DTYPE_NAMES, ROWS, Instruction, make
from girih.ir.machine import Engine
from tests.support.simulator.memory_images import WINDOW, empty
from tests.support.simulator.programs import TINY
from tests.support.simulator.scalar_oracle import State, tolerance

LARGEST = {"n0": 4, "n1": 4, "n2": 6, "n3": 5, "m": 9, "n": 9, "k": 9, "oh": 4, "ow": 4, "kh": 3, "kw": 3, "ci": 3,
           "p": 3, "sh": 3, "sw": 3, "dh": 2, "dw": 2, "H": 6, "W": 6, "entries": 5}  # fmt: skip
"""The largest extents and steps that are drawn."""
POSITIVE = {"log", "sqrt", "rsqrt", "recip", "div", "mod", "pow"}
"""Functions that are tried on positive numbers alone."""
FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int32")
PRODUCTS = (("float32", "float32"), ("float16", "float32"), ("float16", "float16"), ("float32", "float16"),
            ("bfloat16", "float32"), ("bfloat16", "bfloat16"), ("int8", "int32"))  # fmt: skip
"""Dtypes of the operands and of the result of matrix instructions."""


def scalars(row: Row, random: np.random.Generator) -> dict[str, int | float]:
    """Values for the fields that belong to no operand."""
    low = 0.5 if row.func in POSITIVE else -4.0
    integral = random.random() < 0.5
    found: dict[str, int | float] = {}
    for field in row.scalars:
        if field.number == "float":
            value = random.uniform(low, 4)
            found[field.name] = float(max(1, round(value)) if integral and low > 0 else round(value) if integral else
                                      np.float32(value))  # fmt: skip
        elif field.name in LARGEST:
            found[field.name] = int(random.integers(1, LARGEST[field.name] + 1))
        elif field.name in ("h0", "w0"):
            found[field.name] = int(random.integers(-3, 4))
        elif field.name in ("acc", "relu"):
            found[field.name] = int(random.integers(2))
        elif field.name == "cores":
            found[field.name] = int(random.integers(1, 4))
    return found


def dtypes(row: Row, random: np.random.Generator) -> dict[str, str]:
    """A dtype for each operand."""
    names = [o.name for o in row.operands]
    if row.kind == "matrix":
        source, target = PRODUCTS[random.integers(len(PRODUCTS))]
        return {n: target if n == "dst" else "int32" if n == "c" and source == "int8" else source for n in names}
    if row.kind in ("copy", "broadcast", "dma"):
        moved = str(random.choice([*FLOATS, *INTEGERS, "bool"]))
        return {n: str(random.choice(INTEGERS)) if n in row.indices else moved for n in names}
    able = INTEGERS if random.random() < 0.4 else (*FLOATS, *INTEGERS, "bool")
    found: dict[str, str] = {}
    for operand in row.operands:
        positive = row.func in POSITIVE and operand.access == "r"
        some = INTEGERS if operand.name in row.indices else tuple(d for d in able if d != "bool" or not positive)
        found[operand.name] = str(random.choice(some))
    return found


def layout(
    operand: Operand, shape: Sequence[int], dtype: str, random: np.random.Generator
) -> tuple[int, int, tuple[int, ...]]:
    """(bytes, offset of the first element, strides): any order of dimensions, gaps, reversed or repeated ones."""
    size = DTYPES[dtype]
    strides, step, first = [0] * len(shape), size, 0
    for dim in random.permutation(len(shape)):
        if operand.access == "r" and not operand.window and random.random() < 0.2:
            continue
        strides[dim] = step
        step *= shape[dim] + int(random.integers(0, 2))
        if random.random() < 0.2:
            first += strides[dim] * (shape[dim] - 1)
            strides[dim] = -strides[dim]
    return step, first, tuple(strides)


def memories(row: Row, operand: Operand, engine: Engine) -> list[str]:
    """Where an operand of this row may be for this engine, by name."""
    able = engine.writes if "w" in operand.access else engine.sources
    if row.kind == "matrix" and operand.name != "dst":
        # As compilers place them: the weight memory holds what is stationary, and nothing else.
        able = [m for m in able if (m == TINY.levels.weights.name) == (operand.name in ("b", "c"))]
    # Nothing brings the weight memory back.
    able = [m for m in able if operand.name != "dst" or m != TINY.levels.weights.name]
    return [m.name for m in TINY.memories if m.name in able]


def fields(name: str, memory: int, dtype: str, base: int, strides: Sequence[int]) -> dict[str, int]:
    """The fields of one operand."""
    found = {f"{name}.mem": memory, f"{name}.dtype": DTYPE_NAMES.index(dtype), f"{name}.base": base}
    return found | {f"{name}.s{i}": stride for i, stride in enumerate(strides)}


def numbers(
    operand: Operand, row: Row, dtype: str, count: int, entries: int, random: np.random.Generator
) -> np.ndarray:
    """Values for the elements of an operand: indices where they are meant, else small numbers."""
    if operand.name in row.indices:
        return random.integers(0, entries, count).astype(dtype)
    low = 0.5 if row.func in POSITIVE else -4.0
    if dtype in FLOATS:
        return random.uniform(low, 4, count).astype(dtype)
    found = random.integers(int(np.ceil(low)), 5, count)
    return (np.abs(found) if dtype == "uint8" else found).astype(dtype)


def extents(operand: Operand, values: Mapping[str, int | float]) -> tuple[int, ...]:
    return tuple(int(values[d]) for d in operand.dims)


@dataclass(frozen=True)
class Case:
    """One instruction, its queue and core, and what the memories hold before it."""

    instruction: Instruction
    queue: str
    core: int
    before: State


def case(row: Row, seed: int) -> Case:
    """A row with random fields, on operands that do not overlap."""
    random = np.random.default_rng(seed)
    able = [e for e in TINY.engines if row.kind in e.classes and all(memories(row, o, e) for o in row.operands)]
    engine = able[random.integers(len(able))]
    core = int(random.integers(TINY.cores)) if engine.scope == "core" else -1
    values = scalars(row, random)
    kinds = dtypes(row, random)
    state = empty()
    free: dict[tuple[str, int], int] = dict.fromkeys(state.memory, 0)
    for operand in row.operands:
        choices = memories(row, operand, engine)
        memory = choices[random.integers(len(choices))]
        place = memory, core if TINY.memory[memory].scope == "core" else -1
        shape = extents(operand, values)
        size, first, strides = layout(operand, shape, kinds[operand.name], random)
        # Of a broadcast, the same bytes of every core are written.
        start = -(-max(free.values()) // 8) * 8 if row.kind == "broadcast" else -(-free[place] // 8) * 8
        free[place] = start + size
        assert free[place] <= WINDOW[memory]
        values |= fields(
            operand.name, TINY.memories.index(TINY.memory[memory]), kinds[operand.name], start + first, strides
        )
        drawn = numbers(operand, row, kinds[operand.name], prod(shape), int(values.get("entries", 0)), random)
        for index, number in zip(itertools.product(*map(range, shape)), drawn, strict=True):
            at = start + first + sum(i * s for i, s in zip(index, strides, strict=True))
            state.set(place, at, kinds[operand.name], number)
    name = engine.name if core < 0 else f"{engine.name}{core}"
    return Case(make(row.mnemonic, 0, values), name, core, state)


ZONE = 2048
"""The first bytes of every memory in :func:`anything` hold indices: small numbers of 8 and then of 32 bits."""


def anything(seed: int) -> State:
    """Memories full of bytes that are no infinity and no NaN in any dtype."""
    random = np.random.default_rng(seed)
    state = State(TINY, {place: random.integers(0, 64, WINDOW[place[0]]).astype(np.uint8) for place in empty().memory})
    for data in state.memory.values():
        data[: ZONE // 2] = random.integers(0, LARGEST["entries"], ZONE // 2)
        data[ZONE // 2 : ZONE] = random.integers(0, LARGEST["entries"], ZONE // 8).astype(np.int32).view(np.uint8)
    return state


def anywhere(row: Row, random: np.random.Generator) -> tuple[str, Instruction]:
    """A row on operands anywhere in the memories of :func:`anything`, and the queue for it."""
    able = [e for e in TINY.engines if row.kind in e.classes and all(memories(row, o, e) for o in row.operands)]
    engine = able[random.integers(len(able))]
    values, kinds = scalars(row, random), dtypes(row, random)
    if "entries" in values:
        values["entries"] = LARGEST["entries"]
    for operand in row.operands:
        choices = memories(row, operand, engine)
        memory = choices[random.integers(len(choices))]
        dtype = kinds[operand.name]
        size, first, strides = layout(operand, extents(operand, values), dtype, random)
        low, high = ZONE, WINDOW[memory] - size
        if operand.name in row.indices:
            low, high = (ZONE // 2, ZONE - size) if dtype == "int32" else (0, ZONE // 2 - size)
        start = int(random.integers(low, high + 1)) // 8 * 8 + first
        values |= fields(operand.name, TINY.memories.index(TINY.memory[memory]), dtype, start, strides)
    core = int(random.integers(TINY.cores)) if engine.scope == "core" else ""
    return f"{engine.name}{core}", make(row.mnemonic, 0, values)


EXACT = [row for row in ROWS.values() if row.operands and not row.special and not tolerance(row)]
"""Rows whose results are the same to the last bit however they are computed: errors must not grow along a program."""


def random_instructions(seed: int, rows: list[Row], most: int = 25) -> list[tuple[str, Instruction]]:
    random = np.random.default_rng(seed)
    return [anywhere(rows[random.integers(len(rows))], random) for _ in range(int(random.integers(1, most)))]
