"""The report reads the nouns rightly, and its text is complete and short where it must be."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from girih.api.compile import Compiled
from girih.explain import explain
from girih.explain.compilation import Compilation
from girih.explain.cycles.engine_loads import engine_loads
from girih.explain.memory_use import memory_rows, peak_of, traffic_rows
from girih.explain.model_answers import gained, gap, model_rows
from girih.explain.report import Report
from girih.explain.text import table
from girih.ir.errors import UsageError
from girih.ir.graph import Host
from girih.ir.plan import Plan, Prediction, Solved
from girih.ir.program import Program
from girih.ir.trace import Trace
from girih.simulator import simulate
from girih.solver.options import ModelRun
from tests.support.compiled import LOG, compiled_residual


def predicted(plan: Plan) -> Plan:
    """With ten cycles for each slot, and twenty for the last."""
    times = [10] * (len(plan.slots) - 1) + [20]
    slots = zip(plan.slots, times, strict=True)
    return replace(plan, predictions=tuple(Prediction(step, op, 0, time) for (step, op), time in slots))


@lru_cache(maxsize=1)
def timed() -> Trace:
    return simulate(compiled_residual().program, compiled_residual().machine, {}, {}, data=False)


def example() -> Report:
    package = compiled_residual()
    plan = predicted(package.plan)
    return explain(Compilation(package.graph, plan, package.program, package.machine, package.log, timed()))


def test_the_text_begins_and_ends_with_the_summary() -> None:
    text = " ".join(example().tables.split())
    assert text.startswith(f"{example().summary.line} Verdict") and text.endswith(f" {example().summary.line}")
    cycles = timed().cycles
    assert f"{cycles:,} cycles, {cycles / 6000:.2f} x the lower bound" in example().summary.line


def test_the_losses_are_readable_at_a_hundred_columns() -> None:
    lines = example().tables.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("Cycle breakdown: "))
    end = next(i for i, line in enumerate(lines) if line.startswith("Models: "))
    assert max(map(len, lines[begin:end])) <= 100
    assert all(f"  {row.resource} " in "\n".join(lines[begin:end]) for row in example().breakdown.totals)
    assert all(f"  {sentence[:40]}" in example().tables for sentence in example().largest_losses)


def test_every_table_has_a_title_and_its_terms_are_explained() -> None:
    """A table is a block of indented lines: before it is a line that begins at the margin and ends with its subject."""
    blocks = example().tables.split("\n\n")[1:-1]
    for block in blocks:
        title = block.splitlines()[0]
        assert re.match("[A-Z][a-z ]+(:|$)", title), title
    legends = " ".join(example().tables.split())
    for term in (
        "lost:",
        "x:",
        "extra:",
        "inside:",
        "loads:",
        "own:",
        "gap:",
        "work:",
        "waits:",
        "limited by:",
        "full:",
    ):
        assert f" {term} " in legends, term


def test_only_rows_of_tables_are_wider_than_eighty_columns() -> None:
    package = compiled_residual()
    log = replace(package.log, status="budget", unpaid=("more iterations than 2", "a longer search of residency"))
    found = explain(Compilation(package.graph, predicted(package.plan), package.program, package.machine, log, timed()))
    lines = found.tables.splitlines()[1:-1]
    wide = [line for line in lines if len(line) > 80 and not re.search(r"\S  +\S", line)]
    assert not wide


HOSTILE = "a\nb\t\x1b[31m[bold]\u202e|{{ s }}"


def test_names_cannot_break_tables() -> None:
    package = compiled_residual()
    name = package.graph.ops[1].name
    found = example()
    rows = tuple(replace(row, name=HOSTILE if row.name == name else row.name) for row in found.operators)
    summary = replace(found.summary, network=HOSTILE)
    text = replace(found, summary=summary, operators=rows).tables
    assert text.replace("\n", "").isprintable()
    assert text.count("\n") == found.tables.count("\n")
    assert r"a\nb\t\x1b[31m[bold]\u202e|{{ s }}" in text
    assert summary.line.isprintable()
    assert json.loads(replace(found, operators=rows).to_json())["operators"][1]["name"] == HOSTILE


def test_the_search_says_what_ended_it() -> None:
    assert "exhausted: all iterations that this version tries were used" in example().tables
    assert json.loads(example().to_json())["summary"]["more_time_helps"] is False
    assert example().summary.gap == pytest.approx(1 / 3)


def test_every_operator_and_memory_is_in_the_text() -> None:
    text = example().tables
    for op in compiled_residual().graph.ops:
        assert op.name in text
    for memory in compiled_residual().machine.memories:
        assert memory.name in text


def test_json_has_every_table() -> None:
    found = json.loads(example().to_json())
    assert [*found] == [
        "summary",
        "verdict",
        "warnings",
        "waterfall",
        "idle",
        "next_steps",
        "largest_losses",
        "models",
        "convergence",
        "breakdown",
        "segments",
        "memories",
        "traffic",
        "operators",
        "hosts",
        "provenance",
        "format",
    ]
    assert len(found["operators"]) == len(compiled_residual().graph.ops)


def test_saves_by_suffix(tmp_path: Path) -> None:
    example().save(tmp_path / "report.txt")
    example().save(tmp_path / "report.json")
    assert (tmp_path / "report.txt").read_text() == f"{example().tables}\n"
    assert json.loads((tmp_path / "report.json").read_text())["summary"]["cycles_predicted"] == 9000
    with pytest.raises(UsageError, match=r"end the name in \.txt, \.md, \.json, \.html,"):
        example().save(tmp_path / "report.pdf")


def test_shares_of_segments_add_up() -> None:
    rows = example().segments
    assert sum(r.share for r in rows) == pytest.approx(1)
    assert rows[-1].cycles == 20
    assert all(r.limit and r.limit_cycles > 0 for r in rows)


def test_what_is_neither_waiting_nor_ending_computes() -> None:
    package = compiled_residual()
    slots = package.plan.slots
    # Each computes 10 cycles; the first waits 100 for its data, the third 30, and the second overlaps the first.
    starts = [100, 105, 145, *(155 + 10 * i for i in range(len(slots) - 3))]
    predictions = tuple(Prediction(*slot, start, start + 10) for slot, start in zip(slots, starts, strict=True))
    plan = replace(package.plan, predictions=predictions, cycles_predicted=predictions[-1].stop + 7)
    found = explain(Compilation(package.graph, plan, package.program, package.machine, package.log, timed()))
    assert (found.summary.cycles_waiting, found.summary.cycles_ending) == (130, 7)
    assert sum(r.waits for r in found.segments) == sum(r.waits for r in found.operators) == 130
    assert [r.waits for r in found.operators][:3] == [100, 0, 30]


def test_a_simulation_of_the_search_stands_beside_the_prediction() -> None:
    package = compiled_residual()
    slots = package.plan.slots
    predictions = tuple(Prediction(*slot, 10 * i, 10 * i + 10) for i, slot in enumerate(slots))
    plan = replace(package.plan, predictions=predictions, cycles_predicted=9000, cycles_simulated=8000)
    found = explain(Compilation(package.graph, plan, package.program, package.machine, package.log, timed()))
    assert found.summary.cycles_ending == 9000 - predictions[-1].stop
    assert (found.summary.cycles_predicted, found.summary.cycles_simulated) == (9000, 8000)
    assert found.summary.gap == pytest.approx(1 / 4)
    assert "9,000 cycles; 8,000 by the simulation of the search\n" in found.tables
    assert "9,000 cycles\n" in example().tables and example().summary.cycles_simulated is None


def test_a_fetch_counts_for_the_operator_that_needs_it() -> None:
    package = compiled_residual()
    graph, plan, machine = package.graph, package.plan, package.machine
    load = engine_loads(graph, plan, package.program, machine)
    # Everything is fetched ahead: the instructions are marked with the first operator.
    first, later = graph.ops[0], next(op for op in graph.ops[1:] if graph.constant_names.intersection(op.inputs))
    early = tuple(replace(b, live=(0, b.live[1])) if b.fetch else b for b in plan.shared)
    ahead = engine_loads(graph, *_fetched_ahead(package, replace(plan, shared=early)), machine)
    assert load[later.name]["DMR"] > 0
    assert ahead[later.name]["DMR"] == load[later.name]["DMR"]
    assert ahead[first.name]["DMR"] == load[first.name]["DMR"]


def _fetched_ahead(package: Compiled, plan: Plan) -> tuple[Plan, Program]:
    """The plan, and the package's program with all its fetches marked with operator 0."""
    program = package.program
    fetches = [q.engine == "DMR" for q in program.queues]
    streams = (
        tuple(replace(i, op=0) for i in stream) if fetch else stream
        for stream, fetch in zip(program.streams, fetches, strict=True)
    )
    return plan, replace(program, streams=tuple(streams))


def test_the_plan_answers_before_the_log() -> None:
    plan = replace(compiled_residual().plan, solved=(Solved("tiling", "feasible", 130.0, 117.0, "cycles"),))
    tiling, banks = model_rows(plan, LOG)
    assert (tiling.objective, tiling.gap, tiling.runs, tiling.seconds) == (130, pytest.approx(0.1), 2, 0.75)
    assert tiling.notes == ("a cut",)
    assert (banks.status, banks.gap) == ("optimal", None)


def test_whole_plans_are_counted_and_no_model() -> None:
    package = compiled_residual()
    whole = replace(LOG.runs[0], model="plan")
    log = replace(LOG, runs=(*LOG.runs, whole, whole))
    found = explain(Compilation(package.graph, package.plan, package.program, package.machine, log, timed()))
    assert found.summary.plans == 2
    assert [row.model for row in found.models] == ["tiling", "banks"]


def test_gap() -> None:
    assert gap(None, 1.0) is None
    assert gap(0.0, 0.0) == 0
    assert gap(100.0, 80.0) == pytest.approx(0.2)


def test_peak_counts_a_moment_once() -> None:
    assert peak_of([]) == (0, 0)
    assert peak_of([(0, 2, 0, 10), (2, 4, 0, 10)]) == (10, 0)
    assert peak_of([(0, 3, 0, 10), (2, 4, 20, 5), (3, 9, 30, 12)]) == (17, 3)
    assert peak_of([(1, 1, 0, 10)]) == (0, 0)


def test_peak_counts_a_shared_byte_once() -> None:
    assert peak_of([(0, 3, 0, 10), (2, 4, 0, 10)]) == (10, 0)
    assert peak_of([(0, 3, 0, 10), (2, 4, 5, 10), (2, 4, 2, 3)]) == (15, 2)


@given(st.lists(st.tuples(*[st.integers(0, 8)] * 4), max_size=8))
def test_peak_is_what_counting_every_byte_at_every_moment_finds(rows: list[tuple[int, int, int, int]]) -> None:
    occupied = [(start, start + time, address, size) for start, time, address, size in rows]
    used = [len({a for s, e, at, n in occupied if s <= t < e for a in range(at, at + n)}) for t in range(17)]
    most = max(used)
    assert peak_of(occupied) == (most, used.index(most) if most else 0)


def test_no_memory_is_fuller_than_it_is() -> None:
    package = compiled_residual()
    for row in memory_rows(package.graph, package.plan, package.machine):
        assert 0 < row.peak <= row.extent <= row.capacity


def test_peaks_of_activations_and_constants_are_apart() -> None:
    package = compiled_residual()
    rows = {row.role: row for row in memory_rows(package.graph, package.plan, package.machine)}
    for row in rows.values():
        assert max(row.activations, row.constants) <= row.peak <= row.activations + row.constants
    constants = sum(package.graph.tensor[name].bytes for name in package.graph.constant_names)
    # The whole of each constant has a home in main memory, aligned; the products' sums are no constants.
    assert constants <= rows["main"].constants < rows["main"].peak
    assert rows["weights"].activations == 0 and rows["accumulator"].constants == 0
    assert rows["shared"].constants > 0 and rows["shared"].activations > 0


def test_constants_and_ports_cross_once() -> None:
    package = compiled_residual()
    rows = {r.tensor: r for r in traffic_rows(package.graph, package.plan, package.machine)}
    for name in (*package.graph.constant_names, *package.graph.input_tensors):
        assert rows[name].fetched == rows[name].bytes
    for name in package.graph.output_tensors:
        assert rows[name].stored == rows[name].bytes


def test_a_tensor_that_the_host_touches_says_so() -> None:
    package = compiled_residual()
    ops = tuple(replace(op, host=Host("", "no engine")) if op.name == "pool" else op for op in package.graph.ops)
    rows = traffic_rows(replace(package.graph, ops=ops), package.plan, package.machine)
    assert next(r for r in rows if r.tensor == "pool").reason == "the host runs pool"


def test_a_spilled_tensor_says_how_full_the_memory_is() -> None:
    package = compiled_residual()
    shared = tuple(replace(b, store=b.store or b.tensor == "c0") for b in package.plan.shared)
    rows = traffic_rows(package.graph, replace(package.plan, shared=shared), package.machine)
    assert next(r for r in rows if r.tensor == "c0").reason.startswith("not kept on chip: other buffers take up to")


def test_table_aligns_numbers_to_the_right() -> None:
    assert table([("a", "1"), ("bc", "10")], "name|n").splitlines() == ["  name   n", "  a      1", "  bc    10"]


_First = tuple[float, float | None, str]
"""Cycles of a plan in a log, when it was there, and what its note ends with."""


@pytest.mark.parametrize(
    ("plans", "predicted", "simulated", "text"),
    [
        ([], 100, None, ""),
        ([(100.0, 0.5, "")], 100, None, "the first plan is the best, after 0.5 s"),
        (
            [(1000.0, 0.5, ""), (900.0, 1.25, ""), (950.0, 2.0, "")],
            900,
            None,
            "1,000 predicted cycles of the first plan became 900, 10.0% fewer, after 1.2 s",
        ),
        # A simulation is not compared with a prediction: it may be longer than what is predicted of a worse plan.
        (
            [(1000.0, 0.5, ""), (900.0, 1.25, "")],
            900,
            1050,
            "1,000 predicted cycles of the first plan became 900, 10.0% fewer, after 1.2 s",
        ),
        ([(1000.0, 0.5, ""), (1050.0, 1.5, ", simulated")], 1000, 1050, "the first plan is the best, after 0.5 s"),
        (
            [(1000.0, 0.5, ""), (1200.0, 1.25, ", simulated")],
            1100,
            1200,
            "1,000 predicted cycles of the first plan became 1,100, 10.0% more: simulations decided, after 1.2 s",
        ),
        (
            [(1200.0, 0.5, ", simulated"), (1080.0, 1.25, ", simulated")],
            900,
            1080,
            "1,200 simulated cycles of the first plan became 1,080, 10.0% fewer, after 1.2 s",
        ),
        ([(1200.0, 0.5, ", simulated")], 1100, 1200, "the first plan is the best, after 0.5 s"),
        # Its order of queues was simulated when the search was over.
        ([(1200.0, None, "")], 1200, 1100, "the first plan is the best"),
        (
            [(1200.0, None, ", simulated")],
            1100,
            None,
            "the first plan took 1,200 cycles by a simulation, the best 1,100 by a prediction",
        ),
    ],
)
def test_what_a_search_gained(plans: list[_First], predicted: int, simulated: int | None, text: str) -> None:
    runs = tuple(
        ModelRun("plan", "feasible", cycles, 1.0, seconds, 0.0, "cycles", note=f"iteration 0, 1 segments{note}")
        for cycles, seconds, note in plans
    )
    plan = replace(compiled_residual().plan, cycles_predicted=predicted, cycles_simulated=simulated)
    assert gained(plan, replace(LOG, runs=runs)) == text
