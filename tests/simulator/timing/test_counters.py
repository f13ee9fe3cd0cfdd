"""Counters of each core, of the cluster, and of all together."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from girih.ir.counters import Counters, Meaning, meaning
from girih.ir.errors import UsageError
from girih.ir.isa.table import make
from girih.ir.trace import Summary
from girih.simulator import simulate
from tests.support.simulator.programs import TINY, add, array, move, program, wait


def run() -> Counters:
    """Core 0 copies twice, and adds when the first copy is there; core 1 adds; the cluster loads.

    MTI0: copy [0, 8), whose result is visible at 8 + 4 + 20 = 32; copy of 640 bytes [8, 8 + 4 + 40 = 52).
    VME0: wait [0, 32), add [32, 32 + 4 + 8 = 44). VME1: add [0, 5).
    DMR: 8 + 256/8 = 40 cycles. The last result is the second copy's, visible at 52 + 24 = 76; that of DMR needs
    40 + 8 + 50 + 20 = 118.
    """
    copies = [move("mcopy", ("LLB", 0), ("L1", 49152), 64), move("mcopy", ("LLB", 1024), ("L1", 49664), 640)]
    streams = {
        "MTI0": copies,
        "VME0": [wait(0, 1), add(64, dst=0, a=16384, b=32768)],
        "VME1": [add(8, dst=0, a=16384, b=32768)],
        "DMR": [move("dcopy", ("DDR", 0), ("LLB", 4096), 256)],
    }
    return simulate(program(streams), TINY, {}, {}, data=False).summary.counters


def test_a_core() -> None:
    core = {name: value for name, value in run().cores[0].items() if value}
    assert core == {
        "mcu_total_cycle": 118,
        "vme_total_cycle": 12, "vme_inst": 1, "vme_slot_wait": 32, "vector_elements": 64,
        "mte_total_cycle": 52, "mte_inst": 2, "mte_llb2l1_byte": 704, "mte_llb2l1_cycle": 52,
        "syn_total_cycle": 32, "syn_inst": 1, "syn_wait": 32,
        "pal_vme_mte_cycle": 12, "pal_total_cycle": 12,
        "llb-read_link_byte": 704,
    }  # fmt: skip


def test_another_core() -> None:
    core = {name: value for name, value in run().cores[1].items() if value}
    assert core == {"mcu_total_cycle": 118, "vme_total_cycle": 5, "vme_inst": 1, "vector_elements": 8}


def test_the_cluster_and_the_total() -> None:
    counters = run()
    assert {name: value for name, value in counters.cluster.items() if value} == {
        "sysdma_total_cycle": 40, "sysdma_inst": 1, "sysdma_c0_byte": 256, "sysdma_c0_cycle": 40,
        "ddr_link_byte": 256, "llb-write_link_byte": 256,
    }  # fmt: skip
    assert counters.total["mcu_total_cycle"] == 2 * 118
    assert counters.total["vector_elements"] == 72
    assert counters.total["sysdma_c0_byte"] == 256


def test_every_core_has_the_same_counters_whatever_ran() -> None:
    counters = run()
    assert list(counters.cores[0]) == list(counters.cores[1])
    empty = simulate(program({"VME0": []}), TINY, {}, {}, data=False).summary.counters
    assert list(empty.cores[0]) == list(counters.cores[0])
    assert list(empty.cluster) == list(counters.cluster)
    assert not any(empty.total.values())


def test_a_broadcast_is_counted_once_and_a_conflict_where_it_happens() -> None:
    # Two copies at 16 bytes a cycle and an addition of 3 x 32 meet at the one bank of 64: 128 are wanted.
    streams = {
        "MTI0": [move("mbcast", ("LLB", 0), ("L1", 0), 160, cores=3)],
        "VME1": [add(80, dst=1024, a=2048, b=4096)],
    }
    counters = simulate(program(streams), TINY, {}, {}, data=False).summary.counters
    assert counters.cores[0]["mte_pld_byte"] == counters.total["mte_pld_byte"] == 160
    assert counters.cores[0]["l1_conflict"] + counters.cores[1]["l1_conflict"] == counters.total["l1_conflict"] > 0
    assert counters.cores[1]["l1_conflict"] > 0


def test_units_that_have_two_queues_are_counted_once_for_a_cycle() -> None:
    streams = {
        "MTI0": [move("mcopy", ("LLB", 0), ("L1", 0), 160)],  # [0, 14)
        "MTO0": [move("mcopy", ("L1", 16384), ("LLB", 8192), 320)],  # [0, 24)
    }
    counters = simulate(program(streams), TINY, {}, {}, data=False).summary.counters
    assert counters.cores[0]["mte_total_cycle"] == 24
    assert counters.cores[0]["mte_llb2l1_cycle"] == 14
    assert counters.cores[0]["mte_l12llb_cycle"] == 24
    assert counters.cores[0]["pal_total_cycle"] == 0


def test_what_never_ended_is_not_counted() -> None:
    streams = {"VME0": [wait(0, 9), add(64)], "VME1": [add(64)]}
    counters = simulate(program(streams), TINY, {}, {}, data=False).summary.counters
    assert counters.total["vme_inst"] == 1
    assert counters.total["syn_inst"] == 0


def test_every_counter_has_a_meaning() -> None:
    counters = run()
    for name in counters.total:
        assert meaning(name).unit
    assert meaning("l1_conflict") == Meaning("cycles", "that engines lost because they met at a bank of l1")
    assert meaning("pal_total_cycle").text == "in which at least two of vme, mme and mte ran"
    with pytest.raises(UsageError, match="no counter 'teapots'"):
        meaning("teapots")


def test_json_and_csv_say_the_same() -> None:
    counters = run()
    data = json.loads(counters.to_json())
    rows = list(csv.DictReader(io.StringIO(counters.to_csv())))
    assert data["total"] == counters.total == {row["counter"]: int(row["total"]) for row in rows}
    assert data["cores"] == list(counters.cores)
    for row in rows:
        name = row["counter"]
        assert row["core1"] == str(counters.cores[1].get(name, ""))
        assert row["cluster"] == str(counters.cluster.get(name, ""))
        assert (row["unit"], row["meaning"]) == tuple(data["meanings"][name].values())


def test_a_summary_reads_back_equal() -> None:
    trace = simulate(program({"VME0": [add(64)]}), TINY, {}, {}, data=False)
    assert Summary.from_json(trace.summary.to_json()) == trace.summary


def test_the_page_explains_every_counter() -> None:
    page = (Path(__file__).parents[3] / "docs" / "counters.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `([^`]+)` \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE))
    for name in run().total:
        assert told.get(name) == meaning(name).text, name


def test_fills_have_no_source() -> None:
    shape = {"n0": 1, "n1": 1, "n2": 1, "n3": 64}
    streams = {"MTI0": [make("mfill", 0, shape | array("dst", "L1", 0, "uint8", 0, 0, 0, 1))]}
    counters = simulate(program(streams), TINY, {}, {}, data=False).summary.counters
    assert counters.cores[0]["mte_2l1_byte"] == 64
    assert meaning("mte_2l1_byte").text == "that mte moved from no memory to l1"
