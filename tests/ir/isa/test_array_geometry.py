"""Cycles of arrays with dot products, and of arrays in which weights or data stay: counted by walking their blocks."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import girih
from girih.ir.isa.timing import matrix_body, matrix_fill, matrix_traffic
from girih.ir.load_machine import load_machine
from girih.ir.machine import Dataflow, Engine
from girih.models import build
from tests.support.machines import with_engines

MATRIX = load_machine("tiny").engine_for("matrix")
FLOWS: tuple[Dataflow, ...] = ("output", "weight", "input")


def walked(engine: Engine, m: int, n: int, k: int) -> tuple[int, int, dict[str, int]]:
    """Blocks, steps of all blocks, and how often elements of result, left and right operand go in or out."""
    rows, columns, depth = engine.rows, engine.columns, engine.depth
    spans = {
        "output": ((m, rows), (n, columns), (k, depth)),
        "weight": ((k, rows * depth), (n, columns), (m, 1)),
        "input": ((k, rows * depth), (m, columns), (n, 1)),
    }[engine.dataflow]
    names = {"output": "mnk", "weight": "knm", "input": "kmn"}[engine.dataflow]
    ranges = [range(0, size, block) for size, block in spans]
    blocks = len(ranges[0]) * len(ranges[1])
    count = {"mn": 0, "mk": 0, "kn": 0}
    staying = {"output": "mn", "weight": "kn", "input": "mk"}[engine.dataflow]
    for starts in product(*ranges):
        part = {
            name: min(size, start + block) - start
            for name, start, (size, block) in zip(names, starts, spans, strict=True)
        }
        for operand in count:
            if operand != staying or starts[2] == 0:
                count[operand] += part[operand[0]] * part[operand[1]]
    return blocks, blocks * len(ranges[2]), count


@pytest.mark.parametrize("dataflow", FLOWS)
def test_cycles_and_traffic_are_those_of_the_blocks(dataflow: Dataflow) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        rows, columns, depth, fill = (int(v) for v in rng.integers((1, 1, 1, 0), (9, 9, 5, 30)))
        engine = replace(
            MATRIX, rows=rows, columns=columns, depth=depth, fill=fill, dataflow=dataflow, rate={"int8": 1.0}
        )
        m, n, k = (int(v) for v in rng.integers(1, 40, 3))
        blocks, steps, count = walked(engine, m, n, k)
        assert matrix_body(engine, m, n, k, "int8") == steps + blocks * fill
        assert matrix_fill(engine, m, n, k) == blocks * fill
        assert matrix_traffic(engine, m, n, k)[:3] == (count["mn"], count["mk"], count["kn"])


@pytest.mark.parametrize("dataflow", FLOWS)
@pytest.mark.parametrize("depth", [1, 4])
def test_programs_keep_to_the_bound_of_such_arrays(dataflow: Dataflow, depth: int) -> None:
    machine = with_engines(
        load_machine("tiny"), lambda e: replace(e, depth=depth, dataflow=dataflow, fill=3) if e.rows else e
    )
    for name in ("tiny-cnn", "tiny-transformer"):
        data = build(name).SerializeToString(deterministic=True)
        compiled = girih.compile(data, target=machine, batch=2, strategy="graphturbo", solver_timeout=0, cache=False)
        assert compiled.run(check="exact").cycles >= compiled.plan.lower_bound_cycles


def test_a_deeper_dot_product_takes_fewer_cycles() -> None:
    data = build("tiny-cnn").SerializeToString(deterministic=True)
    cycles = [
        girih.compile(
            data, target=with_engines(load_machine("tiny"), lambda e, d=depth: replace(e, depth=d) if e.rows else e),
            batch=8, strategy="graphturbo", solver_timeout=0, cache=False,
        ).run(check=False).cycles
        for depth in (1, 8)
    ]  # fmt: skip
    assert cycles[1] < cycles[0]
