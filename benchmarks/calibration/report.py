"""Compare the simulator with figures that nobody here made, and explain the differences.

    python -m benchmarks.calibration.report                           # or: make bench-calibration
    python -m benchmarks.calibration.report --json calibration.json --networks build/published.json

1. The matrix engine alone, against the cycles that SCALE-Sim counts for an output-stationary array of its size.
2. The same layers from the cluster's memory and back, against SCALE-Sim with buffers and ports like those of stcp920.
3. How long the matrix engine is busy for each cycle that its multipliers would need at their peak, over all layers of a
   network, against what was published for STCP920.
4. How busy the engines are in whole networks, against the utilisation published for STCP920. Ours are read from what
   benchmarks/networks.py or benchmarks/published.py wrote; a strategy that was not measured has no figure.

docs/calibration.md tells how to read the tables. SCALE-Sim's figures are in scalesim.json, which
benchmarks/calibration/scalesim.py makes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.calibration.layers import LAYERS, WHOLE, Layer
from benchmarks.calibration.programs import layer_program
from benchmarks.networks import columns
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.trace import Trace
from girih.simulator import simulate

FIGURES = Path(__file__).with_name("scalesim.json")
LEAST_NAMED = 0.02
"""A cause is named if it makes this part of SCALE-Sim's cycles."""
LEFT = ("layer", "network", "network, items a cluster", "why")
"""Columns that are aligned to the left."""


@dataclass(frozen=True)
class Row:
    """A layer in cycles: ``ours`` and ``theirs``, and what makes the difference: their sum is ours - theirs."""

    layer: str
    ours: int
    theirs: int
    causes: dict[str, int]

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    @property
    def reason(self) -> str:
        """The causes that matter, largest first, as parts of SCALE-Sim's cycles."""
        largest = sorted(
            ((c, n) for n, c in self.causes.items() if abs(c) >= LEAST_NAMED * self.theirs), key=lambda t: -abs(t[0])
        )
        return ", ".join(f"{name} {cycles / self.theirs:+.0%}" for cycles, name in largest)


def folds(layer: Layer, machine: Machine) -> int:
    """Blocks of outputs, as large as the array, that the layer takes."""
    engine = machine.engine_for("matrix")
    return -(-layer.m // engine.rows) * -(-layer.n // engine.columns)


def output_stationary(layer: Layer, machine: Machine) -> int:
    """SCALE-Sim's rule: k cycles a fold, filled and drained along both sides before the next begins.

    Samajdar et al., ISPASS 2020, equation 1; the report counts from cycle 0.
    """
    engine = machine.engine_for("matrix")
    return folds(layer, machine) * (layer.k + engine.rows + engine.columns - 2) - 1


def filling_each_fold(machine: Machine) -> Machine:
    """The machine with an array that is filled and drained for each fold as SCALE-Sim's is."""
    engines = (replace(e, fill=e.rows + e.columns - 2) if "matrix" in e.classes else e for e in machine.engines)
    return replace(machine, engines=tuple(engines))


def weight_stationary(layer: Layer, machine: Machine) -> int:
    """SCALE-Sim's rule with k on the rows: each fold loads its weights, then all positions stream through."""
    engine = machine.engine_for("matrix")
    blocks = -(-layer.k // engine.rows) * -(-layer.n // engine.columns)
    return blocks * (layer.m + 2 * engine.rows + engine.columns - 2) - 1


def engine_row(layer: Layer, machine: Machine, theirs: int) -> Row:
    """The matrix engine with all operands at hand."""
    engine = machine.engine_for("matrix")
    trace = _run(layer, machine, streamed=False)
    count, fold = trace.summary.instructions, folds(layer, machine)
    products = trace.summary.busy[engine.name] - count * engine.issue
    causes = {
        "fill and drain of each fold": fold * (engine.fill - (engine.rows + engine.columns - 2)),
        "issue": count * engine.issue,
        "latency": engine.latency,
        "rounding of tiles": products - fold * (layer.k + engine.fill),
        "counting from 0": 1,
    }
    return Row(layer.key, trace.cycles, theirs, causes)


def memory_row(layer: Layer, machine: Machine, theirs: dict[str, int], engine: Row) -> Row:
    """The layer from shared memory and back; ``engine`` is its row without memory."""
    trace = _run(layer, machine, streamed=True)
    name = machine.engine_for("matrix").name
    instructions = engine.ours - machine.engine[name].latency
    causes = {
        "array": instructions - theirs["compute"],
        "conflicts": trace.summary.busy[name] - instructions,
        "waits for memory": trace.cycles - trace.summary.busy[name],
        "their stalls": -theirs["stall"],
        "their first load, last store": -(theirs["total"] - theirs["compute"] - theirs["stall"]),
    }
    return Row(layer.key, trace.cycles, theirs["total"], causes)


def _run(layer: Layer, machine: Machine, *, streamed: bool) -> Trace:
    trace = simulate(layer_program(layer, machine, streamed=streamed), machine, {}, {}, data=False)
    if trace.violations:
        raise RuntimeError(f"{layer.key}: {trace.violations[0]}")
    return trace


def operand_words(layer: Layer) -> int:
    """Words of the input and of the weights, each once."""
    return layer.height * layer.width * layer.channels + layer.k * layer.n


@dataclass(frozen=True)
class Published:
    """Parts of the time in which the vector and the matrix engines ran, ``items`` in one cluster, binary16.

    Zhao et al., OSDI 2023, figure 16, read off the printed figure. ``milliseconds`` is how long they took: for BERT as
    table 1 prints it, for ResNet-50 from the throughput of table 2 and figure 14.
    """

    network: str
    items: int
    vector: float
    matrix: float
    milliseconds: float | None = None

    def busy(self, ideal: float, machine: Machine) -> float | None:
        """Busy cycles of the matrix engines of a cluster over ``ideal`` ones an item."""
        if self.milliseconds is None:
            return None
        return self.matrix * self.milliseconds * 1e-3 * machine.frequency * machine.cores / (self.items * ideal)


PUBLISHED = (
    *(Published("resnet50", *row) for row in ((1, 0.25, 0.19), (2, 0.28, 0.29), (4, 0.45, 0.52), (8, 0.59, 0.78))),
    Published("resnet50", 16, 0.59, 0.79, 64 / (7.97 * 1064) * 1e3),
    *(Published("bert-base", *row) for row in ((4, 0.62, 0.91), (8, 0.76, 0.90, 7.67), (16, 0.51, 0.82))),
)
STRATEGIES = ("layerwise", "graphturbo", "solver")


Utilisation = dict[tuple[str, int, str], tuple[float, float]]
"""(vector, matrix) by network, items in a cluster and strategy."""


def utilisation(rows: Iterable[dict[str, Any]], machine: Machine) -> Utilisation:
    """What rows of benchmarks/networks.py or benchmarks/published.py tell about the published networks."""
    shares: Utilisation = {}
    for row in rows:
        published = row["target"] == machine.name and row["precision"] == "fp16" and row["params"] in ([], ["seq=128"])
        if row["status"] != "ok" or not published or not row["batch"]:
            continue
        busy, total = row["run"]["busy"], row["run"]["cycles"] * machine.cores
        vector, matrix = (busy.get(machine.engine_for(kind).name, 0) / total for kind in ("vector", "matrix"))
        shares[row["name"], -(-row["batch"] // machine.clusters), row["strategy"]] = vector, matrix
    return shares


def measured_rows(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """The rows in what those benchmarks wrote; files that are missing have none."""
    for file in files:
        if file.exists():
            data = json.loads(file.read_text())
            yield from (data.get("measured") or data["rows"]).values()


def busy_for_ideal(network: str, machine: Machine, theirs: dict[str, dict[str, dict[str, int]]]) -> dict[str, float]:
    """Cycles of the matrix engine over those of its peak, for one item: by us, by both rules, and as published."""
    engine = machine.engine_for("matrix")
    layers = [layer for layer in LAYERS if layer.network == network and layer.key in theirs]
    ideal = sum(layer.count * layer.macs for layer in layers) / (engine.rows * engine.columns)
    ratios = {
        "ours": sum(layer.count * engine_row(layer, machine, 1).ours for layer in layers) / ideal,
        "SCALE-Sim": sum(layer.count * theirs[layer.key]["os"]["compute"] for layer in layers) / ideal,
        "weight stat.": sum(layer.count * theirs[layer.key]["ws"]["compute"] for layer in layers) / ideal,
    }
    for row in PUBLISHED:
        if row.network == network and (busy := row.busy(ideal, machine)) is not None:
            ratios["published"] = busy
    return ratios


def engine_table(rows: Sequence[Row], weights: dict[str, int]) -> Table:
    table = columns("layer|ours|SCALE-Sim|ratio|why|weight stat.", left_aligned=LEFT)
    for row in rows:
        weight_ratio = row.ours / weights[row.layer]
        table.add_row(
            row.layer, f"{row.ours:,}", f"{row.theirs:,}", f"{row.ratio:.2f}", row.reason, f"{weight_ratio:.2f}"
        )
    for network in dict.fromkeys(row.layer.split()[0] for row in rows):
        network_rows = [row for row in rows if row.layer.split()[0] == network]
        our_cycles, their_cycles = sum(r.ours for r in network_rows), sum(r.theirs for r in network_rows)
        weight_ratio = our_cycles / sum(weights[r.layer] for r in network_rows)
        name = f"{network}: {len(network_rows)} layers"
        table.add_row(
            name,
            f"{our_cycles:,}",
            f"{their_cycles:,}",
            f"{our_cycles / their_cycles:.2f}",
            "",
            f"{weight_ratio:.2f}",
            style="bold",
        )
    return table


def memory_table(rows: Sequence[Row], reread: dict[str, float]) -> Table:
    table = columns("layer|ours|SCALE-Sim|ratio|why|it reads", left_aligned=LEFT)
    for row in rows:
        cells = f"{row.ours:,}", f"{row.theirs:,}", f"{row.ratio:.2f}", row.reason, f"{reread[row.layer]:.1f} x"
        table.add_row(row.layer, *cells)
    return table


def busy_table(rows: dict[str, dict[str, float]]) -> Table:
    table = columns("network|published|ours|SCALE-Sim|weight stat.", left_aligned=LEFT)
    for network, row in rows.items():
        table.add_row(network, *(f"{row[head]:.2f}" for head in ("published", "ours", "SCALE-Sim", "weight stat.")))
    return table


def utilisation_table(shares: Utilisation) -> Table:
    table = columns("network, items a cluster|published|" + "|".join(STRATEGIES), left_aligned=LEFT)
    for p in PUBLISHED:
        cells = [f"{p.vector:.0%} / {p.matrix:.0%}"]
        for strategy in STRATEGIES:
            our_shares = shares.get((p.network, p.items, strategy))
            cells.append(f"{our_shares[0]:.0%} / {our_shares[1]:.0%}" if our_shares else "-")
        table.add_row(f"{p.network}, {p.items}", *cells)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables here")
    parser.add_argument(
        "--networks", nargs="*", type=Path, default=(), metavar="FILE", help="what networks.py or published.py wrote"
    )
    arguments = parser.parse_args()
    machine = load_machine("stcp920")
    figures = json.loads(FIGURES.read_text())
    theirs: dict[str, dict[str, dict[str, int]]] = figures["layers"]
    layers = [layer for layer in LAYERS if layer.key in theirs]
    engine = [engine_row(layer, machine, theirs[layer.key]["os"]["compute"]) for layer in layers]
    memory = [
        memory_row(layer, machine, theirs[layer.key]["os"], row) for layer, row in zip(layers, engine, strict=True)
    ]
    shares = utilisation(measured_rows(arguments.networks), machine)
    reread = {
        layer.key: (theirs[layer.key]["os"]["ifmap_words"] + theirs[layer.key]["os"]["filter_words"])
        / operand_words(layer)
        for layer in layers
    }
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    console.print(f"1. matrix engine of {machine.name} and SCALE-Sim {figures['version']}, cycles")
    console.print(engine_table(engine, {layer.key: theirs[layer.key]["ws"]["compute"] for layer in layers}))
    console.print("\n2. from shared memory and back, cycles")
    console.print(memory_table(memory, reread))
    busy = {network: busy_for_ideal(network, machine, theirs) for network in WHOLE}
    console.print("\n3. cycles of a busy matrix engine for each one at its peak")
    console.print(busy_table(busy))
    console.print("\n4. busy vector / matrix engines, of all cycles")
    console.print(utilisation_table(shares))
    if arguments.json:
        tables = {
            "engine": [asdict(row) | {"ratio": row.ratio} for row in engine],
            "memory": [asdict(row) | {"ratio": row.ratio, "reads": reread[row.layer]} for row in memory],
            "busy": busy,
            "utilisation": [
                asdict(p) | {s: shares.get((p.network, p.items, s)) for s in STRATEGIES} for p in PUBLISHED
            ],
        }
        head = {"machine": machine.name, "scalesim": {k: figures[k] for k in ("source", "version", "configuration")}}
        arguments.json.write_text(json.dumps(head | tables, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
