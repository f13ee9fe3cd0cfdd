"""Compares two compilations: what differs between their schedules, and what each difference cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from ...ir.plan import Plan
from ..compilation import Compilation
from ..memory_use import TrafficRow, memory_rows, traffic_rows
from ..units import plural
from .alignment import Aligned, align
from .attribution import cause_changes, common_resource, operator_changes, segment_changes
from .comparison import Comparison
from .difference_verdict import verdict
from .differences import (
    address_changes,
    machine_changes,
    mapping_changes,
    movement_changes,
    order_changes,
    residency_changes,
    tile_changes,
)
from .rows import SegmentChange, Side, TileChange

_NO_DECISIONS = {
    "strategy", "machine", "graph_sha256", "seed", "cycles_predicted", "lower_bound_cycles", "lower_bound_reason",
    "predictions", "solved", "cycles_simulated",
}  # fmt: skip
"""Fields of a plan that no instruction depends on."""


def compare(a: Compilation, b: Compilation, files: tuple[str, str] = ("A", "B")) -> Comparison:
    """What differs from A to B; of the runs only the times are read. ``files`` are the names that texts may use."""
    aligned = align(a.graph, a.plan, b.graph, b.plan)
    resources = common_resource(a, b)
    tiles = tile_changes(aligned, a.plan, b.plan)
    traffic = traffic_rows(a.graph, a.plan, a.machine), traffic_rows(b.graph, b.plan, b.machine)
    causes = cause_changes(a, b, resources)
    operators = operator_changes(aligned, (a, b), resources, _decisions(aligned, tiles, a.plan, b.plan))
    segments = segment_changes(aligned, operators, a.plan, b.plan)
    machine = machine_changes(a.machine, b.machine)
    side_a, side_b = _side(a, traffic[0], files[0]), _side(b, traffic[1], files[1])
    same_network = a.graph.digest == b.graph.digest
    same_decisions = same_network and all(
        getattr(a.plan, f.name) == getattr(b.plan, f.name) for f in fields(Plan) if f.name not in _NO_DECISIONS
    )
    comparison = Comparison(
        same=same_decisions and not machine,
        verdict=(),
        notes=_notes(a, b, aligned, resources, same_network),
        a=side_a,
        b=side_b,
        resource=resources[1],
        causes=causes,
        operators=operators,
        machine=machine,
        options=mapping_changes(a.provenance.options, b.provenance.options),
        versions=mapping_changes(a.provenance.versions, b.provenance.versions),
        segments=_changed(segments),
        tiles=tiles,
        residency=residency_changes(*traffic, (set(a.graph.tensor), set(b.graph.tensor))),
        order=order_changes(aligned, a.plan, b.plan),
        movement=movement_changes(a, b),
        addresses=address_changes(a.plan, b.plan),
    )
    return replace(comparison, verdict=verdict(comparison, same_decisions))


def _side(compilation: Compilation, traffic: Sequence[TrafficRow], file: str) -> Side:
    graph, plan, machine = compilation.graph, compilation.plan, compilation.machine
    return Side(
        file=file,
        network=graph.name,
        machine=machine.name,
        strategy=plan.strategy,
        batch=graph.batch,
        operators=len(graph.ops),
        segments=len(plan.segments),
        steps=len(plan.steps),
        instructions=compilation.program.instructions,
        cycles=compilation.trace.cycles,
        milliseconds=compilation.trace.cycles / machine.frequency * 1e3,
        cycles_predicted=plan.cycles_predicted,
        lower_bound_cycles=plan.lower_bound_cycles,
        lower_bound_reason=plan.lower_bound_reason,
        fetched=sum(row.fetched for row in traffic) + sum(row.host for row in traffic),
        stored=sum(row.stored for row in traffic),
        peaks={row.memory: row.peak for row in memory_rows(graph, plan, machine)},
    )


def _changed(segments: Sequence[SegmentChange]) -> tuple[SegmentChange, ...]:
    return tuple(
        row
        for row in segments
        if row.change or len(row.segments_a) != len(row.segments_b) or row.splits_a != row.splits_b
    )


def _decisions(aligned: Sequence[Aligned], tiles: Sequence[TileChange], a: Plan, b: Plan) -> dict[str, tuple[str, ...]]:
    """By the name of an aligned operator, what was decided otherwise about its segment and its tile."""
    of_a = {op: segment for segment in a.segments for op in segment.ops}
    of_b = {op: segment for segment in b.segments for op in segment.ops}
    by_tile: dict[str, list[str]] = {}
    for change in tiles:
        by_tile.setdefault(change.op, []).append(f"{change.what} {change.a} -> {change.b}")
    texts: dict[str, tuple[str, ...]] = {}
    for row in aligned:
        changed: list[str] = []
        if row.pair:
            old, new = of_a[row.pair[0]], of_b[row.pair[1]]
            if old.ops != new.ops:
                changed.append(f"in a segment of {plural(len(new.ops), 'operator')} rather than {len(old.ops)}")
            if (old.instances, old.cores) != (new.instances, new.cores):
                changed.append("split otherwise")
        texts[row.name] = (*changed, *by_tile.get(row.name, ()))
    return texts


def _notes(
    a: Compilation, b: Compilation, aligned: Sequence[Aligned], resources: tuple[str, str], same_network: bool
) -> tuple[str, ...]:
    notes: list[str] = []
    if not same_network:
        both = sum(1 for row in aligned if row.a and row.b)
        only = sum(len(row.a) for row in aligned if not row.b), sum(len(row.b) for row in aligned if not row.a)
        notes.append(
            f"The compiled networks differ: {both} operators are in both (by name, or by the ONNX nodes that they were "
            f"made from), {only[0]} only in A, {only[1]} only in B, and what they cost stands for itself."
        )
    if a.graph.batch != b.graph.batch:
        batches = " and ".join("none" if side.graph.batch is None else f"{side.graph.batch}" for side in (a, b))
        notes.append(f"The batches differ ({batches}): compare cycles for each item, too.")
    if a.graph.replicas != b.graph.replicas:
        notes.append(f"The clusters in use differ ({a.graph.replicas} and {b.graph.replicas}); cycles are of one.")
    if a.machine.frequency != b.machine.frequency:
        notes.append("The clocks differ: compare milliseconds rather than cycles.")
    if resources[0] != resources[1]:
        notes.append(
            f"The machines have no engine in common that bounds either: cycles are those of {resources[0]} in A and of "
            f"{resources[1]} in B."
        )
    elif a.breakdown.bounding != b.breakdown.bounding:
        notes.append(
            f"{a.breakdown.bounding} bounds A, {b.breakdown.bounding} bounds B; causes are told for {resources[0]}."
        )
    return tuple(notes)
