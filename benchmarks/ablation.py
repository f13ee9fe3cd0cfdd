"""What each refinement beyond the five models gains, by the cycles that the plans predict.

    python -m benchmarks.ablation --json ablation.json --jobs 2     # or: make bench-ablation JSON=ablation.json
    python -m benchmarks.ablation --only squeezenet resnet50 --switch weight-rings --timeout 20

The ten published configurations and ten other networks are planned for two machines: once with all refinements of
solver/switches.py, and once without each of them. Networks are imported and planned, neither lowered nor simulated. The
gain of a refinement is the cycles without it over those with it, less one; it stays if it gains at least 1 % in the
geometric mean or 3 % anywhere. "portions" is that loads and stores are cut into several copies: it is no switch, and
is left out by a patch of the rule that decides it.

The solver's deterministic limits end the search, and its wall clock only far later than otherwise, so that a busy
machine measures the same; a plan that the wall clock ended all the same is not counted, and planned again next time.
With ``--json`` every finished plan is kept in that file at once: after an interrupt the same command goes on where it
stopped (``--again`` begins anew). The exit code is 1 if a plan is missing.
"""

from __future__ import annotations

import gc
import multiprocessing
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from statistics import geometric_mean
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from benchmarks.networks import Measurements, Rows, chosen_networks, columns, common_options
from benchmarks.published import PUBLISHED
from girih.api.goals.graph_for import graph_for
from girih.frontend import import_onnx
from girih.ir.checks.check_machine import check_machine
from girih.ir.errors import GirihError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.models import build
from girih.models.light import light
from girih.solver import plan
from girih.solver.loop import search
from girih.solver.options import Options
from girih.solver.subproblem import operand_movement, time_budget
from girih.solver.switches import SWITCHES, checked

PORTIONS = "portions"
REFINEMENTS: Mapping[str, str] = {
    **{name: what for name, what in SWITCHES.items() if not name.endswith("-model")},
    PORTIONS: "Loads and stores are cut into copies, so that tiles begin early.",
}
MEAN, ANYWHERE = 0.01, 0.03
"""Gains from which on a refinement stays: in the geometric mean, or of one network on one machine."""
MACHINES = ("stcp920", "stcp920-half")
"""The second has half the shared memory and half the bandwidth of main memory."""
ENDLESS = 1e6
"""Seconds of wall clock that no search takes."""


@dataclass(frozen=True)
class Network:
    """How a network is built; ``batch`` is divided over the clusters, ``None`` leaves it as the file has it."""

    name: str
    model: str
    batch: int | None
    params: tuple[str, ...] = field(default=())

    def build(self) -> bytes:
        if self.batch is None:
            return light(self.model).SerializeToString()
        params = {name: int(value) for name, _, value in (p.partition("=") for p in self.params)}
        return build(self.model, **params).SerializeToString()


OTHERS = (
    *(
        Network(name, name, None)
        for name in ("bvlc_alexnet", "inception_v1", "inception_v2", "shufflenet", "squeezenet", "zfnet512")
    ),
    Network("mobilenet-v2-160", "mobilenet-v2", 16, ("size=160",)),
    Network("bert-small", "bert-base", 16, ("seq=64", "layers=4", "hidden=512", "heads=8", "ffn=2048")),
    Network("conformer-small", "conformer", 4, ("frames=400", "layers=4", "hidden=144")),
    Network("dlrm-small", "dlrm", 64, ("tables=8", "width=256")),
)
NETWORKS = {
    n.name: n for n in (*(Network(p.name, p.model, p.batch, p.params) for p in PUBLISHED), *OTHERS)
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One plan; ``without`` is the refinement that is left out, if any."""

    network: str
    machine: str
    without: str | None
    timeout: float

    @property
    def key(self) -> str:
        return f"{self.network} {self.machine} without={self.without or '-'} {self.timeout:g}s"

    @property
    def whole(self) -> Case:
        """The same with all refinements."""
        return replace(self, without=None)


def target(name: str) -> Machine:
    """One of :data:`MACHINES`."""
    machine = load_machine("stcp920")
    if name == "stcp920":
        return machine
    main = machine.levels.home.name
    halved = replace(
        machine,
        name=name,
        memories=tuple(
            replace(m, capacity=m.capacity // 2) if m == machine.levels.exchange.memory else m for m in machine.memories
        ),
        links=tuple(
            replace(ln, bytes_per_cycle=ln.bytes_per_cycle / 2) if main in ln.memories else ln for ln in machine.links
        ),
    )  # fmt: skip
    check_machine(halved)
    return halved


@lru_cache(maxsize=1)
def graph(network: str) -> Graph:
    """What one cluster computes; plans of one network are made in a row."""
    machine = load_machine("stcp920")
    chosen = NETWORKS[network]
    return import_onnx(chosen.build(), batch=chosen.batch, precision="fp16", clusters=machine.clusters)


def measure(case: Case) -> tuple[Case, dict[str, Any]]:
    """The case and its row: what the plan predicts, and how planning ended."""
    row: dict[str, Any] = asdict(case)
    machine = target(case.machine)
    began = time.perf_counter()
    left_out = [case.without] if case.without not in (None, PORTIONS) else []
    options = Options(case.timeout, disabled=checked(left_out))
    most = 1 if case.without == PORTIONS else operand_movement.MOST_PORTIONS
    try:
        with patch.object(operand_movement, "MOST_PORTIONS", most):
            planned = plan(graph_for(graph(case.network), machine, options), machine, options)
    except GirihError as error:
        return case, row | {"status": "failed", "error": str(error), "seconds": time.perf_counter() - began}
    status = "ok" if planned.log.is_reproducible else planned.log.status
    predicted = {"cycles": planned.plan.cycles_predicted, "bound": planned.plan.lower_bound_cycles}
    return case, row | predicted | {"status": status, "error": status, "seconds": time.perf_counter() - began}


def prepare() -> None:
    """Make the wall clock patient in this process, and Python look seldom for objects that nobody uses."""
    search.WALL_CLOCK_FACTOR = ENDLESS
    time_budget.SLACK = ENDLESS
    gc.set_threshold(100_000, 20, 100)


def measure_all(cases: Sequence[Case], kept: Rows, jobs: int) -> None:
    """Plan what is missing, in so many processes; Ctrl-C ends it, and what was done is kept."""
    errors = Console(stderr=True)
    missing = [case for case in cases if kept.get(case) is None]
    with multiprocessing.get_context("spawn").Pool(jobs, prepare) as pool:
        try:
            for number, (case, row) in enumerate(pool.imap_unordered(measure, missing), 1):
                kept.add(case, row)
                outcome = f"{row['cycles']:,} cycles" if row["status"] == "ok" else f"{row['status']}: {row['error']}"
                line = f"{number} of {len(missing)}: {case.key}: {outcome}, {row['seconds']:.0f} s"
                errors.print(line, highlight=False)
        except KeyboardInterrupt:
            errors.print("interrupted; finished rows:")


def gains(refinement: str, cases: Iterable[Case], rows: Measurements) -> dict[Case, float]:
    """By network and machine, the cycles without the refinement over those with it, less one; where both are known."""
    relative: dict[Case, float] = {}
    for case in cases:
        if case.without == refinement:
            pair = [rows.get(c.key, {}) for c in (case, case.whole)]
            if all(row.get("status") == "ok" for row in pair):
                relative[case] = pair[0]["cycles"] / pair[1]["cycles"] - 1
    return relative


def stays(gained: Iterable[float]) -> bool:
    """The rule."""
    values = list(gained)
    return geometric_mean(1 + g for g in values) - 1 >= MEAN or max(values) >= ANYWHERE


def summary(refinements: Sequence[str], cases: Sequence[Case], rows: Measurements) -> Table:
    """One line a refinement, the most useful first."""
    heads = "refinement|plans|mean|largest|where|smallest|stays|what it does"
    table = columns(heads, left_aligned=("refinement", "where", "stays", "what it does"))
    lines: list[tuple[float, list[str]]] = []
    for name in refinements:
        gained = gains(name, cases, rows)
        if not gained:
            lines.append((-1.0, [name, "0", "-", "-", "-", "-", "-", REFINEMENTS[name]]))
            continue
        mean = geometric_mean(1 + g for g in gained.values()) - 1
        best = max(gained, key=lambda c: gained[c])
        cells = [name, str(len(gained)), f"{mean:+.2%}", f"{gained[best]:+.2%}", f"{best.network} on {best.machine}"]
        cells += [f"{min(gained.values()):+.2%}", "yes" if stays(gained.values()) else "no", REFINEMENTS[name]]
        lines.append((mean, cells))
    for _, cells in sorted(lines, key=lambda line: -line[0]):
        table.add_row(*cells)
    return table


def main() -> int:
    parser = common_options(__doc__, timeout=20)
    parser.add_argument("--switch", nargs="+", metavar="NAME", choices=REFINEMENTS, help="these refinements alone")
    parser.add_argument("--machine", nargs="+", choices=MACHINES, default=MACHINES, help="these machines alone")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="plan in so many processes")
    arguments = parser.parse_args()
    names = chosen_networks(parser, arguments.only, list(NETWORKS))
    refinements: list[str] = arguments.switch or list(REFINEMENTS)
    cases = [
        Case(network, machine, without, arguments.timeout)
        for network in names
        for machine in arguments.machine
        for without in (None, *refinements)
    ]
    kept = Rows(arguments.json, cases if arguments.again else ())
    measure_all(cases, kept, arguments.jobs)
    console = Console(width=None if sys.stdout.isatty() else 240)
    console.print(summary(refinements, cases, kept.measured))
    passed = sum(kept.get(case) is not None for case in cases)
    console.print(f"{passed} of {len(cases)} plans", highlight=False)
    return 0 if passed == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
