"""Compare compiled networks with a reference that rounds where their graphs and plans round.

    python benchmarks/rounding.py resnet50.girih bert.girih [--json]

The reference is the tests' own evaluation of a graph in numpy, stage by stage and in the dtypes of the graph. It shares
no code with lowering and simulator, and rounds sums after each reduction tile of the plan. The error is
‖output - reference‖ / ‖reference‖, at most 2e-3; the exit code is 1 if one is larger.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from reference import evaluate

from girih.api.container import Package, read
from girih.api.run import make_inputs, run
from girih.lowering.host import run_kernel

LIMIT = 2e-3


def rounded_error(package: Package, seed: int = 0) -> float:
    """The largest error of an output."""
    inputs = make_inputs(package, seed)
    outputs = run(package, inputs, check=False, seed=seed).outputs
    on_host = [op.name for op in package.graph.ops if op.host]
    kernels = dict(zip(on_host, package.program.kernels, strict=True))
    tiles = [tile for segment in package.plan.segments for tile in segment.tiles]
    cuts = {tile.op: tile.reduce for tile in tiles if tile.engine == "matrix" and tile.reduce}
    expected = evaluate(package.graph, inputs, lambda op, arrays: run_kernel(kernels[op.name], arrays), cuts)
    return max(
        float(np.linalg.norm(wide(outputs[name]) - wide(values)) / max(1e-30, np.linalg.norm(wide(values))))
        for name, values in expected.items()
    )


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64).reshape(-1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("compiled", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="one JSON object: error by file")
    arguments = parser.parse_args()
    errors = {str(path): rounded_error(read(path, Package)) for path in arguments.compiled}
    if arguments.json:
        print(json.dumps(errors))
    else:
        for name, error in errors.items():
            print(f"{error:.2e}  {name}" + ("" if error <= LIMIT else f"  (more than {LIMIT:g})"))
    return int(any(error > LIMIT for error in errors.values()))


if __name__ == "__main__":
    sys.exit(main())
