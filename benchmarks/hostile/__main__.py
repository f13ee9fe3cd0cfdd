"""Hostile inputs by the thousand: each is refused with a message, or its result is right.

    python -m benchmarks.hostile                                  # 2,000 cases, by the shares of the families
    python -m benchmarks.hostile --cases 500 --only onnx --seed 3 --json hostile.json --keep build/hostile
    python -m benchmarks.hostile --only onnx --replay build/hostile/onnx-17

Ends with exit code 1 if there was an internal error, a wrong result or a case that took too long.
"""

from __future__ import annotations

import argparse
import json
import pickle
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.hostile.case import Case, Outcome, Verdict
from benchmarks.hostile.families import FAMILIES, cases_of, counts
from benchmarks.hostile.workers import run_all

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


def table(outcomes: Sequence[Outcome]) -> Table:
    """How many cases of each family and kind ended how."""
    result = Table("family", "kind", "cases", *VERDICTS, box=None, pad_edge=False)
    kinds = sorted({(o.family, o.kind) for o in outcomes})
    numbers = Counter((o.family, o.kind, o.verdict) for o in outcomes)
    for family, kind in kinds:
        row = [numbers[family, kind, verdict] for verdict in VERDICTS]
        result.add_row(family, kind, str(sum(row)), *(str(n) for n in row))
    total = Counter(o.verdict for o in outcomes)
    result.add_row("all", "", str(len(outcomes)), *(str(total[verdict]) for verdict in VERDICTS))
    return result


def pattern(message: str) -> str:
    """A message without the names and numbers in it, so that like messages can be counted together."""
    return re.sub(r"\d[\d,.]*", "N", re.sub(r"'[^']*'|\"[^\"]*\"", "X", message))


def report(outcomes: Sequence[Outcome], seed: int) -> dict[str, object]:
    """The JSON object: counts, every defect, and the messages of refusals by pattern with one example each."""
    refusals = [o for o in outcomes if o.verdict == "refused"]
    examples = {pattern(o.message): o.message for o in reversed(refusals)}
    patterns = Counter(pattern(o.message) for o in refusals)
    kinds = sorted({(o.family, o.kind) for o in outcomes})
    return {
        "seed": seed,
        "cases": len(outcomes),
        "seconds": {f: round(sum(o.seconds for o in outcomes if o.family == f), 1) for f, _ in kinds},
        "slowest": max((o.seconds for o in outcomes), default=0.0),
        "verdicts": {v: sum(o.verdict == v for o in outcomes) for v in VERDICTS},
        "kinds": [
            {"family": family, "kind": kind}
            | {v: sum(o.verdict == v and (o.family, o.kind) == (family, kind) for o in outcomes) for v in VERDICTS}
            for family, kind in kinds
        ],
        "defects": [asdict(o) for o in outcomes if o.is_defect],
        "refusals": [{"count": n, "example": examples[p]} for p, n in patterns.most_common()],
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--cases", type=int, default=2000, help="in all families together")
    parser.add_argument("--only", nargs="+", choices=list(FAMILIES), default=list(FAMILIES), help="these families")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--seconds", type=float, default=120.0, help="that a case may take")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write counts, defects and messages here")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the cases that are defects here")
    parser.add_argument("--replay", nargs="+", type=Path, metavar="FILE", help="attempt cases that --keep wrote")
    arguments = parser.parse_args()
    errors, console = Console(stderr=True), Console(width=None if sys.stdout.isatty() else 160)
    if arguments.replay is not None:
        expected = len(arguments.replay)
        cases: Iterator[Case] = (pickle.loads(path.read_bytes()) for path in arguments.replay)
    else:
        expected = arguments.cases
        cases = cases_of(counts(expected, arguments.only), arguments.seed)
    started = time.perf_counter()
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)

    def done(number: int, case: Case, outcome: Outcome) -> None:
        if outcome.is_defect:
            text = f"{number} {outcome.family}/{outcome.kind}: {outcome.change}\n  {outcome.verdict}: {outcome.message}"
            errors.print(escape(f"{text[:1000]}\n  {outcome.where}"), highlight=False, soft_wrap=True)
            if arguments.keep is not None:
                (arguments.keep / f"{case.family}-{number}").write_bytes(pickle.dumps(case))
        if (number + 1) % 100 == 0:
            errors.print(f"{number + 1} of {expected} cases, {time.perf_counter() - started:.0f} s", highlight=False)

    outcomes = run_all(cases, arguments.workers, arguments.seconds, done)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report(outcomes, arguments.seed), indent=1) + "\n")
    console.print(table(outcomes))
    return 1 if any(o.is_defect for o in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
