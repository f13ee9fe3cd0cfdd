"""How far compiled networks are from a reference that rounds where their graphs and plans round.

    python -m benchmarks.rounding resnet50.girih bert.girih [--json]

The reference is that of `girih run --exact` (`api/exact/`), which allows no difference at all; here, the error is
‖output - reference‖ / ‖reference‖, and the exit code is 1 if one is larger than 2e-3.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from girih.api.container import Package, read
from girih.api.run import run

LIMIT = 2e-3


def rounded_error(package: Package, seed: int = 0) -> float:
    """The largest error of an output."""
    check = run(package, None, check="exact", seed=seed).check
    assert check is not None
    return check.rel_err


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
