"""The first screen: its waterfall adds up to the cycle, it says what costs most, and it fits a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from girih.explain.cycles.breakdown import CAUSES, BreakdownRow, CycleBreakdown
from girih.explain.overview.next_steps import next_steps
from girih.explain.overview.verdict import verdict
from girih.explain.overview.waterfall import OperatorCycles, WaterfallRow, waterfall
from girih.explain.report import Report
from girih.ir.errors import UsageError
from girih.ir.load_machine import load_machine
from tests.support.compiled import compiled_residual

MACHINE = load_machine("tiny")
MATRIX = MACHINE.engine_for("matrix").name


@cache
def report() -> Report:
    return compiled_residual().explain()


def row(op: str = "", segment: int | None = None, **parts: float) -> BreakdownRow:
    """A row of the matrix engine; waits are given by their causes."""
    names = ("work", "extra", "rounding", "fill", "issue", "slowed")
    values = {name: parts.get(name, 0.0) for name in names}
    waits = {cause: parts.get(cause, 0.0) for cause in CAUSES}
    cycles = sum(values.values()) + sum(waits.values())
    return BreakdownRow(
        resource=MATRIX, units=1, segment=segment, op=op, cycles=cycles, peak=values["work"] + values["extra"],
        busy=cycles - sum(waits.values()), busiest=cycles, waits=waits, boundary=0.0, reasons=(), **values,
    )  # fmt: skip


def breakdown(*operators: BreakdownRow) -> CycleBreakdown:
    """Of a run whose total is the sum of its operators."""
    names = ("work", "extra", "rounding", "fill", "issue", "slowed")
    parts = {name: sum(getattr(o, name) for o in operators) for name in names}
    waits = {cause: sum(o.waits[cause] for o in operators) for cause in CAUSES}
    return CycleBreakdown(MATRIX, (row(**parts, **waits),), (), operators)


cycles = st.floats(0, 1e6, allow_nan=False).map(lambda value: round(value, 3))
parts = st.fixed_dictionaries(dict.fromkeys(("work", "extra", "rounding", "fill", "issue", "slowed", *CAUSES), cycles))


@given(parts, st.floats(0, 2))
def test_the_waterfall_adds_up_to_the_cycle(values: dict[str, float], share: float) -> None:
    found = breakdown(row("a", 0, **values))
    total, bound = ceil(found.totals[0].cycles), round(values["work"] * share)
    rows = waterfall(found, MACHINE, bound, total)
    assert rows[0].cause == "bound" and rows[0].cycles == bound
    assert sum(r.cycles for r in rows) == total
    assert all(isinstance(r.cycles, int) and r.cycles for r in rows[1:])
    assert len(rows) <= 9


def test_each_cause_has_its_cycles() -> None:
    found = breakdown(
        row("a", 0, work=100, extra=10, rounding=7, fill=3, issue=2, slowed=4, fetch_weights=30, store=5),
        row("b", 1, work=50, fetch_data=20, spill=1, load_weights=2, load_data=3, engine=11, cores=6, host=1),
    )
    rows = {r.cause: r for r in waterfall(found, MACHINE, 150, 255)}
    assert {cause: r.cycles for cause, r in rows.items()} == {
        "bound": 150, "extra": 10, "rounding": 10, "contention": 6, "main_memory": 51, "shared_memory": 10,
        "core": 11, "other_cores": 7,
    }  # fmt: skip
    assert [(o.op, o.cycles) for o in rows["main_memory"].operators] == [("a", 30), ("b", 21)]
    assert [(o.op, o.cycles) for o in rows["shared_memory"].operators] == [("a", 5), ("b", 5)]
    assert [(o.op, o.cycles) for o in rows["core"].operators] == [("b", 11)]


def test_what_a_bound_of_two_phases_counts_is_not_lost_again() -> None:
    """It is above the work of any resource: the difference is waits for main memory that no plan avoids."""
    found = breakdown(row("a", 0, work=100, fetch_weights=40, engine=5))
    rows = {r.cause: r.cycles for r in waterfall(found, MACHINE, 130, 145)}
    assert rows == {"bound": 130, "main_memory": 10, "core": 5}


def test_operators_lose_no_more_than_there_is_beyond_the_bound() -> None:
    """What the bound counts is taken off the waits of all operators alike."""
    waiting = breakdown(row("a", 0, work=60, fetch_weights=30), row("b", 0, work=40, fetch_weights=10))
    (_, waits) = waterfall(waiting, MACHINE, 120, 140)
    assert waits.cycles == 20
    assert [(o.op, o.cycles) for o in waits.operators] == [("a", 15), ("b", 5)]
    working = breakdown(row("a", 0, work=60, extra=10), row("b", 0, work=40, extra=-6))
    (_, extra) = waterfall(working, MACHINE, 100, 104)
    assert [(o.op, o.cycles) for o in extra.operators] == [("a", 4)]


def test_what_a_bound_of_chains_counts_is_not_lost_again() -> None:
    """Waits first, and then instructions: nothing is negative."""
    found = breakdown(row("a", 0, work=10, fetch_weights=40, engine=30, issue=20, extra=3))
    rows = {r.cause: r.cycles for r in waterfall(found, MACHINE, 95, 103)}
    assert rows == {"bound": 95, "contention": 5, "extra": 3}


def test_the_verdict_names_a_bound_that_is_no_work() -> None:
    reason = "critical path: instructions and transfers that need one another"
    summary = replace(report().summary, lower_bound_reason=reason)
    assert "which is the critical path (gap" in verdict(summary, 1e9)[0]
    assert "the work of ddr (gap" in verdict(replace(summary, lower_bound_reason="ddr: 12 bytes"), 1e9)[0]
    around = replace(summary, lower_bound_reason="chain around ddr: 3 cycles of work, 4 before them and 5 after them")
    assert "is mostly what must be before and after the work of ddr (gap" in verdict(around, 1e9)[0]


def test_a_bound_of_two_engines_leaves_work_to_share() -> None:
    found = breakdown(row("a", 0, work=100, engine=5))
    rows = {r.cause: r.cycles for r in waterfall(found, MACHINE, 80, 105)}
    assert rows == {"bound": 80, "shared_work": 20, "core": 5}


def test_the_waterfall_is_that_of_the_run() -> None:
    found = report()
    assert sum(r.cycles for r in found.waterfall) == found.summary.cycles
    assert found.waterfall[0].cycles == found.summary.lower_bound_cycles


def test_the_verdict_is_two_sentences() -> None:
    first, second = report().verdict
    summary = report().summary
    assert f"{summary.cycles:,} cycles" in first and f"{summary.lower_bound_cycles:,}" in first and "gap" in first
    assert summary.solver_reason in second
    assert first.endswith(".") and second.endswith(".")


def test_steps_are_the_costliest_causes_and_then_the_search() -> None:
    summary = replace(report().summary, strategy="solver", cycles=1000, lower_bound_cycles=500, more_time_helps=True)
    rows = [
        WaterfallRow("bound", "lower bound", "", 500, ()),
        WaterfallRow("extra", "extra work", "", 5, ()),
        WaterfallRow("core", "waits in the core", "", 195, ()),
        WaterfallRow("main_memory", "waits for DDR", "", 300, ()),
    ]
    first, second, third = next_steps(rows, MATRIX, summary, (), MACHINE)
    assert first.text.startswith("waits for DDR: 300 cycles (30.0% of the run)") and first.cycles == 300
    assert second.text.startswith("waits in the core: 195 cycles")
    assert "--solver-timeout" in third.command and third.cycles is None
    (link, *_) = next_steps([replace(rows[1], cause="rounding", cycles=99)], "ddr", summary, (), MACHINE)
    assert "bursts" in link.text and MATRIX not in link.text
    near = replace(summary, lower_bound_cycles=950, lower_bound_reason="ddr: 12 bytes", more_time_helps=False)
    (bound,) = next_steps(rows[:2], MATRIX, near, (), MACHINE)
    assert bound.text.startswith("The bound: ddr: 12 bytes")


def test_advice_follows_from_what_is_full_and_who_waits() -> None:
    summary = replace(report().summary, strategy="solver", cycles=1000, lower_bound_cycles=500, more_time_helps=False)
    row_ = WaterfallRow("main_memory", "waits for DDR", "", 300, (OperatorCycles("fc", 300, "conv2"),))
    shared = next(m for m in report().memories if m.role == "shared")
    (empty,) = next_steps([row_], MATRIX, summary, [replace(shared, share=0.2)], MACHINE)
    (full,) = next_steps([row_], MATRIX, summary, [replace(shared, share=0.9)], MACHINE)
    assert "larger" not in empty.text and "a larger LLB, which is 90% full" in full.text
    assert "300 of them in fc, which waits for conv2" in full.text and full.command.endswith("--operator conv2")
    moved = replace(row_, cause="extra")
    (again,) = next_steps([moved], "ddr", summary, [replace(shared, share=0.2)], MACHINE)
    (halos,) = next_steps([moved], MATRIX, summary, [replace(shared, share=0.2)], MACHINE)
    assert "moved again" in again.text and "halos" not in again.text and "halos" in halos.text


def test_rules_are_told_to_give_way_to_the_solver() -> None:
    first, *_ = report().next_steps
    assert report().summary.strategy != "solver" and first.command.endswith("--strategy solver")


def test_the_screen_fits_eighty_columns_and_sixty_lines() -> None:
    text = str(report())
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("\n") < 60
    assert report().tables.startswith(text)


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    lines = report().screen(width).splitlines()
    assert max(map(len, lines)) <= width


def test_nothing_is_left_out_where_there_is_room() -> None:
    text = report().screen(200)
    for idle in report().idle:
        assert not idle.reasons or idle.reasons[0] in text
    for row in report().waterfall:
        assert not row.operators or row.operators[0].op in text
    assert "█" in text and "…" not in text
    narrow = " ".join(report().screen(40).split())
    for idle in report().idle:
        assert not idle.reasons or idle.reasons[0] in narrow


def test_every_engine_is_busy_or_idle() -> None:
    for idle in report().idle:
        assert idle.busy + idle.idle == pytest.approx(1)
    assert {i.resource for i in report().idle} == {r.resource for r in report().breakdown.totals}


def test_a_report_reads_back_without_its_compilation() -> None:
    again = Report.from_json(report().to_json())
    assert again == report() and str(again) == str(report())
    assert report().compilation.plan == compiled_residual().plan
    with pytest.raises(UsageError, match=r"explain the \.girih file again"):
        _ = again.compilation
    other = json.loads(report().to_json()) | {"format": 99}
    with pytest.raises(UsageError, match="format 99"):
        Report.from_json(json.dumps(other))


def titles(text: str) -> Iterator[str]:
    for block in text.split("\n\n"):
        yield block.splitlines()[0]


def test_every_part_of_the_screen_has_a_title() -> None:
    assert [t.split(":")[0].split(" ")[0] for t in titles(str(report()))][1:] == [
        "Verdict", "From", "Operators", "Engines", "Next",
    ]  # fmt: skip
