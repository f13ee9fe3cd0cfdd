"""What bash inserts for names as a network's author may choose them: one word each, which runs nothing."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import girih
from tests.support.onnx_models import Model

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")

NAMES = ("input 0:0", "zz$(touch ran)", "it's", "x[0]", "comma,")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a network of such names, and a command ``girih``."""
    place = tmp_path_factory.mktemp("completion")
    m = Model()
    model = m.build(m.node("Concat", *(m.input(name, 4, 5) for name in NAMES), name="joined", axis=0))
    girih.compile(model, target="tiny", strategy="layerwise", cache=False).save(place / "net.girih")
    command = place / "girih"
    command.write_text(
        f"#!{sys.executable}\nimport sys; sys.path[:] = {sys.path!r}\nfrom girih.api.cli.app import main; main()\n"
    )
    command.chmod(0o755)
    return place


def completed(folder: Path, line: str, word: str = "") -> list[str]:
    """The words that bash would put for the last one of the line, of which it has ``word``."""
    script = f"""eval "$(girih completion bash)"
        COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
        COMP_WORDS=({shlex.quote(word)}) COMP_CWORD=0
        shopt -s nullglob
        _girih_completion girih
        printf '%s\\n' "${{COMPREPLY[@]}}" """
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    run = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()


def test_names_are_quoted(folder: Path) -> None:
    words = completed(folder, "girih explain net.girih --tensor ")
    assert [name for word in words for name in shlex.split(word)] == [*NAMES, "joined"]
    subprocess.run(["bash", "-c", f"echo {' '.join(words)}"], cwd=folder, check=True)
    assert not (folder / "ran").exists()


def test_what_is_before_a_colon_stays(folder: Path) -> None:
    assert completed(folder, r"girih explain net.girih --tensor input\ 0:") == ["0"]
    assert completed(folder, r"girih explain net.girih --tensor=input\ 0:") == ["0"]
    assert completed(folder, "girih compile x --target=stc") == ["stcp920", "stcp920-2"]


def test_what_is_quoted_already(folder: Path) -> None:
    line = "girih explain net.girih --tensor "
    assert completed(folder, f"{line}'input 0:", "'input 0:") == ["input 0:0"]
    assert completed(folder, f"{line}'it", "'it") == [r"it'\''s"]
    assert completed(folder, f'{line}"zz', '"zz') == [r"zz\$(touch ran)"]
    assert completed(folder, rf"{line}input\ ", r"input\ ") == [r"input\ 0:0"]
