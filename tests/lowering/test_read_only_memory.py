"""Homes in a memory that is only read: constants lie there, and nothing else ever does."""

from __future__ import annotations

from dataclasses import replace

import pytest

import girih
from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import CheckError, InfeasibleError
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.models import build
from girih.simulator import simulate
from tests.support.machines import kinds_of, with_capacity
from tests.support.onnx_models import Model

TINY = load_machine("tiny")
FLASH = kinds_of(TINY)["main memory to write"]
"""Constants in DDR, everything else in LLB."""


def compiled(target: Machine = FLASH) -> girih.Compiled:
    data = build("tiny-cnn").SerializeToString(deterministic=True)
    return girih.compile(data, target=target, batch=2, strategy="graphturbo", solver_timeout=0, cache=False)


def test_constants_alone_lie_in_it() -> None:
    made = compiled()
    homes = {buffer.tensor: buffer.memory for buffer in made.plan.shared}
    assert {name for name, memory in homes.items() if memory == "DDR"} == homes.keys() & made.graph.constant_names
    assert {memory for name, memory in homes.items() if name not in made.graph.constant_names} == {"LLB"}
    assert not any(buffer.fetch or buffer.store for buffer in made.plan.shared)


def test_a_result_with_a_home_in_it_is_refused() -> None:
    made = compiled()
    name = next(iter(made.graph.output_tensors))
    moved = [replace(b, memory="DDR", address=1 << 20) if b.tensor == name else b for b in made.plan.shared]
    with pytest.raises(CheckError, match="is of no constant, and DDR is read-only"):
        check_plan(replace(made.plan, shared=tuple(moved)), made.graph, FLASH)


def test_writing_to_it_is_a_violation() -> None:
    program = compiled().program
    queue = next(n for n, q in enumerate(program.queues) if q.engine == "MTO")
    stream = list(program.streams[queue])
    index = next(i for i, instruction in enumerate(stream) if instruction.mnemonic == "mcopy")
    values = list(stream[index].values)
    values[stream[index].row.position["dst.mem"]] = FLASH.memories.index(FLASH.memory["DDR"])
    stream[index] = replace(stream[index], values=tuple(values))
    streams = tuple(tuple(stream) if n == queue else s for n, s in enumerate(program.streams))
    trace = simulate(replace(program, streams=streams), FLASH, {}, {}, data=False)
    assert any("DDR is read-only, and dst cannot be written there" in v.message for v in trace.violations)


def test_a_kernel_reads_constants_from_it() -> None:
    model = Model()
    x = model.input("x", "N", 6)
    indices, updates = model.constant("indices", [[0, 1, 2, 3, 2, 1]]), model.weight("updates", 1, 6)
    placed = model.node("ScatterElements", model.node("Relu", x), indices, updates, axis=1, name="scatter")
    data = model.build(placed).SerializeToString()
    made = girih.compile(data, target=FLASH, batch=2, strategy="graphturbo", solver_timeout=0, cache=False)
    made.run(check="exact")


def test_a_memory_that_is_too_small_is_named() -> None:
    with pytest.raises(
        InfeasibleError, match=r"constants of tiny-cnn need [\d,]+ bytes of DDR, [\d,]+ more than the 64"
    ):
        compiled(with_capacity(FLASH, "DDR", 64))
    with pytest.raises(InfeasibleError, match=r"inputs and outputs of tiny-cnn need [\d,]+ bytes of LLB"):
        compiled(with_capacity(FLASH, "LLB", 2048))
    with pytest.raises(
        InfeasibleError, match=r"LLB .* holds [\d,]+ bytes, and inputs, outputs and stored results need"
    ):
        compiled(with_capacity(FLASH, "LLB", 4096))
