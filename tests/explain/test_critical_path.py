"""What was in the way of an instruction: derived by hand, and as a law of random programs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from girih.explain.cycles.critical_path import CriticalPath
from girih.ir.isa.table import Instruction, make
from girih.ir.isa.timing import instruction_cost
from girih.ir.program import Program
from girih.ir.trace import Trace
from girih.simulator import simulate
from tests.support.simulator.programs import TINY, add, move, program, wait


def latencies(given: Program) -> list[list[int]]:
    return [
        [instruction_cost(TINY, TINY.engine[queue.engine], i).latency for i in stream]
        for queue, stream in zip(given.queues, given.streams, strict=True)
    ]


def timed(given: Program) -> tuple[Trace, CriticalPath]:
    trace = simulate(given, TINY, {}, {}, data=False)
    return trace, CriticalPath(given, trace, latencies(given))


def fetch(at: int = 0) -> Instruction:
    return move("dcopy", ("DDR", 0), ("LLB", at), 256)


def load(at: int = 0) -> Instruction:
    return move("mcopy", ("LLB", 0), ("L1", at), 256)


def test_a_wait_is_followed_back_to_what_the_other_queue_did_and_waited_for() -> None:
    trace, path = timed(program({"DMR": [fetch()], "MTI0": [wait(0, 1), load()], "VME0": [wait(1, 2), add(8)]}))
    arrived, begin = int(trace.start[1][1]), int(trace.start[2][1])
    assert path.releaser((2, 1)) == (1, 1)
    assert list(path.attribute((1, 1), 0, begin)) == [((1, 1), arrived, begin), ((0, 0), 0, arrived)]
    assert path.releaser((0, 0)) is None


def test_the_last_wait_to_be_satisfied_is_the_reason_for_all_of_the_time() -> None:
    # The copy is there long before the third fetch: without it, nothing would have been gained.
    streams = {"DMR": [fetch(), fetch(), fetch()], "MTI0": [load()], "VME0": [wait(1, 1), wait(0, 3), add(8)]}
    trace, path = timed(program(streams))
    begin = int(trace.start[2][2])
    found = list(path.attribute(path.releaser((2, 2)), 0, begin))
    assert [node for node, _, _ in found] == [(0, 2), (0, 1), (0, 0)]
    assert int(trace.end[2][0]) < begin


def test_a_busy_queue_is_in_the_way_with_what_it_does_before() -> None:
    # What is awaited is the second load; the first one keeps its engine busy.
    _, path = timed(program({"MTI0": [load(), load(256)], "VME0": [wait(0, 2), add(8)]}))
    assert path.releaser((1, 1)) == (0, 1)
    assert path.releaser((0, 1)) == (0, 0)


def test_waits_that_take_no_time_are_passed_over() -> None:
    streams = {"MTI0": [load()], "VME0": [add(4096), wait(0, 1), add(8)]}
    _, path = timed(program(streams))
    assert path.releaser((1, 2)) == (1, 0)


def test_waits_for_waits_tokens_and_barriers_lead_to_instructions() -> None:
    meet = make("barrier", 0, {"barrier": 0, "queues": 2})
    _, path = timed(program({"DMR": [fetch(), meet], "MTI0": [meet, load()], "VME0": [wait(1, 1), add(8)]}))
    assert path.releaser((1, 1)) == (0, 0)
    assert path.releaser((2, 1)) == (0, 0)
    # Of those that meet, the last to come is the reason.
    late = move("dcopy", ("DDR", 0), ("LLB", 0), 4096)
    for streams in (
        {"MTI0": [load(), meet, load()], "DMR": [late, meet]},
        {"DMR": [late, meet], "MTI0": [meet, load()]},
    ):
        _, path = timed(program(streams))
        mti, dmr = list(streams).index("MTI0"), list(streams).index("DMR")
        assert path.releaser((mti, len(streams["MTI0"]) - 1)) == (dmr, 0)
    token = {"token": 0}
    _, path = timed(program({"DMR": [fetch(), make("post", 0, token)], "MTI0": [make("take", 0, token), load()]}))
    assert path.releaser((1, 1)) == (0, 0)


def test_a_stuck_queue_ends_where_it_stopped() -> None:
    trace, path = timed(program({"DMR": [fetch(), wait(1, 2), fetch()], "MTI0": [load(), wait(0, 2)]}))
    assert trace.summary.violation_count
    assert path.last() in ((0, 0), (1, 0))


@given(st.data())
def test_every_cycle_before_a_start_belongs_to_one_instruction_that_was_in_flight(data: st.DataObject) -> None:
    names = ["DMR", "MTI0", "VME0", "MTI1", "VME1"]
    streams: dict[str, list[Instruction]] = {name: [] for name in names}
    for _ in range(data.draw(st.integers(1, 30))):
        name = data.draw(st.sampled_from(names))
        other = data.draw(st.integers(0, len(names) - 1))
        # Waits for what is there already cannot lead to a deadlock.
        if names[other] != name and streams[names[other]] and data.draw(st.booleans()):
            streams[name].append(wait(other, len(streams[names[other]])))
        size = data.draw(st.sampled_from([8, 256]))
        body = {"DMR": fetch(), "MTI": load()}.get(name[:3], add(size))
        streams[name].append(body)
    given = program(streams)
    trace, path = timed(given)
    late = latencies(given)
    for queue, stream in enumerate(given.streams):
        free = 0
        for index, instruction in enumerate(stream):
            if instruction.row.kind == "sync":
                continue
            begin = until = int(trace.start[queue][index])
            for (q, i), lo, hi in path.attribute(path.releaser((queue, index)), free, begin):
                assert hi == until and lo < hi
                visible = np.max(trace.end[q][: i + 1] + np.array(late[q][: i + 1]))
                assert trace.start[q][i] <= lo and hi <= visible
                assert q != queue or hi <= trace.end[q][i] + late[q][i]
                until = lo
            assert until == free
            free = int(trace.end[queue][index])
