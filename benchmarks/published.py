"""Measure the ten networks that GraphTurbo was evaluated on, at their batches, beside what was published.

    python -m benchmarks.published --json published.json            # or: make bench-published JSON=published.json
    python -m benchmarks.published --only resnet50 bert-128 --strategies solver layerwise --timeout 20

Zhao et al., "Effectively Scheduling Computational Graphs of Deep Neural Networks toward Their Domain-Specific
Accelerators", OSDI 2023, table 2 and figure 14: an STCP920 at 1 GHz. The cycles here are those of our simulator with
our machine file. Plans of the solver are run on real numbers and checked against a reference, unless that takes longer
than --limit; what it is compared with is only timed, for cycles do not depend on data.

Every finished measurement is kept in the file of --json at once: after an interrupt the same command goes on where it
stopped (--again begins anew). There, ``rows`` has one entry for each network, with null for what is missing, and
``measured`` has everything that was found out. A strategy that this version lacks is missing. The exit code is 1 if a
measurement failed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.networks import (
    CHECKED,
    Case,
    Measurements,
    Rows,
    chosen_networks,
    columns,
    common_options,
    measure,
    measure_all,
    ratio,
    seconds,
)  # fmt: skip
from girih.api.options import STRATEGIES

CLUSTERS = 4
"""Of an STCP920; a batch is divided among them."""
ORDER = ("solver", "graphturbo", "layerwise")
"""Ours first, and what it is compared with."""
TIMED = ("--timing-only",)
"""The options of a run that computes nothing."""


@dataclass(frozen=True)
class Published:
    """One column of table 2: a network, how it is built here, and what was published of GraphTurbo on it.

    items_per_second: what TVM reached (printed) times the speed-up over it, which was read off figure 14 to ±0.05.
    compile_seconds: table 4. doubt: why the figure may not be of the network that is built here.
    """

    name: str
    model: str
    batch: int
    tvm_items_per_second: float
    speedup: float
    compile_seconds: int
    params: tuple[str, ...] = field(default=())
    doubt: str = ""

    @property
    def items_per_second(self) -> float:
        return round(self.tvm_items_per_second * self.speedup, 1)

    def case(self, strategy: str, timeout: float) -> Case:
        return Case(self.model, batch=self.batch, strategy=strategy, timeout=timeout, params=self.params)


UNTOLD = "of a network whose sizes the paper does not tell"
PUBLISHED = (
    Published("resnet50", "resnet50", 64, 1064, 7.97, 139),
    Published("bert-128", "bert-base", 32, 512, 7.92, 199, ("seq=128",)),
    Published("bert-256", "bert-base", 16, 412, 6.51, 224, ("seq=256",), "94 % of the peak, if of BERT-base in fp16"),
    Published("bert-384", "bert-base", 8, 36, 7.78, 699, ("seq=384",), "of BERT-large, to judge by its 515 tensors"),
    Published("bert-512", "bert-base", 8, 324, 7.25, 282, ("seq=512",), "1.7 x the peak, if of BERT-base in fp16"),
    Published("dlrm", "dlrm", 1024, 131_000, 3.67, 23, doubt=UNTOLD),
    Published("mobilenet-v2", "mobilenet-v2", 128, 1416, 8.29, 248),
    Published("vit-b16", "vit-b16", 32, 40, 25.0, 340),
    Published("densenet121", "densenet121", 32, 456, 18.22, 189),
    Published("conformer", "conformer", 12, 184, 3.96, 296, doubt=UNTOLD),
)
"""In the order of the paper; ViT is taken to be ViT-B/16, and DenseNet to be DenseNet-121."""


def report(published: Sequence[Published], timeout: float, measured: Measurements) -> dict[str, Any]:
    """The file of --json: one row a network, and the measurements it is made of."""
    return {"rows": [row(p, timeout, measured) for p in published], "measured": measured}


def row(published: Published, timeout: float, measured: Measurements) -> dict[str, Any]:
    """What was found out about one network; ``None`` for what was not.

    The figures without a strategy in their name are of the solver's plan. prediction_error: what the plan predicts,
    over what the simulator counts, less one. bound_ratio: cycles over the lower bound.
    """
    rows = {s: measured.get(published.case(s, timeout).key, {}) for s in ORDER}
    runs: dict[str, dict[str, Any]] = {s: r.get("run", {}) for s, r in rows.items()}
    ran, compiled = runs["solver"], rows["solver"].get("compile", {})
    cycles, bound, rate = (ran.get(k) for k in ("cycles", "lower_bound_cycles", "items_per_second"))
    return {
        "name": published.name,
        "batch": published.batch,
        "batch_per_cluster": -(-published.batch // CLUSTERS),
        **{f"{s}_cycles": runs[s].get("cycles") for s in ORDER},
        "lower_bound_cycles": bound,
        "bound_ratio": cycles / bound if cycles and bound else None,
        "items_per_second": rate,
        **{f"{s}_items_per_second": runs[s].get("items_per_second") for s in ORDER[1:]},
        "published_items_per_second": published.items_per_second,
        "published_doubt": published.doubt or None,
        "compile_seconds": compiled.get("seconds", {}).get("total"),
        "compile_seconds_by_stage": {s: r.get("compile", {}).get("seconds") for s, r in rows.items()},
        "published_compile_seconds": published.compile_seconds,
        "prediction_error": compiled["cycles_predicted"] / cycles - 1 if cycles else None,
        "solver_status": compiled.get("solver_status"),
        "models": {
            name: {key: model[key] for key in ("status", "objective", "bound", "gap", "unit")}
            for name, model in compiled.get("models", {}).items()
        },
        "npu_fraction": ran.get("npu_fraction"),
        "violations": ran.get("violations"),
        "rel_err": ran.get("rel_err"),
        "status": {s: r.get("status", "missing") for s, r in rows.items()},
    }


RATIOS = (
    ("layerwise takes {} x the cycles of solver", "layerwise_cycles", "solver_cycles"),
    ("graphturbo takes {} x the cycles of solver", "graphturbo_cycles", "solver_cycles"),
    ("solver takes {} x the cycles of the lower bound", "solver_cycles", "lower_bound_cycles"),
    ("solver gives {} x the items/s that were published", "items_per_second", "published_items_per_second"),
)


def means(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Geometric means over the networks for which both figures are there; those without doubts, if published."""
    lines: list[str] = []
    for text, over, under in RATIOS:
        usable = [r for r in rows if not (under.startswith("published") and r["published_doubt"])]
        values = [r[over] / r[under] for r in usable if r[over] and r[under]]
        if values:
            lines.append(f"{text.format(f'{geometric_mean(values):.2f}')} (geometric mean of {len(values)} networks)")
    return lines


def comparison(rows: Sequence[dict[str, Any]]) -> Table:
    """One line a network: cycles, rates and times."""
    heads = "network|batch|cycles|/ bound|graphturbo|layerwise|items/s|published|error|predicted|compile s|import|plan"
    table = columns(f"{heads}|lower|published s|status", left_aligned=("network",))
    for r in rows:
        cycles, rate = r["solver_cycles"], r["items_per_second"]
        stages = r["compile_seconds_by_stage"]["solver"] or {}
        failed = [f"{s}: {status}" for s, status in r["status"].items() if status not in ("ok", "missing")]
        table.add_row(
            r["name"],
            f"{r['batch']}",
            f"{cycles:,}" if cycles else "-",
            ratio(cycles, r["lower_bound_cycles"]) if cycles else "-",
            *(f"{r[k] / cycles:.2f} x" if cycles and r[k] else "-" for k in ("graphturbo_cycles", "layerwise_cycles")),
            f"{rate:,.0f}" if rate else "-",
            f"{r['published_items_per_second']:,.0f}{'?' if r['published_doubt'] else ''}",
            "-" if r["rel_err"] is None else f"{r['rel_err']:.1e}",
            "-" if r["prediction_error"] is None else f"{r['prediction_error']:+.1%}",
            seconds(r["compile_seconds"]),
            *(seconds(stages.get(stage)) for stage in ("import", "plan", "lower")),
            f"{r['published_compile_seconds']}",
            "; ".join(failed) or ("ok" if cycles else "-"),
        )
    return table


def answers(rows: Sequence[dict[str, Any]]) -> Table:
    """What each constraint model of the solver answered: its status, and its gap if it is not optimal."""
    rows = [r for r in rows if r["models"]]
    names = list(dict.fromkeys(name for r in rows for name in r["models"]))
    table = columns("|".join(("network", "solver", *names)), left_aligned=("network",))
    for r in rows:
        table.add_row(r["name"], r["solver_status"], *(_answer(r["models"].get(name)) for name in names))
    return table


def _answer(model: dict[str, Any] | None) -> str:
    if model is None:
        return "-"
    return f"{model['status']} {model['gap']:.1%}" if model["gap"] else model["status"]


def main() -> int:
    parser = common_options(__doc__, timeout=60)
    parser.add_argument("--limit", type=float, default=1800, help="for each process, in seconds")
    parser.add_argument("--strategies", nargs="+", choices=ORDER, default=ORDER, help="these strategies alone")
    arguments = parser.parse_args()
    names = chosen_networks(parser, arguments.only, [p.name for p in PUBLISHED])
    known = [s for s in ORDER if s in arguments.strategies and s in STRATEGIES]
    cases = [p.case(s, arguments.timeout) for p in PUBLISHED if p.name in names for s in known]

    def measure_case(case: Case, folder: Path) -> dict[str, Any]:
        return measure(case, folder, arguments.limit, (CHECKED, TIMED) if case.strategy == "solver" else (TIMED,))

    def reported(measured: Measurements) -> dict[str, Any]:
        return report(PUBLISHED, arguments.timeout, measured)

    kept = Rows(arguments.json, cases if arguments.again else (), reported, "measured")
    done = measure_all(cases, kept, measure_case)
    shown = [r for r in reported(kept.measured)["rows"] if r["name"] in names]
    console = Console(width=None if sys.stdout.isatty() else 200)
    for table in (comparison(shown), answers(shown)):
        console.print(table)
        console.print()
    for line in means(shown):
        console.print(line, highlight=False)
    for p in PUBLISHED:
        if p.doubt and p.name in names:
            console.print(f"? {p.name}: what was published is {p.doubt}", highlight=False)
    for strategy in sorted(set(arguments.strategies) - set(known)):
        console.print(f"{strategy}: this version has no such strategy", highlight=False)
    passed = sum(row["status"] == "ok" for row in done)
    console.print(f"{passed} of {len(cases)} measurements passed", highlight=False)
    return 0 if passed == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
