"""Instructions are divided among the engines of a core: each point once, on no more engines than there are."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from girih.ir.isa.table import DTYPE_NAMES, ROWS
from girih.ir.isa.timing import divided as divided_time
from girih.ir.isa.timing import divisions, vector_body
from girih.ir.load_machine import load_machine
from girih.ir.machines.as_planned import as_planned
from girih.lowering.emission.blocks import EngineStep
from girih.lowering.emission.engine_shares import divided
from girih.lowering.emission.vector import Emitted, OperandRef
from tests.support.machines import with_count

TINY = load_machine("tiny")
MEMORY = [m.name for m in TINY.memories].index("L1")
PLACES = dict.fromkeys(("X", "Y", "Z"), (MEMORY, DTYPE_NAMES.index("float32")))
ENGINES = st.integers(1, 9)


def machine(engines: int):
    return as_planned(with_count(TINY, {"vector": engines, "matrix": engines}))


def steps(emitted: list[Emitted], engines: int) -> list[EngineStep]:
    return [step for step in divided(emitted, PLACES, machine(engines)) if isinstance(step, EngineStep)]


def add(shape: tuple[int, int, int], first: int = 0) -> Emitted:
    """Z = X + Y, dense, from so many elements behind their corners on."""
    strides = (4 * shape[1] * shape[2], 4 * shape[2], 4)
    refs = tuple(OperandRef(o, b, 4 * first, strides) for o, b in (("dst", "Z"), ("a", "X"), ("b", "Y")))
    return Emitted("vadd.vv", tuple((f"n{i}", e) for i, e in enumerate(shape)), refs)


def written(step: Emitted) -> list[int]:
    """The offsets of the elements that an instruction writes."""
    (ref,) = (r for r in step.refs if r.operand == "dst")
    sizes = [int(value) for name, value in step.fields if name in ROWS[step.mnemonic].operands[0].dims]
    points = product(*map(range, sizes))
    return [ref.offset + sum(i * s for i, s in zip(point, ref.strides, strict=True)) for point in points]


@given(st.tuples(st.integers(1, 7), st.integers(1, 9), st.integers(1, 40)), ENGINES)
def test_every_point_is_computed_once(shape: tuple[int, int, int], engines: int) -> None:
    parts = steps([add(shape)], engines)
    assert sorted(at for part in parts for at in written(part.emitted)) == [4 * i for i in range(prod(shape))]
    assert len({part.engine for part in parts}) == len(parts) <= engines


@given(st.lists(st.integers(1, 300), max_size=4).map(tuple), ENGINES)
def test_divisions_are_of_no_more_parts_than_engines(extents: tuple[int, ...], engines: int) -> None:
    found = list(divisions(extents, engines))
    assert found[0] == (1,) * len(extents) and len(set(found)) == len(found)
    assert all(
        prod(counts) <= engines and all(n <= e for n, e in zip(counts, extents, strict=True)) for counts in found
    )


@given(st.tuples(st.integers(1, 7), st.integers(1, 9), st.integers(1, 300)), ENGINES)
def test_the_busiest_engine_is_as_busy_as_was_counted_on(shape: tuple[int, int, int], engines: int) -> None:
    engine = replace(TINY.engine_for("vector"), count=engines)
    _, cycles = divided_time(engine, 1, shape, lambda part: vector_body(engine, part, "float32"), apart=True)
    sizes = [
        [int(v) for n, v in part.emitted.fields if n in ("n0", "n1", "n2")] for part in steps([add(shape)], engines)
    ]
    assert cycles == engine.issue + max(vector_body(engine, size, "float32") for size in sizes)


def test_what_follows_stays_where_its_operands_are() -> None:
    # A row for each engine; the third instruction is done as soon by one, but would wait for the other's results.
    sums = Emitted(
        "vred.sum",
        (("n0", 1), ("n1", 2), ("n2", 64), ("acc", 0)),
        (OperandRef("dst", "Y", 0, (8, 4)), OperandRef("a", "X", 0, (512, 256, 4))),
    )
    scaled = Emitted(
        "vmul.vs",
        (("n0", 1), ("n1", 1), ("n2", 2), ("imm0", 0.5)),
        (OperandRef("dst", "Z", 0, (8, 8, 4)), OperandRef("a", "Y", 0, (8, 8, 4))),
    )
    alone = steps([scaled], 2)
    assert [part.engine for part in alone] == [alone[0].engine], "two elements are one step of the lanes"
    both = steps([sums, scaled], 2)
    assert [part.engine for part in both] == [both[0].engine, both[1].engine] * 2
    assert [written(part.emitted) for part in both[2:]] == [[0], [4]]


def test_instructions_that_write_apart_are_dealt_out_whole() -> None:
    run = [add((1, 1, 8), first=8 * i) for i in range(6)]
    dealt = steps(run, 3)
    assert [part.emitted for part in dealt] == run
    first, second, third = (e.name for e in machine(3).team("vector"))
    assert [part.engine for part in dealt] == [first, first, second, second, third, third]
    # Sums of one place after the other are none that could be dealt out.
    same = [add((1, 1, 64))] * 6
    assert {written(part.emitted)[0] for part in steps(same, 2)} == {0, 128}


@pytest.mark.parametrize("kind", ["vector", "matrix"])
def test_an_engine_alone_runs_all(kind: str) -> None:
    (engine,) = machine(1).team(kind)
    assert engine == TINY.engine_for(kind)
    run = [add((2, 3, 5))]
    assert [part.emitted for part in steps(run, 1)] == run
