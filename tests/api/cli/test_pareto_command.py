"""``girih pareto`` and ``girih compile --minimise``: formats, keys, bad input, and the same from Python."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path

import onnx
import pytest

import girih
from girih.api.cli import app as cli
from girih.ir.errors import UsageError
from tests.support.onnx_models import small_cnn


def command(capfd: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit:
        cli.main([str(w) for w in words])
    assert isinstance(exit.value.code, int)
    out, err = capfd.readouterr()
    return exit.value.code, out, err


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(small_cnn(), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@cache
def curve() -> girih.Curve:
    return girih.pareto(small_cnn(), target="tiny", memory="L1", points=3, solver_timeout=2, batch=1)


def test_a_curve_falls_and_reads_back(tmp_path: Path) -> None:
    rows = curve().points
    assert rows[0].saved is None and rows[0].saved_per_kib is None
    for less, more in pairwise(rows):
        assert more.saved == less.cycles - more.cycles and more.saved > 0
        assert more.saved_per_kib == pytest.approx(more.saved / (more.bytes - less.bytes) * 1024)
    for row in rows:
        assert max(row.activations, row.constants) <= row.bytes and row.cycles >= curve().lower_bound_cycles
    assert girih.Curve.from_json(curve().to_json()) == curve()
    for name, begin in (("c.html", "<!doctype html>"), ("c.csv", "bytes,cycles,"), ("c.txt", "  ")):
        curve().save(tmp_path / name)
        assert (tmp_path / name).read_text().startswith(begin)
    page = (tmp_path / "c.html").read_text()
    assert page.count("<circle") == len(rows) and f"{rows[0].cycles:,}" in page
    assert (tmp_path / "c.csv").read_text().count("\n") == len(rows) + 1


def test_the_command_prints_one_object(capfd: pytest.CaptureFixture[str], model: Path) -> None:
    words = ("pareto", model, "--target", "tiny", "--memory", "L1", "--points", "3", "--timeout", "2", "--batch", "1")
    code, out, err = command(capfd, *words, "--json")
    assert code == 0 and "peak:L1: running" in err
    assert json.loads(out) == json.loads(curve().to_json()) | {"network": json.loads(out)["network"]}


def test_bad_input(capfd: pytest.CaptureFixture[str], model: Path, tmp_path: Path) -> None:
    for words, message in (
        (("--points", "1"), "1 points make no curve; give 2 to 64"),
        (("--memory", "L2"), "tiny has no memory 'L2'; choose from DDR, LLB, L1, L1W, IM"),
        (("-o", tmp_path / "c.onnx"), "c.onnx: end the name in .txt, .md, .json, .html or .csv"),
    ):
        code, _, err = command(capfd, "pareto", model, "--target", "tiny", "--batch", "1", *words)
        assert code == 2 and message in err
    with pytest.raises(UsageError, match="minimise 'size' is no goal; give cycles, or peak:MEMORY such as peak:LLB"):
        girih.compile(model, minimise="size")


def test_the_peak_is_told(capfd: pytest.CaptureFixture[str], model: Path, tmp_path: Path) -> None:
    words = ("compile", model, "--target", "tiny", "--batch", "1", "--timeout", "2", "--minimise", "peak:L1W")
    code, out, _ = command(capfd, *words, "-o", tmp_path / "net.girih", "--json", "--no-cache")
    told = json.loads(out)
    assert code == 0 and told["minimise"] == "peak:L1W"
    assert list(told["peak"]) == ["memory", "bytes", "bound", "proven"] and told["peak"]["memory"] == "L1W"
    assert told["models"]["peak:L1W"]["objective"] == told["peak"]["bytes"] >= told["peak"]["bound"]
    package = girih.load(tmp_path / "net.girih")
    assert package.options.minimise == "peak:L1W"
    row = next(row for row in package.explain().memories if row.memory == "L1W")
    assert row.extent <= told["peak"]["bytes"]
    assert not package.run(check="exact").violations
