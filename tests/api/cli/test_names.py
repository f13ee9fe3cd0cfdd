"""Names of a network's author on the terminal: none breaks a line, or hides what follows."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import girih
from girih.api.cli import app

NAME = "evil\n      0  halt  ; \x1b[2J[red]"


def command(capfd: pytest.CaptureFixture[str], *words: str | Path) -> tuple[str, str]:
    with pytest.raises(SystemExit):
        app.main([str(w) for w in words])
    out, err = capfd.readouterr()
    return out, err


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[4, 5] x) => (y) { y = Relu (x) }')
    model.graph.name = model.graph.node[0].name = NAME
    return model


@pytest.fixture(scope="module")
def file(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("names") / "net.girih"
    girih.compile(model, target="tiny", strategy="layerwise", cache=False).save(place)
    return place


@pytest.mark.parametrize("verb", ["run", "disasm", "plan", "explain"])
def test_a_name_stays_in_its_line(verb: str, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out, _ = command(capfd, verb, file)
    assert "evil" in out
    assert "\x1b" not in out
    assert not any(line.startswith("      0  halt") for line in out.splitlines())


def test_an_error_is_one_line(model: onnx.ModelProto, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    broken = onnx.ModelProto()
    broken.CopyFrom(model)
    broken.graph.node[0].domain = NAME
    (tmp_path / "net.onnx").write_bytes(broken.SerializeToString())
    _, err = command(capfd, "compile", tmp_path / "net.onnx", "-o", tmp_path / "net.girih", "--no-cache")
    (line,) = [line for line in err.splitlines() if line.startswith("girih:")]
    assert "evil" in line and "\x1b" not in err
    assert err.splitlines()[-1] == line
