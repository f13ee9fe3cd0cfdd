"""Names say what they hold.

A past participle, adverb or pronoun (``found``, ``now``, ``mine``) says how a value came about or that there is one, not
what it is: readers have to look that up. ``left`` may be a side: in a function that also has ``right`` or ``top``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OTHERS = {"tests", "docs", "build"}
"""Folders that are no sources of the package or of its benchmarks; nor are those whose name begins with a dot."""

WORDS = {"made", "told", "asked", "found", "left", "tried", "now", "there", "of", "mine", "own", "given", "taken"}
SIDES = {"right", "top"}
PUBLISHED = {("explain/details/operator_details.py", "own")}
"""Fields that are keys of JSON files."""


def _bindings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, name) of variables, attributes, parameters, functions, classes, imports and captures."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.ExceptHandler(name=str(name))
                | ast.alias(asname=str(name))
            ):
                yield node.lineno, name
            case _:
                pass


def _vague(source: str) -> list[tuple[int, str]]:
    tree = ast.parse(source)
    functions = (list(_bindings(node)) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    sides = {b for bindings in functions if SIDES & {name for _, name in bindings} for b in bindings if b[1] == "left"}
    return sorted((line, name) for line, name in {*_bindings(tree)} - sides if name in WORDS)


def test_what_is_vague() -> None:
    source = """
def tried(told, left, *, of=1):
    found: int = of
    for mine, left_off in told: found.now = mine
def cut(left):
    right = left
"""
    in_signature = [(2, "left"), (2, "of"), (2, "told"), (2, "tried")]
    assert _vague(source) == [*in_signature, (3, "found"), (4, "mine"), (4, "now")]


def test_names_say_what_they_hold() -> None:
    paths = {path: path.relative_to(ROOT).parts[0] for path in sorted(ROOT.rglob("*.py"))}
    sources = [path for path, folder in paths.items() if folder not in OTHERS and not folder.startswith(".")]
    assert len(sources) > 100
    vague = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sources
        for line, name in _vague(path.read_text(encoding="utf-8"))
        if (path.relative_to(ROOT).as_posix(), name) not in PUBLISHED
    ]
    assert vague == [], "name what it holds"
