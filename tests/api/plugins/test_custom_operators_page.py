"""The examples of the page about custom operators run, on the machines that they name."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from girih.ir.custom_operators import registered_for_now

PAGE = (Path(__file__).parents[3] / "docs" / "custom_operators.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(
    r"<!-- plugin: (\S+) -->\n```python\n(.*?)```.*?<!-- script -->\n```python\n(.*?)```", PAGE, re.DOTALL
)


@pytest.fixture(autouse=True)
def forgotten() -> Generator[None]:
    with registered_for_now():
        yield


def test_every_block_of_python_is_part_of_an_example() -> None:
    assert len(EXAMPLES) * 2 == PAGE.count("```python") >= 4


@pytest.mark.parametrize(("name", "plugin", "script"), EXAMPLES, ids=[name for name, _, _ in EXAMPLES])
def test_an_example_runs(name: str, plugin: str, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(plugin.splitlines()) <= 25
    assert "tiny" in script and "stcp920" in script and "np.testing.assert_" in script
    (tmp_path / name).write_text(plugin, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(script, "script.py", "exec"), {})
