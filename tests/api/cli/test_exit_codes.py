"""Exit codes of errors and interrupts, and what is printed with them."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from girih.api import compile
from girih.api.compile import Compiled
from girih.ir.errors import CheckError, GirihError, InfeasibleError, UnsupportedError, UsageError
from girih.solver.cpsat.interrupts import Interrupts
from tests.support.command_line import girih
from tests.support.compiled import compiled_residual


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (UsageError("x"), 2, "usage_error"),
        (UnsupportedError("x"), 3, "unsupported"),
        (InfeasibleError("x"), 4, "infeasible"),
        (CheckError("x"), 5, "check_failed"),
        (ValueError("x"), 1, "internal_error"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_exit_codes(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException,
    code: int, status: str,
) -> None:  # fmt: skip
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(compile, "compile_for", fail)
    words = ["compile", "a.onnx", "-o", str(tmp_path / "a.girih"), "--json"]
    found, out, err = girih(capfd, *words)
    assert found == code
    assert json.loads(out)["status"] == status
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())
    if isinstance(error, GirihError):
        assert status.replace("_", " ") in err


def test_an_interrupt_that_a_library_turned_into_an_error_is_one(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def load(*_: object) -> None:
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr(compile, "compile_for", load)
    code, _, err = girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih")
    assert code == 130
    assert "interrupted" in err
    assert "internal" not in err


def test_termination_is_an_interrupt(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compile, "compile_for", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    code, out, _ = girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih", "--json")
    assert code == 143
    assert json.loads(out)["status"] == "interrupted"
    assert not list(tmp_path.iterdir())


def test_termination_while_planning_keeps_the_best_plan(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    interrupts = Interrupts()

    def compile_for(*_: object) -> Compiled:
        with interrupts.watch(), suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        return compiled_residual()

    monkeypatch.setattr(compile, "compile_for", compile_for)
    assert girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih")[0] == 0
    assert interrupts.seen
    assert (tmp_path / "a.girih").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_after_the_file_is_there_changes_nothing(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals
) -> None:
    replace, place = os.replace, tmp_path / "a.girih"

    def replace_and_interrupt(*places: Path) -> None:
        replace(*places)
        os.kill(os.getpid(), number)

    monkeypatch.setattr(compile, "compile_for", lambda *_: compiled_residual())
    monkeypatch.setattr(os, "replace", replace_and_interrupt)
    code, out, err = girih(capfd, "compile", "a.onnx", "-o", place, "--json")
    assert (code, json.loads(out)["output_bytes"]) == (0, place.stat().st_size)
    assert "interrupted" not in err


def test_a_command_in_the_background_leaves_an_interrupt_alone(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A termination reaches the search nevertheless."""
    interrupts, seen = Interrupts(), list[bool]()

    def compile_for(*_: object) -> Compiled:
        with interrupts.watch(), suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            seen.append(interrupts.seen)
            os.kill(os.getpid(), signal.SIGTERM)
        return compiled_residual()

    monkeypatch.setattr(compile, "compile_for", compile_for)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih")[0] == 0
    finally:
        signal.signal(signal.SIGINT, before)
    assert (seen, interrupts.seen) == ([False], True)


def test_debug_shows_where(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object) -> None:
        raise ValueError("deep inside")

    monkeypatch.setattr(compile, "compile_for", fail)
    monkeypatch.setenv("GIRIH_DEBUG", "1")
    code, _, err = girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih")
    assert code == 1
    assert "Traceback" in err
    assert "deep inside" in err
