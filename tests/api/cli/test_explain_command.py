"""``girih explain``: on standard output, and into files by their names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import girih


def test_explain(capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path) -> None:
    code, text, _ = girih(capfd, "explain", compiled)
    assert code == 0
    _, tables, _ = girih(capfd, "explain", compiled, "--tables")
    first, *_, last = tables.strip().split("\n\n")
    assert tables.startswith(text.strip()) and first == last != text.strip().split("\n\n")[-1]
    _, out, _ = girih(capfd, "explain", compiled, "--format", "json")
    assert json.loads(out)["summary"]["cycles_predicted"] == 9000
    girih(capfd, "explain", compiled, "-o", tmp_path / "report.txt")
    assert (tmp_path / "report.txt").read_text() == tables


def test_explain_follows_the_name_of_the_file(
    capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path
) -> None:
    girih(capfd, "explain", compiled, "-o", tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["summary"]["cycles_predicted"] == 9000
    code, _, err = girih(capfd, "explain", compiled, "--format", "text", "-o", tmp_path / "text.json")
    assert code == 2 and "text.json is no name for text: end it in .txt or .md, or ask for json" in err
    assert not (tmp_path / "text.json").exists()
