"""Machines drawn at random: are they refused with a reason, or are programs for them right to the last bit?

Prints what is wrong with its seed, counts, and how well the cycles of the right ones were predicted. Ends with exit
code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from multiprocessing import get_context
from pathlib import Path
from statistics import geometric_mean

from tests.support.machine_judge import Judgement, judge


def judged(seed: int) -> tuple[int, Judgement]:
    """The judgement of a seed; an exception that is no error of the compiler is wrong, too."""
    try:
        return seed, judge(seed)
    except Exception as error:
        return seed, Judgement("wrong", f"{type(error).__name__}: {str(error)[:300]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--count", type=int, default=2000, help="how many seeds (default 2000)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--json", type=Path, help="where to write counts, predictions, and seeds that are not right")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    others: list[dict[str, object]] = []
    predicted: list[float] = []
    # Forked processes would share what TVM has begun.
    with get_context("spawn").Pool(options.jobs) as pool:
        seeds = range(options.start, options.start + options.count)
        for seed, judgement in pool.imap(judged, seeds, chunksize=8):
            counts[judgement.verdict] += 1
            if judgement.predicted is not None:
                predicted.append(judgement.predicted)
            else:
                others.append({"seed": seed, "verdict": judgement.verdict, "what": judgement.text})
            if judgement.verdict == "wrong":
                print(f"seed {seed}: {judgement.text}", flush=True)
    print(", ".join(f"{count:,} {verdict}" for verdict, count in sorted(counts.items())))
    if predicted:
        near = sum(abs(p - 1) <= 0.03 for p in predicted) / len(predicted)
        print(
            f"predicted over simulated cycles: {min(predicted):.3f} to {max(predicted):.3f}, geometric mean "
            f"{geometric_mean(predicted):.3f}, {near:.0%} within 3 %"
        )
    if options.json is not None:
        document = {"counts": counts, "predicted": predicted, "others": others}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
