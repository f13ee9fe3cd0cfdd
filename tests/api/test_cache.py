"""A repeated compilation neither solves nor lowers, gives the same bytes, and trusts nothing that it finds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import pytest

import girih
from girih import lowering, solver
from girih.api import cache
from girih.api.cache import LOWERING, SOLVER, Cache, code_sha256, default_folder, open_cache
from girih.api.cli import app as cli
from girih.api.store import Store
from girih.ir.bounds.lower_bound import lower_bound
from girih.ir.codec import to_json
from girih.ir.errors import UsageError
from girih.ir.plan import Plan
from girih.ir.program import Program
from girih.models import build
from girih.solver.options import Options, Planned
from tests.support.compiled import LOG, compiled_residual

pytestmark = pytest.mark.usefixtures("unhurried_solver")

NETWORK = build("tiny-cnn").SerializeToString(deterministic=True)
OPTIONS: dict[str, Any] = {"target": "tiny", "batch": 1, "solver_timeout": 1.0}
BOTH, NONE = {"plan": True, "lower": True}, {"plan": False, "lower": False}


def compiled(folder: Path, **changes: Any) -> girih.Compiled:
    return girih.compile(NETWORK, cache=folder, **{**OPTIONS, **changes})


def fail(*_: object, **__: object) -> NoReturn:
    raise AssertionError("this was to come from the cache")


def test_a_repetition_neither_solves_nor_lowers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compiled(tmp_path / "cache")
    monkeypatch.setattr(solver, "plan", fail)
    monkeypatch.setattr(lowering.Lowerer, "program", fail)
    again = compiled(tmp_path / "cache")
    assert (first.cached, again.cached) == (NONE, BOTH)
    assert again == first
    assert to_json(again.explain()) == to_json(first.explain())
    for number, package in enumerate((first, again)):
        package.save(tmp_path / f"{number}.girih")
    assert (tmp_path / "0.girih").read_bytes() == (tmp_path / "1.girih").read_bytes()
    assert again.run(check=True).passed


REPEAT = """
import sys, girih
made = girih.compile(sys.argv[1], cache=sys.argv[2], target="tiny", batch=1, solver_timeout=1)
print(made.cached["plan"], *sorted({"ortools", "girih.solver.loop.search", "girih.lowering.program.assemble"} & sys.modules.keys()))
"""


def test_a_repetition_does_not_even_load_the_solver(tmp_path: Path) -> None:
    # Under another name, too.
    (tmp_path / "other.onnx").write_bytes(NETWORK)
    compiled(tmp_path / "cache")
    words = [sys.executable, "-c", REPEAT, tmp_path / "other.onnx", tmp_path / "cache"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "True\n"


def test_whatever_decides_something_makes_another_entry(tmp_path: Path) -> None:
    compiled(tmp_path)
    machine = girih.load_machine("tiny")
    for change in (
        {"seed": 1}, {"solver_timeout": 2.0}, {"strategy": "layerwise"}, {"batch": 2}, {"precision": "fp16"},
        {"target": replace(machine, frequency=machine.frequency * 2)},
    ):  # fmt: skip
        assert compiled(tmp_path, **change).cached["plan"] is False, change
        assert compiled(tmp_path, **change).cached == BOTH, change
    assert compiled(tmp_path).cached == BOTH


def test_other_weights_are_another_network(tmp_path: Path) -> None:
    compiled(tmp_path)
    other = build("tiny-cnn", seed=1).SerializeToString(deterministic=True)
    assert girih.compile(other, cache=tmp_path, **OPTIONS).cached == NONE


def planned() -> Planned:
    package = compiled_residual()
    bound, reason = lower_bound(package.graph, package.machine)
    plan = replace(
        package.plan, strategy="solver", graph_sha256=package.graph.digest, lower_bound_cycles=bound,
        lower_bound_reason=reason,
    )  # fmt: skip
    return Planned(plan, LOG)


class Calls:
    """Answers, and counts how often it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.count = 0

    def __call__(self) -> Any:
        self.count += 1
        return self.answer


def ask(store: Store | None, answer: Planned, options: Options = Options()) -> bool:  # noqa: B008
    """Whether the plan was solved for; it is the answer in any case."""
    package, calls = compiled_residual(), Calls(answer)
    found, kept = Cache(store).planned(package.graph, package.machine, options, calls)
    assert found == answer
    assert calls.count == (not kept)
    return not kept


@pytest.mark.parametrize("status", ["timeout", "interrupted"])
def test_an_answer_that_was_cut_short_is_not_kept(tmp_path: Path, status: str) -> None:
    short = replace(planned(), log=replace(LOG, status=status))
    assert ask(Store(tmp_path), short)
    assert ask(Store(tmp_path), short)
    assert ask(Store(tmp_path), planned())
    assert not ask(Store(tmp_path), planned())


def test_without_a_store_nothing_is_kept() -> None:
    assert ask(None, planned())
    assert ask(None, planned())


def beyond(plan: Plan) -> Plan:
    return replace(plan, local=(replace(plan.local[0], address=1 << 40), *plan.local[1:]))


FOREIGN: dict[str, Callable[[Planned], bytes]] = {
    "no plan at all": lambda _: b"",
    "other JSON": lambda _: b'{"plan": 3}',
    "another network's": lambda p: to_json(replace(p, plan=replace(p.plan, graph_sha256="0" * 64))),
    "another strategy's": lambda p: to_json(replace(p, plan=replace(p.plan, strategy="layerwise"))),
    "another seed's": lambda p: to_json(replace(p, plan=replace(p.plan, seed=7))),
    "another machine's": lambda p: to_json(replace(p, plan=replace(p.plan, machine="tiny"))),
    "with a wrong bound": lambda p: to_json(replace(p, plan=replace(p.plan, lower_bound_cycles=1))),
    "beyond a memory": lambda p: to_json(replace(p, plan=beyond(p.plan))),
    "without steps": lambda p: to_json(replace(p, plan=replace(p.plan, steps=p.plan.steps[:-1]))),
    "of unknown operators": lambda p: to_json(p).replace(p.plan.segments[0].ops[0].encode(), b"nothing"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_plan_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    store, right = Store(tmp_path), planned()
    assert ask(store, right)
    (entry,) = store.entries()
    store.put(entry.path.name, FOREIGN[kind](right))
    assert ask(store, right)
    assert [r.getMessage().startswith(f"cache: {entry.path} is ignored") for r in caplog.records] == [True]
    assert not ask(store, right)


def test_a_damaged_plan_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, right = Store(tmp_path), planned()
    ask(store, right)
    (entry,) = store.entries()
    entry.path.write_bytes(entry.path.read_bytes()[:-1])
    assert ask(store, right)
    assert len(caplog.records) == 1
    assert not ask(store, right)


def test_a_foreign_program_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    package, store = compiled_residual(), Store(tmp_path)
    plan = planned().plan
    right = lowering.lower(package.graph, plan, package.machine)
    calls = Calls(right)

    def lowered() -> Program:
        return Cache(store).lowered(package.graph, plan, package.machine, calls)[0]

    assert lowered() == lowered() == right
    assert calls.count == 1
    (entry,) = store.entries()
    for number, foreign in enumerate((b"", package.program_bytes, replace(right, machine_sha256="").to_bytes())):
        store.put(entry.path.name, foreign)
        assert lowered() == right
        assert (calls.count, len(caplog.records)) == (number + 2, number + 1)


def test_a_full_cache_still_compiles(tmp_path: Path) -> None:
    assert ask(Store(tmp_path, limit=10), planned())
    assert not list(tmp_path.iterdir())
    assert ask(Store(tmp_path, limit=10), planned())


def test_a_folder_that_cannot_be_made_only_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert ask(Store(tmp_path / "file" / "cache"), planned())
    assert "nothing is kept" in caplog.records[-1].getMessage()


def test_other_code_makes_other_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("ir", "solver", "lowering", "simulator", "api"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text("x = 1\n")
    (tmp_path / "api" / "judge.py").write_text("x = 1\n")
    monkeypatch.setattr(cache, "_ROOT", tmp_path)

    def digests() -> tuple[str, str]:
        code_sha256.cache_clear()
        return code_sha256(SOLVER), code_sha256(LOWERING)

    try:
        seen = [digests()]
        changes = ("ir/a.py", "solver/b.py", "lowering/deep/c.py", "simulator/d.py", "api/a.py", "api/judge.py")
        for change in changes:
            (tmp_path / change).parent.mkdir(exist_ok=True)
            (tmp_path / change).write_text("x = 2\n")
            seen.append(digests())
        solvers, lowerings = zip(*seen, strict=True)
        assert [a != b for a, b in pairwise(solvers)] == [True, True, True, True, False, True]
        assert [a != b for a, b in pairwise(lowerings)] == [True, False, True, False, False, False]
        monkeypatch.setattr(cache, "version", lambda name: "another" if name == "ortools" else "1")
        assert digests()[0] != solvers[-1]
    finally:
        code_sha256.cache_clear()


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_folder() is None
    assert open_cache(True) == open_cache(False) == Cache(None)
    monkeypatch.setenv("GIRIH_CACHE", str(tmp_path / "mine"))
    assert open_cache(True) == Cache(Store(tmp_path / "mine"))
    assert open_cache(tmp_path / "named") == Cache(Store(tmp_path / "named"))
    monkeypatch.setenv("GIRIH_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert default_folder() is not None
    if sys.platform == "linux":
        assert default_folder() == tmp_path / "user" / "girih"
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="is no folder"):
        open_cache(tmp_path / "file")
    with pytest.raises(UsageError, match="cannot hold a cache: File name too long"):
        open_cache(tmp_path / ("x" * 300))


def command(capfd: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main([str(w) for w in words])
    assert isinstance(ended.value.code, int)
    return (ended.value.code, *capfd.readouterr())


def test_the_command_line(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(NETWORK)
    words = ["compile", tmp_path / "net.onnx", "--target", "tiny", "--batch", "1", "--timeout", "1", "-o"]
    place = ["--cache", tmp_path / "cache"]
    found = [json.loads(command(capfd, *words, tmp_path / f"{n}.girih", *place, "--json")[1]) for n in range(2)]
    assert [f["cached"] for f in found] == [NONE, BOTH]
    for key in ("plan_sha256", "program_sha256", "models", "solver_status"):
        assert found[0][key] == found[1][key]
    assert (tmp_path / "0.girih").read_bytes() == (tmp_path / "1.girih").read_bytes()
    code, out, err = command(capfd, *words, tmp_path / "2.girih", *place)
    assert code == 0
    assert "search: budget (from the cache)" in out
    assert "plan: done, from the cache" in err
    assert command(capfd, *words, tmp_path / "2.girih", "--no-cache", *place)[0] == 2
    shown = json.loads(command(capfd, "cache", "info", *place, "--json")[1])
    assert (shown["plans"], shown["programs"], shown["folder"]) == (1, 1, str(tmp_path / "cache"))
    assert shown["bytes"] == sum(p.stat().st_size for p in (tmp_path / "cache").iterdir())
    assert "1 plan, 1 program and " in command(capfd, "cache", *place)[1]
    assert "deleted" in command(capfd, "cache", "clear", *place)[1]
    assert not list((tmp_path / "cache").iterdir())
    code, _, err = command(capfd, "cache")
    assert code == 2
    assert "switched off" in err


def test_what_cannot_be_cleared_is_told(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, names = Store(tmp_path), [f"{n:064x}.plan" for n in range(3)]
    store.put_all(dict.fromkeys(names, b"plan"))
    unlink = Path.unlink

    def unlink_first(self: Path, missing_ok: bool = False) -> None:
        if self.name != names[0]:
            raise PermissionError(13, "Permission denied")
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_first)
    code, out, err = command(capfd, "cache", "clear", "--cache", tmp_path)
    assert code == 2 and not out and f"{tmp_path}: 2 of 3 files cannot be deleted, and stay" in err
    code, out, _ = command(capfd, "cache", "clear", "--cache", tmp_path, "--json")
    shown = json.loads(out)
    assert code == 2 and shown["status"] == "usage_error" and f"{tmp_path}: 2 of 2 files" in shown["error"]
    assert len(list(tmp_path.iterdir())) == 2
