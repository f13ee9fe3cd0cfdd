"""How sharp the simulator is as a judge: programs of five networks with one small mistake each.

    python -m benchmarks.mutations                    # 2,000 mistakes; a table, and every one that was not found
    python -m benchmarks.mutations --mutants 400 --only tiny-cnn/tiny --json mutations.json
    python -m benchmarks.mutations --page docs/survivors.md   # lists what was not found, or not by `--exact`

A mistake *matters* if it changes an output by a single bit, or lets two instructions that touch a byte run in any order
(which `ordering.py` finds on its own, without the simulator), or makes an instruction that cannot be executed or reads
what nothing wrote. It is *found* if the sanitizer reports something, or an output differs: from what the right program
gives, bit by bit; or (the other columns) from what `girih run --exact` expects, or from the network in float32 by more
than `girih run --check` allows.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import numpy as np
from rich.console import Console
from rich.table import Table

import girih
from benchmarks.mutants import MISTAKES, Mutant, mutate
from benchmarks.networks import columns
from benchmarks.ordering import unordered
from girih.api.check import check, compare
from girih.api.exact.evaluate_graph import evaluate_graph, reduce_cuts
from girih.api.run import make_inputs
from girih.api.tolerance.rounding import tolerances
from girih.ir.graph import Graph
from girih.ir.machine import Machine
from girih.ir.program import Program
from girih.ir.trace import Trace
from girih.simulator import simulate

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Subject:
    """A program that is right, what it runs on, and what comes out.

    ``exact`` is what its graph and plan say, ``reference`` (of the first ``samples``) what the network itself says.
    """

    name: str
    program: Program
    machine: Machine
    graph: Graph
    inputs: Arrays
    outputs: Arrays
    exact: Arrays
    reference: Arrays
    tolerances: Mapping[str, float]
    samples: int | None = None

    @classmethod
    def from_program(
        cls, name: str, program: Program, machine: Machine, graph: Graph, inputs: Arrays, exact: Arrays,
        reference: Arrays, samples: int | None = None,
    ) -> Subject:  # fmt: skip
        """Of a program that is tried first: nothing may be wrong with it."""
        trace = simulate(program, machine, graph.data, inputs)
        assert trace.violations == (), trace.violations[0]
        assert unordered(program, machine) is None
        allowed = tolerances(graph, inputs, None, samples)
        subject = cls(name, program, machine, graph, inputs, trace.outputs, exact, reference, allowed, samples)
        assert subject.passes(trace.outputs) and subject.is_exact(trace.outputs)
        return subject

    def run(self, program: Program) -> Trace:
        return simulate(program, self.machine, self.graph.data, self.inputs)

    def passes(self, outputs: Arrays) -> bool:
        """Whether `girih run --check` would let these outputs pass."""
        compared = {n: o if self.samples is None else o[: self.samples] for n, o in outputs.items()}
        return check(self.graph, compared, self.reference, self.samples, self.tolerances).passed

    def is_exact(self, outputs: Arrays) -> bool:
        """Whether `girih run --exact` would."""
        return check(self.graph, outputs, self.exact, None).passed


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant. ``reported``: the kinds of violations. ``race``: `ordering.py` found one.

    ``change``: of the worst output, relative to what the right program gives, in Euclidean norms.
    """

    subject: str
    kind: str
    text: str
    reported: tuple[str, ...]
    bits_differ: bool
    exact_fails: bool
    check_fails: bool
    race: bool
    change: float

    @property
    def cause(self) -> str:
        """Why a mutant was not found, or not by `--exact`."""
        if self.bits_differ:
            return "zeros of another sign" if self.change == 0 else f"changes an output by {self.change:.1e}"
        if self.race:
            return "a race that was overlooked"
        if "wait" in self.kind or self.kind == "other-queue":
            return "what it waited for is over for another reason"
        return "the same bits reach the outputs: equal operands, equal old data, or what nothing reads"

    @property
    def matters(self) -> bool:
        broken = set(self.reported) - {"race"}
        return self.bits_differ or self.race or bool(broken)

    @property
    def is_detected(self) -> bool:
        return bool(self.reported) or self.bits_differ

    @property
    def found_exactly(self) -> bool:
        return bool(self.reported) or self.exact_fails

    @property
    def found_by_check(self) -> bool:
        return bool(self.reported) or self.check_fails


def judge(subject: Subject, mutant: Mutant) -> Verdict:
    """Run a mutant; raises nothing, whatever is wrong with it."""
    trace = subject.run(mutant.program)
    kinds = tuple(sorted({v.kind for v in trace.violations}))
    same = all(_same(trace.outputs[name], expected) for name, expected in subject.outputs.items())
    broken = bool(set(kinds) - {"race", "uninitialised"})
    race = not broken and unordered(mutant.program, subject.machine) is not None
    change = max(compare(name, trace.outputs[name], right).rel_err for name, right in subject.outputs.items())
    fails = not subject.is_exact(trace.outputs), not subject.passes(trace.outputs)
    return Verdict(subject.name, mutant.kind, str(mutant), kinds, not same, *fails, race, change)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


CASES = {
    "tiny-cnn/tiny": ("tiny-cnn", "tiny", "as-is", 2),
    "tiny-cnn/stcp920": ("tiny-cnn", "stcp920", "fp16", 8),
    "tiny-transformer/tiny": ("tiny-transformer", "tiny", "as-is", 2),
    "tiny-transformer/stcp920": ("tiny-transformer", "stcp920", "fp16", 8),
    "squeezenet/stcp920": ("squeezenet", "stcp920", "fp16", None),
}
"""Network, machine, precision and batch."""


def compiled(name: str, timeout: float) -> Subject:
    """Compile one of the networks, and run it."""
    import onnx

    from girih.frontend.reference.run import reference_outputs
    from girih.models import build
    from girih.models.light import light

    network, target, precision, batch = CASES[name]
    model = light(network) if network == "squeezenet" else build(network)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        onnx.save(model, path)
        package = girih.compile(path, target=target, precision=precision, batch=batch, solver_timeout=timeout)
    inputs = make_inputs(package, 0)
    batched = {p.name for p in package.graph.inputs if p.batch_axis == 0}
    reference = reference_outputs(package.model, inputs, batched=batched)
    exact = evaluate_graph(package.graph, inputs, cuts=reduce_cuts(package.plan))
    used = {port.name: inputs[port.name] for port in package.program.inputs}
    graph, machine = package.graph, package.machine
    return Subject.from_program(
        name, package.program, machine, graph, used, exact, reference.outputs, reference.samples
    )


def verdicts(subject: Subject, count: int, seed: int) -> list[Verdict]:
    """``count`` different mistakes, as many of each kind as can be made."""
    rng = Random(f"{subject.name} {seed}")
    memories = tuple(m.name for m in subject.machine.memories)
    judged: list[Verdict] = []
    seen: set[str] = set()
    idle = 0
    while len(judged) < count and idle < 50 * len(MISTAKES):
        for kind in MISTAKES:
            mutant = mutate(subject.program, kind, rng, memories)
            if mutant is None or str(mutant) in seen:
                idle += 1
                continue
            idle = 0
            seen.add(str(mutant))
            judged.append(judge(subject, mutant))
            if len(judged) == count:
                break
    return judged


def summary(rows: list[Verdict], key: str) -> Table:
    """One line for each value of ``key``, and one for all."""
    table = columns(f"{key}|mutants|matter|found|%|--exact|%|--check|%|false alarms", left_aligned=(key,))
    groups: dict[str, list[Verdict]] = {}
    for row in rows:
        groups.setdefault(getattr(row, key), []).append(row)
    for name, group in {**groups, "all": rows}.items():
        matter = [r for r in group if r.matters]
        counts = [sum(getattr(r, how) for r in matter) for how in ("is_detected", "found_exactly", "found_by_check")]
        alarms = sum(bool(r.reported) and not r.matters for r in group)
        shares = [(n, f"{100 * n / len(matter):.1f}" if matter else "-") for n in counts]
        cells = (len(group), len(matter), *(cell for share in shares for cell in share), alarms)
        table.add_row(name, *(str(c) for c in cells))
    return table


def page(rows: Sequence[Verdict]) -> str:
    """Every mutant that `--exact` lets pass, or that does not matter, one line each, as Markdown."""
    lines = [
        "# Mistakes that survive",
        "",
        "Written by `benchmarks/mutations.py --page`; [simulator.md](simulator.md) explains them. A line is a mistake:",
        "where (queue and index), which instruction, what of it was changed, and how much that changed the worst",
        "output, relative to what the right program gives.",
    ]
    for title, wanted in (
        (
            "Found by the bits of an output, but not by sanitizer or `--exact`",
            lambda r: r.is_detected and not r.found_exactly,
        ),
        ("Not found", lambda r: r.matters and not r.is_detected),
        ("Without consequences", lambda r: not r.is_detected and not r.matters),
    ):
        chosen = [row for row in rows if wanted(row)]
        lines += ["", f"## {title}: {len(chosen)}"]
        if chosen:
            lines += [
                "",
                "| program | kind | where | instruction | was | became | change |",
                "|---|---|---|---|---|---|---|",
            ]
        for row in chosen:
            lines.append(f"| {row.subject} | {row.kind} | {' | '.join(_table_cells(row.text))} | {row.change:.1e} |")
    return "\n".join(lines) + "\n"


def _table_cells(text: str) -> tuple[str, str, str, str]:
    """Where, which instruction, and what differs before and after, of the text of a mutant."""
    place, _, rest = text.partition(": ")[2].partition(": ")
    where = re.sub(r"queue \d+ \((\w+)\), (\d+)", r"\1 \2", place)
    before, after = (side.split() for side in rest.split(" -> "))
    if before[0] != after[0] or len(before) != len(after):
        return where, before[0], "", " ".join(after[:1])
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    return where, before[0], " ".join(a for a, _ in pairs), " ".join(b for _, b in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--mutants", type=int, default=2000, help="in all networks together")
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES), help="these networks alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=10.0, help="of the solver, in seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every verdict here")
    parser.add_argument("--page", type=Path, metavar="FILE", help="list here what was not found, or not by --exact")
    arguments = parser.parse_args()
    errors, console = Console(stderr=True), Console(width=None if sys.stdout.isatty() else 160)
    rows: list[Verdict] = []
    for number, name in enumerate(arguments.only):
        share = (arguments.mutants - len(rows)) // (len(arguments.only) - number)
        started = time.perf_counter()
        subject = compiled(name, arguments.timeout)
        rows += verdicts(subject, share, arguments.seed)
        seconds = time.perf_counter() - started
        size = subject.program.instructions
        errors.print(f"{name}: {share} mutants of {size:,} instructions, {seconds:.0f} s", highlight=False)
        if arguments.json is not None:
            records = [asdict(r) | {"matters": r.matters, "found": r.is_detected} for r in rows]
            arguments.json.write_text(json.dumps(records, indent=1))
    if arguments.page is not None:
        arguments.page.write_text(page(rows))
    console.print(summary(rows, "subject"), summary(rows, "kind"), sep="\n\n")
    kinds = Counter(kind for r in rows for kind in (r.reported or ("none",)))
    console.print(f"\nreported by the sanitizer: {dict(sorted(kinds.items()))}", highlight=False)
    for title, wanted in (
        ("not found", lambda r: r.matters and not r.is_detected),
        ("not found by sanitizer and --exact", lambda r: r.matters and r.is_detected and not r.found_exactly),
        ("false alarms", lambda r: bool(r.reported) and not r.matters),
        ("nothing to find", lambda r: not r.reported and not r.matters),
    ):
        chosen = [r for r in rows if wanted(r)]
        causes = Counter(row.cause.partition(" by ")[0] for row in chosen)
        console.print(f"\n{title}: {len(chosen)} {dict(causes) if causes else ''}", highlight=False)
        for row in chosen:
            console.print(f"  {row.subject}: {row.text}\n    {row.cause}", highlight=False, soft_wrap=True)
    matter = [r for r in rows if r.matters]
    return 0 if sum(r.found_exactly for r in matter) >= 0.99 * len(matter) else 1


if __name__ == "__main__":
    sys.exit(main())
