"""Everything a program may do wrong is found, and told with its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from girih.ir.isa.table import Instruction, make
from girih.ir.program import ProgramOp
from girih.ir.trace import Site, Trace, Violation, ViolationKind
from girih.simulator import simulate
from tests.support.simulator.programs import TINY, add, array, move, program, wait


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


def test_a_race_names_both_instructions() -> None:
    ops = (ProgramOp("conv1"), ProgramOp("relu1"))
    copy = move("mcopy", ("L1", 64), ("L1", 1024), 64)
    writer = replace(fill(0, 20), op=1)
    streams = {"MTI0": [copy], "VME0": [fill(4096, 8), writer]}
    trace = simulate(program(streams, ops=ops), TINY, {}, {})
    found = next(v for v in trace.violations if v.kind == "race")
    # Bytes 64 to 80 are those of both; the copy begins at once, the second fill after 5 cycles.
    assert (found.queue, found.index, found.mnemonic, found.op, found.address, found.cycle) == (
        1, 1, "vfill.s", "relu1", 64, 5
    )  # fmt: skip
    assert found.other == Site(0, 0, "mcopy", "conv1", 64, 0)
    assert str(found) == (
        "race: writes L1 of core 0 at 0x40, which queue 0 (MTI0) read, and nothing orders the two (queue 1, instruction "
        "1, vfill.s of relu1, cycle 5; the other: queue 0, instruction 0, mcopy of conv1 from 0x40 on, cycle 0)"
    )


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


def test_elements_of_a_destination_that_overlap() -> None:
    twice = make("vfill.s", 0, {"n0": 1, "n1": 2, "n2": 8} | array("dst", "L1", 0, "float32", 0, 16, 4))
    found = only(run({"VME0": [twice]}))
    assert (found.kind, found.message[:28]) == ("operand", "elements of dst overlap: str")


def gather(index: str = "int32", **fields: int) -> Instruction:
    table = array("a", "L1", 0, "float32", 0, 32, 4) | array("b", "L1", 1024, index, 0, 4)
    return make("vgather.row", 0, {"n0": 1, "n1": 2, "n2": 8, "entries": 4} | table
                | array("dst", "L1", 2048, "float32", 0, 32, 4) | fields)  # fmt: skip


def number(value: int, address: int) -> Instruction:
    field = array("dst", "L1", address, "int32", 0, 0, 4)
    return make("vfill.s", 0, {"n0": 1, "n1": 1, "n2": 1, "imm0": float(value)} | field)


def test_indices_are_integers() -> None:
    assert "b holds indices, and float32 is no integer" in only(run({"VME0": [gather("float32")]})).message


@pytest.mark.parametrize("bad", [4, -1])
def test_an_index_beyond_the_entries(bad: int) -> None:
    streams = {"VME0": [fill(0, 32), number(2, 1024), number(bad, 1028), gather()]}
    found = only(run(streams, data=True))
    assert (found.kind, found.index, found.address) == ("bounds", 3, 1024)
    assert f"b holds the index {bad}, and there are 4 entries" in found.message


def test_only_what_a_gather_picks_has_to_be_there() -> None:
    picks = [number(1, 1024), number(3, 1028), gather()]
    assert run({"VME0": [fill(32, 8), fill(96, 8), *picks]}, data=True).violations == ()
    assert only(run({"VME0": [fill(32, 16), *picks]}, data=True)).kind == "uninitialised"


def test_only_what_a_scatter_picks_is_written() -> None:
    fields = array("dst", "L1", 4096, "float32", 0, 32, 4) | array("a", "L1", 0, "float32", 0, 32, 4)
    scatter = make("vscatter.row", 0, {"n0": 1, "n1": 2, "n2": 8, "entries": 4} | fields
                   | array("b", "L1", 1024, "int32", 0, 4))  # fmt: skip
    before = [fill(0, 16), number(1, 1024), number(3, 1028), scatter]
    for entry, count in ((0, 1), (1, 0), (2, 1), (3, 0)):
        trace = run({"VME0": [*before, add(8, dst=8192, a=4096 + 32 * entry, b=0)]}, data=True)
        assert [v.kind for v in trace.violations] == ["uninitialised"] * count


def test_without_the_sanitizer_only_what_cannot_be_executed_is_found() -> None:
    streams = {"VME0": [fill(1 << 20, 8), add(8, dst=512)], "VME1": [wait(0, 1)], "MTI0": [wait(7, 1)]}
    trace = simulate(program(streams), TINY, {}, {}, sanitize=False)
    assert {v.kind for v in trace.violations} == {"bounds", "deadlock"}


def test_the_page_tells_every_kind() -> None:
    page = Path(__file__).parents[3] / "docs" / "simulator.md"
    assert tuple(re.findall(r"^\| `([a-z]+)` \|", page.read_text(), flags=re.MULTILINE)) == get_args(ViolationKind)
