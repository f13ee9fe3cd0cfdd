"""How much of what banks serve is used, and when more is asked of one: instructions whose rates are known by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from girih.explain.cycles.costed_run import CostedRun
from girih.explain.run.bank_load import BankLoad, bank_load
from girih.explain.run.instruction_columns import instruction_columns
from girih.explain.run.memory_accesses import MemoryAccesses
from girih.ir.isa.table import Instruction
from girih.ir.machine import Machine
from girih.simulator import simulate
from tests.support.compilations import random_compilation
from tests.support.graphs import residual
from tests.support.machines import with_engines
from tests.support.simulator.programs import APART, MEMORY, TINY, add, move, program

VECTOR = 64
"""Elements of 4 bytes, of which 8 are added in a cycle: 32 bytes a cycle of each operand, where a bank serves 64."""


def loaded(
    streams: dict[str, list[Instruction]], memory: str, core: int | None, bins: int = 0, machine: Machine = TINY
) -> tuple[BankLoad, int]:
    """The load of a memory, by default for each cycle of the run; and the cycles of the run."""
    run = CostedRun(code := program(streams), machine, simulate(code, machine, {}, {}, data=False))
    given = random_compilation(residual(), 0)
    columns = instruction_columns(given.graph, replace(given.plan, shared=()), run)
    cycles = run.trace.cycles
    accesses = MemoryAccesses(code, machine, columns)
    return bank_load(machine, columns, accesses, MEMORY[memory], core, cycles, bins or cycles), cycles


def test_three_operands_in_one_bank_ask_for_more_than_it_serves() -> None:
    # 4 cycles of issue; then 768 bytes, at 96 a cycle where 64 are served: 12 cycles instead of 8.
    load, cycles = loaded({"VME0": [add(VECTOR, dst=0, a=1024, b=2048)]}, "L1", 0)
    busy = np.array([cycle in range(4, 16) for cycle in range(cycles)], float)
    assert load.overloaded[0] == pytest.approx(busy) and load.used[0] == pytest.approx(busy)
    assert not load.overloaded[1:].any() and not load.used[1:].any()


def test_three_operands_in_three_banks_use_half_of_each() -> None:
    load, cycles = loaded({"VME0": [add(VECTOR, **APART)]}, "L1", 0)
    busy = np.array([cycle in range(4, 12) for cycle in range(cycles)], float)
    assert load.used == pytest.approx(np.array([busy / 2, busy / 2, busy / 2, busy * 0]))
    assert not load.overloaded.any()
    other, _ = loaded({"VME0": [add(VECTOR, **APART)]}, "L1", 1)
    assert not other.used.any()


def test_two_operands_take_all_that_a_bank_serves_and_no_more() -> None:
    load, _ = loaded({"VME0": [add(VECTOR, dst=0, a=1024, b=16384)]}, "L1", 0)
    assert load.used[0].max() == pytest.approx(1) and not load.overloaded.any()


def test_an_operand_over_two_banks_loads_each_by_its_part_of_it() -> None:
    load, cycles = loaded({"VME0": [add(VECTOR, dst=0, a=32768 - 64, b=49152)]}, "L1", 0)
    busy = np.array([cycle in range(4, 12) for cycle in range(cycles)], float)
    assert load.used == pytest.approx(np.array([busy / 2, busy / 8, busy * 3 / 8, busy / 2]))


def test_interleaved_banks_take_turns() -> None:
    # 1.5 KiB from address 512 on: of banks that change every KiB, 512 bytes, then 1,024 of the other one.
    load, cycles = loaded({"MTI0": [move("mcopy", ("LLB", 512), ("L1", 0), 1536)]}, "LLB", None, 1)
    assert load.used[:, 0] * cycles * 32 == pytest.approx([512, 1024])
    assert not load.overloaded.any()


def test_a_part_of_the_run_has_the_mean_of_its_cycles() -> None:
    load, cycles = loaded({"VME0": [add(VECTOR, dst=0, a=1024, b=2048)]}, "L1", 0, 1)
    assert load.overloaded[0] == pytest.approx([12 / cycles]) and load.used[0] == pytest.approx([12 / cycles])


def test_transfers_ask_for_what_their_link_leaves_them() -> None:
    # Alone, each takes the 32 bytes a cycle that the bank serves, and the link that both cross carries no more.
    fast = with_engines(TINY, lambda e: replace(e, bytes_per_cycle=32) if e.name == "MTI" else e)
    copies = {f"MTI{core}": [move("mcopy", ("LLB", 0), ("L1", 0), 1024)] for core in (0, 1)}
    load, _ = loaded(copies, "LLB", None, machine=fast)
    assert load.used[0].max() == pytest.approx(1) and not load.overloaded.any()
