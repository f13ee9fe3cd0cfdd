"""Whether the tests notice small changes of the sources.

    python -m benchmarks.source_mutants --json build/source-mutants.json                # 300 changes
    python -m benchmarks.source_mutants --json FILE --mutants 100 --only solver/banks simulator --jobs 1

Files are drawn by their lines, a line of the file that can be changed, then one of its changes (``changes.py``). Each
changed tree is a copy, in which the nearest tests (``nearest_tests.py``) run until the first one fails. A mutant whose
tests use up their processor seconds before one fails is "timed out", and counts neither way. The first of N mutants are
the same for every N, and what the JSON file has already is not run again. In the end, the tests that failed run once on
the sources as they are: what fails there too makes its mutants "void", as does a run that ends without a failed test.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from py_compile import PycInvalidationMode

from rich.console import Console
from rich.table import Table

from benchmarks.source_mutants.changes import Change, changes
from benchmarks.source_mutants.nearest_tests import nearest_tests

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("solver", "ir/checks", "lowering", "simulator", "frontend")
EASY = ("arguments swapped", "returned constant", "statement deleted")
"""Kinds of changes that are drawn a third as often as others in a line: tests notice them sooner."""
VERDICTS = ("killed", "survived", "timed out", "void")


@dataclass(frozen=True)
class Mutant:
    """One changed place; ``killer`` is the test that failed, the last line of pytest's where no test ran."""

    number: int
    folder: str
    file: str
    line: int
    kind: str
    before: str
    after: str
    verdict: str = ""
    killer: str = ""
    seconds: float = 0.0


def drawn(count: int, seed: int, folders: list[str]) -> list[tuple[Mutant, str]]:
    """Mutants in the order in which they were drawn, each with the text of the changed file."""
    rng = random.Random(seed)
    sources = {
        p.relative_to(ROOT).as_posix(): p.read_text()
        for folder in folders
        for p in sorted((ROOT / folder).rglob("*.py"))
        if p.name != "__init__.py"
    }
    trees = {name: ast.parse(text) for name, text in sources.items()}
    places: dict[str, dict[int, list[Change]]] = {name: {} for name in sources}
    for name, tree in trees.items():
        for change in changes(tree):
            places[name].setdefault(change.line, []).append(change)
    lines = {name: text.count("\n") for name, text in sources.items()}
    mutants: list[tuple[Mutant, str]] = []
    while len(mutants) < count and any(places.values()):
        names = [name for name in sources if places[name]]
        name = rng.choices(names, [lines[n] for n in names])[0]
        line = rng.choice(sorted(places[name]))
        changes_of_line = places[name].pop(line)
        change = rng.choices(changes_of_line, [1 if c.kind in EASY else 3 for c in changes_of_line])[0]
        before, after = (t.splitlines()[0][:160] for t in (change.before, change.after))
        folder = next(f for f in folders if name.startswith(f"{f}/"))
        mutant = Mutant(len(mutants), folder, name, line, change.kind, before, after)
        mutants.append((mutant, change.apply(trees[name])))
    return mutants


class Copies:
    """Copies of the tree, one for each job, and the processes that test in them."""

    def __init__(self, folder: Path, jobs: int, cpu_seconds: int) -> None:
        self.cpu_seconds = cpu_seconds
        self.free: list[Path] = []
        self.running: dict[int, tuple[Mutant, Path, str, float]] = {}
        for job in range(jobs):
            copy = folder / str(job) / "girih"
            ignored = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".hypothesis", ".pytest_cache")
            shutil.copytree(ROOT, copy, ignore=ignored)
            # Judged by contents: a changed file may have the size and the second of the one before.
            compileall.compile_dir(copy, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
            self.free.append(copy)

    def start(self, mutant: Mutant, text: str, tests: list[str]) -> None:
        """Test a changed file (none if ``mutant.file`` is empty) in a free copy, in a process of its own."""
        copy = self.free.pop()
        original = ""
        if mutant.file:
            original = (copy / mutant.file).read_text()
            (copy / mutant.file).write_text(text)
        child = os.fork()
        if child == 0:
            try:
                os._exit(_run_tests(copy, tests, self.cpu_seconds, first_only=bool(mutant.file)))
            finally:
                os._exit(70)
        self.running[child] = mutant, copy, original, time.perf_counter()

    def finish(self) -> tuple[Mutant, list[str]]:
        """The next mutant that is decided, and the tests that failed."""
        process, status, _ = os.wait3(0)
        mutant, copy, original, started = self.running.pop(process)
        if mutant.file:
            (copy / mutant.file).write_text(original)
        self.free.append(copy)
        log = (copy.parent / "log").read_text(errors="replace").splitlines()
        failed = [line.split(" ", 1)[1].split(" - ")[0] for line in log if line.startswith(("FAILED ", "ERROR "))]
        if os.WIFSIGNALED(status):
            verdict = "timed out"
        else:
            # Other exit codes of pytest than that of a failed test tell nothing about the mutant.
            verdict = "survived" if status == 0 else "killed" if failed else "void"
        killer = failed[0] if verdict == "killed" else (log[-1:] or [""])[0] if verdict == "void" else ""
        seconds = round(time.perf_counter() - started, 1)
        return replace(mutant, verdict=verdict, killer=killer, seconds=seconds), failed


def _run_tests(copy: Path, tests: list[str], cpu_seconds: int, *, first_only: bool) -> int:
    """In the child: pytest on the sources of ``copy``. What it imports of others was imported before the fork."""
    import pytest

    os.setsid()
    log = os.open(copy.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
    os.chdir(copy)
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path[:] = [str(copy.parent), *(p for p in sys.path if p and not (Path(p) / "girih").exists())]
    for name in [n for n in sys.modules if n.split(".")[0] in ("girih", "benchmarks", "tests")]:
        del sys.modules[name]
    # With -m "" thorough cases run as well.
    options = ["-p", "no:cacheprovider", "-p", "no:randomly", "-m", "", "--tb=no", "-q"]
    return int(pytest.main([*options, *(["-x"] if first_only else []), *tests]))


def table(mutants: list[Mutant]) -> Table:
    """Verdicts by folder; the rate is of those that were killed or survived."""
    result = Table("folder", "mutants", *VERDICTS, "rate", box=None, pad_edge=False)
    for folder in (*dict.fromkeys(m.folder for m in mutants), "all"):
        counts = Counter(m.verdict for m in mutants if folder in (m.folder, "all"))
        judged = counts["killed"] + counts["survived"]
        rate = f"{counts['killed'] / judged:.0%}" if judged else ""
        result.add_row(folder, str(counts.total()), *(str(counts[v]) for v in VERDICTS), rate)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--only", nargs="+", default=list(FOLDERS), metavar="FOLDER", help="draw from these folders")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=int, default=300, help="of processor time, for the tests of a mutant")
    parser.add_argument(
        "--json", type=Path, required=True, metavar="FILE", help="results; what is in it is not run again"
    )
    parser.add_argument("--again", action="store_true", help="run those that survived or timed out again")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)
    kept = json.loads(arguments.json.read_text()) if arguments.json.exists() else []
    key = ("file", "before", "after", "line")
    known = {tuple(m[k] for k in key): Mutant(**m) for m in kept}
    waiting = drawn(arguments.mutants, arguments.seed, arguments.only)
    decided: list[Mutant] = []
    todo: list[tuple[Mutant, str]] = []
    for mutant, text in waiting:
        before = known.get(tuple(getattr(mutant, k) for k in key))
        if before is None or (arguments.again and before.verdict != "killed"):
            todo.append((mutant, text))
        else:
            decided.append(replace(before, number=mutant.number))

    def keep() -> None:
        rows = [asdict(m) for m in sorted(decided, key=lambda m: m.number)]
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")

    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    # Once for all processes: what takes longest to import.
    import tvm  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        copies = Copies(Path(folder), arguments.jobs, arguments.seconds)
        for mutant, text in todo:
            copies.start(mutant, text, nearest_tests(ROOT, mutant.file))
            while not copies.free:
                _note(copies, decided, console)
                keep()
        while copies.running:
            _note(copies, decided, console)
            keep()
        killers = sorted({m.killer for m in decided if m.verdict == "killed" and m.killer.startswith("tests/")})
        if killers and todo:
            copies.cpu_seconds = 3600
            copies.start(Mutant(-1, "", "", 0, "", "", ""), "", killers)
            _, failing = copies.finish()
            decided = [replace(m, verdict="void") if m.killer in failing else m for m in decided]
            keep()
    console.print(table(decided))
    for m in sorted(decided, key=lambda m: m.number):
        if m.verdict in ("survived", "timed out"):
            console.print(f"{m.verdict}: {m.file}:{m.line} ({m.kind}): {m.before}  ->  {m.after}")
    return 0


def _note(copies: Copies, decided: list[Mutant], console: Console) -> None:
    mutant, _ = copies.finish()
    decided.append(mutant)
    console.print(
        f"{len(decided)} {mutant.file}:{mutant.line} {mutant.verdict} after {mutant.seconds} s {mutant.killer}"
    )


if __name__ == "__main__":
    sys.exit(main())
