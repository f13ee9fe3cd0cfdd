"""How well plans predict their cycles, and how near they come to the lower bound: networks on many machines.

    python -m benchmarks.prediction                                # or: make bench-prediction
    python -m benchmarks.prediction --machines ethos-u65-512 --strategies graphturbo --json rows.json
    python -m benchmarks.prediction --size full --strategies solver --timeouts 5 --json full.json
    python -m benchmarks.prediction --drawn 100 --machines         # drawn machines alone

Each network at batch 1, small as in tests/support/small_models.py or of full size as `girih models` writes it, runs on
each built-in machine (machines that multiply nothing but 8-bit integers run its quantised form), by each strategy and
timeout; each drawn machine of benchmarks/hostile/machine_files.py runs one tiny network. What is printed is the
prediction over the simulation, and the simulation over the lower bound. A drawn machine that a network does not fit is
left out. The wall clock ends no search, so that plans do not depend on what else runs. Cases that the JSON file has are
not measured again, so that the same command goes on after an interrupt.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, astuple, dataclass
from functools import lru_cache
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Literal

from rich.console import Console
from rich.table import Table

import girih
from benchmarks.ablation import prepare
from benchmarks.hostile.machine_files import NETWORKS, plausible_machine_file
from benchmarks.networks import columns
from girih.ir.errors import GirihError
from girih.ir.graph import NARROWED
from girih.ir.load_machine import load_machine, machine_names, parse_machine
from girih.ir.machine import Machine
from girih.ir.machines.as_planned import as_planned
from girih.models import build
from girih.simulator import simulate
from girih.solver.options import Strategy
from tests.support.quantised_networks import Kind, quantised
from tests.support.small_models import SMALL

CLOSE = 0.03
"""A prediction that errs by no more is called close."""
Size = Literal["small", "full"]
STRATEGIES: tuple[Strategy, ...] = ("solver", "graphturbo", "layerwise")


@dataclass(frozen=True)
class Case:
    """A compilation; ``machine`` is a name, or the number of a drawn machine."""

    machine: str
    network: str
    strategy: Strategy
    timeout: float
    size: Size = "small"


@dataclass(frozen=True)
class Row:
    """What a case was predicted to take, took, and takes at least, in cycles.

    ``npu_macs``: the share of its multiply-accumulates that engines ran; ``seconds``: wall time of the compilation.
    """

    machine: str
    network: str
    strategy: str
    timeout: float
    predicted: int
    simulated: int
    bound: int
    size: str = "small"
    npu_macs: float = 1.0
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str, str, float, str]:
        """Of the case that it measures."""
        return self.machine, self.network, self.strategy, self.timeout, self.size

    @property
    def error(self) -> float:
        """Of the prediction: 0.1 if it is a tenth too high."""
        return self.predicted / max(1, self.simulated) - 1.0

    @property
    def over_bound(self) -> float:
        return self.simulated / max(1, self.bound)


def built_in_cases(
    machines: Sequence[str], networks: Iterable[str], strategies: Sequence[Strategy], timeouts: Sequence[float],
    size: Size = "small",
) -> Iterator[Case]:  # fmt: skip
    """Only the solver's plans depend on a timeout. All machines run a network before any runs the next one."""
    for network in networks:
        for machine in machines:
            for strategy in strategies:
                for timeout in timeouts if strategy == "solver" else timeouts[:1]:
                    yield Case(machine, network, strategy, timeout, size)


def drawn_cases(count: int, timeout: float) -> Iterator[Case]:
    """Networks and strategies take turns."""
    networks = tuple(NETWORKS)
    for number in range(count):
        yield Case(str(number), networks[number % len(networks)], STRATEGIES[number // 2 % len(STRATEGIES)], timeout)


def machine_of(case: Case) -> Machine:
    """Raises an error of girih's if a drawn machine is none."""
    if case.machine.isdigit():
        file = plausible_machine_file(Random(int(case.machine)))
        return as_planned(parse_machine(file, f"drawn-{case.machine}.toml"))
    return as_planned(load_machine(case.machine))


def compiled(case: Case) -> girih.Compiled:
    """Raises an error of girih's if there is no plan."""
    machine = machine_of(case)
    types = set(machine.engine_for("matrix").rate or {})
    small = NETWORKS if case.machine.isdigit() else SMALL
    params = small[case.network] if case.size == "small" else {}
    network = _network(case.network, tuple(params.items()), types <= {"int8", "uint8"})
    precision = next((name for name, dtype in NARROWED.items() if dtype in types), "as-is")
    return girih.compile(
        network, target=machine, solver_timeout=case.timeout, strategy=case.strategy, batch=1, cache=False,
        precision=precision,
    )  # fmt: skip


def measure(case: Case) -> Row | None:
    """``None`` if there is no plan."""
    began = time.perf_counter()
    try:
        compilation = compiled(case)
    except GirihError as error:
        if not case.machine.isdigit():
            print(f"{case}: {error}", file=sys.stderr)
        return None
    seconds = time.perf_counter() - began
    plan = compilation.plan
    run = simulate(compilation.program, compilation.machine, {}, {}, data=False).summary
    return Row(
        case.machine, case.network, case.strategy, case.timeout,
        plan.cycles_predicted, run.cycles, plan.lower_bound_cycles, case.size, run.npu.macs, round(seconds, 1),
    )  # fmt: skip


@lru_cache(maxsize=4)
def _network(name: str, params: tuple[tuple[str, int], ...], integers: bool) -> bytes:
    model = build(name, **dict(params))
    if integers:
        with tempfile.TemporaryDirectory() as folder:
            model = quantised(model, Kind(), Path(folder))
    return model.SerializeToString()


def kept_rows(file: Path | None) -> list[Row]:
    """What a file of rows has; nothing if there is none."""
    return [Row(**row) for row in json.loads(file.read_text())] if file is not None and file.exists() else []


def summaries(rows: Sequence[Row]) -> Table:
    """A line for each built-in machine, one for all that are drawn."""
    heads = "machine|runs|within 3 %|least|most|mean error|cycles / bound|solver's"
    lines = columns(heads, left_aligned=("machine",))
    machines = dict.fromkeys("drawn" if row.machine.isdigit() else row.machine for row in rows)
    for machine in [*machines, *(["all"] if len(machines) > 1 else [])]:
        machine_rows = [
            r for r in rows if machine in (r.machine, "all") or (machine == "drawn" and r.machine.isdigit())
        ]
        errors = [row.error for row in machine_rows]
        close = sum(abs(e) <= CLOSE for e in errors) / len(errors)
        solvers = [row for row in machine_rows if row.strategy == "solver"]
        lines.add_row(
            machine, str(len(errors)), f"{close:.0%}", f"{min(errors):+.1%}",
            f"{max(errors):+.1%}", f"{sum(map(abs, errors)) / len(errors):.1%}", _geometric_mean(machine_rows),
            _geometric_mean(solvers),
        )  # fmt: skip
    return lines


def details(rows: Iterable[Row]) -> Table:
    """A line for each run."""
    lines = columns(
        "machine|network|strategy|timeout|predicted|simulated|error|/ bound",
        left_aligned=("machine", "network", "strategy"),
    )
    for row in rows:
        lines.add_row(
            row.machine, row.network, row.strategy, f"{row.timeout:g}", f"{row.predicted:,}", f"{row.simulated:,}",
            f"{row.error:+.1%}", f"{row.over_bound:.2f}",
        )  # fmt: skip
    return lines


def _geometric_mean(rows: Sequence[Row]) -> str:
    return f"{exp(sum(log(row.over_bound) for row in rows) / len(rows)):.2f}" if rows else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", nargs="*", default=machine_names(), metavar="NAME")
    parser.add_argument("--networks", nargs="+", default=list(SMALL), choices=list(SMALL), metavar="NAME")
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES), choices=STRATEGIES)
    parser.add_argument("--size", choices=("small", "full"), default="small", help="of the networks")
    parser.add_argument("--timeouts", type=float, nargs="+", default=[0.0, 5.0], metavar="SECONDS")
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="so many drawn machines as well")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the rows there, and go on with it")
    arguments = parser.parse_args()
    cases = [
        *built_in_cases(
            arguments.machines, arguments.networks, arguments.strategies, arguments.timeouts, arguments.size
        ),
        *drawn_cases(arguments.drawn, arguments.timeouts[0]),
    ]
    rows = kept_rows(arguments.json)
    known = {row.key for row in rows}
    cases = [case for case in cases if astuple(case) not in known]
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn"), prepare) as pool:
        for case, row in zip(cases, pool.map(measure, cases), strict=True):
            print(case if row is None else f"{case}: {row.error:+.1%}", file=sys.stderr)
            if row is not None:
                rows.append(row)
                if arguments.json:
                    arguments.json.write_text(json.dumps([asdict(r) for r in rows], indent=1))
    console = Console(width=120)
    console.print(details(sorted(rows, key=lambda row: -abs(row.error))))
    console.print(summaries(rows))


if __name__ == "__main__":
    main()
