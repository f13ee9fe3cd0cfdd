"""What viewers are shown of a run: read back, and held against the program and the counters."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.calibration.layers import Layer
from benchmarks.calibration.programs import layer_program
from girih.explain.export.occupancy import occupancy
from girih.explain.export.perfetto import LINKS, PREDICTION, chrome_trace
from girih.explain.export.spans import lanes, merged
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Prediction
from girih.ir.program import Program, ProgramOp
from girih.ir.trace import Trace
from girih.simulator import simulate
from tests.support.compiled import compiled_residual
from tests.support.simulator.programs import TINY, add, move, program, wait

STCP920 = load_machine("stcp920")


def small() -> tuple[Program, Machine]:
    """Main memory to core 0 and back, by every kind of engine that moves; core 1 gets a copy."""
    streams = {
        "DMR": [move("dcopy", ("DDR", 0), ("LLB", 0), 256)],
        "MTI0": [wait(0, 1), move("mbcast", ("LLB", 0), ("L1", 0), 256, cores=3)],
        "VME0": [wait(1, 2), add(64, dst=16384), add(64, dst=16384, a=16384)],
        "MTO0": [wait(2, 3), move("mcopy", ("L1", 16384), ("LLB", 4096), 256)],
        "DMW": [wait(3, 2), move("dcopy", ("LLB", 4096), ("DDR", 4096), 256)],
    }
    return program(streams, ops=(ProgramOp("twice", ("Add_1", "Add_2")),)), TINY


def layer() -> tuple[Program, Machine]:
    """A convolution on one core of a large machine: about a hundred instructions in three queues."""
    net = layer_program(Layer("net", "conv", 58, 58, 3, 64, 256), STCP920, streamed=True)
    return replace(net, ops=(replace(net.ops[0], origin=("Conv_7",)),)), STCP920


def stuck() -> tuple[Program, Machine]:
    """The second queue waits for what never comes."""
    return program({"VME0": [add(64)], "VME1": [wait(0, 2), add(64)]}), TINY


CASES = {"small": small, "layer": layer, "stuck": stuck}


def shown(name: str) -> tuple[Program, Machine, Trace, list[dict[str, Any]]]:
    net, machine = CASES[name]()
    trace = simulate(net, machine, {}, {}, data=False)
    text = json.dumps(chrome_trace(net, machine, trace))
    return net, machine, trace, json.loads(text)["traceEvents"]


def of_engines(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [e for e in events if e["pid"] not in (LINKS, PREDICTION)]


def slices(events: list[dict[str, Any]], *, operators: bool) -> list[dict[str, Any]]:
    return [e for e in of_engines(events) if e["ph"] == "X" and (e["cat"] == "operator") == operators]


@pytest.mark.parametrize("name", CASES)
def test_every_engine_of_every_core_has_a_track(name: str) -> None:
    net, _, _, events = shown(name)
    events = of_engines(events)
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert len(tracks) == len(net.queues)
    for number, queue in enumerate(net.queues):
        process = 0 if queue.core is None else queue.core + 1
        assert tracks[process, number] == queue.engine
        assert processes[process] == ("cluster" if queue.core is None else f"core {queue.core}")
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] in "Xsf"} <= tracks.keys()


@pytest.mark.parametrize("name", CASES)
def test_instructions_lie_within_operators_and_beside_one_another(name: str) -> None:
    net, _, _, events = shown(name)
    for track in range(len(net.queues)):
        own = [e for e in of_engines(events) if e["ph"] == "X" and e["tid"] == track]
        open_: list[int] = []
        # An outer slice comes before what is in it, also where both begin at once.
        for event in own:
            while open_ and open_[-1] <= event["ts"]:
                open_.pop()
            assert not open_ or event["ts"] + event["dur"] <= open_[-1]
            assert len(open_) == (event["cat"] != "operator")
            open_.append(event["ts"] + event["dur"])


@pytest.mark.parametrize("name", CASES)
def test_each_slice_names_operator_nodes_and_instruction(name: str) -> None:
    net, _, _, events = shown(name)
    for event in slices(events, operators=False):
        instruction = net.streams[event["tid"]][event["args"]["index"]]
        assert event["name"] == instruction.mnemonic
        assert event["args"]["operator"] == net.ops[instruction.op].name
        assert event["args"]["nodes"] == list(net.ops[instruction.op].origin)


@pytest.mark.parametrize("name", CASES)
def test_slices_add_up_to_the_counters(name: str) -> None:
    net, machine, trace, events = shown(name)
    busy: Counter[str] = Counter(dict.fromkeys((q.engine for q in net.queues), 0))
    waiting = 0
    number: Counter[str] = Counter()
    for event in slices(events, operators=False):
        engine = machine.engine[net.queues[event["tid"]].engine]
        if event["cat"] == "sync":
            waiting += event["dur"]
        else:
            busy[engine.name] += event["dur"]
            number[event["cat"]] += 1
    assert busy == trace.summary.busy
    assert waiting == trace.counters["syn_wait"]
    assert number["vector"] == trace.counters["vme_inst"]
    assert number["matrix"] == trace.counters["mme_inst"]
    assert number["copy"] + number["broadcast"] == trace.counters["mte_inst"]
    assert number["dma"] == trace.counters["sysdma_inst"]


@pytest.mark.parametrize("name", CASES)
def test_arrows_go_from_what_is_waited_for_to_what_waits(name: str) -> None:
    net, _, trace, events = shown(name)
    ends: dict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    for event in events:
        if event["ph"] in "sf":
            assert event["ph"] not in ends[event["id"]]
            ends[event["id"]][event["ph"]] = event
    own = {(e["tid"], e["args"]["index"]): e for e in slices(events, operators=False)}
    for ends_of in ends.values():
        source, target = ends_of["s"], ends_of["f"]
        inside = [e for e in own.values() if e["tid"] == source["tid"] and e["ts"] <= source["ts"] < e["ts"] + e["dur"]]
        (before,) = inside
        (behind,) = [e for e in own.values() if e["tid"] == target["tid"] and e["ts"] == target["ts"] and e["dur"]]
        assert "sync" not in (before["cat"], behind["cat"])
        assert before["ts"] + before["dur"] <= behind["ts"]
    expected = sum(i.mnemonic == "wait" for stream in net.streams for i in stream)
    assert len(ends) == (0 if name == "stuck" else expected)
    assert len(trace.waits) == expected


def test_the_arrows_of_a_chain() -> None:
    _, _, _, events = shown("small")
    arrows = Counter((e["ph"], e["tid"]) for e in events if e["ph"] in "sf")
    assert arrows == {
        ("s", 0): 1,
        ("f", 1): 1,
        ("s", 1): 1,
        ("f", 2): 1,
        ("s", 2): 1,
        ("f", 3): 1,
        ("s", 3): 1,
        ("f", 4): 1,
    }


@pytest.mark.parametrize("name", CASES)
def test_links_carry_the_bytes_that_are_counted(name: str) -> None:
    _, machine, trace, events = shown(name)
    for link in machine.links:
        own = [e for e in events if e["ph"] == "C" and e["name"] == f"{link.name} link"]
        times, values = [e["ts"] for e in own], [e["args"]["bytes a cycle"] for e in own]
        assert times == sorted(times)
        moved = float(np.dot(np.diff(times), values[:-1]))
        assert moved == pytest.approx(trace.counters[f"{link.name}_link_byte"])
        assert max(values) <= link.bytes_per_cycle * (1 + 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_memories_are_never_overfull(name: str) -> None:
    _, machine, _, events = shown(name)
    for event in events:
        if event["ph"] == "C" and event["name"].endswith(" occupied"):
            assert 0 <= event["args"]["bytes"] <= machine.memory[event["name"].split()[0]].capacity


def test_what_is_written_is_occupied_until_it_is_read() -> None:
    # DMR ends at 40; the broadcast begins when its result is visible, at 40 + 8 + 50 + 20, and takes 4 + 16.
    net, machine = small()
    trace = simulate(net, machine, {}, {}, data=False)
    memories, _ = occupancy(net, machine, trace)
    assert memories["LLB", None].width == 1
    shared = memories["LLB", None].values
    assert [int(shared[t]) for t in (0, 39, 117, 137, 138)] == [256, 256, 256, 256, 0]
    # Core 1 never reads its copy; core 0 reads it twice, and writes a result that MTO0 fetches.
    assert memories["L1", 1].values.max() == 256
    assert memories["L1", 0].values.max() == 512


@pytest.mark.parametrize("name", CASES)
def test_slices_of_links_carry_the_bytes_that_are_counted_and_never_overlap(name: str) -> None:
    _, machine, trace, events = shown(name)
    threads = {e["tid"]: e["args"]["name"] for e in events if e["pid"] == LINKS and e["name"] == "thread_name"}
    moved: Counter[str] = Counter()
    end: dict[int, int] = {}
    for event in (e for e in events if e["ph"] == "X" and e["pid"] == LINKS):
        moved[threads[event["tid"]].split()[0]] += event["args"]["bytes"]
        assert event["ts"] >= end.get(event["tid"], 0)
        end[event["tid"]] = event["ts"] + event["dur"]
    assert dict(moved) == {
        link.name: count for link in machine.links if (count := trace.counters[f"{link.name}_link_byte"])
    }


def test_the_prediction_is_a_process_of_its_own_above_all() -> None:
    package = compiled_residual()
    trace = simulate(package.program, package.machine, {}, {}, data=False)
    slots = package.plan.slots
    predictions = tuple(Prediction(step, op, 10 * n, 10 * n + 15) for n, (step, op) in enumerate(slots))
    plan = replace(package.plan, predictions=predictions)
    events = chrome_trace(package.program, package.machine, trace, plan)["traceEvents"]
    own = [e for e in events if e["pid"] == PREDICTION]
    slices_ = [e for e in own if e["ph"] == "X"]
    assert [(e["args"]["step"], e["name"], e["ts"], e["dur"]) for e in slices_] == [
        (p.step, p.op, p.start, 15) for p in predictions
    ]
    assert {e["tid"] for e in slices_} == {0, 1}
    indices = {e["pid"]: e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"}
    assert indices[PREDICTION] == min(indices.values())


def test_lanes_and_merging() -> None:
    spans = [(0, 4, "a"), (2, 6, "b"), (4, 5, "c"), (6, 7, "d")]
    assert [(row, what) for row, (_, _, what) in lanes(spans)] == [(0, "a"), (1, "b"), (0, "c"), (0, "d")]
    assert merged([(5, 6, 1), (0, 2, 2), (2, 3, 3)]) == [(0, 3, (2, 3)), (5, 6, (1,))]
