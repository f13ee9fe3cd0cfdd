"""What the difference in cycles is due to: by cause, by operator, and by segments; each adds up to the cycle.

Cycles are those of one engine or link, as in the cycle breakdown (:mod:`..cycles.breakdown`): all cycles of a run are
work of it, losses while it works, or waits by cause, and each belongs to one operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from ...ir.plan import Plan, Split
from ..compilation import Compilation
from ..cycles.account import cycle_breakdown
from ..cycles.breakdown import BreakdownRow
from ..overview.waterfall import Cause, cause_cycles, titles
from .alignment import Aligned, components, rounded
from .rows import CauseChange, OperatorChange, SegmentChange

CAUSES: tuple[str, ...] = ("work", *(c for c in get_args(Cause) if c not in ("bound", "shared_work")))
"""What cycles are divided into; the first is what the lower bound counts."""

REMAINDER = "remainder"
"""The cause, and the operator, of cycles that belong to none."""


def common_resource(a: Compilation, b: Compilation) -> tuple[str, str]:
    """The resource of A and of B whose cycles are divided: one that bounds A or B and that both have, if there is one.

    Two machines may have none in common: then it is the bounding resource of each.
    """
    known_a = {row.resource for row in a.breakdown.totals}
    known_b = {row.resource for row in b.breakdown.totals}
    for name in (a.breakdown.bounding, b.breakdown.bounding):
        if name in known_a and name in known_b:
            return name, name
    return a.breakdown.bounding, b.breakdown.bounding


def operator_rows(compilation: Compilation, resource: str) -> dict[str, BreakdownRow]:
    """The cycles of a resource, by operator."""
    rows = compilation.breakdown.operators
    if resource != compilation.breakdown.bounding:
        c = compilation
        rows = cycle_breakdown(c.graph, c.plan, c.run, resource).operators
    return {row.op: row for row in rows}


def cause_changes(a: Compilation, b: Compilation, resources: tuple[str, str]) -> tuple[CauseChange, ...]:
    """One row for each cause that has cycles in either run."""
    total_a, total_b = a.breakdown.total(resources[0]), b.breakdown.total(resources[1])
    before, after = _whole(_by_cause(total_a), a.trace.cycles), _whole(_by_cause(total_b), b.trace.cycles)
    titled = titles(total_b, b.machine)
    names = {cause: titled[cause][0] for cause in get_args(Cause) if cause in titled}
    names |= {"work": f"work of {resources[1]}", REMAINDER: "not attributed"}
    return tuple(
        CauseChange(cause, names[cause], before.get(cause, 0), after.get(cause, 0))
        for cause in (*CAUSES, REMAINDER)
        if before.get(cause) or after.get(cause)
    )


def operator_changes(
    aligned: Sequence[Aligned],
    runs: tuple[Compilation, Compilation],
    resources: tuple[str, str],
    decisions: Mapping[str, tuple[str, ...]],
) -> tuple[OperatorChange, ...]:
    """One row for each of ``aligned``, in their order; ``decisions`` are texts by the name of an aligned operator."""
    rows_a, rows_b = (operator_rows(run, resource) for run, resource in zip(runs, resources, strict=True))
    names = {row: "\n".join((*row.a, "", *row.b)) for row in aligned}
    before = _whole({names[row]: _cycles(row.a, rows_a) for row in aligned}, runs[0].trace.cycles)
    after = _whole({names[row]: _cycles(row.b, rows_b) for row in aligned}, runs[1].trace.cycles)
    changes: list[OperatorChange] = []
    for row in aligned:
        old, new = _sum(row.a, rows_a), _sum(row.b, rows_b)
        by_cause = {cause: round(new[cause] - old[cause]) for cause in CAUSES}
        ranked = {c: by_cause[c] for c in sorted(CAUSES, key=lambda c: -abs(by_cause[c])) if by_cause[c]}
        key = names[row]
        changes.append(
            OperatorChange(row.name, row.a, row.b, before[key], after[key], ranked, decisions.get(row.name, ()))
        )
    if before.get(REMAINDER) or after.get(REMAINDER):
        changes.append(
            OperatorChange("not attributed", (), (), before.get(REMAINDER, 0), after.get(REMAINDER, 0), {}, ())
        )
    return tuple(changes)


def segment_changes(
    aligned: Sequence[Aligned], operators: Sequence[OperatorChange], plan_a: Plan, plan_b: Plan
) -> tuple[SegmentChange, ...]:
    """The finest groups of segments of A and of B that have the same operators, in the order of A."""
    of_a, of_b = _segment_of(plan_a), _segment_of(plan_b)
    segments = [*(("a", i) for i in range(len(plan_a.segments))), *(("b", i) for i in range(len(plan_b.segments)))]
    links: list[tuple[tuple[str, int], tuple[str, int]]] = []
    for row in aligned:
        touched = [*(("a", of_a[op]) for op in row.a), *(("b", of_b[op]) for op in row.b)]
        links += [(touched[0], segment) for segment in touched[1:]]
    changes: list[SegmentChange] = []
    for group in components(segments, links):
        in_a = tuple(i for side, i in group if side == "a")
        in_b = tuple(i for side, i in group if side == "b")
        members = [
            row
            for row in operators
            if any(of_a[op] in in_a for op in row.ops_a) or any(of_b[op] in in_b for op in row.ops_b)
        ]
        changes.append(
            SegmentChange(
                first=members[0].name,
                last=members[-1].name,
                operators=len(members),
                segments_a=in_a,
                segments_b=in_b,
                splits_a=tuple(_splits(plan_a, i) for i in in_a),
                splits_b=tuple(_splits(plan_b, i) for i in in_b),
                a=sum(row.a for row in members),
                b=sum(row.b for row in members),
            )
        )
    return tuple(changes)


def _by_cause(row: BreakdownRow) -> dict[str, float]:
    causes = {cause: cause_cycles(row, cause) for cause in get_args(Cause)}
    return {"work": row.peak if row.work is None else row.work, **{c: causes[c] for c in CAUSES[1:]}}


def _sum(ops: Sequence[str], rows: Mapping[str, BreakdownRow]) -> dict[str, float]:
    breakdowns = [_by_cause(rows[op]) for op in ops if op in rows]
    return {cause: sum(by_cause[cause] for by_cause in breakdowns) for cause in CAUSES}


def _cycles(ops: Sequence[str], rows: Mapping[str, BreakdownRow]) -> float:
    return sum(rows[op].cycles for op in ops if op in rows)


def _whole(values: Mapping[str, float], total: int) -> dict[str, int]:
    """Whole numbers that add up to ``total``, if need be with a remainder."""
    whole = rounded(values, total)
    remainder = total - sum(whole.values())
    return {**whole, REMAINDER: remainder} if remainder else whole


def _segment_of(plan: Plan) -> dict[str, int]:
    return {op: index for index, segment in enumerate(plan.segments) for op in segment.ops}


def _splits(plan: Plan, index: int) -> str:
    segment = plan.segments[index]
    return f"instances {split_text(segment.instances)}, cores {split_text(segment.cores)}"


def split_text(splits: Sequence[Split]) -> str:
    """As ``parts@dimension``."""
    return "x".join(f"{split.parts}@{split.dim}" for split in splits if split.parts > 1) or "1"
