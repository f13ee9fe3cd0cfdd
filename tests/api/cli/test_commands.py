"""The command line: exit codes, what goes to which stream, and that nothing heavy is imported without need."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from girih.api import compile, run
from girih.api.cli import app as cli
from girih.api.cli import output
from girih.api.cli.compile_command import parse_assignments
from girih.api.cli.operators import REFUSED, operators
from girih.api.compile import Compiled
from girih.api.run import Result
from girih.explain.plan_text import plan_text
from girih.ir import load_machine
from girih.ir.codec import from_json
from girih.ir.counters import Counters
from girih.ir.errors import CheckError, GirihError, InfeasibleError, UnsupportedError, UsageError
from girih.ir.plan import Plan
from girih.ir.trace import NpuShare, Summary, Trace, Violation
from girih.solver.cpsat.interrupts import Interrupts
from tests.support.compiled import compiled_residual

COMMANDS = ("compile", "run", "explain", "diff", "plan", "disasm", "targets", "models", "ops", "cache", "completion")
BREAK = Violation("bounds", 0, 1, "mmatmul", "conv", 64, 10, "address 64 is outside")


def girih(capfd: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as exit:
        cli.main([str(w) for w in words])
    assert isinstance(exit.value.code, int)
    out, err = capfd.readouterr()
    return exit.value.code, out, err


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    compiled_residual().save(tmp_path / "net.girih")
    return tmp_path / "net.girih"


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler answers at once."""
    monkeypatch.setattr(compile, "compile_for", lambda *_: compiled_residual())


def answer(violations: tuple[Violation, ...] = ()) -> Any:
    summary = Summary(
        "stcp920", 9500, 6000, 9.5e-6, 1e5, 10, NpuShare(1.0, 0.97), {"MME": 9000},
        Counters(({"mme_total_cycle": 9000},), {}), len(violations), violations,
    )  # fmt: skip
    outputs = {"fc": np.ones((2, 10), np.float16)}
    trace, package = Trace(summary, (), (), outputs), compiled_residual()
    return lambda *_, **__: Result(outputs, trace, None, package.program, package.machine, {"simulate": 1.0})


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


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--solver-timeout", "-1", "solver timeout -1"),
        ("--timeout", "nan", "solver timeout nan"),
        ("--batch", "0", "batch 0"),
        ("--seed", "-1", "seed -1"),
        ("--dim", "seq", "write it as NAME=N"),
        ("--dim", "seq=many", "'many' is not a whole number"),
        ("--dim", "seq=0", "'seq' cannot be 0"),
        ("--target", "nothing", "no machine 'nothing'"),
    ],
)
def test_senseless_values_are_named(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, option: str, value: str, message: str
) -> None:
    code, _, err = girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih", option, value)
    assert code == 2
    assert message in err


def test_output_is_tried_before_compiling(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = girih(capfd, "compile", "missing.onnx", "-o", tmp_path / "no" / "a.girih")
    assert code == 2
    assert "cannot write" in err


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (UsageError("x"), 2, "usage_error"),
        (UnsupportedError("x"), 3, "unsupported"),
        (InfeasibleError("x"), 4, "infeasible"),
        (CheckError("x"), 5, "check_failed"),
        (ValueError("x"), 1, "internal_error"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_exit_codes(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException,
    code: int, status: str,
) -> None:  # fmt: skip
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(compile, "compile_for", fail)
    words = ["compile", "a.onnx", "-o", str(tmp_path / "a.girih"), "--json"]
    found, out, err = girih(capfd, *words)
    assert found == code
    assert json.loads(out)["status"] == status
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())
    if isinstance(error, GirihError):
        assert status.replace("_", " ") in err


def test_the_page_of_commands_has_the_help_of_all_and_names_only_options_that_there_are() -> None:
    """The site puts what each command prints as its help in place of the block ``help``."""
    page = (Path(__file__).parents[3] / "docs/cli.md").read_text()
    assert "```help\n```\n" in page
    commands = cli.cli.commands.values()
    options = {o for command in commands for p in command.params for o in (*p.opts, *p.secondary_opts)}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page)) <= {*options, "--help"}


def test_an_interrupt_that_a_library_turned_into_an_error_is_one(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def load(*_: object) -> None:
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr(compile, "compile_for", load)
    code, _, err = girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih")
    assert code == 130
    assert "interrupted" in err
    assert "internal" not in err


def test_termination_is_an_interrupt(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compile, "compile_for", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    code, out, _ = girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih", "--json")
    assert code == 143
    assert json.loads(out)["status"] == "interrupted"
    assert not list(tmp_path.iterdir())


def test_termination_while_planning_keeps_the_best_plan(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    interrupts = Interrupts()

    def compile_for(*_: object) -> Compiled:
        with interrupts.watch(), suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        return compiled_residual()

    monkeypatch.setattr(compile, "compile_for", compile_for)
    assert girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih")[0] == 0
    assert interrupts.seen
    assert (tmp_path / "a.girih").exists()


def test_debug_shows_where(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object) -> None:
        raise ValueError("deep inside")

    monkeypatch.setattr(compile, "compile_for", fail)
    monkeypatch.setenv("GIRIH_DEBUG", "1")
    code, _, err = girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih")
    assert code == 1
    assert "Traceback" in err
    assert "deep inside" in err


@pytest.mark.usefixtures("compiling")
def test_compile_as_json(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["status"] == "ok"
    assert found["cycles_predicted"] == 9000
    assert found["lower_bound_cycles"] == 6000
    assert found["models"]["tiling"] == {
        "status": "feasible", "objective": 120, "bound": 100, "gap": pytest.approx(1 / 6), "unit": "cycles",
        "runs": 2, "seconds": 0.75,
    }  # fmt: skip
    assert found["plan_sha256"] == compiled_residual().plan_sha256
    assert found["program_sha256"] == compiled_residual().program_sha256
    assert (tmp_path / "a.girih").stat().st_size == found["output_bytes"]


@pytest.mark.usefixtures("compiling")
def test_compile_ends_with_a_summary(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih")
    assert code == 0
    assert "9,000 cycles predicted on stcp920, 1.50 x the lower bound" in out.splitlines()[-1]


def test_libraries_cannot_write_into_the_json(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def noisy(*_: object) -> object:
        os.write(1, b"noise from a library\n")
        return compiled_residual()

    monkeypatch.setattr(compile, "compile_for", noisy)
    _, out, err = girih(capfd, "compile", "a.onnx", "-o", tmp_path / "a.girih", "--json")
    assert json.loads(out)["status"] == "ok"
    assert "noise" in err


def test_run_as_json(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, compiled: Path) -> None:
    monkeypatch.setattr(run, "run", answer())
    code, out, _ = girih(capfd, "run", compiled, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["status"] == "ok"
    assert found["cycles"] == 9500
    assert found["npu_fraction"] == {"macs": 1.0, "elements": 0.97}
    assert found["violations"] == 0
    assert found["max_abs_err"] is None


def test_violations_fail_the_run(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, compiled: Path
) -> None:
    monkeypatch.setattr(run, "run", answer((BREAK,)))
    code, out, err = girih(capfd, "run", compiled, "--json")
    found = json.loads(out)
    assert code == 5
    assert found["status"] == "check_failed"
    assert found["violations"] == 1
    assert "address 64 is outside" in err
    code, out, _ = girih(capfd, "run", compiled)
    assert code == 5
    assert "FAILED" in out.splitlines()[-1]


def test_run_writes_its_outputs(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, compiled: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "run", answer())
    code, _, _ = girih(capfd, "run", compiled, "--outputs", tmp_path / "y.npz")
    assert code == 0
    with np.load(tmp_path / "y.npz") as arrays:
        np.testing.assert_array_equal(arrays["fc"], np.ones((2, 10), np.float16), strict=True)


def test_run_writes_its_counters(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, compiled: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "run", answer())
    for name in ("c.json", "c.csv"):
        code, _, _ = girih(capfd, "run", compiled, "--counters", tmp_path / name)
        assert code == 0
    assert json.loads((tmp_path / "c.json").read_text())["cores"] == [{"mme_total_cycle": 9000}]
    assert "mme_total_cycle,cycles,9000,,9000," in (tmp_path / "c.csv").read_text()
    code, _, err = girih(capfd, "run", compiled, "--counters", tmp_path / "c.txt")
    assert code == 2
    assert "the name must end in .json or .csv" in err


def test_run_in_time_alone(capfd: pytest.CaptureFixture[str], compiled: Path) -> None:
    code, out, _ = girih(capfd, "run", compiled, "--timing-only", "--json")
    timed = json.loads(out)
    computed = json.loads(girih(capfd, "run", compiled, "--json")[1])
    assert code == 0
    same = ("status", "cycles", "items_per_second", "instructions", "busy", "npu_fraction", "violations")
    assert {key: timed[key] for key in same} == {key: computed[key] for key in same}
    assert timed["rel_err"] is None
    code, _, err = girih(capfd, "run", compiled, "--timing-only", "--check")
    assert code == 2
    assert "--timing-only computes nothing" in err and "--check" in err


def test_exact_compares_every_element(capfd: pytest.CaptureFixture[str], compiled: Path) -> None:
    code, out, _ = girih(capfd, "run", compiled, "--exact", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["check"], found["tolerance"], found["rel_err"]) == ("exact", 0, 0)
    assert [(o["different"], o["first_different"]) for o in found["outputs"]] == [(0, None)] * len(found["outputs"])
    assert "elements differ" in girih(capfd, "run", compiled, "--exact")[1]
    assert json.loads(girih(capfd, "run", compiled, "--json")[1])["check"] is None
    code, _, err = girih(capfd, "run", compiled, "--exact", "--check")
    assert code == 2 and "give one of them" in err


@pytest.mark.parametrize(("words", "sanitize"), [((), True), (("--no-sanitize",), False)])
def test_run_with_and_without_the_sanitizer(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, compiled: Path, words: tuple[str, ...],
    sanitize: bool,
) -> None:  # fmt: skip
    asked: list[Any] = []
    monkeypatch.setattr(run, "run", lambda *_, **options: asked.append(options["sanitize"]) or answer()())
    assert girih(capfd, "run", compiled, *words)[0] == 0
    assert asked == [sanitize]


def test_run_of_something_else(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "net.girih").write_bytes(b"something else")
    code, out, err = girih(capfd, "run", tmp_path / "net.girih")
    assert code == 2
    assert not out
    assert "net.girih" in err


def test_wrong_inputs_of_a_run(capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", y=np.zeros(3, np.float32))
    code, _, err = girih(capfd, "run", compiled, "--inputs", tmp_path / "x.npz")
    assert code == 2
    assert "the network expects x float16[2, 16, 16, 8]" in err


def test_explain(capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path) -> None:
    code, text, _ = girih(capfd, "explain", compiled)
    assert code == 0
    _, tables, _ = girih(capfd, "explain", compiled, "--tables")
    first, *_, last = tables.strip().split("\n\n")
    assert tables.startswith(text.strip()) and first == last != text.strip().split("\n\n")[-1]
    _, out, _ = girih(capfd, "explain", compiled, "--format", "json")
    assert json.loads(out)["summary"]["cycles_predicted"] == 9000
    girih(capfd, "explain", compiled, "-o", tmp_path / "report.txt")
    assert (tmp_path / "report.txt").read_text() == tables


def test_explain_follows_the_name_of_the_file(
    capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path
) -> None:
    girih(capfd, "explain", compiled, "-o", tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["summary"]["cycles_predicted"] == 9000
    code, _, err = girih(capfd, "explain", compiled, "--format", "text", "-o", tmp_path / "text.json")
    assert code == 2 and "text.json is no name for text: end it in .txt or .md, or ask for json" in err
    assert not (tmp_path / "text.json").exists()


def test_rows_end_where_the_terminal_ends(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    text = f"a sentence of any length\n  {'x' * 18}\n  {'y' * 19}"
    output.show(text, "the command")
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.show(text, "the command")
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines == ["a sentence of any length", f"  {'x' * 18}", f"  {'y' * 17}…"]
    assert "the command" in last


def test_no_result_replaces_what_it_is_made_from(
    capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path
) -> None:
    before = compiled.read_bytes()
    for words in (["run", compiled, "--outputs"], ["run", compiled, "--trace"], ["explain", compiled, "-o"],
                  ["disasm", compiled, "-o"], ["compile", compiled, "-o"]):  # fmt: skip
        code, _, err = girih(capfd, *words, compiled)
        assert code == 2, words
        assert "would replace" in err
    assert compiled.read_bytes() == before
    machine = Path(load_machine.__file__).with_name("machines") / "tiny.toml"
    (tmp_path / "m.toml").write_bytes(machine.read_bytes())
    code, _, err = girih(capfd, "compile", "a.onnx", "--target", tmp_path / "m.toml", "-o", tmp_path / "m.toml")
    assert code == 2
    assert "would replace" in err


def test_plan(capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path) -> None:
    plan = compiled_residual().plan
    code, out, _ = girih(capfd, "plan", compiled)
    assert code == 0
    assert out == f"{plan_text(plan)}\n"
    assert "load in portions of" in out and "store in portions of" in out and "weights to versions" in out
    code, out, _ = girih(capfd, "plan", compiled, "--json")
    assert code == 0 and from_json(out.encode(), Plan) == plan
    code, out, _ = girih(capfd, "plan", compiled, "-o", tmp_path / "plan.txt")
    assert code == 0 and (tmp_path / "plan.txt").read_text() == f"{plan_text(plan)}\n"


def test_disasm(capfd: pytest.CaptureFixture[str], compiled: Path) -> None:
    code, out, _ = girih(capfd, "disasm", compiled)
    assert code == 0
    assert f"{compiled_residual().program.instructions:,} instructions in" in out.splitlines()[-1]
    code, out, _ = girih(capfd, "disasm", compiled, "--queue", "DMR")
    assert "dcopy" in out
    assert "mmatmul" not in out
    code, _, err = girih(capfd, "disasm", compiled, "--queue", "nothing")
    assert code == 2
    assert "DMR" in err


def test_targets(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "stcp920" in girih(capfd, "targets")[1]
    assert "tiny" in json.loads(girih(capfd, "targets", "--json")[1])["targets"]
    assert json.loads(girih(capfd, "targets", "tiny", "--json")[1])["name"] == "tiny"
    (tmp_path / "bad.toml").write_text("colour = 3\n")
    file = (Path(load_machine.__file__).parent / "machines" / "tiny.toml").read_text()
    (tmp_path / "deep.toml").write_text(file.replace("rows = 8", "rows = 8\nqueue_depth = 4"))
    sentence = "queue_depth of MME has no effect: a queue takes all that comes (in engines[0].queue_depth)"
    assert f"warning: {sentence}\n" in girih(capfd, "targets", tmp_path / "deep.toml")[1]
    assert sentence in json.loads(girih(capfd, "targets", tmp_path / "deep.toml", "--json")[1])["warnings"]
    girih(capfd, "models", "tiny-cnn", "-o", tmp_path / "a.onnx", "--param", "size=4")
    words = ("compile", tmp_path / "a.onnx", "-o", tmp_path / "a.girih", "--batch", "1", "--no-cache")
    words = (*words, "--strategy", "layerwise", "--timeout", "0", "--target", tmp_path / "deep.toml")
    assert f"warning: {sentence}\n" in girih(capfd, *words)[1]
    assert sentence in json.loads(girih(capfd, *words, "--json")[1])["warnings"]
    code, _, err = girih(capfd, "targets", tmp_path / "bad.toml")
    assert code == 2
    assert "bad.toml:1" in err
    (tmp_path / "bad.toml").write_text(
        file.replace("rows = 8", "rows = 0").replace('reads = ["DDR"]', 'reads = ["A\\nB"]')
    )
    first, *others = girih(capfd, "targets", tmp_path / "bad.toml")[2].splitlines()
    assert "rows" in first
    # A line for each problem, and none that a name in the file makes.
    assert len(others) >= 3 and all("bad.toml:" in line for line in others)


def test_a_machine_file_to_begin_with(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in load_machine.machine_names():
        code, out, _ = girih(capfd, "targets", name, "--toml")
        assert code == 0 and "# " in out
        (tmp_path / "mine.toml").write_text(out)
        assert load_machine.load_machine(tmp_path / "mine.toml") == load_machine.load_machine(name)
    assert girih(capfd, "targets", "--toml")[0] == 2
    assert girih(capfd, "targets", "tiny", "--toml", "--json")[0] == 2
    assert girih(capfd, "targets", "tiny", "--svg", "--toml")[0] == girih(capfd, "targets", "--svg")[0] == 2
    assert girih(capfd, "targets", "tiny", "--svg")[1].startswith("<svg ")


def test_models(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "tiny-cnn" in girih(capfd, "models")[1]
    assert "size=16" in girih(capfd, "models", "tiny-cnn")[1]
    for name in ("a.onnx", "b.onnx"):
        code, _, _ = girih(capfd, "models", "tiny-cnn", "-o", tmp_path / name, "--param", "size=8")
        assert code == 0
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert onnx.load(tmp_path / "a.onnx").graph.input[0].type.tensor_type.shape.dim[2].dim_value == 8
    assert girih(capfd, "models", "nothing", "-o", tmp_path / "c.onnx")[0] == 2
    assert girih(capfd, "models", "tiny-cnn", "-o", tmp_path / "c.onnx", "--param", "colour=3")[0] == 2


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion(capfd: pytest.CaptureFixture[str], shell: str) -> None:
    code, out, _ = girih(capfd, "completion", shell)
    assert code == 0
    assert "_GIRIH_COMPLETE" in out


def test_assignments() -> None:
    assert parse_assignments(("a=1", "b=true", "in:0=3"), "--dim") == {"a": 1, "b": True, "in:0": 3}
    with pytest.raises(UsageError, match="given twice"):
        parse_assignments(("a=1", "a=2"), "--dim")


def test_ops(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = girih(capfd, "ops")
    assert code == 0
    assert "Conv " in out
    assert "not supported" not in out
    assert "ONNX operators are supported" in out.splitlines()[-1]
    found = json.loads(girih(capfd, "ops", "--coverage", "--json")[1])
    assert found["all"] == len(found["operators"]) > found["supported"] > 100


def test_operators_that_are_refused_say_why(capfd: pytest.CaptureFixture[str]) -> None:
    rows = {row.name: row for row in operators()}
    assert set(REFUSED) <= set(rows)
    assert all(not rows[name].how and rows[name].reason for name in REFUSED)
    assert "NonZero" not in girih(capfd, "ops")[1]
    assert "not supported: the shape of its result depends on data" in girih(capfd, "ops", "--coverage")[1]
