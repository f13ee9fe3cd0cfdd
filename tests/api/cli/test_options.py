"""Options that do not go together, that would have no effect, or that stand for standard output."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from girih.api.cli import app
from tests.support.compiled import compiled_residual
from tests.support.onnx_models import small_cnn


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current one, with a network and a compiled one."""
    monkeypatch.chdir(tmp_path)
    compiled_residual().save("net.girih")
    onnx.save(small_cnn(), "net.onnx")
    return tmp_path


def command(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    with pytest.raises(SystemExit) as exit:
        app.main(words)
    assert isinstance(exit.value.code, int)
    out, err = capfd.readouterr()
    return exit.value.code, out, err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("models tiny-cnn --seed 5", "say where to write the network, with -o FILE.onnx, or leave out --seed"),
        ("models tiny-cnn --seed 0", "leave out --seed"),
        ("models tiny-cnn --param size=8 --seed 5", "leave out --param and --seed"),
        ("models --seed 5", "say which network: girih models NAME -o FILE.onnx"),
        ("run net.girih --timing-only --seed 0", "--timing-only computes nothing, which --seed would need"),
        ("run net.girih --timing-only --sanitize", "--timing-only computes nothing, which --sanitize would need"),
        ("compile net.onnx -o x.girih --no-cache --target tiny --dim N=2 --batch 1",
         "dimension 'N' of input 'x' is 2 by --dim N=2, and the batch by --batch 1; leave out one of the two"),
    ],
)  # fmt: skip
def test_what_would_have_no_effect_is_refused(capfd: pytest.CaptureFixture[str], words: str, message: str) -> None:
    code, out, err = command(capfd, *words.split())
    assert (code, out) == (2, "")
    assert message in err


def test_timing_alone_may_be_without_a_search_for_races(capfd: pytest.CaptureFixture[str]) -> None:
    assert command(capfd, "run", "net.girih", "--timing-only", "--no-sanitize")[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        "models tiny-cnn -o -",
        "compile net.onnx --target tiny --batch 1 --no-cache -o -",
        "run net.girih --outputs -",
        "run net.girih --trace -",
        "run net.girih --counters -",
    ],
)
def test_what_is_no_text_is_not_written_to_standard_output(
    capfd: pytest.CaptureFixture[str], folder: Path, words: str
) -> None:
    before = sorted(folder.iterdir())
    code, out, err = command(capfd, *words.split())
    assert (code, out) == (2, "")
    assert "standard output" in err and "./-" in err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    "words", ["plan net.girih", "disasm net.girih", "explain net.girih", "explain net.girih --operator c0 --json",
              "diff net.girih net.girih --format html"],
)  # fmt: skip
def test_a_dash_is_standard_output(capfd: pytest.CaptureFixture[str], folder: Path, words: str) -> None:
    code, out, _ = command(capfd, *words.split(), "-o", "-")
    assert (code, out) == (0, command(capfd, *words.split())[1])
    assert not (folder / "-").exists()
    code, _, err = command(capfd, "explain", "net.girih", "--format", "perfetto", "-o", "-")
    assert code == 2 and "perfetto goes to a file" in err


def test_a_file_may_be_called_a_dash(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    assert command(capfd, "plan", "net.girih", "-o", "./-")[0] == 0
    assert (folder / "-").read_text().strip() == command(capfd, "plan", "net.girih")[1].strip()


def test_all_items_are_counted_where_everything_is_compared(capfd: pytest.CaptureFixture[str]) -> None:
    words = ("compile", "net.onnx", "-o", "n.girih", "--target", "tiny", "--batch", "3", "--strategy", "layerwise")
    assert command(capfd, *words, "--no-cache")[0] == 0
    for how, batch in (("--check", 3), ("--exact", 3), ("--no-sanitize", None)):
        code, out, err = command(capfd, "run", "n.girih", how, "--json")
        assert code == 0, err
        assert json.loads(out)["samples_checked"] == batch
    np.savez("x.npz", x=np.ones((3, 3, 6, 6), np.float32))
    code, out, _ = command(capfd, "run", "n.girih", "--inputs", "x.npz", "--check", "--json")
    assert json.loads(out)["samples_checked"] == 3
