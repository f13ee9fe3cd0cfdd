"""The import rules: which folder may know which, and who may touch the big libraries. Reads syntax, runs nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

from girih.ir.machine import ROLES

ROOT = Path(__file__).resolve().parent.parent

MAY_IMPORT: dict[str, set[str]] = {
    "ir": set(),
    "frontend": {"ir"},
    "solver": {"ir"},
    "lowering": {"ir"},
    "simulator": {"ir"},
    "models": {"ir"},
    "explain": {"ir"},
    "api": {"ir", "frontend", "solver", "lowering", "simulator", "models", "explain"},
}
"""What each folder may import of ours, besides itself. The simulator can only prove solver and lowering wrong if it
shares nothing with them."""

AT_HOME = {"ortools": {"solver"}, "tvm": {"frontend", "lowering"}, "tvm_ffi": {"frontend", "lowering"}}
"""The folders that may import a library that the rest must be able to do without."""

DISTRIBUTIONS = {"tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi", "google": "onnx"}
"""Where a library's import name is not the name that it is installed by. An ONNX file *is* a protobuf message, so that
onnx brings google.protobuf along."""


USER_EXTRAS = {"tables"}
"""Optional dependencies that the package imports, in functions alone; the others are for working on it."""

MOST_FILES = 14
"""Python files in a folder of the package at most: what a reader takes in at a glance. Folders of tests are free: each
file of tests is beside others as what it tests is, and nobody reads tests/support as a whole."""

NAMES_LIKE_ROLES = {("lowering/schedule/prim_func.py", "main"): "what TVM calls a module's one function"}
"""Strings that a file may have although they are roles of memories, too."""

SHARED_NAMES: dict[str, str] = {
    "__init__": "what a folder is for",
    "candidates": "what a model of the solver may choose from",
    "concat_aliasing": "concatenations whose operands are written in place: what that means, and which are chosen",
    "counters": "performance counters: the noun, and how a run counts them",
    "equivalence": "structural equivalence: of operators, and of segments",
    "model": "a constraint model of the solver: formulation, variables, constraints, objective",
    "options": "what a user may choose: of a compilation, and of the solver",
    "problem": "the data of an instance of a model of the solver",
    "run": "executes a network on inputs: a compiled one, and the reference",
    "solve": "how a model of the solver is solved: heuristic, bound, model, answer",
}
"""File names that occur in several folders, with the one meaning that they have in all of them."""


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything that a file imports, at its top, in a function or for types only."""
    package = ("girih", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            name = ".".join((*base, *(node.module.split(".") if node.module else ())))
            # `from girih import x` and `from .. import x` may name a folder.
            for alias in node.names:
                yield node.lineno, f"{name}.{alias.name}" if name == "girih" else name


def ours(name: str) -> str | None:
    """The folder of the package that an import leads to."""
    top, _, rest = name.partition(".")
    return rest.split(".")[0] if top == "girih" else None


def module(path: Path) -> str:
    """The absolute name by which a file is imported."""
    parts = ("girih", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def file_imports() -> nx.DiGraph[str]:
    """Which file of the package imports which, by module name."""
    paths = {module(path): path for path in package_sources()}
    graph: nx.DiGraph[str] = nx.DiGraph()
    for importer, path in paths.items():
        package = ("girih", *path.relative_to(ROOT).parent.parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else ()
                source = ".".join((*base, *(node.module.split(".") if node.module else ())))
                # `from .folder import file` imports the file, `from .file import name` a name in it.
                names = (f"{source}.{alias.name}" for alias in node.names)
                graph.add_edges_from(
                    (importer, n if n in paths else source) for n in names if {n, source} & paths.keys()
                )
            elif isinstance(node, ast.Import):
                graph.add_edges_from((importer, alias.name) for alias in node.names if alias.name in paths)
    return graph


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_folder_imports_only_what_it_may(folder: str) -> None:
    allowed = MAY_IMPORT[folder] | {folder}
    wrong = [
        f"{place(path, line)} imports {name}"
        for path in sources(folder)
        for line, name in imports(path)
        if (target := ours(name)) is not None and target not in allowed
    ]
    assert not wrong, f"{folder}/ may import {', '.join(sorted(allowed))} only:\n" + "\n".join(wrong)


def test_no_two_files_import_each_other_in_a_circle() -> None:
    """Imports inside functions and for types alone count as well."""
    circles = [sorted(files) for files in nx.strongly_connected_components(file_imports()) if len(files) > 1]
    assert not circles, "\n".join(" <-> ".join(files) for files in sorted(circles))


def test_no_sibling_folders_import_each_other_in_a_circle() -> None:
    """A folder and its subfolders may import each other's files; two folders beside each other, with all in them, not."""
    folders = {module(path): module(path.parent / "__init__.py") for path in package_sources()}
    graph: nx.DiGraph[str] = nx.DiGraph()
    for importer, imported in file_imports().edges:
        ours_path, theirs_path = folders[importer].split("."), folders[imported].split(".")
        depth = next((i for i, (a, b) in enumerate(zip(ours_path, theirs_path, strict=False)) if a != b), None)
        if depth is not None:
            graph.add_edge(".".join(ours_path[: depth + 1]), ".".join(theirs_path[: depth + 1]))
    circles = [sorted(names) for names in nx.strongly_connected_components(graph) if len(names) > 1]
    assert not circles, "\n".join(" <-> ".join(names) for names in sorted(circles))


def test_folders_of_tests_are_called_as_what_they_test() -> None:
    folders = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")}
    wrong = [folder.as_posix() for folder in folders - {Path("goldens")} if not (ROOT / folder).is_dir()]
    assert not wrong, sorted(wrong)


def test_no_folder_has_too_many_files() -> None:
    paths = [*package_sources(), *(ROOT / "benchmarks").rglob("*.py")]
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in paths)
    wrong = {folder: number for folder, number in counts.items() if number > MOST_FILES}
    assert not wrong, f"more than {MOST_FILES} Python files: {wrong}"


def test_a_file_name_means_the_same_everywhere() -> None:
    folders: dict[str, list[str]] = {}
    for path in package_sources():
        folders.setdefault(path.stem, []).append(path.parent.relative_to(ROOT).as_posix())
    shared = {name: places for name, places in folders.items() if len(places) > 1}
    wrong = [f"{name}: {', '.join(places)}" for name, places in shared.items() if name not in SHARED_NAMES]
    assert not wrong, "name one of the files otherwise, or say what all of them are:\n" + "\n".join(wrong)
    assert not SHARED_NAMES.keys() - shared.keys(), "these names occur once"


@pytest.mark.parametrize("library", AT_HOME)
def test_library_is_imported_at_home_only(library: str) -> None:
    wrong = [
        f"{place(path, line)} imports {name}"
        for folder in MAY_IMPORT
        if folder not in AT_HOME[library]
        for path in sources(folder)
        for line, name in imports(path)
        if name.split(".")[0] == library
    ]
    assert not wrong, f"{library} belongs to {', '.join(sorted(AT_HOME[library]))}:\n" + "\n".join(wrong)


def test_one_file_imports_the_constraint_solver() -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in sources("solver")
        if any(name.split(".")[0] == "ortools" for _, name in imports(path))
    ]
    assert len(found) == 1, f"ortools is imported in {', '.join(found)}"


def test_solver_and_lowering_know_levels_and_no_roles() -> None:
    """They ask `machine.levels`; what a memory is used for is derived in ir/machines, and named there alone."""
    wrong = [
        f"{place(path, node.lineno)}: {node.value!r}"
        for folder in ("solver", "lowering")
        for path in sources(folder)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and node.value in (*ROLES, "constants")
        and (path.relative_to(ROOT).as_posix(), node.value) not in NAMES_LIKE_ROLES
    ]
    assert not wrong, "ask machine.levels for the level that is meant:\n" + "\n".join(wrong)


def test_every_library_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {requirement_name(line) for line in project["dependencies"]}
    # What users can install on top; the code that needs it says so if it is missing.
    extras = project["optional-dependencies"].items()
    declared |= {requirement_name(line) for extra, lines in extras if extra in USER_EXTRAS for line in lines}
    wrong = [
        f"{place(path, line)} imports {name}"
        for path in package_sources()
        for line, name in imports(path)
        if (top := name.split(".")[0]) not in sys.stdlib_module_names
        and top != "girih"
        and DISTRIBUTIONS.get(top, top) not in declared
    ]
    assert not wrong, "not among the dependencies in pyproject.toml:\n" + "\n".join(wrong)


def requirement_name(requirement: str) -> str:
    end = next((i for i, c in enumerate(requirement) if not (c.isalnum() or c in "-_.")), len(requirement))
    return requirement[:end].lower()


def package_sources() -> list[Path]:
    return [ROOT / "__init__.py", *(path for folder in MAY_IMPORT for path in sources(folder))]


def test_every_folder_of_the_package_has_rules_and_is_in_the_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    found = {".".join(("girih", *path.parent.relative_to(ROOT).parts)) for path in package_sources()}
    assert found == set(settings["packages"])
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == set(MAY_IMPORT)


def test_test_code_is_imported_by_its_full_name() -> None:
    """`from tests.support.graphs import ...` everywhere, so that no file is imported twice under two names.

    What several files of tests use is in tests/support.
    """
    wrong = [
        f"{place(path, node.lineno)}: {ast.unparse(node)}"
        for folder in ("tests", "benchmarks")
        for path in sources(folder)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not by_full_name(node)
    ]
    assert not wrong, "write `from tests.support.graphs import ...`:\n" + "\n".join(wrong)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert settings["pythonpath"] == ["."]


def by_full_name(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        name = f"{node.module}."
        return node.level == 0 and not name.startswith(("girih.tests.", "girih.benchmarks.")) and ".test_" not in name
    return not any(alias.name.startswith(("tests.", "benchmarks.", "girih.tests.")) for alias in node.names)


def test_the_root_is_imported_once() -> None:
    """The root is on the path of the tests, so that its folders could be imported without their package."""
    files = [path for path in package_sources() if path.name == "__init__.py"]
    names = {
        name
        for name, module in sys.modules.items()
        if (file := getattr(module, "__file__", None)) is not None and Path(file) in files
    }
    assert {name.split(".")[0] for name in names} <= {"girih"}


def test_command_line_starts_without_the_big_libraries() -> None:
    program = f"import sys, girih.api.cli.app; print(*sorted({set(AT_HOME)!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stdout.strip(), (
        f"importing girih.api.cli.app imports {done.stdout.strip()}; import it where it is used"
    )
