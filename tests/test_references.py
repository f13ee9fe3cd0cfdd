"""References in docstrings and comments, by roles as in Sphinx, lead to something of that kind. Reads syntax alone."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = ("benchmarks", "tests")
"""Folders of Python files that are not of the package; files are imported from them by these names."""
ERRORS = ("girih", "ir", "errors")
"""The kinds of errors are known everywhere without an import."""
REFERENCE = re.compile(r":(mod|func|class|data|attr|meth):`~?(\.*[\w.]+)`")

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign | ast.alias | ast.Module
KINDS: dict[str, tuple[type[Definition], ...]] = {
    "mod": (ast.Module,),
    "func": (ast.FunctionDef, ast.AsyncFunctionDef),
    "class": (ast.ClassDef,),
    "data": (ast.Assign, ast.AnnAssign),
    "attr": (ast.FunctionDef, ast.Assign, ast.AnnAssign),
    "meth": (ast.FunctionDef, ast.AsyncFunctionDef),
}
"""What a role may refer to; a property is an attribute."""


def module(path: Path) -> tuple[str, ...]:
    """The parts of the absolute name by which a file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    named = parts if parts[0] in OUTSIDE else ("girih", *parts)
    return named[:-1] if named[-1] == "__init__" else named


FILES = {
    module(path): path
    for path in sorted(ROOT.rglob("*.py"))
    if not any(part.startswith(".") or part == "build" for part in path.relative_to(ROOT).parts)
}


@cache
def tree(name: tuple[str, ...]) -> ast.Module:
    return ast.parse(FILES[name].read_text(encoding="utf-8"))


def package(name: tuple[str, ...], level: int) -> tuple[str, ...]:
    """The package that so many leading dots mean in a file."""
    inner = name if FILES[name].name == "__init__.py" else name[:-1]
    return inner[: len(inner) - level + 1]


def definitions(scope: ast.AST) -> Iterator[tuple[str, Definition]]:
    """The names that a module or class binds, with those that its methods assign to ``self``."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node
            if isinstance(scope, ast.ClassDef):
                yield from assigned_to_self(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((t.id, node) for t in targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.If):
            yield from definitions(node)


def assigned_to_self(method: ast.AST) -> Iterator[tuple[str, Definition]]:
    for node in ast.walk(method):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                    yield target.attr, node


def imported(name: tuple[str, ...], alias: str) -> Definition | None:
    """What a file imports by a name, if that is of this project."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.ImportFrom):
            base = package(name, node.level) if node.level else ()
            source = (*base, *(node.module.split(".") if node.module else ()))
            for imports in node.names:
                if (imports.asname or imports.name) == alias:
                    return absolute((*source, imports.name))
    return None


def member(name: tuple[str, ...], scope: ast.ClassDef, wanted: str) -> Definition | None:
    """What a class, or one that it is derived from, binds."""
    found = dict(definitions(scope)).get(wanted)
    for base in scope.bases if found is None else ():
        parent = at_top(name, ast.unparse(base).partition("[")[0])
        if isinstance(parent, ast.ClassDef):
            found = found or member(name, parent, wanted)
    return found


def at_top(name: tuple[str, ...], wanted: str) -> Definition | None:
    """What a file defines or imports by a name."""
    return dict(definitions(tree(name))).get(wanted) or imported(name, wanted)


def within(name: tuple[str, ...], path: tuple[str, ...]) -> Definition | None:
    """What a path of names means in a file: at its top, or in one of its classes."""
    first, *rest = path
    found = at_top(name, first)
    if found is None:
        classes = [node for _, node in definitions(tree(name)) if isinstance(node, ast.ClassDef)]
        found = next((m for c in classes if (m := member(name, c, first)) is not None), None)
    for part in rest:
        found = member(name, found, part) if isinstance(found, ast.ClassDef) else None
    return found


def absolute(path: tuple[str, ...]) -> Definition | None:
    """What an absolute name means, whose longest beginning that is a file is looked into."""
    for length in range(len(path), 0, -1):
        if path[:length] in FILES:
            return within(path[:length], path[length:]) if length < len(path) else tree(path)
    return None


def resolved(name: tuple[str, ...], target: str) -> Definition | None:
    """What a reference in a file means."""
    dots = len(target) - len(target.lstrip("."))
    parts = tuple(target[dots:].split("."))
    if dots:
        return absolute((*package(name, dots), *parts))
    if parts[0] in ("girih", *OUTSIDE):
        return absolute(parts)
    return within(name, parts) or within(ERRORS, parts)


def is_of_the_library(target: str) -> bool:
    """Whether Python itself has it."""
    module, _, name = target.rpartition(".")
    try:
        return hasattr(importlib.import_module(module or "builtins"), name)
    except ImportError:
        return False


@pytest.mark.parametrize("folder", sorted({name[:2] for name in FILES}), ids=".".join)
def test_references_lead_somewhere(folder: tuple[str, ...]) -> None:
    wrong: list[str] = []
    for name, path in FILES.items():
        if name[:2] != folder:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for role, target in REFERENCE.findall(line):
                if not isinstance(resolved(name, target), KINDS[role]) and not is_of_the_library(target):
                    wrong.append(f"{path.relative_to(ROOT)}:{number}: no {role} {target}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("role", "target", "exists"),
    [
        ("func", "within", True),
        ("class", "within", False),
        ("func", "tests.test_references.within", True),
        ("func", "tests.test_references.without", False),
        ("mod", ".test_docs", True),
        ("mod", ".test_doc", False),
        ("mod", "girih.ir", True),
        ("attr", "girih.ir.graph.Graph.digest", True),
        ("meth", "girih.ir.graph.Graph.digested", False),
    ],
)
def test_a_dead_reference_is_found(role: str, target: str, exists: bool) -> None:
    assert isinstance(resolved(("tests", "test_references"), target), KINDS[role]) == exists
