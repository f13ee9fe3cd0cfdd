"""What operands and engines that meet on banks cost in the predicted timeline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan
from girih.ir.semantics.cell import Cells
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.timeline.bank_conflicts import BankConflicts, BankDemand
from girih.solver.timeline.core_engines import CoreEngines
from girih.solver.timeline.predict import predict
from girih.solver.timeline.staging_queues import StagingQueues
from tests.support import graphs
from tests.support.plans.plain_plans import plain_plan

MATRIX, VECTOR = BankDemand({("L1", 0): 24.0}), BankDemand({("L1", 0): 24.0, ("L1", 1): 32.0})
"""What two engines ask of a bank that serves 32 bytes a cycle: together, each works at two thirds of its pace."""


def with_local(machine: Machine, **changes: int) -> Machine:
    """The machine with another local memory."""
    memories = tuple(replace(m, **changes) if machine.use_of(m.name) == "local" else m for m in machine.memories)
    return replace(machine, memories=memories)


def added(machine: Machine, apart: bool) -> tuple[int, int, Plan]:
    """Predicted and simulated cycles of a sum of two tensors, in banks of their own or as they are placed."""
    net = graphs.Net("sum", "float32")
    net.elementwise("y", "add", net.input("a", 8, 128), net.input("b", 8, 128))
    graph = net.graph()
    plan = plain_plan(graph, machine)
    if apart:
        bank = machine.levels.activations.capacity // machine.levels.activations.memory.banks
        plan = replace(plan, local=tuple(replace(b, address=n * bank) for n, b in enumerate(plan.local)))
    predicted = predict(graph, Cells(graph), machine, plan, TileWalks(graph, machine)).cycles
    simulated = simulate(lower(graph, plan, machine), machine, graph.data, {}, data=False).summary.cycles
    return predicted, simulated, plan


@pytest.mark.parametrize(("apart", "slower"), [(True, 1), (False, 3)])
def test_operands_of_one_instruction_slow_it_if_they_are_in_one_bank(apart: bool, slower: int) -> None:
    # 8 lanes of 4 bytes take what a bank serves; three operands in one bank take it three times.
    machine = with_local(load_machine("tiny"), bytes_per_cycle=32)
    predicted, simulated, plan = added(machine, apart)
    fast = added(with_local(load_machine("tiny"), bytes_per_cycle=1024), apart)[1]
    body = 8 * 128 // machine.cores // 8
    assert simulated == fast + (slower - 1) * body, plan.local
    assert abs(predicted - simulated) <= 4


def test_engines_that_meet_on_a_bank_share_what_it_serves() -> None:
    machine = with_local(load_machine("tiny"), bytes_per_cycle=32)
    conflicts = BankConflicts(machine)
    assert conflicts.lost(MATRIX, VECTOR) == pytest.approx((1 - 32 / 48, 1 - 32 / 48))
    assert conflicts.lost(MATRIX, BankDemand({("L1", 1): 32.0})) == (0.0, 0.0)
    assert conflicts.lost(MATRIX, BankDemand({("L1", 0): 8.0})) == (0.0, 0.0)


def test_who_asks_for_more_than_a_bank_serves_leaves_little_to_the_other() -> None:
    machine = with_local(load_machine("tiny"), bytes_per_cycle=32)
    # Alone, the one has a fifth of its pace and the other all of it: together both have two elevenths.
    one, other = BankDemand({("L1", 0): 160.0}), BankDemand({("L1", 0): 16.0})
    assert BankConflicts(machine).lost(one, other) == pytest.approx((1 - 10 / 11, 1 - 2 / 11))


def engines_of_a_core() -> CoreEngines:
    machine = with_local(load_machine("tiny"), bytes_per_cycle=32)
    return CoreEngines(BankConflicts(machine), StagingQueues.from_machine(machine))


def test_the_engines_of_a_core_lose_cycles_while_both_work() -> None:
    # 30 cycles of products take 45 beside the stages, which have 30 of their 60 cycles behind them then.
    engines = engines_of_a_core()
    engines.multiply(0.0, 30.0, MATRIX)
    engines.run_stages(0.0, 60.0, VECTOR)
    assert (engines.matrix, engines.vector) == pytest.approx((45.0, 75.0))
    # Whichever comes first, and for as long as they meet: of the stages, 10 cycles are left.
    engines = engines_of_a_core()
    engines.run_stages(0.0, 30.0, VECTOR)
    engines.multiply(20.0, 80.0, MATRIX)
    assert (engines.matrix, engines.vector) == pytest.approx((85.0, 35.0))
    # What has been lost is worked then: the products end at 85. Work that is over is met no more.
    engines.run_stages(82.0, 100.0, VECTOR)
    assert (engines.matrix, engines.vector) == pytest.approx((86.5, 101.5))
    engines.multiply(110.0, 120.0, MATRIX)
    assert (engines.matrix, engines.vector) == pytest.approx((120.0, 101.5))


def test_each_version_of_a_buffer_has_banks_of_its_own() -> None:
    machine = with_local(load_machine("tiny"), bytes_per_cycle=32)
    net = graphs.Net("sum", "float32")
    net.elementwise("y", "add", net.input("a", 8, 128), net.input("b", 8, 128))
    graph = net.graph()
    plan = plain_plan(graph, machine)
    segment = plan.segments[0]
    cell = Cells(graph).busiest(segment, 0)
    walk = TileWalks(graph, machine).walk(graph.ops[0], segment.tile[graph.ops[0].name], cell)
    memory = machine.levels.activations.memory
    bank = memory.capacity // memory.banks
    # The first operand has two versions, in banks 0 and 1; the second one is in bank 1, and the result in bank 2.
    first, second, result = [[(memory.name, number * bank, bank) for number in own] for own in ((0, 1), (1,), (2,))]
    banks = BankConflicts(machine).operator(walk, [first, second, result])
    assert [set(demand.rates) for demand in banks.vector] == [
        {(memory.name, number) for number in own} for own in ((0, 1, 2), (1, 2))
    ]
    # One bank with both operands serves one after the other.
    body, busy = 8 * 128 // machine.cores // 8, walk.timings[0].stages[0].busy
    assert body < busy and banks.slower == (((0.0, 0.0),), ((0.0, (2 * body - busy) / busy),))


def test_an_operand_that_stays_where_it_is_is_read_once_by_an_instruction() -> None:
    # A softmax subtracts the maximum of a row from each of its elements, and divides by one sum.
    machine = load_machine("tiny")
    memories = (replace(m, banks=1, bytes_per_cycle=32) if m.scope == "core" else m for m in machine.memories)
    machine = replace(machine, memories=tuple(memories))
    net = graphs.Net("softmax", "float32")
    net.softmax("y", net.input("x", 256, 64))
    graph = net.graph()
    plan = plain_plan(graph, machine, depth=2, barrier=False)
    predicted = predict(graph, Cells(graph), machine, plan, TileWalks(graph, machine)).cycles
    simulated = simulate(lower(graph, plan, machine), machine, graph.data, {}, data=False).summary.cycles
    assert abs(predicted - simulated) <= 0.02 * simulated, (predicted, simulated)
