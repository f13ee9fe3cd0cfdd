"""``girih explain --operator …``: what is printed where, what is wrong input, and how the shell completes names."""

from __future__ import annotations

import io
import json
import time
import zipfile
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from girih.api.cli import app as cli
from girih.api.cli.output import encodable
from tests.support.command_line import girih
from tests.support.compiled import compiled_residual

OP = compiled_residual().graph.ops[1].name


def completed(*words: str | Path, incomplete: str = "") -> list[str]:
    """What the shell offers behind these words."""
    shell = BashComplete(cli.cli, {}, "girih", "_GIRIH_COMPLETE")
    return [item.value for item in shell.get_completions([str(w) for w in words], incomplete)]


def test_several_details_at_once(capfd: pytest.CaptureFixture[str], compiled: Path) -> None:
    words = ("--operator", OP, "--segment", "0", "--memory", "llb", "--model", "tiling", "--tensor", OP)
    code, out, err = girih(capfd, "explain", compiled, *words)
    assert (code, err) == (0, "")
    for title in (f"Operator {OP} (", f"Tensor {OP}", "Segment 0", "Memory LLB", "Model tiling"):
        assert f"\n{title}" in f"\n{out}"
    assert max(map(len, out.splitlines())) <= 80


def test_details_as_json(capfd: pytest.CaptureFixture[str], compiled: Path) -> None:
    code, out, _ = girih(capfd, "explain", compiled, "--operator", OP, "--memory", "L1", "--json")
    assert code == 0
    data = json.loads(out)
    assert [row["name"] for row in data["operators"]] == [OP]
    assert [row["name"] for row in data["memories"]] == ["L1"]
    assert data["tensors"] == []


@pytest.mark.parametrize("name", ["details.txt", "details.json"])
def test_details_go_to_a_file(capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path, name: str) -> None:
    code, out, _ = girih(capfd, "explain", compiled, "--operator", OP, "-o", tmp_path / name)
    assert code == 0
    assert out.strip() == f"{tmp_path / name}: written"
    text = (tmp_path / name).read_text()
    assert json.loads(text)["operators"] if name.endswith("json") else text.startswith(f"Operator {OP}")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--operator", f"{OP}x", f"did you mean '{OP}'"),
        ("--tensor", "nothing-like-this", "there is no tensor 'nothing-like-this'"),
        ("--segment", "99", "there is no segment '99'; they are 0 to "),
        ("--memory", "cache", "there are DDR, LLB, L1, L1W, IM"),
        ("--model", "tilling", "did you mean 'tiling'"),
        ("--format", "htlm", "there is no format 'htlm'; did you mean html?"),
    ],
)
def test_unknown_names_are_wrong_usage(
    capfd: pytest.CaptureFixture[str], compiled: Path, option: str, value: str, message: str
) -> None:
    code, out, err = girih(capfd, "explain", compiled, option, value)
    assert (code, out) == (2, "")
    assert message in err


def test_files_that_cannot_be_explained(capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path) -> None:
    code, _, err = girih(capfd, "explain", tmp_path / "missing.girih", "--operator", OP)
    assert code == 2
    assert "there is no file" in err
    (tmp_path / "corrupt.girih").write_bytes(compiled.read_bytes()[:1000])
    code, _, err = girih(capfd, "explain", tmp_path / "corrupt.girih", "--memory", "LLB")
    assert code == 2
    assert "it is no complete .girih file" in err
    with zipfile.ZipFile(compiled) as archive, zipfile.ZipFile(tmp_path / "old.girih", "w") as old:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "meta.json":
                content = json.dumps({**json.loads(content), "format": 1}).encode()
            old.writestr(name, content)
    code, _, err = girih(capfd, "explain", tmp_path / "old.girih", "--segment", "0")
    assert code == 2
    assert "its format is 1" in err
    assert "compile the model again" in err


def test_a_narrow_terminal_without_colours(
    capfd: pytest.CaptureFixture[str], compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("girih.api.cli.explain_command.columns", lambda: 40)
    monkeypatch.setenv("NO_COLOR", "1")
    code, out, _ = girih(capfd, "explain", compiled, "--operator", OP, "--tensor", OP, "--memory", "LLB")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 40
    assert "\x1b" not in out


def test_a_terminal_without_blocks_gets_plain_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    assert encodable("|▁▄█|") == "|▁▄█|"
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    assert encodable("|▁▄█|…") == "|.-#|..."


def test_the_shell_completes_names_of_the_file(compiled: Path) -> None:
    package = compiled_residual()
    assert completed("explain", compiled, "--operator") == [op.name for op in package.graph.ops]
    assert completed("explain", compiled, "--tensor", incomplete=OP[:2])
    assert all(n.startswith(OP[:2]) for n in completed("explain", compiled, "--tensor", incomplete=OP[:2]))
    assert completed("explain", compiled, "--operator", OP, "--memory") == [m.name for m in package.machine.memories]
    assert completed("explain", compiled, "--segment")[:2] == ["0", "1"]
    assert "tiling" in completed("explain", compiled, "--model")


def test_the_shell_gets_nothing_where_there_is_no_file(compiled: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.girih").write_bytes(b"")
    (tmp_path / "corrupt.girih").write_bytes(compiled.read_bytes()[:1000])
    with zipfile.ZipFile(tmp_path / "other.girih", "w") as archive:
        archive.writestr("graph.json", "[]")
    for name in ("missing.girih", "empty.girih", "corrupt.girih", "other.girih"):
        assert completed("explain", tmp_path / name, "--operator") == []
    assert completed("explain", "--operator") == []


def test_completion_is_quick(compiled: Path) -> None:
    began = time.perf_counter()
    completed("explain", compiled, "--operator")
    assert time.perf_counter() - began < 1
