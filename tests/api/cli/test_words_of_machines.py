"""Words that the shell completes by what the words before them name: a machine, or a network."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from girih.api.cli import app
from girih.ir.load_machine import load_machine, machine_text
from girih.models import MODELS
from girih.solver.reduced_machine import reducible


def completed(line: str, incomplete: str = "") -> list[str]:
    """What the shell offers behind these words."""
    shell = BashComplete(app.cli, {}, "girih", "_GIRIH_COMPLETE")
    return [item.value for item in shell.get_completions(line.split(), incomplete)]


def memories(machine: str) -> list[str]:
    return [memory.name for memory in reducible(load_machine(machine))]


@pytest.mark.parametrize("target", ["tiny", "ascend310"])
def test_memories_are_those_of_the_target(target: str) -> None:
    assert completed(f"pareto net.onnx --target {target} --memory") == memories(target)
    assert completed(f"pareto --target={target} net.onnx --memory", "L") == [
        name for name in memories(target) if name.startswith("L")
    ]
    peaks = [f"peak:{name}" for name in memories(target)]
    assert completed(f"compile net.onnx --target {target} -o x.girih --minimise") == ["cycles", *peaks]
    assert completed(f"compile net.onnx --target {target} --minimise", "peak:") == peaks


def test_without_a_target_they_are_those_of_the_default() -> None:
    assert completed("pareto net.onnx --memory") == memories("stcp920")
    assert completed("compile net.onnx --minimise", "c") == ["cycles"]


def test_machines_in_files_have_theirs(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(machine_text("tiny").replace('"IM"', '"SUMS"'))
    (tmp_path / "bad.toml").write_text("cores = 0")
    assert "SUMS" in completed(f"pareto net.onnx --target {tmp_path / 'mine.toml'} --memory")
    assert completed(f"pareto net.onnx --target {tmp_path / 'bad.toml'} --memory") == []
    assert completed(f"compile net.onnx --target {tmp_path / 'none.toml'} --minimise") == ["cycles"]


def test_parameters_are_those_of_the_network() -> None:
    assert completed("models tiny-cnn --param") == [f"{k}={v}" for k, v in MODELS["tiny-cnn"].params.items()]
    assert completed("models dlrm -o x.onnx --param rows=5 --param", "emb") == ["embeddings=false"]
    assert completed("models --param") == completed("models nothing --param") == []
