"""What each constraint model is worth: simulated cycles with all models, and with each of them reduced to its hint.

    python -m benchmarks.model_worth --json models.json --jobs 2      # or: make bench-models JSON=models.json
    python -m benchmarks.model_worth --only resnet50 --machine stcp920 --timeout 20

Eighteen networks (the ten published configurations and eight others) are planned, lowered and simulated for four
machines. Without a model's search (the switches NAME-model of solver/switches.py) its answer is its hint: for
segmentation the best of the shortest paths, for tiling the best row of the table that greedy versions leave, each
operator by itself (without "joint-tiles"), for the order of queues the best list schedule, for residency the best
greedy answer, for banks packings in several orders. The gain of a model is the cycles without it over those with it,
less one.

The solver's deterministic limits end the search, and its wall clock only far later than otherwise. With ``--json``
every finished plan is kept in that file at once: after an interrupt the same command goes on where it stopped
(``--again`` begins anew). In the file, ``rows`` has one entry a network and machine, with null for what is missing, and
``measured`` has everything that was found out. The exit code is 1 if a plan is missing.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import geometric_mean
from typing import Any

from rich.console import Console

from benchmarks.ablation import NETWORKS, OTHERS, graph, prepare
from benchmarks.networks import Measurements, Rows, chosen_networks, columns, common_options, ratio
from benchmarks.published import PUBLISHED
from girih.api.goals.graph_for import graph_for
from girih.api.judge import judge
from girih.ir.checks.check_machine import check_machine
from girih.ir.errors import GirihError
from girih.ir.load_machine import load_machine
from girih.ir.machine import Engine, Machine
from girih.lowering import Lowerer
from girih.solver import plan
from girih.solver.options import Options
from girih.solver.switches import SWITCHES, checked

MODELS = ("segmentation", "tiling", "pipeline", "banks", "residency")
ALL = "all"
"""All models reduced to their hints."""
CHOSEN = (*(p.name for p in PUBLISHED), *(n.name for n in OTHERS[:8]))
MACHINES = ("stcp920", "half-memory", "half-ddr", "sixteen-cores")


@dataclass(frozen=True)
class Case:
    """One plan; ``without`` is the model that is reduced to its hint, if any."""

    network: str
    machine: str
    without: str | None
    timeout: float

    @property
    def key(self) -> str:
        return f"{self.network} {self.machine} without={self.without or '-'} {self.timeout:g}s"


def target(name: str) -> Machine:
    """One of :data:`MACHINES`.

    stcp920; with half of LLB and L1; with half of the bandwidth of DDR; and an invented one of 16 cores with 512
    multiply-accumulates a cycle each, 8 MiB between them and 16 bytes a cycle from main memory.
    """
    machine = load_machine("stcp920")
    if name == "half-memory":
        halved = {machine.levels.exchange.name, machine.levels.activations.name}
        machine = replace(
            machine,
            memories=tuple(replace(m, capacity=m.capacity // 2) if m.name in halved else m for m in machine.memories),
        )
    elif name == "half-ddr":
        machine = with_main_bandwidth(machine, machine.memory["DDR"].bytes_per_cycle / 2)
    elif name == "sixteen-cores":
        engines = tuple(_narrower(e) for e in machine.engines)
        smaller = tuple(
            replace(m, capacity=m.capacity // 4) if m.scope == "core" else m for m in machine.memories
        )  # fmt: skip
        machine = with_main_bandwidth(replace(machine, cores=16, engines=engines, memories=smaller), 16)
    machine = replace(machine, name=name)
    check_machine(machine)
    return machine


def with_main_bandwidth(machine: Machine, bytes_per_cycle: float) -> Machine:
    """The machine with another bandwidth of main memory."""
    main = machine.levels.home.name
    links = tuple(
        replace(link, bytes_per_cycle=bytes_per_cycle) if main in link.memories else link for link in machine.links
    )
    return replace(machine, links=links)


def _narrower(engine: Engine) -> Engine:
    if engine.rows:
        return replace(engine, rows=16, columns=32)
    return (
        replace(engine, lanes={dtype: lanes // 4 for dtype, lanes in engine.lanes.items()}) if engine.lanes else engine
    )


def disabled(without: str | None) -> list[str]:
    """The switches of a model, or of all."""
    models = MODELS if without == ALL else (without,)
    switches = {f"{model}-model" for model in models} | ({"joint-tiles"} if "tiling" in models else set())
    return [name for name in SWITCHES if name in switches]


def measure(case: Case) -> tuple[Case, dict[str, Any]]:
    """The case and its row: simulated and predicted cycles, what the models did, and how planning ended."""
    row: dict[str, Any] = asdict(case)
    machine = target(case.machine)
    options = Options(case.timeout, disabled=checked(disabled(case.without)))
    network = graph_for(graph(case.network), machine, options)
    lowerer = Lowerer(network, machine)
    simulated = judge(lowerer)
    began = time.perf_counter()
    try:
        planned = plan(network, machine, options, None, simulated, lowerer.tasks)
        cycles = simulated(planned.plan)
    except GirihError as error:
        return case, row | {"status": "failed", "error": str(error), "seconds": time.perf_counter() - began}
    status = "ok" if planned.log.is_reproducible else planned.log.status
    models: dict[str, dict[str, Any]] = {}
    for run in planned.log.runs:
        name = run.model.partition(":")[0]
        known = models.setdefault(name, {"solves": 0, "variables": 0, "seconds": 0.0, "statuses": {}, "gap": None})
        known["solves"] += run.searches
        known["variables"] = max(known["variables"], run.variables)
        known["seconds"] += run.seconds or 0.0
        known["statuses"][run.status] = known["statuses"].get(run.status, 0) + 1
        known["gap"] = run.gap if run.gap is not None else known["gap"]
    return case, row | {
        "cycles": cycles,
        "predicted": planned.plan.cycles_predicted,
        "lower_bound_cycles": planned.plan.lower_bound_cycles,
        "models": models,
        "status": status,
        "error": status,
        "seconds": time.perf_counter() - began,
    }


def measure_all(cases: Sequence[Case], kept: Rows, jobs: int) -> None:
    """Measure what is missing, in so many processes; Ctrl-C ends it, and what was done is kept."""
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


def report(pairs: Sequence[tuple[str, str]], timeout: float, measured: Measurements) -> dict[str, Any]:
    """The file of --json: one row a network and machine, and the measurements that they are made of."""

    def entry(network: str, machine: str) -> dict[str, Any]:
        row_by_model = {w: measured.get(Case(network, machine, w, timeout).key, {}) for w in (None, *MODELS, ALL)}
        return {
            "network": network,
            "machine": machine,
            "cycles": row_by_model[None].get("cycles"),
            "without": {w: row.get("cycles") for w, row in row_by_model.items() if w is not None},
            "lower_bound_cycles": row_by_model[None].get("lower_bound_cycles"),
        }

    return {"rows": [entry(*pair) for pair in pairs], "measured": measured}


def main() -> int:
    parser = common_options(__doc__, timeout=60)
    parser.add_argument("--machine", nargs="+", choices=MACHINES, default=MACHINES, help="these machines alone")
    parser.add_argument(
        "--without", nargs="+", choices=(*MODELS, ALL), default=(*MODELS, ALL), help="these models alone"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="plan in so many processes")
    arguments = parser.parse_args()
    names = chosen_networks(parser, arguments.only, CHOSEN)
    assert set(CHOSEN) <= set(NETWORKS)
    pairs = [(network, machine) for network in names for machine in arguments.machine]
    timeout = arguments.timeout
    # A model without a switch has no search that could be left out.
    disabled_models = [None, *(w for w in arguments.without if disabled(w))]
    cases = [Case(*pair, without, timeout) for pair in pairs for without in disabled_models]
    kept = Rows(
        arguments.json, cases if arguments.again else (), lambda rows: report(pairs, timeout, rows), "measured"
    )  # fmt: skip
    measure_all(cases, kept, arguments.jobs)
    console = Console(width=None if sys.stdout.isatty() else 160)
    table = columns(
        "|".join(("network", "machine", "cycles", "/ bound", *MODELS, ALL)), left_aligned=("network", "machine")
    )
    gains: dict[tuple[str, str], list[float]] = {}
    for row in report(pairs, timeout, kept.measured)["rows"]:
        cycles = row["cycles"]
        cells = [row["network"], row["machine"], f"{cycles:,}" if cycles else "-"]
        cells.append(ratio(cycles, row["lower_bound_cycles"]) if cycles else "-")
        for model, without in row["without"].items():
            cells.append(f"{without / cycles - 1:+.2%}" if cycles and without else "-")
            if cycles and without:
                gains.setdefault((row["machine"], model), []).append(without / cycles)
        table.add_row(*cells)
    console.print(table)
    for (machine, model), values in gains.items():
        mean = geometric_mean(values) - 1
        console.print(
            f"{machine}: {model} gains {mean:+.2%} (geometric mean of {len(values)} networks)", highlight=False
        )
    passed = sum(kept.get(case) is not None for case in cases)
    console.print(f"{passed} of {len(cases)} plans", highlight=False)
    return 0 if passed == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
