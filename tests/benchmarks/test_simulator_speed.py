"""The programs on which the simulator's speed is measured."""

from __future__ import annotations

import pytest

from benchmarks.calibration.programs import layer_program
from benchmarks.simulator_speed import LAYER, measure, repeated
from girih.ir.load_machine import load_machine
from girih.simulator import simulate

MACHINE = load_machine("stcp920")
ONE = layer_program(LAYER, MACHINE, streamed=True)


@pytest.mark.parametrize(("cores", "turns"), [(1, 1), (2, 3), (8, 5)])
def test_a_program_repeats_on_every_core(cores: int, turns: int) -> None:
    program = repeated(ONE, cores, cores * turns * ONE.instructions)
    trace = simulate(program, MACHINE, {}, {}, data=False)
    assert program.instructions == cores * turns * ONE.instructions
    assert not trace.violations
    assert trace.counters["macs"] == cores * turns * LAYER.macs
    assert [row["macs"] for row in trace.summary.counters.cores[:cores]] == [turns * LAYER.macs] * cores


def test_a_turn_takes_as_long_as_another() -> None:
    cycles = [
        simulate(repeated(ONE, 1, turns * ONE.instructions), MACHINE, {}, {}, data=False).cycles for turns in (1, 2, 3)
    ]
    assert cycles[2] - cycles[1] == cycles[1] - cycles[0] > 0


def test_times_are_the_smallest() -> None:
    turns: list[int] = []
    found = measure(lambda: turns.append(0), 4)
    assert len(turns) == 4
    assert 0 <= found.wall < 1
