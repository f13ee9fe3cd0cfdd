"""The measurement of predictions: what it prints of rows, and a drawn machine that it compiles for."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple
from pathlib import Path

from rich.console import Console

from benchmarks.prediction import STRATEGIES, Row, built_in_cases, drawn_cases, kept_rows, measure, summaries


def test_only_plans_of_the_solver_depend_on_the_timeout() -> None:
    cases = list(built_in_cases(["tiny"], ["tiny-cnn"], STRATEGIES, [0.0, 5.0]))
    assert [(c.strategy, c.timeout) for c in cases] == [
        ("solver", 0.0), ("solver", 5.0), ("graphturbo", 0.0), ("layerwise", 0.0)
    ]  # fmt: skip


def test_all_machines_run_a_network_before_the_next_one() -> None:
    cases = list(built_in_cases(["tiny", "stcp920"], ["tiny-cnn", "dlrm"], ["solver"], [5.0], "full"))
    assert [(c.network, c.machine) for c in cases] == [
        ("tiny-cnn", "tiny"), ("tiny-cnn", "stcp920"), ("dlrm", "tiny"), ("dlrm", "stcp920")
    ]  # fmt: skip


def test_what_a_file_has_is_not_measured_again(tmp_path: Path) -> None:
    (case,) = built_in_cases(["tiny"], ["tiny-cnn"], ["solver"], [5.0], "full")
    row = Row("tiny", "tiny-cnn", "solver", 5.0, 102, 100, 50, "full")
    file = tmp_path / "rows.json"
    assert kept_rows(file) == kept_rows(None) == []
    file.write_text(json.dumps([asdict(row)]))
    assert [kept.key for kept in kept_rows(file)] == [astuple(case)]


def test_summaries_count_close_predictions_and_take_geometric_means() -> None:
    rows = [
        Row("tiny", "a", "solver", 0.0, 102, 100, 50), Row("tiny", "b", "layerwise", 0.0, 90, 100, 12),
        Row("7", "a", "solver", 0.0, 100, 100, 100),
    ]  # fmt: skip
    console = Console(width=120, record=True)
    console.print(summaries(rows))
    lines = [line.split() for line in console.export_text().splitlines()[1:]]
    assert lines == [
        ["tiny", "2", "50%", "-10.0%", "+2.0%", "6.0%", "4.08", "2.00"],
        ["drawn", "1", "100%", "+0.0%", "+0.0%", "0.0%", "1.00", "1.00"],
        ["all", "3", "67%", "-10.0%", "+2.0%", "4.0%", "2.55", "1.41"],
    ]


def test_a_drawn_machine_is_compiled_for() -> None:
    row = next(row for row in map(measure, drawn_cases(8, 0.0)) if row is not None)
    assert row.machine.isdigit()
    assert row.predicted >= row.bound and row.simulated >= row.bound > 0
