"""``girih diff``: formats, exit codes, and what goes where."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.command_line import girih
from tests.support.compiled import compiled_residual


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Two schedules that differ in a decision that no instruction shows."""
    package = compiled_residual()
    package.save(tmp_path / "a.girih")
    replace(package, plan=replace(package.plan, seed=7)).save(tmp_path / "b.girih")
    return tmp_path / "a.girih", tmp_path / "b.girih"


def test_the_same_schedule(capfd: pytest.CaptureFixture[str], files: tuple[Path, Path]) -> None:
    code, out, err = girih(capfd, "diff", files[0], files[0], "--exit-code")
    assert code == 0 and "The same schedule" in out and not err


def test_json(capfd: pytest.CaptureFixture[str], files: tuple[Path, Path]) -> None:
    code, out, _ = girih(capfd, "diff", files[0], files[0], "--json")
    assert code == 0 and json.loads(out)["same"] is True


def test_files(capfd: pytest.CaptureFixture[str], files: tuple[Path, Path], tmp_path: Path) -> None:
    for name, begin in (("d.html", "<!doctype html>"), ("d.json", "{"), ("d.txt", "A: ")):
        code, out, _ = girih(capfd, "diff", files[0], files[0], "-o", tmp_path / name)
        assert code == 0 and f"{tmp_path / name}: written" in out
        assert (tmp_path / name).read_text().lstrip().startswith(begin)


def test_bad_input(capfd: pytest.CaptureFixture[str], files: tuple[Path, Path], tmp_path: Path) -> None:
    code, _, err = girih(capfd, "diff", files[0], tmp_path / "none.girih")
    assert code == 2 and "there is no file" in err
    code, _, err = girih(capfd, "diff", *files, "--format", "pdf")
    assert code == 2 and "there is no format 'pdf'; there are text, json, html" in err
    code, _, err = girih(capfd, "diff", *files, "-o", tmp_path / "d.csv")
    assert code == 2 and "d.csv: end the name in .txt, .md, .json or .html" in err
    code, _, err = girih(capfd, "diff", *files, "--json", "-o", tmp_path / "d.html")
    assert code == 2 and "d.html is no name for json: end it in .json, or ask for html" in err
    code, _, err = girih(capfd, "diff", *files, "--json", "--format", "html")
    assert code == 2 and "leave one of them out" in err
    code, _, err = girih(capfd, "diff", *files, "-o", files[0])
    assert code == 2 and "which is read" in err
