"""Where commands write: standard output, terminals that are narrow, and files that they read."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from girih.api import compile
from girih.api.cli import output
from girih.ir import load_machine
from tests.support.command_line import girih
from tests.support.compiled import compiled_residual


def test_libraries_cannot_write_into_the_json(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def noisy(*_: object) -> object:
        os.write(1, b"noise from a library\n")
        return compiled_residual()

    monkeypatch.setattr(compile, "compile_for", noisy)
    _, out, err = girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih", "--json")
    assert json.loads(out)["status"] == "ok"
    assert "noise" in err


def test_rows_end_where_the_terminal_ends(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    text = f"a sentence of any length\n  {'x' * 18}\n  {'y' * 19}"
    output.show(text, "the command")
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.show(text, "the command")
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines == ["a sentence of any length", f"  {'x' * 18}", f"  {'y' * 17}…"]
    assert "the command" in last


def test_no_result_replaces_what_it_is_made_from(
    capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path
) -> None:
    before = compiled.read_bytes()
    for words in (["run", compiled, "--outputs"], ["run", compiled, "--trace"], ["explain", compiled, "-o"],
                  ["disasm", compiled, "-o"], ["compile", compiled, "-o"]):  # fmt: skip
        code, _, err = girih(capfd, *words, compiled)
        assert code == 2, words
        assert "would replace" in err
    assert compiled.read_bytes() == before
    machine = Path(load_machine.__file__).with_name("machines") / "tiny.toml"
    (tmp_path / "m.toml").write_bytes(machine.read_bytes())
    code, _, err = girih(capfd, "compile", "a.onnx", "--target", tmp_path / "m.toml", "-o", tmp_path / "m.toml")
    assert code == 2
    assert "would replace" in err
