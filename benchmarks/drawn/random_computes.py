"""Random operators, written as ``te.compute``, under random plans: are programs right to the last bit?

Prints what is wrong or refused with its seed, and counts: right, refused, wrong. Ends with exit code 1 if anything is
wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

from tests.support.compute_judge import Verdict, judge


def judged(seed: int) -> tuple[int, Verdict, str]:
    """The verdict on a seed; an exception that is no error of the compiler is wrong, too."""
    try:
        return seed, *judge(seed)
    except Exception as error:
        return seed, "wrong", f"{type(error).__name__}: {str(error)[:300]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--count", type=int, default=5000, help="how many seeds (default 5000)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--json", type=Path, help="where to write counts, and seeds that are not right")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    others: list[dict[str, object]] = []
    # Forked processes would share what TVM has begun.
    with get_context("spawn").Pool(options.jobs) as pool:
        seeds = range(options.start, options.start + options.count)
        for seed, verdict, what in pool.imap(judged, seeds, chunksize=16):
            counts[verdict] += 1
            if verdict != "right":
                others.append({"seed": seed, "verdict": verdict, "what": what})
                print(f"seed {seed}: {verdict}: {what}", flush=True)
    print(", ".join(f"{counts[verdict]:,} {verdict}" for verdict in ("right", "refused", "wrong")))
    if options.json is not None:
        options.json.write_text(json.dumps({"counts": counts, "others": others}, indent=1) + "\n", encoding="utf-8")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
