"""``girih run``: what is printed and written, checks, and wrong inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from girih.api import run
from girih.api.run import Result
from girih.ir.counters import Counters
from girih.ir.trace import NpuShare, Summary, Trace, Violation
from tests.support.command_line import girih
from tests.support.compiled import compiled_residual

BREAK = Violation("bounds", 0, 1, "mmatmul", "conv", 64, 10, "address 64 is outside")


def answer(violations: tuple[Violation, ...] = ()) -> Any:
    summary = Summary(
        "stcp920", 9500, 6000, 9.5e-6, 1e5, 10, NpuShare(1.0, 0.97), {"MME": 9000},
        Counters(({"mme_total_cycle": 9000},), {}), len(violations), violations,
    )  # fmt: skip
    outputs = {"fc": np.ones((2, 10), np.float16)}
    trace, package = Trace(summary, (), (), outputs), compiled_residual()
    return lambda *_, **__: Result(outputs, trace, None, package.program, package.machine, {"simulate": 1.0})


def test_run_as_json(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, compiled: Path) -> None:
    monkeypatch.setattr(run, "run", answer())
    code, out, _ = girih(capfd, "run", compiled, "--json")
    printed = json.loads(out)
    assert code == 0
    assert printed["status"] == "ok"
    assert printed["cycles"] == 9500
    assert printed["npu_fraction"] == {"macs": 1.0, "elements": 0.97}
    assert printed["violations"] == 0
    assert printed["max_abs_err"] is None


def test_violations_fail_the_run(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, compiled: Path
) -> None:
    monkeypatch.setattr(run, "run", answer((BREAK,)))
    code, out, err = girih(capfd, "run", compiled, "--json")
    printed = json.loads(out)
    assert code == 5
    assert printed["status"] == "check_failed"
    assert printed["violations"] == 1
    assert "address 64 is outside" in err
    code, out, _ = girih(capfd, "run", compiled)
    assert code == 5
    assert "FAILED" in out.splitlines()[-1]


def test_run_writes_its_outputs(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, compiled: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "run", answer())
    code, _, _ = girih(capfd, "run", compiled, "--outputs", tmp_path / "y.npz")
    assert code == 0
    with np.load(tmp_path / "y.npz") as arrays:
        np.testing.assert_array_equal(arrays["fc"], np.ones((2, 10), np.float16), strict=True)


def test_run_writes_its_counters(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, compiled: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "run", answer())
    for name in ("c.json", "c.csv"):
        code, _, _ = girih(capfd, "run", compiled, "--counters", tmp_path / name)
        assert code == 0
    assert json.loads((tmp_path / "c.json").read_text())["cores"] == [{"mme_total_cycle": 9000}]
    assert "mme_total_cycle,cycles,9000,,9000," in (tmp_path / "c.csv").read_text()
    code, _, err = girih(capfd, "run", compiled, "--counters", tmp_path / "c.txt")
    assert code == 2
    assert "the name must end in .json or .csv" in err


def test_run_in_time_alone(capfd: pytest.CaptureFixture[str], compiled: Path) -> None:
    code, out, _ = girih(capfd, "run", compiled, "--timing-only", "--json")
    timed = json.loads(out)
    computed = json.loads(girih(capfd, "run", compiled, "--json")[1])
    assert code == 0
    same = ("status", "cycles", "items_per_second", "instructions", "busy", "npu_fraction", "violations")
    assert {key: timed[key] for key in same} == {key: computed[key] for key in same}
    assert timed["rel_err"] is None
    code, _, err = girih(capfd, "run", compiled, "--timing-only", "--check")
    assert code == 2
    assert "--timing-only computes nothing" in err and "--check" in err


def test_exact_compares_every_element(capfd: pytest.CaptureFixture[str], compiled: Path) -> None:
    code, out, _ = girih(capfd, "run", compiled, "--exact", "--json")
    printed = json.loads(out)
    assert code == 0
    assert (printed["check"], printed["tolerance"], printed["rel_err"]) == ("exact", 0, 0)
    assert [(o["different"], o["first_different"]) for o in printed["outputs"]] == [(0, None)] * len(printed["outputs"])
    assert "elements differ" in girih(capfd, "run", compiled, "--exact")[1]
    assert json.loads(girih(capfd, "run", compiled, "--json")[1])["check"] is None
    code, _, err = girih(capfd, "run", compiled, "--exact", "--check")
    assert code == 2 and "give one of them" in err


@pytest.mark.parametrize(("words", "sanitize"), [((), True), (("--no-sanitize",), False)])
def test_run_with_and_without_the_sanitizer(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, compiled: Path, words: tuple[str, ...],
    sanitize: bool,
) -> None:  # fmt: skip
    asked: list[Any] = []
    monkeypatch.setattr(run, "run", lambda *_, **options: asked.append(options["sanitize"]) or answer()())
    assert girih(capfd, "run", compiled, *words)[0] == 0
    assert asked == [sanitize]


def test_run_of_something_else(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "net.girih").write_bytes(b"something else")
    code, out, err = girih(capfd, "run", tmp_path / "net.girih")
    assert code == 2
    assert not out
    assert "net.girih" in err


def test_wrong_inputs_of_a_run(capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", y=np.zeros(3, np.float32))
    code, _, err = girih(capfd, "run", compiled, "--inputs", tmp_path / "x.npz")
    assert code == 2
    assert "the network expects x float16[2, 16, 16, 8]" in err
