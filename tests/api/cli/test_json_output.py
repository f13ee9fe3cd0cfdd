"""What commands print with --json: right by the schema that docs/json.md names for it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import onnx
import pytest

from girih.api.cli import app
from tests.support.compiled import compiled_residual
from tests.support.onnx_models import small_cnn

ROOT = Path(__file__).parents[3]
COMMANDS = {
    "girih explain": "explain net.girih --json",
    "girih plan": "plan net.girih --json",
    "girih targets NAME": "targets tiny --json",
    "girih explain with names": "explain net.girih --operator c0 --memory LLB --segment 0 --model tiling --json",
    "girih diff": "diff net.girih net.girih --json",
    "girih pareto": "pareto net.onnx --target tiny --memory L1 --points 2 --timeout 0 --batch 1 --json",
}


def schemas() -> dict[str, str]:
    """By command, the name of its schema, as the page says."""
    named: dict[str, str] = {}
    for line in (ROOT / "docs/json.md").read_text(encoding="utf-8").splitlines():
        if row := re.fullmatch(r"\| `(girih [^`]*)`( with `--operator`.*)? \| [^|]+ \| `([a-z]+)` \|", line):
            named[row[1] + (" with names" if row[2] else "")] = row[3]
    return named


def test_the_page_names_a_schema_for_each_of_these_commands() -> None:
    assert schemas().keys() == COMMANDS.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_schema_of_a_command_is_that_of_the_page(
    command: str, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compiled_residual().save("net.girih")
    onnx.save(small_cnn(), "net.onnx")
    printed: list[str] = []
    for words in (COMMANDS[command], f"schema {schemas()[command]}"):
        with pytest.raises(SystemExit) as exit:
            app.main(words.split())
        assert not exit.value.code, capfd.readouterr().err
        printed.append(capfd.readouterr().out)
    data, schema = map(json.loads, printed)
    jsonschema.Draft202012Validator(schema).validate(data)
    first = next(iter(data))
    del data[first]
    assert not jsonschema.Draft202012Validator(schema).is_valid(data)
