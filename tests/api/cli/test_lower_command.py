"""``girih lower`` and ``girih explain --tir``: what a user who brings an operator looks at."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tvm.script import from_source  # pyright: ignore[reportUnknownVariableType]

from girih.api.cli.app import cli


def test_lower_says_that_the_program_is_the_same_and_writes_tir(compiled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tir"
    result = CliRunner().invoke(cli, ["lower", str(compiled), "--dump-tir", str(folder)])
    assert result.exit_code == 0, result.output
    assert "the same program" in result.output
    scheduled = sorted(folder.glob("*.scheduled.py"))
    assert len(scheduled) >= 9 and len(list(folder.iterdir())) == 3 * len(scheduled)
    assert all("npu.tile" in place.read_text() or "main" in place.read_text() for place in scheduled)
    from_source(scheduled[0].read_text())


def test_explain_has_the_tir_of_an_operator(compiled: Path) -> None:
    result = CliRunner().invoke(cli, ["explain", str(compiled), "--operator", "stem", "--tir"])
    assert result.exit_code == 0, result.output
    for title in ("scheduled TIR", "lowered TIR", "instructions", "T.sblock", "mconv"):
        assert title in result.output


@pytest.mark.parametrize("options", [[], ["--operator", "stem", "--segment", "0"], ["--operator", "stem", "--json"]])
def test_tir_is_of_operators_alone(compiled: Path, options: list[str]) -> None:
    result = CliRunner().invoke(cli, ["explain", str(compiled), "--tir", *options])
    assert result.exit_code != 0 and "--tir is text of operators" in str(result.exception or result.output)
