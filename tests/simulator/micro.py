"""Programs of a few instructions, on the machine `tiny`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from girih.ir.isa import DTYPE_NAMES, Instruction, make
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.program import Program, ProgramOp, ProgramPort, Queue


def _with_int8(machine: Machine) -> Machine:
    engines = [replace(e, rate=e.rate | {"int8": 2.0}) if e.rate else e for e in machine.engines]
    return replace(machine, engines=tuple(engines))


TINY = _with_int8(load_machine("tiny"))
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


SIZES = {"L1": 1 << 13, "L1W": 1 << 12, "IM": 1 << 12}
"""How much of each memory of core 0 :func:`around` fills and returns."""


def around(instruction: Instruction, engine: str) -> tuple[Program, int]:
    """A program that fills core 0's memories, runs one instruction, and brings them back.

    Its input and its output port hold the bytes of `SIZES`, one memory after the other. Also returns the number of
    the instruction's queue.
    """
    offset = dict(zip(SIZES, np.cumsum([0, *SIZES.values()]).tolist(), strict=False))
    total = sum(SIZES.values())
    copies = [move("mcopy", ("LLB", offset[m]), (m, 0), SIZES[m]) for m in ("L1", "L1W")]
    # Only the vector engine can fill the accumulator memory: from a free part of local memory.
    stage = SIZES["L1"]
    copies.append(move("mcopy", ("LLB", offset["IM"]), ("L1", stage), SIZES["IM"]))
    bytes_ = array("a", "L1", stage, "uint8", 0, 0, 1) | array("dst", "IM", 0, "uint8", 0, 0, 1)
    fill = make("vcopy.v", 0, {"n0": 1, "n1": 1, "n2": SIZES["IM"]} | bytes_)
    streams: dict[str, list[Instruction]] = {
        "DMR": [move("dcopy", ("DDR", 0), ("LLB", 0), total)],
        "MTI0": [wait(0, 1), *copies],
        "VME0": [wait(1, 4), fill],
        "MTO0": [],
        "DMW": [],
        "MME0": [],
    }
    names = list(streams)
    number = names.index(engine)
    streams[engine] += [wait(names.index("VME0"), 2), instruction]
    back = [move("mcopy", (m, 0), ("LLB", total + offset[m]), SIZES[m]) for m in ("L1", "IM")]
    streams["MTO0"] += [wait(number, len(streams[engine])), *back]
    streams["DMW"] += [wait(3, len(streams["MTO0"])), move("dcopy", ("LLB", total), ("DDR", total), SIZES["L1"])]
    streams["DMW"] += [
        move("dcopy", ("LLB", total + offset["IM"]), ("DDR", total + offset["IM"]), SIZES["IM"]),
    ]
    ports = [
        ProgramPort("x", (total,), "uint8", None, 0, "uint8", (total,)),
        ProgramPort("l1", (SIZES["L1"],), "uint8", None, total, "uint8", (SIZES["L1"],)),
        ProgramPort("im", (SIZES["IM"],), "uint8", None, total + offset["IM"], "uint8", (SIZES["IM"],)),
    ]
    return program(streams, inputs=(ports[0],), outputs=tuple(ports[1:])), number
