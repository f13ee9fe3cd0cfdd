"""Judge one answer of the allocation benchmark: two CSV files, and nothing of the solver's.

    python -m benchmarks.allocation.check INPUT.csv ANSWER.csv CAPACITY

The answer must have the rows of the input in any order, each with an ``offset``; every buffer must lie within the
capacity, and two that live at one time (``lower <= t < upper``) must share no byte. Prints what is wrong, a line each,
and exits with 1 if anything is.
"""

from __future__ import annotations

import csv
import sys
from itertools import combinations
from pathlib import Path

Row = tuple[str, int, int, int]


def violations(question: Path, answer: Path, capacity: int) -> list[str]:
    """What is wrong with the answer, in the order of its rows; empty if it is right. Quadratic on purpose."""
    question_rows = _rows(question)
    answered = _rows(answer, "offset")
    if sorted(row for row, _ in question_rows) != sorted(row for row, _ in answered):
        return [f"{answer}: its rows, less the offsets, are not those of {question}"]
    errors: list[str] = []
    for (name, _, _, size), offset in answered:
        if offset < 0 or offset + size > capacity:
            errors.append(f"{name}: bytes {offset} to {offset + size} are not within 0 to {capacity}")
    for (first, first_offset), (second, second_offset) in combinations(answered, 2):
        together = first[1] < second[2] and second[1] < first[2]
        if together and first_offset < second_offset + second[3] and second_offset < first_offset + first[3]:
            errors.append(
                f"{first[0]} and {second[0]} share bytes from {max(first_offset, second_offset)} while both live"
            )
    return errors


def _rows(path: Path, extra: str = "") -> list[tuple[Row, int]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [
            ((row["id"], int(row["lower"]), int(row["upper"]), int(row["size"])), int(row[extra]) if extra else 0)
            for row in csv.DictReader(file)
        ]


if __name__ == "__main__":
    if len(sys.argv) != 4 or not sys.argv[3].isdigit():
        sys.exit(__doc__)
    wrong = violations(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    print("\n".join(wrong) or "right")
    sys.exit(1 if wrong else 0)
