"""What all commands have in common: help, wrong usage, and that nothing heavy is imported without need."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from girih.api.cli import app as cli
from tests.support.command_line import girih

COMMANDS = ("compile", "run", "explain", "diff", "plan", "disasm", "targets", "models", "ops", "cache", "completion")


def test_importing_and_helping_loads_nothing_heavy() -> None:
    heavy = "{'tvm', 'ortools', 'onnx', 'numpy.f2py', 'rich', 'jinja2'}"
    for work in ("import girih", "import girih; dir(girih)", "import girih.api.cli.app"):
        code = f"import sys; {work}; print(*sorted({heavy} & sys.modules.keys()))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert not done.stdout.strip(), work


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(capfd: pytest.CaptureFixture[str], command: str) -> None:
    code, out, _ = girih(capfd, command, "--help")
    assert code == 0
    assert "Example" in out
    assert f"girih {command}" in out


def test_version(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = girih(capfd, "--version")
    assert code == 0
    assert out.startswith("girih")


@pytest.mark.parametrize("words", [["bogus"], ["compile"], ["compile", "a.onnx", "--batch", "x"], ["run", "--bogus"]])
def test_wrong_usage(capfd: pytest.CaptureFixture[str], words: list[str]) -> None:
    code, out, err = girih(capfd, *words)
    assert code == 2
    assert not out
    assert err


def test_wrong_usage_as_json(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = girih(capfd, "compile", "--json")
    assert code == 2
    assert json.loads(out)["status"] == "usage_error"


def test_the_page_of_commands_has_the_help_of_all_and_names_only_options_that_there_are() -> None:
    """The site puts what each command prints as its help in place of the block ``help``."""
    page = (Path(__file__).parents[3] / "docs/cli.md").read_text()
    assert "```help\n```\n" in page
    commands = cli.cli.commands.values()
    options = {o for command in commands for p in command.params for o in (*p.opts, *p.secondary_opts)}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page)) <= {*options, "--help"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion(capfd: pytest.CaptureFixture[str], shell: str) -> None:
    code, out, _ = girih(capfd, "completion", shell)
    assert code == 0
    assert "_GIRIH_COMPLETE" in out
