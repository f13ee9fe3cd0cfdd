"""What is told about an operator, a tensor, a segment, a memory and a model is what other readings of the nouns say."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import lru_cache
from math import prod
from pathlib import Path

import pytest

import girih
from girih.explain.compilation import Compilation
from girih.explain.details.alternatives import Alternative
from girih.explain.details.details import Subjects, build_details
from girih.explain.details.formulations import FORMULATIONS, formulation
from girih.explain.details.memory_details import PERIODS, memory_details
from girih.explain.details.model_details import model_details
from girih.explain.details.operator_details import operator_details
from girih.explain.details.segment_details import segment_details
from girih.explain.details.tensor_details import tensor_details
from girih.ir.graph import DTYPES
from girih.ir.program import disassemble
from tests.support.compilations import random_compilation
from tests.support.graphs import residual, with_host

ROOT = Path(girih.__file__).parent


@lru_cache
def example(seed: int = 3) -> Compilation:
    return random_compilation(residual(), seed)


def nothing(operator: str) -> tuple[Alternative, ...]:
    return ()


@pytest.mark.parametrize("op", [op.name for op in residual().ops])
def test_instructions_of_an_operator_are_those_of_the_disassembly(op: str) -> None:
    compilation = example()
    expected: Counter[tuple[str, str]] = Counter()
    engine = ""
    for line in disassemble(compilation.program).splitlines():
        if found := re.match(r"queue \d+ ([A-Z]+)\d*:", line):
            engine = found[1]
        elif line.endswith(f"; {op}"):
            expected[engine, line.split()[1]] += 1
    rows = operator_details(compilation, op, nothing).instructions
    dma = {e.name for e in compilation.machine.engines if "dma" in e.classes}
    told = {(row.engine, row.mnemonic): row.instructions for row in rows if row.engine not in dma}
    assert told == {key: number for key, number in expected.items() if key[0] not in dma}
    assert all(row.begin <= row.end <= compilation.trace.cycles for row in rows)


def test_fetches_count_for_the_operator_that_reads_them() -> None:
    compilation = example()
    rows = [row for op in compilation.graph.ops for row in operator_details(compilation, op.name, nothing).instructions]
    for queue, stream in zip(compilation.program.queues, compilation.program.streams, strict=True):
        if queue.core is None:
            told = sum(row.instructions for row in rows if row.engine == queue.engine)
            assert told == len(stream)


@pytest.mark.parametrize("op", [op.name for op in residual().ops])
def test_what_was_chosen_is_the_plan(op: str) -> None:
    compilation = example()
    plan, told = compilation.plan, operator_details(compilation, op, nothing)
    segment = plan.segments[told.segment]
    assert segment.ops[told.position] == op
    assert told.tile == segment.tile[op]
    assert told.steps == sum(step.segment == told.segment for step in plan.steps)
    tiles = [loop for loop in told.loops if loop.kind == "tile"]
    assert [loop.size for loop in tiles] == [segment.tile[op].sizes[dim] for dim in segment.tile[op].order]
    for loop, dim in zip(tiles, segment.tile[op].order, strict=True):
        assert (loop.iterations - 1) * loop.size < told.cell[dim] <= loop.iterations * loop.size
    for room in told.rooms:
        assert 0 <= room.own <= room.live <= room.capacity
    row = next(r for r in compilation.breakdown.operators if r.op == op)
    assert (told.cycles, told.work) == (row.cycles, row.work)


def test_alternatives_come_from_whoever_knows_them() -> None:
    alternative = Alternative("tile", "1x2", 120.0, "cycles", True)
    other = Alternative("tile", "2x2", 150.0, "cycles", False, "IM holds 64 bytes, it needs 80")
    name = example().graph.ops[0].name
    details = build_details(example(), Subjects(operators=(name,)), lambda op: (alternative, other))
    assert details.operators[0].alternatives == (alternative, other)
    assert "+25.0%" in details.text()
    assert other.why_not in " ".join(details.text(120).split())


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_moves_of_a_tensor_are_as_many_bytes_as_its_buffers_are_filled_with(seed: int) -> None:
    compilation = example(seed)
    graph, plan = compilation.graph, compilation.plan
    shared = compilation.machine.levels.exchange.name
    for tensor in graph.tensors:
        told = tensor_details(compilation, tensor.name)
        buffers = [b for b in plan.shared if b.tensor == tensor.name and b.memory == shared]
        sizes = [DTYPES[tensor.dtype] * prod(span.hi - span.lo for span in b.box) for b in buffers]
        fetched = sum(size for size, b in zip(sizes, buffers, strict=True) if b.fetch)
        assert sum(move.bytes for move in told.moves if move.kind == "fetch") == fetched
        spilled = sum(size for size, b in zip(sizes, buffers, strict=True) if b.store)
        assert sum(move.bytes for move in told.moves if move.kind == "spill") == spilled
        assert sum(stay.memory == shared for stay in told.stays) == len(buffers)
        for stay in told.stays:
            assert stay.begin is None or stay.end is None or 0 <= stay.begin <= stay.end <= compilation.trace.cycles
        assert told.reason


def test_a_segment_is_told_with_all_its_operators_and_transfers() -> None:
    compilation = example()
    plan = compilation.plan
    for index, segment in enumerate(plan.segments):
        told = segment_details(compilation, index)
        assert [o.name for o in told.operators] == list(segment.ops)
        steps = [n for n, step in enumerate(plan.steps) if step.segment == index]
        assert [number for number, _, _ in told.steps] == steps
        expected = sum(p.stop - p.start for p in plan.predictions if p.step in steps)
        assert told.row.cycles == expected == sum(o.predicted for o in told.operators)
        assert {t.tensor for t in told.transfers} == {t.tensor for t in plan.transfers if t.segment == index}
        whole = next(row for row in compilation.breakdown.segments_of(told.resource) if row.segment == index)
        assert sum(o.cycles for o in told.operators) == pytest.approx(whole.cycles)


@pytest.mark.parametrize("memory", ["DDR", "LLB", "L1", "L1W", "IM"])
def test_the_peak_of_a_memory_is_that_of_painted_bytes(memory: str) -> None:
    compilation = example()
    plan = compilation.plan
    told = memory_details(compilation, memory)
    used: list[int] = []
    for slot, (step, op) in enumerate(plan.slots):
        segment = plan.steps[step].segment
        position = plan.segments[segment].ops.index(op)
        live = [b for b in plan.shared if b.memory == memory and b.live[0] <= slot < b.live[1]]
        inside = [b for b in plan.local if (b.memory, b.segment) == (memory, segment)]
        spans = [(b.address, b.bytes) for b in live]
        spans += [(b.address, b.bytes) for b in inside if b.live[0] <= position < b.live[1]]
        used.append(len(set().union(*(range(address // 4, (address + size) // 4) for address, size in spans))))
    # Painted in units of four bytes, of which all sizes here are multiples.
    assert told.peak == 4 * max(used)
    assert used[next(i for i, s in enumerate(plan.slots) if s == (told.step, told.at))] == max(used)
    assert len(told.profile) == PERIODS
    assert max(told.profile, default=0) == told.peak
    assert sum(b.bytes for b in told.filling) <= told.capacity or told.buffers > len(told.filling)


def test_a_model_has_the_runs_of_the_log() -> None:
    compilation = example()
    told = model_details(compilation, "tiling")
    runs = [run for run in compilation.log.runs if run.model == "tiling"]
    assert [(r.status, r.objective, r.bound) for r in told.runs] == [(r.status, r.objective, r.bound) for r in runs]
    assert told.runs[-1].work == pytest.approx(sum(run.deterministic_seconds for run in runs))
    assert told.cuts == ()


@pytest.mark.parametrize("model", FORMULATIONS)
def test_a_formulation_is_that_of_the_model(model: str) -> None:
    """The first sentence of the model's docstring is what is told, and every model of the solver is there."""
    told = FORMULATIONS[model]
    docstring = ast.get_docstring(ast.parse((ROOT / told.source).read_text(encoding="utf-8")))
    assert docstring is not None
    question = docstring.splitlines()[0].partition(": ")[2].removesuffix(".")
    assert told.question == question
    assert Path(told.source).parent.name == model


def test_every_model_has_a_formulation() -> None:
    assert {path.parent.name for path in (ROOT / "solver").glob("*/model.py")} == set(FORMULATIONS)
    assert formulation("banks:L1") == FORMULATIONS["banks"]
    assert formulation("nothing") is None


def test_an_operator_of_the_host_says_why() -> None:
    compilation = random_compilation(with_host(), 1)
    host = next(op for op in compilation.graph.ops if op.host)
    told = operator_details(compilation, host.name, nothing)
    assert host.host is not None
    assert told.host == host.host.reason
    assert told.tile is None
    text = build_details(compilation, Subjects(operators=(host.name,))).text()
    assert "runs on the host" in text
