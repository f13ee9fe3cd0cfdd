"""The families of hostile cases, by name, and how many of all cases are of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from benchmarks.hostile import cli_options, girih_files, machine_files, onnx_files, onnx_generated
from benchmarks.hostile.case import Case, Family

FAMILIES: Mapping[str, Family] = {
    "cli": Family(cli_options.cases, cli_options.attempt, share=3),
    "generated": Family(onnx_generated.cases, onnx_generated.attempt, share=3),
    "girih": Family(girih_files.cases, girih_files.attempt, share=4),
    "machine": Family(machine_files.cases, machine_files.attempt, share=2),
    "onnx": Family(onnx_files.mutations, onnx_files.attempt, share=8),
}


def counts(cases: int, names: Sequence[str]) -> dict[str, int]:
    """How many of so many cases each of these families has, by shares; what they leave over goes to the first ones."""
    total = sum(FAMILIES[name].share for name in names)
    result = {name: cases * FAMILIES[name].share // total for name in names}
    for name in names[: cases - sum(result.values())]:
        result[name] += 1
    return result


def cases_of(counts: Mapping[str, int], seed: int) -> Iterator[Case]:
    """So many cases of each family, one family after the other; each case is made when it is asked for."""
    for name, count in counts.items():
        yield from islice(FAMILIES[name].cases(seed), count)
