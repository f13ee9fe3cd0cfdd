"""Instructions as columns, slots as spans, memories as levels: the same figures as the report's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from girih.explain.compilation import Compilation
from girih.explain.run.bank_load import bank_load
from girih.explain.run.covered_bytes import covered_bytes
from girih.explain.run.instruction_columns import InstructionClass, instruction_columns
from girih.explain.run.local_lives import local_lives
from girih.explain.run.memory_accesses import MemoryAccesses
from girih.explain.run.shared_lives import shared_lives
from girih.explain.run.slot_spans import lanes, predicted_spans, simulated_spans
from girih.ir.plan import Prediction
from tests.support.compilations import compilation_of, random_compilation
from tests.support.graphs import attention, residual, with_host
from tests.support.plans.sequential_plans import sequential_plan

GRAPHS = {"residual": residual, "attention": attention, "host": with_host}


@pytest.mark.parametrize("name", GRAPHS)
def test_busy_cycles_of_each_engine_are_those_of_the_breakdown(name: str) -> None:
    given = random_compilation(GRAPHS[name](), 1)
    columns = given.execution.columns
    for row in given.breakdown.totals:
        queues = [n for n, q in enumerate(given.program.queues) if q.engine == row.resource]
        if queues:
            mine = np.isin(columns.queue, queues)
            busy = int((columns.end - columns.start)[mine].sum())
            assert busy / row.units == pytest.approx(row.busy)
            for operator in {given.program.ops[op].name for op in columns.work_for[mine]}:
                assert operator in given.graph.op


def test_rows_are_the_program_without_synchronisation() -> None:
    given = random_compilation(residual(), 2)
    columns = given.execution.columns
    row = 0
    for queue, stream in enumerate(given.program.streams):
        for index, instruction in enumerate(stream):
            if instruction.row.kind == "sync":
                continue
            assert (columns.queue[row], columns.index[row]) == (queue, index)
            assert (columns.start[row], columns.end[row]) == (
                given.trace.start[queue][index],
                given.trace.end[queue][index],
            )
            described = columns.classes[columns.class_of[row]]
            values = list(described.instruction.values)
            for number, operand in enumerate(instruction.row.operands):
                values[instruction.row.position[f"{operand.name}.base"]] = int(columns.bases[row, number])
            assert (described.instruction.mnemonic, tuple(values)) == (instruction.mnemonic, instruction.values)
            row += 1
    assert row == len(columns.start) == int(columns.first[-1])


def test_releasers_are_those_of_the_critical_path() -> None:
    given = random_compilation(attention(), 3)
    columns, path = given.execution.columns, given.run.path
    for row, (queue, index) in enumerate(zip(columns.queue.tolist(), columns.index.tolist(), strict=True)):
        node, known = path.releaser((queue, index)), int(columns.releaser[row])
        assert node == (None if known < 0 else (int(columns.queue[known]), int(columns.index[known])))
    last = columns.last
    assert path.last() == (int(columns.queue[last]), int(columns.index[last]))


def test_a_stuck_queue_ends_where_it_stopped() -> None:
    given = random_compilation(residual(), 0)
    stopped = replace(given.trace, end=tuple(np.full_like(end, -1) for end in given.trace.end))
    columns = instruction_columns(given.graph, given.plan, replace(given.run, trace=stopped))
    assert not len(columns.start) and columns.last == -1


def test_every_prediction_is_a_span_and_every_slot_ran() -> None:
    graph = with_host()
    given = random_compilation(graph, 0)
    predictions = tuple(Prediction(step, op, 10 * n, 10 * n + 15) for n, (step, op) in enumerate(given.plan.slots))
    plan = replace(given.plan, predictions=predictions)
    spans = predicted_spans(plan)
    assert [plan.slots[s] for s in spans.slot] == [(p.step, p.op) for p in predictions]
    assert spans.start.tolist() == [p.start for p in predictions] and spans.stop.tolist() == [
        p.stop for p in predictions
    ]
    assert spans.lane.max() == 1
    ran = simulated_spans(given.plan, given.program, given.execution)
    assert sorted(ran.slot.tolist()) == list(range(len(plan.slots)))
    assert ran.stop.max() <= given.trace.cycles


def test_lanes_hold_spans_that_do_not_overlap() -> None:
    assert lanes([0, 1, 2, 10], [5, 3, 9, 12]).tolist() == [0, 1, 2, 0]
    assert lanes([0, 0, 0], [0, 0, 0]).tolist() == [0, 1, 2]


def test_bytes_that_buffers_share_are_covered_once() -> None:
    begin, end = np.array([0, 5, 10]), np.array([10, 20, 20])
    address, size = np.array([0, 64, 0]), np.array([128, 64, 32])
    times, levels = covered_bytes(begin, end, address, size)
    assert dict(zip(times.tolist(), levels.tolist(), strict=True)) == {0: 128, 5: 128, 10: 96, 20: 0}
    nothing = np.zeros(0, np.int64)
    assert covered_bytes(nothing, nothing, nothing, nothing)[1].tolist() == [0]


def lives_of(given: Compilation, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Begin, end, address and bytes of the lives in a memory; for one of the cores, on core 0."""
    run = given.execution
    if given.machine.memories[number].scope != "core":
        lives = shared_lives(
            given.graph, given.plan, given.program, given.machine, run.columns, run.slots, run.accesses
        )
        placed = [(b.address, b.bytes) for b in lives.buffers]
        return lives.begin, lives.end, *np.array(placed, np.int64).reshape(-1, 2).T
    local = local_lives(given.plan, given.machine, run.columns, run.slots, run.accesses, number)
    mine = local.core == 0
    size = np.array([b.bytes // b.depth for b in local.buffers])[local.buffer[mine]]
    address = np.array([b.address for b in local.buffers])[local.buffer[mine]] + local.version[mine] * size
    return local.begin[mine], local.end[mine], address, size


def test_what_is_covered_fits_the_memory() -> None:
    given = compilation_of(residual(), sequential_plan(residual(), random_compilation(residual(), 0).machine))
    for number, memory in enumerate(given.machine.memories):
        if memory != given.machine.levels.home.memory:
            _, levels = covered_bytes(*lives_of(given, number))
            assert 0 < levels.max() <= memory.capacity and levels[-1] == 0


@pytest.mark.parametrize("name", GRAPHS)
def test_the_load_of_banks_adds_up_to_the_traffic(name: str) -> None:
    given = random_compilation(GRAPHS[name](), 2)
    run, cycles = given.execution, given.trace.cycles
    for number, memory in enumerate(given.machine.memories):
        for core in (0, 1) if memory.scope == "core" else (None,):
            load = bank_load(given.machine, run.columns, run.accesses, number, core, cycles, 50)
            touched = run.accesses.of_memory(number, core)
            traffic = [run.columns.classes[run.columns.class_of[row]].cost.cost.traffic for row in touched.row]
            asked = sum(t[o] for t, o in zip(traffic, touched.operand, strict=True) if o < len(t))
            assert load.used.shape == load.overloaded.shape == (memory.banks, 50)
            assert (load.overloaded >= 0).all() and (load.overloaded <= 1 + 1e-9).all()
            assert load.used.sum() * cycles / 50 * memory.bytes_per_cycle == pytest.approx(asked)


def test_a_broadcast_reaches_the_last_of_64_cores() -> None:
    given = random_compilation(residual(), 0)
    columns = given.execution.columns

    def to_core_63(described: InstructionClass) -> InstructionClass:
        if described.instruction.row.kind != "broadcast":
            return described
        values = list(described.instruction.values)
        values[described.instruction.row.position["cores"]] = 1 << 63
        return replace(described, instruction=replace(described.instruction, values=tuple(values)))

    broadcasts = [n for n, c in enumerate(columns.classes) if c.instruction.row.kind == "broadcast"]
    assert broadcasts
    columns = replace(columns, classes=tuple(map(to_core_63, columns.classes)))
    accesses = MemoryAccesses(given.program, given.machine, columns)
    local = next(n for n, m in enumerate(given.machine.memories) if m.name == given.machine.roles["local"].name)
    written = {core: accesses.of_memory(local, core) for core in (0, 62, 63)}
    kinds = {core: set(columns.class_of[w.row[w.writes]].tolist()) for core, w in written.items()}
    assert kinds[63] and kinds[63] <= set(broadcasts)
    assert not kinds[62] and not kinds[0] & set(broadcasts)
