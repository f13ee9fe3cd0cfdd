"""What is shared among instructions that are alike, and what is not."""

from __future__ import annotations

import numpy as np

from girih.ir.isa.table import Instruction, make
from girih.ir.program import ProgramPort
from girih.simulator import simulate
from girih.simulator.tasks.tasks import Prepared
from girih.simulator.tasks.violations import Violations
from tests.support.simulator.programs import TINY, add, array, move, program, wait


def prepared(*instructions: Instruction) -> tuple[Prepared, Violations]:
    net = program({"VME0": instructions})
    found = Violations(net)
    return Prepared(net, TINY, (), found), found


def test_equal_instructions_share_everything() -> None:
    ready, _ = prepared(add(64), add(64), add(64, dst=64), add(32))
    assert ready.tasks[0][0] is ready.tasks[0][1]
    assert ready.templates[0][0] is ready.templates[0][2]
    assert ready.templates[0][0] is not ready.templates[0][3]


def test_every_broken_instruction_is_reported() -> None:
    ready, found = prepared(add(64, dst=1 << 16), add(64, dst=1 << 16))
    assert found.count == 2
    assert ready.broken == {(0, 0), (0, 1)}


def test_minus_zero_is_another_immediate() -> None:
    shape = {"n0": 1, "n1": 1, "n2": 1}
    fills = [
        make("vfill.s", 0, {**shape, "imm0": value, **array("dst", "L1", 4 * i, "float32", 0, 0, 4)})
        for i, value in enumerate((0.0, -0.0, 0.0))
    ]
    streams = {
        "VME0": fills,
        "MTO0": [wait(0, 3), move("mcopy", ("L1", 0), ("LLB", 0), 12)],
        "DMW": [wait(1, 2), move("dcopy", ("LLB", 0), ("DDR", 0), 12)],
    }
    port = ProgramPort("y", (3,), "float32", None, 0, "float32", (3,))
    trace = simulate(program(streams, outputs=(port,)), TINY, {}, {})
    assert not trace.violations
    assert np.signbit(trace.outputs["y"]).tolist() == [False, True, False]


def test_another_core_has_its_own_banks() -> None:
    net = program({"VME0": [add(64, a=16384)], "VME1": [add(64, a=16384)]})
    ready = Prepared(net, TINY, (), Violations(net))
    (zero,), (one,) = ready.tasks
    assert not {bank for bank, _ in zero.banks} & {bank for bank, _ in one.banks}
    assert [part for _, part in zero.banks] == [part for _, part in one.banks]
    local = [memory.name for memory in TINY.memories].index("L1")
    assert [bank - ready.banks.first[local, 1] for bank, _ in one.banks] == [0, 1]
    assert ready.used[local, 0] == ready.used[local, 1] == 16384 + 256
    # An instruction of each core is made ready in full if nothing is known of the other.
    alone = program({"VME1": [add(64, a=16384)]})
    assert Prepared(alone, TINY, (), Violations(alone)).tasks[0][0].banks == one.banks
