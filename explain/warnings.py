"""What a user should know about a compilation that succeeded: what of the machine stays unused, and what to change."""

from __future__ import annotations

from collections import defaultdict

from ..ir.bounds.unavoidable_work import on_matrix, operand_dtypes
from ..ir.checks.machine_effects import without_effect
from ..ir.graph import NARROWED, Graph
from ..ir.load_machine import load_machine, machine_names
from ..ir.machine import Machine
from ..ir.machines.as_planned import as_planned, name_in_file
from ..ir.machines.computed_types import idle_with
from ..ir.program import Program


def compilation_warnings(graph: Graph, program: Program, machine: Machine, described: Machine) -> tuple[str, ...]:
    """A sentence each for what the matrix engine cannot run, and for keys of the machine file without effect.

    Names and places are those of the file, in which the machine is ``described``. Of a built-in machine only the first:
    who compiles for it cannot change its file.
    """
    built_in = machine.name in machine_names() and machine == as_planned(load_machine(machine.name))
    return (*idle_engines(graph, program, machine, described), *(() if built_in else without_effect(described)))


def idle_engines(graph: Graph, program: Program, machine: Machine, described: Machine) -> tuple[str, ...]:
    """A sentence for each combination of dtypes whose contractions the matrix engine has no rate for."""
    matrix, vector = (
        described.engine[name_in_file(described, machine.engine_for(kind).name)] for kind in ("matrix", "vector")
    )
    macs = {op.name: op.macs for op in program.ops}
    total = sum(macs.values())
    by_dtypes: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    contractions = 0
    for op in graph.ops:
        if op.host is not None or op.contraction is None:
            continue
        contractions += 1
        dtypes = operand_dtypes(graph, op)
        if not on_matrix(op, op.contraction, dtypes, machine):
            factors = sorted({dtypes[factor.tensor] for factor in op.stages[op.contraction].factors})
            by_dtypes[tuple(factors)].append(op.name)
    rate = matrix.rate or {}
    known = sorted(dtype for dtype in rate if matrix.rate_of(dtype))
    multiplied = f"only {_and(known)}" if known else "nothing"
    idle = contractions == sum(map(len, by_dtypes.values()))
    sentences: list[str] = []
    for dtypes, names in by_dtypes.items():
        share = sum(macs.get(name, 0) for name in names) / total if total else 0.0
        # The rate of int8 is that of uint8, whose own has no effect.
        lacking = tuple(dict.fromkeys("int8" if d == "uint8" else d for d in dtypes if not matrix.rate_of(d)))
        missing, able = " and ".join(lacking), idle_with(described, "matrix", lacking)
        multiplies = f"multiplies {multiplied}{f' ({able})' if able else ''}"
        narrower = next((p for p, dtype in NARROWED.items() if "float32" in dtypes and rate.get(dtype)), None)
        advice = f"compile with --precision {narrower}, or give {matrix.name}" if narrower else f"give {matrix.name}"
        sentences.append(
            f"{matrix.name} {'is idle' if idle else 'runs only a part'}: {len(names)} of {contractions} "
            f"matrix products and convolutions, {share:.0%} of the MACs, are in {' and '.join(dtypes)} and run on "
            f"{vector.name}, because {matrix.name} {multiplies}; {advice} a rate for {missing} "
            "in the machine file"
        )
    return tuple(sentences)


def _and(words: list[str]) -> str:
    return " and ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]
