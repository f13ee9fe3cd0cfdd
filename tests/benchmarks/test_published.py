"""What the published configurations report: by made-up measurements, and once through everything on a tiny network."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from benchmarks import networks, published
from benchmarks.networks import Case, Rows
from benchmarks.published import ORDER, PUBLISHED, TIMED, Published, answers, means, report
from girih.models import MODELS

KEYS = (
    "name", "batch", "solver_cycles", "graphturbo_cycles", "layerwise_cycles", "lower_bound_cycles",
    "items_per_second", "published_items_per_second", "compile_seconds", "prediction_error", "models",
)  # fmt: skip
TIMEOUT = 60.0


def measurement(cycles: int, bound: int = 1000, predicted: int = 0) -> dict[str, Any]:
    """The row of a case that passed."""
    model = {"status": "feasible", "objective": 5, "bound": 4, "gap": 0.2, "unit": "cycles", "runs": 2, "seconds": 1}
    seconds = {"import": 1.0, "plan": 2.0, "lower": 3.0, "save": 0.5, "total": 7.0}
    return {
        "status": "ok",
        "compile": {"cycles_predicted": predicted or cycles, "seconds": seconds, "models": {"tiling": model},
                    "solver_status": "exhausted"},
        "run": {"cycles": cycles, "lower_bound_cycles": bound, "items_per_second": 1e6 / cycles,
                "npu_fraction": {"macs": 1, "elements": 1}, "violations": 0, "rel_err": 1e-3},
    }  # fmt: skip


def measured(strategies: dict[str, int], which: tuple[Published, ...] = PUBLISHED) -> dict[str, dict[str, Any]]:
    return {p.case(s, TIMEOUT).key: measurement(c) for p in which for s, c in strategies.items()}


def test_the_ten_configurations_are_those_of_the_paper() -> None:
    assert [(p.name, p.batch) for p in PUBLISHED] == [
        ("resnet50", 64), ("bert-128", 32), ("bert-256", 16), ("bert-384", 8), ("bert-512", 8), ("dlrm", 1024),
        ("mobilenet-v2", 128), ("vit-b16", 32), ("densenet121", 32), ("conformer", 12),
    ]  # fmt: skip
    for p in PUBLISHED:
        assert {name for name, _, _ in (param.partition("=") for param in p.params)} <= MODELS[p.model].params.keys()
    rates = {p.name: p.items_per_second for p in PUBLISHED}
    # Printed in table 1, which the bars of figure 14 have to give back.
    assert rates["bert-128"] == pytest.approx(4052, rel=2e-3)
    assert rates["resnet50"] == pytest.approx(8480, rel=1e-3)


def test_nothing_measured_still_gives_ten_rows() -> None:
    rows = report(PUBLISHED, TIMEOUT, {})["rows"]
    assert len(rows) == 10
    for row in rows:
        assert set(KEYS) <= row.keys()
        assert row["solver_cycles"] is row["items_per_second"] is row["prediction_error"] is None
        assert set(row["status"].values()) == {"missing"}
    assert means(rows) == []


def test_a_row_and_its_means() -> None:
    found = measured({"solver": 2000, "layerwise": 8000}) | measured({"graphturbo": 3000}, PUBLISHED[:1])
    found[PUBLISHED[0].case("solver", TIMEOUT).key] = measurement(2000, predicted=1900)
    rows = report(PUBLISHED, TIMEOUT, found)["rows"]
    first = rows[0]
    assert [first[f"{s}_cycles"] for s in ORDER] == [2000, 3000, 8000]
    assert first["bound_ratio"] == 2
    assert first["prediction_error"] == pytest.approx(-0.05)
    assert first["compile_seconds"] == 7
    assert first["compile_seconds_by_stage"]["layerwise"]["plan"] == 2
    assert first["models"]["tiling"] == {
        "status": "feasible", "objective": 5, "bound": 4, "gap": 0.2, "unit": "cycles",
    }  # fmt: skip
    assert rows[1]["graphturbo_cycles"] is None and rows[1]["status"]["graphturbo"] == "missing"
    text = means(rows)
    assert "layerwise takes 4.00 x the cycles of solver (geometric mean of 10 networks)" in text
    assert "graphturbo takes 1.50 x the cycles of solver (geometric mean of 1 networks)" in text
    assert "solver takes 2.00 x the cycles of the lower bound (geometric mean of 10 networks)" in text
    assert any("items/s that were published (geometric mean of 5 networks)" in line for line in text)
    assert answers(rows).row_count == 10


def test_an_interrupted_measurement_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    cases = [p.case("solver", TIMEOUT) for p in PUBLISHED[:3]]
    seen: list[Case] = []

    def one(case: Case, _: Path) -> dict[str, Any]:
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(case)
        return measurement(1000)

    def kept(again: tuple[Case, ...] = ()) -> Rows:
        return Rows(file, again, lambda found: report(PUBLISHED, TIMEOUT, found), "measured")

    assert len(networks.measure_all(cases, kept(), one)) == 2
    rows = json.loads(file.read_text())["rows"]
    assert [row["solver_cycles"] for row in rows[:4]] == [1000, 1000, None, None]
    assert len(rows) == 10
    seen.clear()
    assert len(networks.measure_all(cases, kept(), one)) == 3
    assert seen == cases[2:]
    seen.clear()
    networks.measure_all(cases[:1], kept((cases[0],)), one)
    assert seen == cases[:1]
    assert len(json.loads(file.read_text())["measured"]) == 3


def test_a_failure_is_tried_again(tmp_path: Path) -> None:
    case = PUBLISHED[0].case("solver", TIMEOUT)
    answers = [{"status": "run failed (5)", "error": "wrong"}, measurement(7)]
    for number in (1, 2):
        (row,) = networks.measure_all([case], Rows(tmp_path / "rows.json"), lambda *_: answers.pop(0))
        assert row["status"] == ("run failed (5)" if number == 1 else "ok")


def test_what_takes_too_long_with_numbers_is_only_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called: list[tuple[str, ...]] = []

    def call(command: tuple[str, ...], _: float) -> tuple[int, str, str]:
        called.append(command)
        if "--check" in command:
            return -signal.SIGKILL, "", "not done after 9 s"
        (tmp_path / "network.girih").write_bytes(b"12345")
        return 0, json.dumps({"cycles": 4}), ""

    monkeypatch.setattr(networks, "call", call)
    case = PUBLISHED[0].case("solver", TIMEOUT)
    row = networks.measure(case, tmp_path, 9, (networks.CHECKED, TIMED))
    assert row["status"] == "ok" and row["run"] == {"cycles": 4} and row["bytes"] == 5
    assert [command[3] for command in called] == ["models", "compile", "run", "run"]
    assert networks.measure(case, tmp_path, 9)["status"] == "run failed (-9)"


def test_a_tiny_network_through_everything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(published, "PUBLISHED", (Published("tiny", "tiny-cnn", 8, 100, 2, 9, ("width=8",)),))
    file = tmp_path / "rows.json"
    words = ["published.py", "--json", str(file), "--timeout", "3", "--strategies", "solver", "layerwise"]
    monkeypatch.setattr("sys.argv", words)
    assert published.main() == 0
    (row,) = json.loads(file.read_text())["rows"]
    assert row["layerwise_cycles"] > row["solver_cycles"] >= row["lower_bound_cycles"] > 0
    assert row["violations"] == 0 and row["rel_err"] <= 2e-2
    assert row["npu_fraction"] == {"macs": 1.0, "elements": 1.0}
    assert row["items_per_second"] == pytest.approx(8 / (row["solver_cycles"] / 1e9))
    assert row["published_items_per_second"] == 200
    assert "2 of 2 measurements passed" in capsys.readouterr().out
    before = file.read_bytes()
    assert published.main() == 0
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"), [(["--only", "resnet51"], "resnet51"), (["--strategies", "x"], "graphturbo")]
)
def test_wrong_use(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["published.py", *words])
    with pytest.raises(SystemExit):
        published.main()
    assert said in capsys.readouterr().err
