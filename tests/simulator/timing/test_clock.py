"""Cycles of small programs, derived by hand in the comments."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from girih.ir.isa.table import Instruction, make
from girih.ir.isa.timing import instruction_cost
from girih.ir.program import Program
from girih.simulator import simulate
from tests.support.simulator.programs import APART, TINY, add, array, move, program, run, times, wait


def test_one_vector_instruction() -> None:
    # issue 4, body 64/8 = 8; the result is visible 4 cycles later.
    trace = run({"VME0": [add(64, **APART)]})
    assert times(trace) == [[(0, 12)]]
    assert trace.cycles == 16
    assert trace.counters["vme_total_cycle"] == 12
    assert trace.summary.busy == {"VME": 12}


def test_an_engine_starts_the_next_while_the_result_travels() -> None:
    assert times(run({"VME0": [add(64, **APART), add(8, **APART)]})) == [[(0, 12), (12, 17)]]


def test_special_functions_and_reductions() -> None:
    # exp: 2 rows of ceil(9/8) = 2 steps, 4 times slower. sum: 2 rows of 2 steps.
    shape = {"n0": 1, "n1": 2, "n2": 9}
    exp = make(
        "vexp.v", 0, shape | array("dst", "L1", 0, "float32", 0, 64, 4) | array("a", "IM", 0, "float32", 0, 64, 4)
    )
    total = make(
        "vred.sum", 0, shape | array("dst", "L1", 0, "float32", 0, 4) | array("a", "IM", 0, "float32", 0, 64, 4)
    )
    assert times(run({"VME0": [exp, total]})) == [[(0, 20), (20, 28)]]


def test_matrix_instruction() -> None:
    # ceil(9/8) * ceil(8/8) * 10 steps; IM, L1 and L1W are apart. latency 8.
    operands = array("dst", "IM", 0, "float32", 32, 4) | array("a", "L1", 0, "float32", 40, 4)
    matmul = make("mmatmul", 0, {"m": 9, "n": 8, "k": 10} | operands | array("b", "L1W", 0, "float32", 32, 4))
    trace = run({"MME0": [matmul]})
    assert times(trace) == [[(0, 24)]]
    assert trace.cycles == 32
    assert trace.counters["macs"] == 720


def test_two_engines_run_concurrently() -> None:
    trace = run({"VME0": [add(64, **APART)], "VME1": [add(128, **APART)]})
    assert times(trace) == [[(0, 12)], [(0, 20)]]
    assert trace.cycles == 24


def test_a_wait_ends_when_the_result_is_visible() -> None:
    # The first one is visible at 12 + 4; waits themselves take no time.
    trace = run({"VME0": [add(64, **APART)], "VME1": [wait(0, 1), add(8, **APART)]})
    assert times(trace) == [[(0, 12)], [(0, 16), (16, 21)]]
    assert trace.counters["syn_wait"] == 16
    assert trace.counters["syn_inst"] == 1


def test_a_wait_can_count_a_wait() -> None:
    trace = run({"VME0": [add(64, **APART)], "VME1": [wait(0, 1)], "MME0": [wait(1, 1)]})
    assert times(trace) == [[(0, 12)], [(0, 16)], [(0, 16)]]


def test_queues_retire_in_order() -> None:
    # The wait of VME1 is over at 0, but retires after the instruction before it, at 5 + 4.
    trace = run({"VME1": [add(8, **APART), wait(0, 0)], "VME0": [wait(0, 2)]})
    assert times(trace) == [[(0, 5), (5, 5)], [(0, 9)]]


def test_one_transfer() -> None:
    # issue 8, then 256 B at 8 B/cycle of the main memory; visible after 8 + 50 + 20 more.
    trace = run({"DMR": [move("dcopy", ("DDR", 0), ("LLB", 0), 256)]})
    assert times(trace) == [[(0, 40)]]
    assert trace.cycles == 118
    assert trace.counters["ddr_link_byte"] == trace.counters["llb-write_link_byte"] == 256


def test_short_pieces_cost_whole_bursts() -> None:
    # 4 pieces of 4 B are 4 bursts of 32 B on the main memory's link: 128/8 = 16.
    source, target = array("src", "DDR", 0, "float32", 0, 0, 64, 4), array("dst", "LLB", 0, "float32", 0, 0, 4, 4)
    copy = make("dcopy", 0, {"n0": 1, "n1": 1, "n2": 4, "n3": 1} | source | target)
    trace = run({"DMR": [copy]})
    assert times(trace) == [[(0, 24)]]
    assert trace.counters["ddr_link_byte"] == 128
    assert trace.counters["llb-write_link_byte"] == 16


def test_two_transfers_share_a_link() -> None:
    # Both cross the main memory's link: 4 B/cycle each. The short one ends at 8 + 128/4 = 40; the other one has
    # moved 128 B by then, and the rest takes 128/8 = 16.
    streams = {
        "DMR": [move("dcopy", ("DDR", 0), ("LLB", 0), 256)],
        "DMW": [move("dcopy", ("LLB", 4096), ("DDR", 4096), 128)],
    }
    assert times(run(streams)) == [[(0, 56)], [(0, 40)]]


def test_a_transfer_below_its_share_leaves_the_rest() -> None:
    # MTI0 and MTI1 are capped at 16 B/cycle each, DMW at the 8 of the main memory: together 40 on a link of 32.
    # Fair shares: DMW 8, the others 12 each. 96 B: issue 4, then 96/12 = 8, until DMW begins at 8 (48 B are left at
    # 16 B/cycle before, since 2*16 <= 32).
    streams = {
        "MTI0": [move("mcopy", ("LLB", 0), ("L1", 0), 96)],
        "MTI1": [move("mcopy", ("LLB", 0), ("L1", 0), 96)],
        "DMW": [move("dcopy", ("LLB", 0), ("DDR", 0), 256)],
    }
    # Cycles 4 to 8: 64 B; the other 32 B at 12 B/cycle take 2.67.
    assert times(run(streams)) == [[(0, 11)], [(0, 11)], [(0, 40)]]


def test_bank_conflicts_slow_an_instruction() -> None:
    # Three operands of 32 B/cycle in one bank of 64: 8 cycles become 12.
    trace = run({"VME0": [add(64, dst=0, a=1024, b=2048)]})
    assert times(trace) == [[(0, 16)]]
    assert trace.counters["l1_conflict"] == 4


def test_bank_conflicts_slow_both_sides() -> None:
    # While the copy in puts 16 B/cycle on the bank, the add (48 of its own on the same bank) is not slowed: 64 is
    # what the bank serves. With a third operand there (96 + 16 = 112 > 64) both run at 64/112.
    copy = move("mcopy", ("LLB", 0), ("L1", 4096), 64)
    trace = run({"VME0": [add(64, dst=0, a=1024, b=2048)], "MTI0": [copy]})
    # The copy needs 4 cycles at full rate: 7 at 4/7, until 11. By then the add has done 4 of 8 cycles; the other 4
    # run at 2/3 and take 6.
    assert times(trace) == [[(0, 17)], [(0, 11)]]


def test_broadcast_writes_every_core_at_once() -> None:
    copy = move("mbcast", ("LLB", 0), ("L1", 0), 256, cores=0b11)
    trace = run({"MTI0": [copy]})
    assert times(trace) == [[(0, 20)]]
    assert trace.counters["llb-read_link_byte"] == 256


def test_an_instruction_with_an_extent_of_zero_takes_its_issue() -> None:
    assert times(run({"VME0": [add(0)]})) == [[(0, 4)]]


def test_a_host_kernel_takes_its_issue_and_its_bytes() -> None:
    from girih.ir.program import HostKernel, Placed

    kernel = HostKernel("k", "", "", (Placed("x", 0, "float32", (10,)),), (Placed("y", 64, "float32", (10,)),))
    call = program({"HOST": [make("hcall", 0, {"kernel": 0})]}, kernels=(kernel,))
    assert times(simulate(call, TINY, {}, {}, data=False)) == [[(0, 1020)]]


ENGINES = ["VME0", "VME1", "MTI0", "MTI1", "MTO0", "DMR", "DMW"]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Any instructions, and waits for what was drawn before them, so that there is no deadlock."""
    streams: dict[str, list[Instruction]] = {name: [] for name in ENGINES}
    for _ in range(draw(st.integers(1, 30))):
        name = draw(st.sampled_from(ENGINES))
        other = draw(st.integers(0, len(ENGINES) - 1))
        count = len(streams[ENGINES[other]])
        if ENGINES[other] != name and draw(st.booleans()):
            streams[name].append(wait(other, draw(st.integers(0, count))))
        size, at = draw(st.integers(1, 300)), draw(st.integers(0, 500)) * 64
        if name.startswith("VME"):
            streams[name].append(add(size, dst=at, a=draw(st.integers(0, 500)) * 64, b=at))
        else:
            ends = {"MTI": ("LLB", "L1"), "MTO": ("L1", "LLB"), "DMR": ("DDR", "LLB"), "DMW": ("LLB", "DDR")}
            source, target = ends[name[:3]]
            streams[name].append(move("dcopy" if name[0] == "D" else "mcopy", (source, at), (target, at), size))
    return program(streams)


@given(programs())
@settings(deadline=None)
def test_laws_of_time(source: Program) -> None:
    trace = simulate(source, TINY, {}, {}, data=False)
    assert trace.violations == ()
    retired: list[list[int]] = []
    for place, stream, moments in zip(source.queues, source.streams, times(trace), strict=True):
        free, done, own = 0, 0, list[int]()
        for instruction, (start, end) in zip(stream, moments, strict=True):
            cost = instruction_cost(TINY, TINY.engine[place.engine], instruction)
            # In order, at once, and never faster than alone.
            assert start == free
            assert end >= start + cost.busy
            free, done = end, max(done, end + cost.latency)
            own.append(done)
        retired.append(own)
    assert trace.cycles == max(own[-1] for own in retired if own)
    for stream, moments in zip(source.streams, times(trace), strict=True):
        for instruction, (start, end) in zip(stream, moments, strict=True):
            if instruction.mnemonic == "wait":
                other, count = (int(v) for v in instruction.values)
                assert end == max(start, retired[other][count - 1] if count else 0)
    for link in TINY.links:
        assert trace.counters[f"{link.name}_link_byte"] <= link.bytes_per_cycle * trace.cycles


@pytest.mark.parametrize("first", [0, 1])
def test_the_order_of_queues_does_not_matter(first: int) -> None:
    queues = {"DMR": [move("dcopy", ("DDR", 0), ("LLB", 0), 256)], "VME0": [add(64)], "MTI0": []}
    order = list(queues)
    order = order[first:] + order[:first]
    trace = run({name: queues[name] for name in order})
    assert dict(zip(order, times(trace), strict=True))["DMR"] == [(0, 40)]


def test_time_does_not_depend_on_the_clock_of_the_machine() -> None:
    slow = replace(TINY, frequency=1e6)
    source: Program = program({"VME0": [add(64, **APART)]}, batch=2)
    summary = simulate(source, slow, {}, {}, data=False).summary
    assert summary.cycles == 16
    assert summary.seconds == pytest.approx(16e-6)
    assert summary.items_per_second == pytest.approx(2 / 16e-6)
