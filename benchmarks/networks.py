"""Compile, run and check whole networks, and print what came out.

    python -m benchmarks.networks                          # 17 networks at batch 1
    python -m benchmarks.networks --only resnet50 vgg19 --json rows.json
    python -m benchmarks.networks --large --json large.json  # ResNet-50 and BERT-base at batch 32, by two strategies

"error" is to a float32 reference, "rounded" to one that rounds where the graph rounds (see rounding.py).

Everything goes through the command line of girih, each step in a process of its own, so that memory is freed. With
``--json`` every finished row is kept in that file at once: after an interrupt the same command goes on where it
stopped (``--again`` begins anew). The exit code is 1 if a row failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.table import Table

GIRIH = (sys.executable, "-c", "from girih.api.cli.app import main; main()")
LIGHT = (
    sys.executable,
    "-c",
    "import sys; from girih.models.light import light; "
    "open(sys.argv[2], 'wb').write(light(sys.argv[1]).SerializeToString())",
)
ROUNDING = (sys.executable, str(Path(__file__).with_name("rounding.py")))
BUILT = ("tiny-cnn", "tiny-transformer", "mobilenet-v2", "resnet50", "vit-b16", "bert-base")
TINY = ("tiny-cnn", "tiny-transformer")
LIGHTS = (
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
    "zfnet512",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One row: a network, how it is compiled, and for what."""

    name: str
    light: bool = False
    batch: int | None = 1
    target: str = "stcp920"
    precision: str = "fp16"
    strategy: str = "solver"
    timeout: float = 60.0
    params: tuple[str, ...] = field(default=())

    @property
    def title(self) -> str:
        return f"light/{self.name}" if self.light else self.name

    @property
    def key(self) -> str:
        parts = (self.title, *self.params, f"batch={self.batch}", self.target, self.precision, self.strategy)
        return " ".join((*parts, f"{self.timeout:g}s"))


def batch_one(timeout: float) -> list[Case]:
    """The networks that have to work at batch 1."""
    cases = [Case(name, target="tiny", precision="as-is", timeout=timeout) for name in TINY]
    cases += [Case(name, timeout=timeout) for name in BUILT]
    # The light networks have a fixed batch of 1.
    return cases + [Case(name, light=True, batch=None, timeout=timeout) for name in LIGHTS]


def large(timeout: float) -> list[Case]:
    """Throughput: eight items on each of four clusters, against one layer after the other."""
    cases = [Case("resnet50", batch=32, timeout=timeout)]
    cases.append(Case("bert-base", batch=32, timeout=timeout, params=("seq=128",)))
    return [replace(c, strategy=strategy) for c in cases for strategy in ("solver", "layerwise")]


CHECKED = ("--check",)
"""The options of a run that computes, looks for violations and compares with a reference."""


def measure(
    case: Case, folder: Path, limit: float, runs: Sequence[tuple[str, ...]] = (CHECKED,), rounding: bool = False
) -> dict[str, Any]:
    """Build, compile and run; the row says ``status`` and, where something failed, ``error``.

    No process takes longer than ``limit`` seconds. Each of ``runs`` is a way to call ``girih run``; the first one that
    is done within the limit counts. With ``rounding`` the outputs are compared with a reference that rounds as well.
    """
    network, compiled = folder / "network.onnx", folder / "network.girih"
    row: dict[str, Any] = asdict(case)
    build = (*LIGHT, case.name, str(network))
    if not case.light:
        build = (*GIRIH, "models", case.name, "-o", str(network), *(w for p in case.params for w in ("--param", p)))
    options = ["--target", case.target, "--precision", case.precision, "--strategy", case.strategy]
    options += ["--solver-timeout", str(case.timeout), *(["--batch", str(case.batch)] if case.batch else [])]
    steps = {
        "build": build,
        "compile": (*GIRIH, "compile", str(network), "-o", str(compiled), *options, "--no-cache", "--json"),
    }
    for name, command in steps.items():
        result = timed(name, command, limit)
        row |= result
        if result["status"] != "ok":
            return row
    row["bytes"] = compiled.stat().st_size
    for flags in runs:
        result = timed("run", (*GIRIH, "run", str(compiled), *flags, "--json"), limit)
        if result["code"] != OVERDUE:
            break
    row |= result
    if rounding and row["status"] == "ok":
        row |= timed("rounding", (*ROUNDING, str(compiled), "--json"), limit)
    return row


def timed(name: str, command: tuple[str, ...], limit: float) -> dict[str, Any]:
    """The entries of a row that one step makes: what it took, its JSON object, and what went wrong."""
    began = time.perf_counter()
    code, out, err = call(command, limit)
    row: dict[str, Any] = {"status": "ok", "code": code, f"{name}_seconds": time.perf_counter() - began}
    printed: dict[str, Any] = json.loads(out) if name != "build" and out else {}
    row |= {name: printed} if printed else {}
    if code:
        last = err.strip().splitlines()[-1:] or [f"exit code {code}"]
        row |= {"status": f"{name} failed ({code})", "error": printed.get("error") or last[0]}
    return row


OVERDUE = -signal.SIGKILL
"""The exit code of a process that took too long."""


def call(command: tuple[str, ...], limit: float) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a process, which ends with us in any case."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=limit)
            return process.returncode, out, err
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return OVERDUE, "", f"not done after {limit:g} s"
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise


Measurements = Mapping[str, dict[str, Any]]
"""Rows by the keys of their cases."""


def as_they_are(rows: Measurements) -> dict[str, Any]:
    return {"rows": rows}


class Keyed(Protocol):
    """What a row is kept for."""

    @property
    def key(self) -> str: ...


class Rows:
    """Finished rows by key, kept in a file if there is one: there, under ``place`` of what ``report`` makes of them.

    What the file has of the cases in ``again`` is forgotten.
    """

    def __init__(
        self,
        file: Path | None,
        again: Sequence[Keyed] = (),
        report: Callable[[Measurements], dict[str, Any]] = as_they_are,
        place: str = "rows",
    ) -> None:
        self._file, self._report = file, report
        self._rows: dict[str, dict[str, Any]] = {}
        if file is not None and file.exists():
            forgotten = {case.key for case in again}
            self._rows = {k: r for k, r in json.loads(file.read_text())[place].items() if k not in forgotten}

    @property
    def measured(self) -> Measurements:
        return self._rows

    def get(self, case: Keyed) -> dict[str, Any] | None:
        """The row of a case that passed before."""
        row = self._rows.get(case.key)
        return row if row and row["status"] == "ok" else None

    def add(self, case: Keyed, row: dict[str, Any]) -> None:
        self._rows[case.key] = row
        if self._file is not None:
            part = self._file.with_name(f".{self._file.name}.part")
            where = {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count()}
            part.write_text(json.dumps({"where": where, **self._report(self._rows)}, indent=1))
            part.replace(self._file)


def measure_all(
    cases: Sequence[Case], kept: Rows, measure_one: Callable[[Case, Path], dict[str, Any]]
) -> list[dict[str, Any]]:
    """The rows of the cases, in order; after Ctrl-C, those that were done."""
    errors = Console(stderr=True)
    rows: list[dict[str, Any]] = []
    try:
        for number, case in enumerate(cases, 1):
            row = kept.get(case)
            if row is None:
                errors.print(f"{number} of {len(cases)}: {case.key}", highlight=False)
                with tempfile.TemporaryDirectory() as folder:
                    row = measure_one(case, Path(folder))
                kept.add(case, row)
                if row["status"] != "ok":
                    errors.print(f"  {row['status']}: {row['error']}", style="red", highlight=False)
            rows.append(row)
    except KeyboardInterrupt:
        errors.print("interrupted; finished rows:")
    return rows


def summary(cases: list[Case], rows: list[dict[str, Any]]) -> Table:
    """One line a row."""
    heads = "network|target|batch|strategy|compile s|run s|error|rounded|violations|NPU MACs|elements|cycles"
    heads += "|/ bound|predicted"
    table = columns(heads, left_aligned=("network", "target", "strategy"))
    for case, row in zip(cases, rows, strict=True):
        run: dict[str, Any] = row.get("run", {})
        cells = [case.title, case.target, str(case.batch or "-"), case.strategy]
        cells += [seconds(row.get("compile_seconds")), seconds(row.get("run_seconds"))]
        if run.get("cycles") is None:
            table.add_row(*cells, f"[red]{row['status']}[/red]")
            continue
        share, cycles, error = run["npu_fraction"], run["cycles"], run["rel_err"]
        bad = row["status"] != "ok"
        cells += ["-" if error is None else f"{'[red]' if bad else ''}{error:.1e}"]
        rounded = next(iter(row.get("rounding", {}).values()), None)
        cells += ["-" if rounded is None else f"{rounded:.1e}", str(run["violations"])]
        cells += [f"{share['macs']:.3f}", f"{share['elements']:.3f}", f"{cycles:,}"]
        cells += [ratio(cycles, run["lower_bound_cycles"]), ratio(run["cycles_predicted"], cycles)]
        table.add_row(*cells)
    return table


def comparison(cases: list[Case], rows: list[dict[str, Any]]) -> list[str]:
    """How many times the cycles of the solver's plan the layerwise one takes."""
    cycles = {c: r.get("run", {}).get("cycles") for c, r in zip(cases, rows, strict=True)}
    lines: list[str] = []
    for case, solved in cycles.items():
        layerwise = cycles.get(replace(case, strategy="layerwise"))
        if case.strategy == "solver" and solved and layerwise:
            lines.append(
                f"{case.title}, batch {case.batch}: layerwise takes {layerwise / solved:.2f} x the cycles of solver"
            )
    return lines


def columns(heads: str, left_aligned: Collection[str]) -> Table:
    """An empty table with these heads, separated by ``|``; the columns in ``left_aligned`` are aligned to the left."""
    table = Table(box=None, pad_edge=False)
    for head in heads.split("|"):
        table.add_column(head, justify="left" if head in left_aligned else "right", no_wrap=True)
    return table


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def ratio(value: float, to: float) -> str:
    return f"{value / to:.2f}" if to else "-"


def common_options(description: str | None, timeout: float) -> argparse.ArgumentParser:
    """The options of all measurements of whole networks, with the default of the solver's timeout."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these networks alone, such as resnet50")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the rows here, and go on with what is there")
    parser.add_argument("--again", action="store_true", help="measure again what is in the file")
    parser.add_argument("--timeout", type=float, default=timeout, help="of the solver, in seconds")
    return parser


def chosen_networks(parser: argparse.ArgumentParser, only: Sequence[str] | None, known: Sequence[str]) -> Sequence[str]:
    """The names given with ``--only``, or all that are known; exits with an error for an unknown one."""
    if unknown := [name for name in only or () if name not in known]:
        parser.error(f"no network is called {' or '.join(unknown)}; choose from {', '.join(known)}")
    return only or known


def main() -> int:
    parser = common_options(__doc__, timeout=60)
    parser.add_argument("--limit", type=float, default=3600, help="for each process, in seconds")
    parser.add_argument("--batch-one", action="store_true", help="17 networks at batch 1 (the default)")
    parser.add_argument("--large", action="store_true", help="ResNet-50 and BERT-base at batch 32")
    arguments = parser.parse_args()
    cases = large(arguments.timeout) if arguments.large else []
    if arguments.batch_one or not arguments.large:
        cases = batch_one(arguments.timeout) + cases
    if arguments.only:
        cases = [c for c in cases if c.title in arguments.only or c.name in arguments.only]
        if not cases:
            parser.error(f"no network is called {' or '.join(arguments.only)}")
    kept = Rows(arguments.json, cases if arguments.again else ())
    rows = measure_all(cases, kept, lambda case, folder: measure(case, folder, arguments.limit, rounding=True))
    done = cases[: len(rows)]
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(summary(done, rows))
    for line in comparison(done, rows):
        console.print(line, highlight=False)
    passed = sum(row["status"] == "ok" for row in rows)
    console.print(f"{passed} of {len(cases)} passed", highlight=False)
    return 0 if passed == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
