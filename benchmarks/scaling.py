"""How the time of a compilation grows with the number of equal layers: a transformer of 12, 24, 48 and 96 of them.

    python -m benchmarks.scaling                       # the table of docs/performance.md
    python -m benchmarks.scaling --layers 12 24 --timeout 10 --json rows.json

Each compilation is a process of its own, one after the other, without the cache. Seconds are wall time of each stage;
"processor" is what the process took of the processor, from its start to its end, which a busy machine changes less, and
"to the first" is that over the first row's. A layer is small, so that what counts is how many there are.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.networks import GIRIH, columns

LAYER = {"seq": 64, "hidden": 256, "heads": 4, "ffn": 1024}
TARGET = ("--target", "stcp920", "--precision", "fp16", "--batch", "4")
STAGES = ("import", "plan", "lower", "save", "total")


def measure(layers: int, timeout: float, strategy: str) -> dict[str, Any]:
    """What `girih compile --json` says of a network of so many layers."""
    with tempfile.TemporaryDirectory() as folder:
        network, compiled = Path(folder) / "net.onnx", Path(folder) / "net.girih"
        params = [word for key, value in {"layers": layers, **LAYER}.items() for word in ("--param", f"{key}={value}")]
        subprocess.run([*GIRIH, "models", "bert-base", "-o", str(network), *params], check=True, capture_output=True)
        options = [*TARGET, "--solver-timeout", f"{timeout:g}", "--strategy", strategy, "--no-cache", "--json"]
        words = [*GIRIH, "compile", str(network), "-o", str(compiled), *options]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{layers} layers: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    printed = json.loads(done.stdout)
    keys = ("seconds", "operators", "segments", "instructions", "cycles_predicted", "solver_status", "models")
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"layers": layers, "processor": processor, **{key: printed[key] for key in keys}}


def table(rows: Sequence[dict[str, Any]]) -> Table:
    heads = ("layers", "operators", "instructions", "cycles", *STAGES, "processor", "to the first")
    lines = columns("|".join(heads), left_aligned=())
    for row in rows:
        seconds = [*(row["seconds"][stage] for stage in STAGES), row["processor"]]
        ratio = row["processor"] / rows[0]["processor"]
        counts = [f"{row[key]:,}" for key in ("layers", "operators", "instructions", "cycles_predicted")]
        lines.add_row(*counts, *(f"{s:.1f}" for s in seconds), f"{ratio:.2f}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, nargs="+", default=[12, 24, 48, 96], metavar="N")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="of the solver")
    parser.add_argument("--strategy", default="solver")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for layers in arguments.layers:
        rows.append(measure(layers, arguments.timeout, arguments.strategy))
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1))
        print(f"{layers} layers: {rows[-1]['seconds']['total']:.1f} s", file=sys.stderr)
    Console(width=120).print(table(rows))


if __name__ == "__main__":
    main()
