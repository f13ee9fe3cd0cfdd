"""Commands that look: plan, disasm, targets, models and ops."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from girih.api.cli.operators import REFUSED, operators
from girih.explain.plan_text import plan_text
from girih.ir import load_machine
from girih.ir.codec import from_json
from girih.ir.plan import Plan
from tests.support.command_line import girih
from tests.support.compiled import compiled_residual


def test_plan(capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path) -> None:
    plan = compiled_residual().plan
    code, out, _ = girih(capfd, "plan", compiled)
    assert code == 0
    assert out == f"{plan_text(plan)}\n"
    assert "load in portions of" in out and "store in portions of" in out and "weights to versions" in out
    code, out, _ = girih(capfd, "plan", compiled, "--json")
    assert code == 0 and from_json(out.encode(), Plan) == plan
    code, out, _ = girih(capfd, "plan", compiled, "-o", tmp_path / "plan.txt")
    assert code == 0 and (tmp_path / "plan.txt").read_text() == f"{plan_text(plan)}\n"


def test_disasm(capfd: pytest.CaptureFixture[str], compiled: Path) -> None:
    code, out, _ = girih(capfd, "disasm", compiled)
    assert code == 0
    assert f"{compiled_residual().program.instructions:,} instructions in" in out.splitlines()[-1]
    code, out, _ = girih(capfd, "disasm", compiled, "--queue", "DMR")
    assert "dcopy" in out
    assert "mmatmul" not in out
    code, _, err = girih(capfd, "disasm", compiled, "--queue", "nothing")
    assert code == 2
    assert "DMR" in err


def test_targets(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "stcp920" in girih(capfd, "targets")[1]
    assert "tiny" in json.loads(girih(capfd, "targets", "--json")[1])["targets"]
    assert json.loads(girih(capfd, "targets", "tiny", "--json")[1])["name"] == "tiny"
    (tmp_path / "bad.toml").write_text("colour = 3\n")
    file = (Path(load_machine.__file__).parent / "machines" / "tiny.toml").read_text()
    (tmp_path / "deep.toml").write_text(file.replace("rows = 8", "rows = 8\nqueue_depth = 4"))
    sentence = "queue_depth of MME has no effect: a queue takes all that comes (in engines[0].queue_depth)"
    assert f"warning: {sentence}\n" in girih(capfd, "targets", tmp_path / "deep.toml")[1]
    assert sentence in json.loads(girih(capfd, "targets", tmp_path / "deep.toml", "--json")[1])["warnings"]
    girih(capfd, "models", "tiny-cnn", "-o", tmp_path / "a.onnx", "--param", "size=4")
    words = ("compile", tmp_path / "a.onnx", "-o", tmp_path / "a.girih", "--batch", "1", "--no-cache")
    words = (*words, "--strategy", "layerwise", "--timeout", "0", "--target", tmp_path / "deep.toml")
    assert f"warning: {sentence}\n" in girih(capfd, *words)[1]
    assert sentence in json.loads(girih(capfd, *words, "--json")[1])["warnings"]
    code, _, err = girih(capfd, "targets", tmp_path / "bad.toml")
    assert code == 2
    assert "bad.toml:1" in err
    (tmp_path / "bad.toml").write_text(
        file.replace("rows = 8", "rows = 0").replace('reads = ["DDR"]', 'reads = ["A\\nB"]')
    )
    first, *others = girih(capfd, "targets", tmp_path / "bad.toml")[2].splitlines()
    assert "rows" in first
    # A line for each problem, and none that a name in the file makes.
    assert len(others) >= 3 and all("bad.toml:" in line for line in others)


def test_a_machine_file_to_begin_with(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in load_machine.machine_names():
        code, out, _ = girih(capfd, "targets", name, "--toml")
        assert code == 0 and "# " in out
        (tmp_path / "mine.toml").write_text(out)
        assert load_machine.load_machine(tmp_path / "mine.toml") == load_machine.load_machine(name)
    assert girih(capfd, "targets", "--toml")[0] == 2
    assert girih(capfd, "targets", "tiny", "--toml", "--json")[0] == 2
    assert girih(capfd, "targets", "tiny", "--svg", "--toml")[0] == girih(capfd, "targets", "--svg")[0] == 2
    assert girih(capfd, "targets", "tiny", "--svg")[1].startswith("<svg ")


def test_models(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "tiny-cnn" in girih(capfd, "models")[1]
    assert "size=16" in girih(capfd, "models", "tiny-cnn")[1]
    for name in ("a.onnx", "b.onnx"):
        code, _, _ = girih(capfd, "models", "tiny-cnn", "-o", tmp_path / name, "--param", "size=8")
        assert code == 0
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert onnx.load(tmp_path / "a.onnx").graph.input[0].type.tensor_type.shape.dim[2].dim_value == 8
    assert girih(capfd, "models", "nothing", "-o", tmp_path / "c.onnx")[0] == 2
    assert girih(capfd, "models", "tiny-cnn", "-o", tmp_path / "c.onnx", "--param", "colour=3")[0] == 2


def test_ops(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = girih(capfd, "ops")
    assert code == 0
    assert "Conv " in out
    assert "not supported" not in out
    assert "ONNX operators are supported" in out.splitlines()[-1]
    printed = json.loads(girih(capfd, "ops", "--coverage", "--json")[1])
    assert printed["all"] == len(printed["operators"]) > printed["supported"] > 100


def test_operators_that_are_refused_say_why(capfd: pytest.CaptureFixture[str]) -> None:
    rows = {row.name: row for row in operators()}
    assert set(REFUSED) <= set(rows)
    assert all(not rows[name].how and rows[name].reason for name in REFUSED)
    assert "NonZero" not in girih(capfd, "ops")[1]
    assert "not supported: the shape of its result depends on data" in girih(capfd, "ops", "--coverage")[1]
