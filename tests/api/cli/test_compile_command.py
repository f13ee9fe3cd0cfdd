"""``girih compile``: values that make no sense, and what is printed at the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from girih.api import compile
from girih.api.cli.compile_command import parse_assignments
from girih.ir.errors import UsageError
from tests.support.command_line import girih
from tests.support.compiled import compiled_residual


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler answers at once."""
    monkeypatch.setattr(compile, "compile_for", lambda *_: compiled_residual())


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--solver-timeout", "-1", "solver timeout -1"),
        ("--timeout", "nan", "solver timeout nan"),
        ("--batch", "0", "batch 0"),
        ("--seed", "-1", "seed -1"),
        ("--dim", "seq", "write it as NAME=N"),
        ("--dim", "seq=many", "'many' is not a whole number"),
        ("--dim", "seq=0", "'seq' cannot be 0"),
        ("--target", "nothing", "no machine 'nothing'"),
    ],
)
def test_senseless_values_are_named(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, option: str, value: str, message: str
) -> None:
    code, _, err = girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih", option, value)
    assert code == 2
    assert message in err


def test_output_is_tried_before_compiling(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = girih(capfd, "compile", "missing.onnx", "-o", tmp_path / "no" / "a.girih")
    assert code == 2
    assert "cannot write" in err


@pytest.mark.usefixtures("compiling")
def test_compile_as_json(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih", "--json")
    assert code == 0
    printed = json.loads(out)
    assert printed["status"] == "ok"
    assert printed["cycles_predicted"] == 9000
    assert printed["lower_bound_cycles"] == 6000
    assert printed["models"]["tiling"] == {
        "status": "feasible", "objective": 120, "bound": 100, "gap": pytest.approx(1 / 6), "unit": "cycles",
        "runs": 2, "seconds": 0.75,
    }  # fmt: skip
    assert printed["plan_sha256"] == compiled_residual().plan_sha256
    assert printed["program_sha256"] == compiled_residual().program_sha256
    assert (tmp_path / "a.girih").stat().st_size == printed["output_bytes"]


@pytest.mark.usefixtures("compiling")
def test_compile_ends_with_a_summary(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih")
    assert code == 0
    assert "9,000 cycles predicted on stcp920, 1.50 x the lower bound" in out.splitlines()[-1]


def test_assignments() -> None:
    assert parse_assignments(("a=1", "b=true", "in:0=3"), "--dim") == {"a": 1, "b": True, "in:0": 3}
    with pytest.raises(UsageError, match="given twice"):
        parse_assignments(("a=1", "a=2"), "--dim")
