"""Programs of a few instructions, on the machine `tiny`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from girih.ir.isa.table import DTYPE_NAMES, Instruction, make
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.program import Program, ProgramOp, Queue
from girih.ir.trace import Trace
from girih.simulator import simulate


def _with_every_type(machine: Machine) -> Machine:
    engines = [replace(e, rate=e.rate | {"int8": 2.0, "bfloat16": 1.0}) if e.rate else e for e in machine.engines]
    engines = [replace(e, lanes=e.lanes | {"bfloat16": 8}) if e.lanes else e for e in engines]
    return replace(machine, engines=tuple(engines))


TINY = _with_every_type(load_machine("tiny"))
MEMORY = {memory.name: number for number, memory in enumerate(TINY.memories)}


def array(name: str, memory: str, base: int, dtype: str, *strides: int) -> dict[str, int]:
    """The fields of one operand."""
    fields = {f"{name}.mem": MEMORY[memory], f"{name}.dtype": DTYPE_NAMES.index(dtype), f"{name}.base": base}
    return fields | {f"{name}.s{i}": stride for i, stride in enumerate(strides)}


def queue(name: str) -> Queue:
    """`VME1` is the vector engine of core 1, `DMR` the cluster's."""
    return Queue(name[:-1], int(name[-1])) if name[-1].isdigit() else Queue(name)


def program(streams: Mapping[str, Sequence[Instruction]], **fields: Any) -> Program:
    """Queues by name; waits count queues in the order of the mapping."""
    empty: dict[str, Any] = {"constants": (), "inputs": (), "outputs": (), "replicas": 1, "ops": (ProgramOp("op"),)}
    return Program(
        machine="tiny",
        machine_sha256="",
        graph_sha256="",
        plan_sha256="",
        queues=tuple(map(queue, streams)),
        streams=tuple(map(tuple, streams.values())),
        **(empty | fields),
    )


def wait(queue: int, count: int) -> Instruction:
    return make("wait", 0, {"queue": queue, "count": count})


def move(mnemonic: str, source: tuple[str, int], target: tuple[str, int], size: int, **fields: int) -> Instruction:
    """A copy of `size` contiguous bytes from and to (memory, address)."""
    ends = array("src", *source, "uint8", 0, 0, 0, 1) | array("dst", *target, "uint8", 0, 0, 0, 1)
    return make(mnemonic, 0, {"n0": 1, "n1": 1, "n2": 1, "n3": size, **ends, **fields})


def add(size: int, dst: int = 0, a: int = 0, b: int = 0, memory: str = "L1") -> Instruction:
    """dst = a + b for contiguous float32 vectors at these addresses."""
    operands = [array(n, memory, at, "float32", 0, 0, 4) for n, at in (("dst", dst), ("a", a), ("b", b))]
    return make("vadd.vv", 0, {"n0": 1, "n1": 1, "n2": size} | operands[0] | operands[1] | operands[2])


def times(trace: Trace) -> list[list[tuple[int, int]]]:
    return [list(zip(s.tolist(), e.tolist(), strict=True)) for s, e in zip(trace.start, trace.end, strict=True)]


def run(streams: dict[str, Sequence[Instruction]]) -> Trace:
    return simulate(program(streams), TINY, {}, {}, data=False)


APART = {"dst": 0, "a": 16384, "b": 32768}
"""Addresses in three banks of local memory."""
