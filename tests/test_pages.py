"""What pages of the documentation say of networks, machines and JSON is so."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from onnx import save_model

import girih
from girih import models
from girih.api.cli.app import main
from girih.api.compile import Compiled
from girih.explain.report import Report
from girih.ir.load_machine import machine_text, parse_machine
from girih.ir.machine import Machine
from girih.ir.schemas.shipped import schema_path
from girih.solver.options import Strategy
from tests.support.onnx_models import Model

DOCS = Path(__file__).resolve().parent.parent / "docs"


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    config = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r": (\S+\.md)$", config, re.MULTILINE)
    assert sorted(listed) == sorted([*(p.name for p in DOCS.glob("*.md")), "decisions/README.md"])


def test_the_tour_has_at_most_twenty_lines() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert 5 <= len(readme.split("<!-- tour -->\n```sh\n")[1].split("```")[0].splitlines()) <= 20


def test_the_picture_of_a_report_is_small() -> None:
    assert (DOCS / "assets" / "report.png").stat().st_size < 300_000


def test_the_page_about_json_has_every_key_of_a_report() -> None:
    text = (DOCS / "json.md").read_text(encoding="utf-8")
    keys = json.loads(schema_path("report").read_text(encoding="utf-8"))["properties"]
    assert not [key for key in keys if f"`{key}`" not in text]


@pytest.mark.parametrize(
    "command",
    ["models", "models tiny-cnn", "ops", "targets", "cache", "compile", "run", "run --check", "diff", "explain"],
)
def test_the_page_about_json_has_every_key_that_a_command_prints(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words, path = command.split(), tmp_path / "net.girih"
    if words[0] in ("run", "diff", "explain"):
        compiled_cnn(parse_machine(machine_text("tiny"), "tiny.toml"), 1, "layerwise").save(path)
    extra = {
        "compile": [tmp_path / "net.onnx", "-o", path, "--target", "tiny", "--batch", "1", "--strategy", "layerwise"],
        "run": [path],
        "diff": [path, path],
        "explain": [path, "--operator", "conv1"],
        "cache": ["--cache", tmp_path],
    }
    if words[0] == "compile":
        save_model(models.build("tiny-cnn"), tmp_path / "net.onnx")
    with pytest.raises(SystemExit):
        main([*words, *map(str, extra.get(words[0], [])), "--json"])
    text = (DOCS / "json.md").read_text(encoding="utf-8")
    assert not [key for key in json.loads(capfd.readouterr().out) if f"`{key}`" not in text]


def test_the_chip_that_a_page_describes_loads_and_compiles() -> None:
    page = (DOCS / "describe-your-chip.md").read_text(encoding="utf-8")
    text = "\n".join(re.findall(r"^cat >+ edge.toml <<'END'\n(.*?)^END$", page, re.MULTILINE | re.DOTALL))
    machine = parse_machine(text, "edge.toml")
    compiled = compiled_cnn(machine, 1, "layerwise")
    assert machine.name == "edge" and not compiled.warnings
    assert compiled.run(check=True).passed


def test_the_lines_that_quantise_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (DOCS / "quantisation.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 10
    monkeypatch.chdir(tmp_path)
    model = Model()
    x = model.input("x", "N", 3, 8, 8)
    hidden = model.node("Relu", model.node("Conv", x, model.weight("w", 8, 3, 3, 3), name="conv"), name="relu")
    save_model(model.build(hidden), tmp_path / "net.onnx")
    rng = np.random.default_rng(0)
    names: dict[str, object] = {"samples": [rng.standard_normal((1, 3, 8, 8)).astype(np.float32) for _ in range(3)]}
    monkeypatch.setenv("GIRIH_CACHE", "off")
    exec(compile(code, "quantisation.md", "exec"), names)
    compiled = names["compiled"]
    assert isinstance(compiled, Compiled)
    assert {t.engine for s in compiled.plan.segments for t in s.tiles if "conv" in t.op} == {"matrix"}


# The walk through a report: docs/reading-a-report.md.


def compiled_cnn(machine: Machine, batch: int, strategy: Strategy = "solver") -> Compiled:
    """The network of the walk, with the options of the page."""
    precision = "fp16" if machine.name == "edge" else "as-is"
    return girih.compile(
        models.build("tiny-cnn"), target=machine, batch=batch, strategy=strategy, precision=precision,
        solver_timeout=2, cache=False,
    )  # fmt: skip


@cache
def report(batch: int, strategy: Strategy = "solver", change: tuple[str, str] = ("", "")) -> Report:
    text = machine_text("tiny").replace(*change) if change[0] else machine_text("tiny")
    return compiled_cnn(parse_machine(text, "tiny.toml"), batch, strategy).explain()


def longest_step(of: Report) -> str:
    return max(of.waterfall[1:], key=lambda row: row.cycles).cause


def busy(of: Report, engine: str) -> float:
    return next(row.busy for row in of.idle if row.resource == engine)


def test_layerwise_moves_data_again_while_engines_idle() -> None:
    layerwise = report(1, "layerwise")
    assert layerwise.summary.lower_bound_reason.startswith("ddr") and longest_step(layerwise) == "extra"
    assert busy(layerwise, "MME") < 0.3 and busy(layerwise, "VME") < 0.3
    assert not layerwise.summary.more_time_helps


def test_the_solver_leaves_the_constants_and_a_batch_shares_them() -> None:
    single, batch = report(1), report(16)
    assert "extra" not in {row.cause for row in single.waterfall}
    assert single.summary.lower_bound_cycles > single.summary.cycles / 2
    assert single.summary.lower_bound_reason.startswith("ddr")
    assert single.summary.cycles < report(1, "layerwise").summary.cycles / 3
    assert batch.summary.cycles > single.summary.cycles > 3 * batch.summary.cycles / 16
    assert batch.summary.lower_bound_reason.startswith("MME") and busy(batch, "MME") > 0.85


def test_what_the_report_says_of_local_memory_and_cores_is_so() -> None:
    batch = report(16)
    assert longest_step(batch) == "extra"
    assert next(row for row in batch.waterfall if row.cause == "extra").operators[0].op == "block.conv1"
    large = report(16, change=("capacity = 65536", "capacity = 131072")).summary.cycles
    cores = report(16, change=("\ncores = 2", "\ncores = 4"))
    assert large == pytest.approx(batch.summary.cycles, rel=0.01)
    assert batch.summary.cycles / 2 < cores.summary.cycles < 0.6 * batch.summary.cycles

    def waits(of: Report) -> int:
        return next(row.cycles for row in of.waterfall if row.cause == "main_memory")

    assert waits(cores) == pytest.approx(waits(batch), rel=0.05)
