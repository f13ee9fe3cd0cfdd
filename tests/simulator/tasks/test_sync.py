"""Tokens and barriers: when they let a queue go on, what they order, and what happens to those that nothing satisfies."""

from __future__ import annotations

from collections.abc import Sequence

from girih.ir.isa.table import Instruction, make
from girih.ir.trace import Trace
from girih.simulator import simulate
from tests.support.simulator.programs import TINY, add, move, program

APART = {"dst": 0, "a": 16384, "b": 32768}


def run(streams: dict[str, Sequence[Instruction]], *, data: bool = False) -> Trace:
    return simulate(program(streams), TINY, {}, {}, data=data)


def times(trace: Trace) -> list[list[tuple[int, int]]]:
    return [list(zip(s.tolist(), e.tolist(), strict=True)) for s, e in zip(trace.start, trace.end, strict=True)]


def post(token: int) -> Instruction:
    return make("post", 0, {"token": token})


def take(token: int) -> Instruction:
    return make("take", 0, {"token": token})


def barrier(number: int, queues: int) -> Instruction:
    return make("barrier", 0, {"barrier": number, "queues": queues})


def test_a_take_ends_when_what_is_before_the_post_is_visible() -> None:
    # The first add leaves its engine at 12 and is visible at 16; the second one, after the post, at 21.
    trace = run({"VME0": [add(64, **APART), post(3), add(8, **APART)], "VME1": [take(3), add(8, **APART)]})
    assert times(trace) == [[(0, 12), (12, 12), (12, 17)], [(0, 16), (16, 21)]]
    assert trace.counters["syn_wait"] == 16
    assert trace.counters["syn_inst"] == 2


def test_the_n_th_take_is_for_the_n_th_post() -> None:
    trace = run({"VME0": [add(64, **APART), post(0), add(64, **APART), post(0)], "VME1": [take(0), take(0)]})
    assert times(trace)[1] == [(0, 16), (16, 28)]


def test_a_post_needs_no_take() -> None:
    assert run({"VME0": [post(0), post(0)], "VME1": [take(0)]}).violations == ()


def test_a_barrier_lets_all_go_when_the_last_result_before_it_is_visible() -> None:
    # VME1 is done at 20 and visible at 24, which all three leave with.
    streams = {
        "VME0": [add(64, **APART), barrier(1, 3), add(8, **APART)],
        "VME1": [add(128, **APART), barrier(1, 3)],
        "MTI0": [barrier(1, 3)],
    }
    trace = run(streams)
    assert times(trace) == [[(0, 12), (12, 24), (24, 29)], [(0, 20), (20, 24)], [(0, 24)]]


def test_barriers_with_one_number_meet_turn_by_turn() -> None:
    streams = {
        "VME0": [barrier(0, 2), add(64, **APART), barrier(0, 2)],
        "VME1": [add(8, **APART), barrier(0, 2), barrier(0, 2)],
    }
    # The first ends when the add of VME1 is visible, at 5 + 4; the second when that of VME0 is, at 9 + 12 + 4.
    assert times(run(streams)) == [[(0, 9), (9, 21), (21, 25)], [(0, 5), (5, 9), (9, 25)]]


def races(streams: dict[str, Sequence[Instruction]]) -> int:
    return sum(v.kind == "race" for v in run(streams, data=True).violations)


READ, WRITE = move("mcopy", ("L1", 0), ("LLB", 0), 64), move("mcopy", ("LLB", 4096), ("L1", 0), 64)


def test_tokens_and_barriers_order() -> None:
    assert races({"MTO0": [READ], "MTI0": [WRITE]}) == 1
    assert races({"MTO0": [READ, post(0)], "MTI0": [take(0), WRITE]}) == 0
    assert races({"MTO0": [post(0), READ], "MTI0": [take(0), WRITE]}) == 1
    assert races({"MTO0": [READ, barrier(0, 2)], "MTI0": [barrier(0, 2), WRITE]}) == 0
    assert races({"MTO0": [barrier(0, 2), READ], "MTI0": [barrier(0, 2), WRITE]}) == 1


def test_order_by_a_token_is_transitive() -> None:
    streams = {"MTO0": [READ, post(0)], "VME0": [take(0), barrier(5, 2)], "MTI0": [barrier(5, 2), WRITE]}
    assert races(streams) == 0


def only(trace: Trace) -> str:
    assert trace.summary.violation_count == 1
    return str(trace.violations[0])


def test_a_take_without_a_post() -> None:
    found = only(run({"VME0": [post(2)], "VME1": [take(2), take(2)]}))
    assert found.startswith("deadlock: takes token 2 more often than the 1 times that it is posted (queue 1")


def test_a_barrier_to_which_too_few_come() -> None:
    trace = run({"VME0": [barrier(4, 3)], "VME1": [barrier(4, 3)]})
    assert [v.kind for v in trace.violations] == ["deadlock", "deadlock"]
    assert "meets 3 queues at barrier 4, but 2 have one" in trace.violations[0].message


def test_a_cycle_of_tokens() -> None:
    found = only(run({"VME0": [take(1), post(0)], "VME1": [take(0), post(1)]}))
    assert "queue 0 (VME0) at instruction 0 waits for 2 of queue 1 (take of op)" in found
    assert "queue 1 (VME1) at instruction 0 waits for 2 of queue 0 (take of op)" in found


def test_a_token_belongs_to_two_queues() -> None:
    for both, other in ((post(0), take(0)), (take(0), post(0))):
        trace = run({"VME0": [both], "VME1": [both], "MTI0": [other, other]})
        assert "token 0 is also for queue 0" in next(v.message for v in trace.violations if v.kind == "operand")
