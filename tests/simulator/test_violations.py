"""Everything a program may do wrong is found, and told with its place."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from girih.ir.isa import Instruction, make
from girih.ir.trace import Trace, Violation
from girih.simulator import simulate

from .micro import TINY, add, array, move, program, wait


def run(streams: dict[str, Sequence[Instruction]], *, data: bool = False) -> Trace:
    return simulate(program(streams), TINY, {}, {}, data=data)


def only(trace: Trace) -> Violation:
    assert trace.summary.violation_count == 1
    return trace.violations[0]


def fill(address: int, size: int, memory: str = "L1") -> Instruction:
    return make("vfill.s", 0, {"n0": 1, "n1": 1, "n2": size} | array("dst", memory, address, "float32", 0, 0, 4))


def test_beyond_the_end() -> None:
    found = only(run({"VME0": [add(8, dst=0, a=16384, b=32768), fill(65536 - 28, 8)]}))
    assert (found.kind, found.queue, found.index, found.mnemonic, found.op) == ("bounds", 0, 1, "vfill.s", "op")
    assert found.address == 65536 + 3
    assert found.cycle == 5
    assert "L1" in found.message and "0x10000" in found.message


def test_before_the_beginning() -> None:
    backwards = make("vfill.s", 0, {"n0": 1, "n1": 1, "n2": 8} | array("dst", "L1", 24, "float32", 0, 0, -4))
    found = only(run({"VME0": [backwards]}, data=True))
    assert (found.kind, found.address) == ("bounds", -4)


@pytest.mark.parametrize(("base", "stride"), [(2, 4), (0, 6)])
def test_misaligned(base: int, stride: int) -> None:
    odd = make("vfill.s", 0, {"n0": 1, "n1": 1, "n2": 8} | array("dst", "L1", base, "float32", 0, 0, stride))
    assert only(run({"VME0": [odd]})).kind == "alignment"


def test_memory_that_the_engine_cannot_reach() -> None:
    found = only(run({"VME0": [fill(0, 8, "LLB")]}))
    assert found.kind == "access"
    assert "VME cannot write dst to LLB" in found.message
    assert "cannot read src from DDR" in only(run({"MTI0": [move("mcopy", ("DDR", 0), ("L1", 0), 8)]})).message


def test_engine_that_does_not_run_the_class() -> None:
    found = only(run({"DMR": [move("mcopy", ("DDR", 0), ("LLB", 0), 8)]}))
    assert (found.kind, found.message) == ("access", "DMR does not run copy instructions")


def test_core_memory_from_a_cluster_engine() -> None:
    kinds = {v.message for v in run({"DMR": [move("dcopy", ("DDR", 0), ("L1", 0), 8)]}).violations}
    assert any("belongs to no core" in message for message in kinds)


def test_operands_that_do_not_exist() -> None:
    beyond = make("vfill.s", 0, {"n0": 1, "n1": 1, "n2": 1, "dst.mem": 9})
    assert only(run({"VME0": [beyond]})).kind == "operand"
    assert only(run({"MTI0": [move("mbcast", ("LLB", 0), ("L1", 0), 8, cores=0b100)]})).kind == "operand"
    assert only(run({"HOST": [make("hcall", 0, {"kernel": 3})]})).kind == "operand"


def test_dtype_without_lanes() -> None:
    wide = make("vfill.s", 0, {"n0": 1, "n1": 1, "n2": 1} | array("dst", "L1", 0, "int64", 0, 0, 8))
    assert "no lanes for int64" in only(run({"VME0": [wide]})).message


def test_read_of_what_nothing_wrote() -> None:
    source = add(8, dst=512, a=0, b=0)
    found = run({"VME0": [fill(0, 7), source, add(8, dst=0, a=512, b=512)]}, data=True)
    assert {v.index for v in found.violations} == {1}
    assert found.violations[0].kind == "uninitialised"
    assert run({"VME0": [fill(0, 8), source]}, data=True).summary.violation_count == 0


def test_an_accumulation_reads_its_destination() -> None:
    vred = (
        {"n0": 1, "n1": 1, "n2": 8} | array("dst", "L1", 512, "float32", 0, 4) | array("a", "L1", 0, "float32", 0, 0, 4)
    )
    for acc, count in ((0, 0), (1, 1)):
        trace = run({"VME0": [fill(0, 8), make("vred.sum", 0, vred | {"acc": acc})]}, data=True)
        assert trace.summary.violation_count == count


def test_deadlock_of_two_queues() -> None:
    trace = run({"VME0": [fill(0, 8), wait(1, 1)], "VME1": [wait(0, 2)], "MTI0": [wait(1, 1)]}, data=True)
    found = only(trace)
    assert found.kind == "deadlock"
    assert "queue 0 (VME0) at instruction 1 waits for 1 of queue 1" in found.message
    assert "queue 1 (VME1) at instruction 0 waits for 2 of queue 0" in found.message
    assert trace.end[1].tolist() == [-1]


def test_waits_that_nothing_can_satisfy() -> None:
    assert "which has 1" in only(run({"VME0": [wait(1, 2)], "VME1": [fill(0, 8)]})).message
    assert "there are 1" in only(run({"VME0": [wait(7, 1)]})).message
    assert "waits for 1" in only(run({"VME0": [wait(0, 1)]})).message


def test_only_the_first_are_kept() -> None:
    trace = run({"VME0": [fill(2, 8)] * 50})
    assert trace.summary.violation_count == 50
    assert len(trace.violations) == 20


def test_a_broken_instruction_is_not_executed_and_the_rest_is() -> None:
    trace = run({"VME0": [fill(1 << 20, 8), fill(0, 8), add(8, dst=64)]}, data=True)
    assert [v.kind for v in trace.violations] == ["bounds"]


def races(streams: dict[str, Sequence[Instruction]]) -> list[Violation]:
    return [v for v in run(streams, data=True).violations if v.kind == "race"]


def test_race_of_a_reader_and_a_later_writer() -> None:
    copy = move("mcopy", ("L1", 0), ("L1", 1024), 64)
    assert races({"MTI0": [copy], "VME0": [wait(0, 1), fill(0, 16)]}) == []
    found = races({"MTI0": [copy], "VME0": [fill(0, 16)]})
    assert len(found) == 1
    assert "L1 of core 0" in found[0].message and "nothing orders the two" in found[0].message


def test_neighbours_do_not_race() -> None:
    copy = move("mcopy", ("L1", 0), ("L1", 1024), 64)
    assert races({"MTI0": [copy], "VME0": [fill(64, 16), fill(960, 16), fill(1088, 16)]}) == []
    assert len(races({"MTI0": [copy], "VME0": [fill(1084, 16)]})) == 1


def test_interleaved_stripes_do_not_race() -> None:
    def stripe(at: int) -> Instruction:
        return make("vfill.s", 0, {"n0": 1, "n1": 4, "n2": 2} | array("dst", "L1", at, "float32", 0, 16, 4))

    def column(at: int) -> Instruction:
        ends = array("src", "L1", 4096, "float32", 0, 0, 8, 4) | array("dst", "L1", at, "float32", 0, 0, 16, 4)
        return make("mcopy", 0, {"n0": 1, "n1": 1, "n2": 4, "n3": 2} | ends)

    assert races({"MTI0": [column(8)], "VME0": [stripe(0)]}) == []
    assert len(races({"MTI0": [column(4)], "VME0": [stripe(0)]})) == 1


def test_order_is_transitive() -> None:
    middle = [wait(0, 1), move("mcopy", ("LLB", 4096), ("L1", 4096), 4)]
    last = [wait(1, 2), move("mcopy", ("L1", 0), ("LLB", 0), 64)]
    assert races({"VME0": [fill(0, 16)], "MTI0": middle, "MTO0": last}) == []
    assert len(races({"VME0": [fill(0, 16)], "MTI0": middle, "MTO0": [wait(1, 0), last[1]]})) == 1


def test_a_wait_orders_only_what_it_counts() -> None:
    second = [fill(4096, 16), fill(0, 16)]
    read = move("mcopy", ("L1", 0), ("LLB", 0), 64)
    assert len(races({"VME0": second, "MTO0": [wait(0, 1), read]})) == 1
    assert races({"VME0": second, "MTO0": [wait(0, 2), read]}) == []


def test_a_broadcast_races_in_every_core() -> None:
    copy = move("mbcast", ("LLB", 0), ("L1", 0), 64, cores=0b11)
    assert len(races({"MTI0": [copy], "VME1": [fill(0, 16)]})) == 1
