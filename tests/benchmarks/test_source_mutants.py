"""The changes that a source file can be given, which tests are nearest to it, and a mutant that a test kills."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.source_mutants.changes import changes
from benchmarks.source_mutants.nearest_tests import nearest_tests

ROOT = Path(__file__).parents[2]


def afters(source: str) -> set[tuple[str, str]]:
    return {(c.kind, c.after) for c in changes(ast.parse(source))}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", {("comparison", "a <= b"), ("comparison", "a >= b")}),
        ("x = a is not None", {("comparison", "a is None")}),
        ("x = a + 3", {("arithmetic", "a - 3"), ("constant", "4"), ("constant", "2")}),
        ("x = f(a, key=True)", {("constant", "False")}),
        ("x = a and b", {("and/or", "a or b"), ("condition dropped", "a"), ("condition dropped", "b")}),
        ("x = not a", {("not", "a")}),
        ("x = min(a, b)", {("min/max", "max(a, b)")}),
        ("x = f(a, b)", {("arguments swapped", "f(b, a)")}),
        (
            "def f() -> bool:\n    return a",
            {("returned constant", "return True"), ("returned constant", "return False")},
        ),
        ("def f() -> str:\n    return a", {("returned constant", "return None")}),
        ("self.a = b", {("statement deleted", "pass")}),
        ("raise ValueError(f'{a + 1} is too large')", {("statement deleted", "pass")}),
        ("_fail(a + 1)", {("statement deleted", "pass")}),
        ("'''What 1 + 1 is.'''\nx: Literal[1]\nassert a < b\ny = zip(a, b, strict=True)", set[tuple[str, str]]()),
    ],
)
def test_changes(source: str, expected: set[tuple[str, str]]) -> None:
    assert afters(source) == expected


def test_each_change_is_of_one_place_and_leaves_the_tree_as_it_was() -> None:
    tree = ast.parse((ROOT / "ir/semantics/in_place.py").read_text())
    before = ast.unparse(tree) + "\n"
    found = changes(tree)
    texts = [change.apply(tree) for change in found]
    assert ast.unparse(tree) + "\n" == before
    assert len(set(texts)) == len(texts) > 30
    for change, text in zip(found, texts, strict=True):
        compile(text, "changed", "exec")
        differing = {*text.splitlines()} ^ {*before.splitlines()}
        assert 1 <= len(differing) <= 2 + len(change.before.splitlines()), change


def test_nearest_tests() -> None:
    found = nearest_tests(ROOT, "solver/banks/placement.py")
    assert found[0] == "tests/solver/banks/test_placement.py"
    assert found[-1].startswith("tests/goldens/")
    assert all((ROOT / name).is_file() for name in found) and len(set(found)) == len(found)
    assert "tests/solver/test_switches.py" in found[1:-1] and not any(name.count("/") == 1 for name in found)
    # There is no such folder among the tests: the one above it.
    assert nearest_tests(ROOT, "explain/cycles/ledger.py")[0].startswith("tests/explain/test_")


def test_mutants_are_run_once_and_kept(tmp_path: Path) -> None:
    results = tmp_path / "mutants.json"
    call = [sys.executable, "-m", "benchmarks.source_mutants", "--json", str(results), "--mutants", "1", "--seed", "1"]
    call += ["--only", "simulator/timing", "--jobs", "1", "--seconds", "1"]
    outputs = [subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    (mutant,) = json.loads(results.read_text())
    assert mutant["verdict"] in ("killed", "survived", "timed out") and mutant["folder"] == "simulator/timing"
    assert mutant["file"] in outputs[0] and "1 simulator" in outputs[0] and "1 simulator" not in outputs[1]
    assert outputs[1] in outputs[0]
