"""The rules of time in ``docs/timing.md``: cycles of micro-programs on `tiny`, derived by hand in the comments.

More of them are in ``test_clock.py`` and ``test_sync.py``; the page names those of each rule.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from girih.ir.isa.row import Rule
from girih.ir.isa.table import ROWS, Instruction, make
from girih.ir.load_machine import load_machine
from girih.ir.program import HostKernel, Placed
from girih.simulator import simulate
from tests.support.simulator.programs import APART, add, array, move, program, run, times

PAGE = Path(__file__).parents[3] / "docs" / "timing.md"


def test_every_rule_on_the_page_has_its_programs() -> None:
    known = {
        f"{path.name}::{node.name}"
        for path in Path(__file__).parents[1].rglob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    rules = re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    assert len(rules) == 17
    for rule in rules:
        named = re.findall(r"`(test_\w+\.py::test_\w+)`", rule)
        assert named and set(named) <= known, rule.splitlines()[0]


def test_every_latency_rule_of_the_table_is_on_the_page() -> None:
    text = PAGE.read_text()
    used = {row.latency for row in ROWS.values()}
    assert used == set(get_args(Rule))
    assert all(f"`{rule}`" in text for rule in used)


def bank_of_l1(number: int) -> int:
    """The address at which a bank of `tiny`'s local memory begins."""
    return number * 16384


def test_windows() -> None:
    # 2*3 outputs, 2*2 positions of the kernel, ceil(9/8) = 2 steps along the channels: 48. a is read for each of them:
    # 2*3*2*2*9 numbers of 4 B in 48 cycles are 18 B/cycle, which its bank serves.
    fields = {"oh": 2, "ow": 3, "p": 1, "n": 9, "kh": 2, "kw": 2, "sh": 1, "sw": 1, "dh": 1, "dw": 1, "H": 3, "W": 4}
    ends = array("dst", "IM", 0, "float32", 108, 36, 36, 4) | array("a", "L1", 0, "float32", 144, 36, 36, 4)
    pool = make("vpool.max", 0, fields | ends)
    weights = array("b", "L1", bank_of_l1(1), "float32", 72, 36, 4)
    trace = run({"VME0": [pool, make("vdwconv.vv", 0, fields | ends | weights)]})
    assert times(trace) == [[(0, 52), (52, 104)]]


def test_positions_share_the_lanes() -> None:
    # 5 positions of 3 channels, with the same 3 weights, are ceil(15/8) = 2 steps for each of 2*2 positions of the
    # kernel: 8, and 20 if each position had a step of its own.
    fields = {"oh": 1, "ow": 1, "n": 3, "kh": 2, "kw": 2, "sh": 1, "sw": 1, "dh": 1, "dw": 1, "H": 2, "W": 2}
    ends = array("dst", "IM", 0, "float32", 0, 0, 12, 4) | array("a", "L1", 0, "float32", 72, 12, 12, 4)
    weights = array("b", "L1", bank_of_l1(1), "float32", 24, 12, 4)
    together = make("vdwconv.vv", 0, fields | {"p": 5} | ends | weights)
    alone = make("vdwconv.vv", 0, fields | {"p": 1} | ends | weights)
    trace = run({"VME0": [together, *[alone] * 5]})
    assert times(trace) == [[(0, 12), *((12 + 8 * i, 20 + 8 * i) for i in range(5))]]


def test_lanes_are_those_of_the_result_and_of_what_is_reduced() -> None:
    # stcp920: issue 16; 64 lanes of float16 and 32 of float32. 128 elements: 2 steps to halves, 4 to singles; a sum of
    # halves takes 2 although its result is single, and each of the 6 positions of a window takes 2 as well.
    chip = load_machine("stcp920")
    halves = array("a", "L1", 0, "float16", 0, 0, 2)
    shape = {"n0": 1, "n1": 1, "n2": 128} | halves
    steps = dict.fromkeys(("sh", "sw", "dh", "dw"), 1)
    window = {"oh": 1, "ow": 1, "p": 1, "n": 128, "kh": 2, "kw": 3, "H": 2, "W": 3} | steps
    window |= array("a", "L1", 0, "float16", 0, 0, 0, 2)
    streams = {
        "VME0": [
            make("vneg.v", 0, shape | array("dst", "IM", 0, "float16", 0, 0, 2)),
            make("vneg.v", 0, shape | array("dst", "IM", 0, "float32", 0, 0, 4)),
            make("vred.sum", 0, shape | array("dst", "IM", 0, "float32", 0, 4)),
            make("vpool.sum", 0, window | array("dst", "IM", 0, "float32", 0, 0, 0, 4)),
        ]
    }
    trace = simulate(program(streams), chip, {}, {}, data=False)
    assert times(trace) == [[(0, 18), (18, 38), (38, 56), (56, 84)]]


def test_a_matrix_instruction_of_stcp920() -> None:
    # 64 x 32 products a cycle: 2 blocks of rows, 1 of columns, 100 steps and 38 to fill each; issue 16, visible 48
    # later. With two bytes an operand: a gives 64*100*2*2 B in 276 cycles, 93 B/cycle, and b 32*100*2*2 B, 46 B/cycle.
    chip = load_machine("stcp920")
    ends = array("dst", "IM", 0, "float32", 128, 4) | array("a", "L1", 0, "float16", 200, 2)
    matmul = make("mmatmul", 0, {"m": 128, "n": 32, "k": 100} | ends | array("b", "L1W", 0, "float16", 64, 2))
    trace = simulate(program({"MME0": [matmul]}), chip, {}, {}, data=False)
    assert times(trace) == [[(0, 292)]]
    assert trace.cycles == 340


def test_the_array_is_filled_for_each_block_of_results() -> None:
    # As above, in an array that takes 64 + 32 - 2 cycles to fill and drain: 94 more for each of 2 blocks, whether the
    # products are of 100 positions or, at twice the rate, of bytes.
    chip = load_machine("stcp920")
    engines = (replace(e, fill=94) if e.name == "MME" else e for e in chip.engines)
    chip = replace(chip, engines=tuple(engines))
    for dtype, size, products in (("float16", 2, 200), ("int8", 1, 100)):
        ends = array("dst", "IM", 0, "float32", 128, 4) | array("a", "L1", 0, dtype, 100 * size, size)
        b = array("b", "L1W", 0, dtype, 32 * size, size)
        full = make("mmatmul", 0, {"m": 128, "n": 32, "k": 100} | ends | b)
        empty = make("mmatmul", 0, {"m": 128, "n": 32, "k": 0} | ends | b)
        busy = 16 + products + 2 * 94
        trace = simulate(program({"MME0": [full, empty]}), chip, {}, {}, data=False)
        assert times(trace) == [[(0, busy), (busy, busy + 16)]]


def test_a_matrix_instruction_reads_again_for_every_block() -> None:
    # 16 x 24 of 8 products: 2*3 blocks, 48 cycles. a is read for 3 blocks of columns: 16*8*4*3 B in 48 cycles, 32
    # B/cycle. dst is read and written: 2*16*24*4 B, 64 B/cycle. Both in one bank of 64: 96/64, 72 cycles.
    ends = array("dst", "IM", 0, "float32", 96, 4) | array("a", "IM", 4096, "float32", 32, 4)
    fields = {"m": 16, "n": 24, "k": 8, "acc": 1} | ends | array("b", "L1W", 0, "float32", 96, 4)
    assert times(run({"MME0": [make("mmatmul", 0, fields)]})) == [[(0, 76)]]
    # With a in the other bank of the accumulators, nothing is slowed.
    fields |= array("a", "IM", 8192, "float32", 32, 4)
    assert times(run({"MME0": [make("mmatmul", 0, fields)]})) == [[(0, 52)]]


def test_a_gather_pays_for_every_entry() -> None:
    # 3 entries of 20 B are 2 bursts of 16 B each, and the 12 B of the indices are one: 112 B on a link of 32. The
    # engine moves 72 B at 16: 4.5, which is more than 3.5; 5 whole cycles. Visible after 4 + 20 more.
    fields = {"n0": 1, "n1": 3, "n2": 5, "entries": 100} | array("dst", "L1", 0, "float32", 0, 20, 4)
    table = array("src", "LLB", 0, "float32", 0, 20, 4) | array("index", "LLB", 8192, "int32", 0, 4)
    trace = run({"MTI0": [make("mgather", 0, fields | table)]})
    assert times(trace) == [[(0, 9)]]
    assert trace.cycles == 33
    assert trace.counters["llb-read_link_byte"] == 112


def test_a_scatter_pays_for_every_entry() -> None:
    # 4 entries of 8 B are 4 bursts of 32 B on the main memory's link of 8 B/cycle: 16. Source and indices are dense:
    # 32 B and 16 B on the link of the shared memory.
    fields = {"n0": 1, "n1": 4, "n2": 2, "entries": 100} | array("dst", "DDR", 0, "float32", 0, 8, 4)
    dense = array("src", "LLB", 0, "float32", 0, 8, 4) | array("index", "LLB", 4096, "int32", 0, 4)
    trace = run({"DMW": [make("dscatter", 0, fields | dense)]})
    assert times(trace) == [[(0, 24)]]
    assert (trace.counters["ddr_link_byte"], trace.counters["llb-read_link_byte"]) == (128, 48)


def test_a_vector_gather_takes_the_time_of_what_it_moves() -> None:
    # 5 entries of ceil(9/8) = 2 steps; looking up every lane is 4 times slower.
    shape = {"n0": 1, "n1": 5, "n2": 9, "entries": 1000} | array("dst", "IM", 0, "float32", 0, 36, 4)
    rows = array("a", "L1", 0, "float32", 0, 36, 4) | array("b", "L1", bank_of_l1(3), "int32", 0, 4)
    lanes = array("a", "L1", 0, "float32", 0, 0, 4) | array("b", "L1", bank_of_l1(3), "int32", 0, 36, 4)
    trace = run({"VME0": [make("vgather.row", 0, shape | rows), make("vgather.lane", 0, shape | lanes)]})
    assert times(trace) == [[(0, 14), (14, 58)]]


def test_a_fill_crosses_the_links_of_its_destination() -> None:
    # 100 B into local memory at 16 B/cycle: 6.25. 256 B into the shared memory: 16, more than the 8 of its link.
    def fill(mnemonic: str, memory: str, size: int) -> Instruction:
        ends = array("dst", memory, 0, "uint8", 0, 0, 0, 1)
        return make(mnemonic, 0, {"n0": 1, "n1": 1, "n2": 1, "n3": size} | ends)

    trace = run({"MTI0": [fill("mfill", "L1", 100)], "DMR": [fill("dfill", "LLB", 256)]})
    assert times(trace) == [[(0, 11)], [(0, 24)]]
    assert trace.cycles == 24 + 8 + 20
    assert trace.counters["llb-write_link_byte"] == 256


def test_turning_on_the_way_moves_runs_on_both_sides() -> None:
    # 8 x 8 singles. Copied with a stride of 32 B, every one of them is a burst of 32 B: 2048 B at 8 B/cycle. Turned,
    # the source is one run of 256 B.
    turned = array("dst", "LLB", 0, "float32", 0, 32, 4, 4) | array("src", "DDR", 0, "float32", 0, 32, 4, 4)
    strided = array("dst", "LLB", 0, "float32", 0, 0, 32, 4) | array("src", "DDR", 0, "float32", 0, 0, 4, 32)
    trans = make("dtrans", 0, {"n0": 1, "n1": 8, "n2": 8, "n3": 1} | turned)
    copy = make("dcopy", 0, {"n0": 1, "n1": 1, "n2": 8, "n3": 8} | strided)
    assert times(run({"DMR": [trans, copy]})) == [[(0, 40), (40, 304)]]


def rows_of_the_shared_memory(pitch: int) -> dict[str, Sequence[Instruction]]:
    """Two copies from and one to the shared memory, at 16 B/cycle each: 8 rows of 64 B."""
    box = {"n0": 1, "n1": 1, "n2": 8, "n3": 64}

    def shared(name: str, base: int) -> dict[str, int]:
        return array(name, "LLB", base, "uint8", 0, 0, pitch, 1)

    def local(name: str) -> dict[str, int]:
        return array(name, "L1", 0, "uint8", 0, 0, 64, 1)

    return {
        "MTI0": [make("mcopy", 0, box | shared("src", 0) | local("dst"))],
        "MTI1": [make("mcopy", 0, box | shared("src", 64) | local("dst"))],
        "MTO0": [make("mcopy", 0, box | shared("dst", 128) | array("src", "L1", bank_of_l1(1), "uint8", 0, 0, 64, 1))],
    }


def test_banks_take_turns_by_the_interleave() -> None:
    # 2 banks of 32 B/cycle, 1024 B in turn. Rows 2048 B apart are all in bank 0: 3 * 16 B/cycle on 32, and 512/16 = 32
    # cycles become 48. Rows 1024 B apart are in both banks: 24 each.
    assert times(run(rows_of_the_shared_memory(2048))) == [[(0, 52)]] * 3
    assert times(run(rows_of_the_shared_memory(1024))) == [[(0, 36)]] * 3


def test_an_operand_burdens_each_bank_with_its_part() -> None:
    # Of a, 192 of 256 B are in bank 0, like dst and b: 32 + 32 + 24 = 88 B/cycle on 64. 8 cycles become 11.
    trace = run({"VME0": [add(64, dst=0, a=bank_of_l1(1) - 192, b=1024)]})
    assert times(trace) == [[(0, 15)]]
    assert trace.counters["l1_conflict"] == 3


def test_rows_meet_only_the_banks_that_they_are_in() -> None:
    # Two rows of 128 B, in bank 0 and in bank 2; what is between them burdens nobody. a puts 16 B/cycle on bank 0, dst
    # and b 32 each: 80 on 64, 8 cycles become 10.
    rows = array("a", "L1", 0, "float32", 0, bank_of_l1(2), 4)
    dense = array("dst", "L1", 1024, "float32", 0, 128, 4) | array("b", "L1", 2048, "float32", 0, 128, 4)
    assert times(run({"VME0": [make("vadd.vv", 0, {"n0": 1, "n1": 2, "n2": 32} | rows | dense)]})) == [[(0, 14)]]


def test_what_a_bank_takes_from_a_transfer_its_link_does_not_give_to_others() -> None:
    streams = {
        "VME0": [add(512, dst=0, a=2048, b=4096)],
        "MTI0": [move("mcopy", ("LLB", 0), ("L1", 8192), 192)],
        "MTI1": [move("mcopy", ("LLB", 1024), ("L1", 8192), 192)],
        "DMW": [move("dcopy", ("LLB", 2048), ("DDR", 0), 256)],
    }
    # The add puts 96 B/cycle on bank 0 of core 0.
    # From 4: MTI0 and MTI1 at 16 B/cycle; 112 on 64, so that MTI0 and the add keep 4/7. MTI0 moves 36.57 B, MTI1 64 B.
    # From 8: DMW has 8 of the link's 32 B/cycle, the others 12 each; 108 on 64: MTI0 moves at 7.11. MTI1 does not go
    # faster for it: 128/12 = 10.67, until 19. MTI0 has moved 36.57 + 78.22 by then.
    # From 19: MTI0 has 16 again and keeps 4/7: 77.21 B at 9.14, until 28. DMW: 256/8 = 32, until 40.
    # The add has done 2.29 + 6.52 + 5.14 of 64 cycles at 28; the other 50.05 go at 64/96: until 103.08.
    assert times(run(streams)) == [[(0, 104)], [(0, 28)], [(0, 19)], [(0, 40)]]


def test_a_broadcast_waits_for_the_slowest_core() -> None:
    # The bank of core 1 serves the add (96 B/cycle) and the broadcast (16): both keep 4/7, in core 0 as well.
    streams = {
        "VME1": [add(64, dst=0, a=1024, b=2048)],
        "MTI0": [move("mbcast", ("LLB", 0), ("L1", 4096), 64, cores=0b11)],
    }
    assert times(run(streams)) == [[(0, 17)], [(0, 11)]]


def test_reads_and_writes_of_main_memory_share_its_link() -> None:
    # The host crosses no link. 128 B each at 4 B/cycle, from 8 to 40; with the host's call nothing changes.
    kernel = HostKernel("k", "", "", (Placed("x", 0, "float32", (10,)),), (Placed("y", 64, "float32", (10,)),))
    streams = {
        "DMR": [move("dcopy", ("DDR", 0), ("LLB", 0), 128)],
        "DMW": [move("dcopy", ("LLB", 4096), ("DDR", 4096), 128)],
        "HOST": [make("hcall", 0, {"kernel": 0})],
    }
    call = program(streams, kernels=(kernel,))
    trace = simulate(call, load_machine("tiny"), {}, {}, data=False)
    assert times(trace)[:2] == [[(0, 40)], [(0, 40)]]


def test_memories_behind_one_port_share_its_link() -> None:
    # 128 B each at 4 B/cycle, from 8 to 40, as above, though one comes from another memory; from one of them to the
    # other, 128 B cross the link twice: 32 cycles.
    tiny = load_machine("tiny")
    ram = replace(tiny.memory["DDR"], name="RAM")
    links = tuple(replace(x, memory=("DDR", "RAM")) if x.memory == "DDR" else x for x in tiny.links)
    engines = tuple(
        replace(e, reads=(*e.reads, "RAM"), writes=(*e.writes, "RAM")) if e.name in ("DMR", "DMW") else e
        for e in tiny.engines
    )
    machine = replace(tiny, memories=(*tiny.memories, ram), links=links, engines=engines)
    number = len(tiny.memories)
    begin, end = array("src", "DDR", 0, "uint8", 0, 0, 0, 1), array("dst", "DDR", 0, "uint8", 0, 0, 0, 1)
    within = make("dcopy", 0, {"n0": 1, "n1": 1, "n2": 1, "n3": 128} | begin | end | {"dst.mem": number})
    writing = make("dcopy", 0, {"n0": 1, "n1": 1, "n2": 1, "n3": 128}
                   | array("src", "LLB", 4096, "uint8", 0, 0, 0, 1) | end | {"dst.mem": number})  # fmt: skip

    def timed(**streams: list[Instruction]) -> list[object]:
        return [*times(simulate(program(streams), machine, {}, {}, data=False))]

    assert timed(DMR=[move("dcopy", ("DDR", 0), ("LLB", 0), 128)], DMW=[writing]) == [[(0, 40)], [(0, 40)]]
    assert timed(DMR=[within]) == [[(0, 40)]]


def scalar_call(elements: int, operations: int, special: int = 0, **streams: list[Instruction]) -> list[object]:
    """When the instructions of the queues run, the scalar engine's first: a kernel that reads so many float32."""
    kernel = HostKernel(
        "k",
        "",
        "",
        (Placed("x", 0, "float32", (elements,)),),
        (Placed("y", 65536, "float32", (8,)),),
        operations,
        special,
    )
    call = program({"SCU": [make("scall", 0, {"kernel": 0})], **streams}, kernels=(kernel,))
    return [*times(simulate(call, load_machine("tiny"), {}, {}, data=False))]


def test_a_scalar_kernel_takes_the_longer_of_its_operations_and_its_bytes() -> None:
    # 40 + 32 B at 4 B/cycle behind 50 cycles to start it; 96 B in bursts of 32 take 12 cycles of the link.
    assert scalar_call(10, 0) == [[(0, 68)]]
    assert scalar_call(10, 18) == [[(0, 68)]]
    assert scalar_call(10, 100) == [[(0, 150)]]
    # Each of two special functions takes 16 cycles instead of one.
    assert scalar_call(10, 100, 2) == [[(0, 180)]]


def test_a_scalar_kernel_shares_the_links_of_main_memory() -> None:
    # 4,128 B at 4 B/cycle, from 50. DMA has all 8 B/cycle of the link from 8 on, and half of it from 50 on: 336 + 176 B.
    fetch = [move("dcopy", ("DDR", 131072), ("LLB", 0), 512)]
    assert scalar_call(1024, 0, DMR=fetch) == [[(0, 1082)], [(0, 94)]]
    # Computing for 2,064 cycles, it takes 2 B/cycle of the link: 336 B until 50, and 176 B at 6 B/cycle.
    assert scalar_call(1024, 2064, DMR=fetch)[1] == [(0, 80)]


def test_instructions_of_one_queue_see_results_at_once() -> None:
    # The second add reads what the first one wrote, visible to others at 16, and starts at 12.
    assert times(run({"VME0": [add(64, **APART), add(8, dst=0, a=0, b=16384)]})) == [[(0, 12), (12, 17)]]
