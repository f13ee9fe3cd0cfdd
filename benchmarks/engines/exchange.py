"""What it costs to split the operators of a segment in another way each, and to exchange through the shared memory.

    girih models conformer -o net.onnx --param layers=2
    girih compile net.onnx -o net.girih --precision fp16 --batch 12 --solver-timeout 15
    python -m benchmarks.engines.exchange net.girih --cores 4@1x2@2 \\
        layer.0.ffn1.norm..layer.0.ffn1.fc1.matmul layer.0.ffn1.fc2.matmul

The segments of the plan that have these operators are replaced by the runs that are named (FIRST..LAST, or a single
operator), each a segment of its own under the given splits (parts@dimension), and everything below segmentation is
decided anew, for the plan's own segments and for these. Printed are predicted cycles before any local search: of the
whole, and of each segment in question, from its first slot to its last, with the time from the one before it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import girih
from girih.ir.errors import UsageError
from girih.ir.plan import Plan, Segment, Split
from girih.solver.loop.changes.resegment import bare
from girih.solver.subproblem.plan_builder import EvaluatedPlan, Infeasibility
from girih.solver.subproblem.subproblem import Subproblem
from girih.solver.subproblem.tiling_alternatives import TilingCuts
from girih.solver.subproblem.time_budget import SHORT, rounds, searching


def split(text: str) -> tuple[Split, ...]:
    """``4@1x2@2`` as four parts of dimension 1 times two of dimension 2; none for nothing."""
    pairs = [part.split("@") for part in text.split("x") if part]
    try:
        return tuple(Split(int(dim), int(parts)) for parts, dim in pairs)
    except ValueError:
        raise UsageError(f"{text} is no split; write parts@dimension, with x between two, as 4@1x2@2") from None


def replaced(compiled: girih.Compiled, runs: list[Segment]) -> tuple[Segment, ...]:
    """The segments of the plan with ``runs`` in place of those of the same operators."""
    place = {op.name: number for number, op in enumerate(compiled.graph.ops)}
    names = {name for run in runs for name in run.ops}
    if len(names) < sum(len(run.ops) for run in runs):
        raise UsageError("an operator is in two of the runs; name each of them once")
    segments: list[Segment] = []
    replacements = sorted(runs, key=lambda run: place[run.ops[0]])
    for segment in bare(compiled.graph, compiled.plan.segments):
        if not names & set(segment.ops):
            segments.append(segment)
        elif more := set(segment.ops) - names:
            raise UsageError(f"a segment of the plan also has {', '.join(sorted(more))}; name runs for all of it")
        else:
            segments += replacements
            replacements = []
    return tuple(segments)


def run_of(compiled: girih.Compiled, text: str, instances: str, cores: str) -> Segment:
    """FIRST..LAST, in the order of the graph, as a segment."""
    first, _, last = text.partition("..")
    names = [op.name for op in compiled.graph.ops]
    for name in (first, last or first):
        if name not in names:
            raise UsageError(f"there is no operator {name}; see girih explain FILE --tables")
    ops = names[names.index(first) : names.index(last or first) + 1]
    return Segment(tuple(ops), split(instances), split(cores), ())


def best_plan(subproblem: Subproblem, segments: tuple[Segment, ...]) -> Plan:
    """The better plan of all orders of the instances; :class:`girih.InfeasibleError` if none fits."""
    iteration = searching(rounds(SHORT, subproblem.options.disabled)).iteration(1)
    tiled = subproblem.tiles(segments, TilingCuts(), iteration)
    if isinstance(tiled, Infeasibility):
        raise tiled.error()
    answers = list(subproblem.plans(subproblem.requests(tiled, iteration)))
    plans = [answer.plan for answer in answers if isinstance(answer, EvaluatedPlan)]
    if not plans:
        raise next(answer for answer in answers if isinstance(answer, Infeasibility)).error()
    return min(plans, key=lambda plan: plan.cycles_predicted)


def spans(plan: Plan, names: set[str]) -> list[tuple[Segment, int, int]]:
    """Of each segment with some of these operators: the first start and the last stop of its slots, in cycles."""
    segment_spans: list[tuple[Segment, int, int]] = []
    for number, segment in enumerate(plan.segments):
        if names & set(segment.ops):
            slots = [p for p in plan.predictions if plan.steps[p.step].segment == number]
            segment_spans.append((segment, min(p.start for p in slots), max(p.stop for p in slots)))
    return segment_spans


def show(title: str, plan: Plan, names: set[str]) -> None:
    print(f"{title}: {plan.cycles_predicted:,} cycles predicted")
    before: int | None = None
    for segment, start, stop in spans(plan, names):
        after = "" if before is None else f", {start - before:,} after the one before"
        print(f"  {segment.ops[0]} .. {segment.ops[-1]}: {stop - start:,} cycles{after}")
        before = stop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a compiled network")
    parser.add_argument("runs", nargs="+", help="FIRST..LAST, or one operator")
    parser.add_argument("--cores", default="", help="split over the cores, as 4@1x2@2")
    parser.add_argument("--instances", default="", help="split into instances, as 2@0 (default: none)")
    arguments = parser.parse_args()
    compiled = girih.load(arguments.file)
    runs = [run_of(compiled, text, arguments.instances, arguments.cores) for text in arguments.runs]
    names = {name for run in runs for name in run.ops}
    subproblem = Subproblem(compiled.graph, compiled.machine, compiled.options.for_solver, lambda _: None)
    show("as planned", best_plan(subproblem, bare(compiled.graph, compiled.plan.segments)), names)
    show("as asked", best_plan(subproblem, replaced(compiled, runs)), names)


if __name__ == "__main__":
    main()
