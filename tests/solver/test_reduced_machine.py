"""A machine with less of one memory: a machine that passes the checks, with capacities that do not depend on its own."""

from __future__ import annotations

import pytest

from girih.ir.checks.check_machine import check_machine
from girih.ir.load_machine import load_machine
from girih.solver.reduced_machine import granule, reduced, reducible, smaller_capacities


@pytest.mark.parametrize("name", ["tiny", "stcp920"])
def test_every_smaller_machine_is_one(name: str) -> None:
    machine = load_machine(name)
    for memory in reducible(machine):
        smaller = smaller_capacities(memory)
        assert list(smaller) == sorted(set(smaller), reverse=True)
        for capacity in smaller:
            assert capacity % granule(memory) == 0 and capacity < memory.capacity
            check_machine(reduced(machine, memory.name, capacity))


def test_a_larger_memory_has_the_capacities_of_a_smaller_one() -> None:
    machine = load_machine("tiny")
    larger = smaller_capacities(machine.memory["LLB"])
    assert larger[:4] == (196608, 131072, 98304, 65536)
    assert smaller_capacities(reduced(machine, "LLB", 98304).memory["LLB"]) == larger[3:]
