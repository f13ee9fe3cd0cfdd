"""One segment as text."""

from __future__ import annotations

from ...units import numbers, share, size
from ..segment_details import SegmentDetails
from .operator_text import splits
from .tables import count, extents, more, pairs, table, title

_MOST_ROWS = 24
"""Operators, transfers and steps in the text; the JSON has them all."""
_MOST_LOADS = 6


def segment_text(segment: SegmentDetails, width: int) -> list[str]:
    """How it is split, what it takes and why, its operators, what it moves, and how full memories get."""
    row, steps = segment.row, segment.steps
    loads = ", ".join(f"{name} {count(cycles)}" for name, cycles in segment.loads[:_MOST_LOADS])
    cores = f"{splits(segment.splits)} of the last result, side by side on cores {numbers(sorted(segment.cell_cores))}"
    if not segment.cell_cores:
        cores = "none: the host or a scalar engine runs its kernel"
    rows = [
        ("operators", f"{row.operators}: {row.first} to {row.last}"),
        ("instances", f"{splits(segment.instances)} of the last result, one after the other"),
        ("cores", cores),
        ("simulated", f"{count(segment.cycles)} cycles of {segment.resource}, waits included"),
        (
            "predicted",
            f"{count(row.cycles)} cycles of computation, {share(row.share, 1)} of all; overlaps count twice",
        ),
        ("bound", f"{count(segment.work)} cycles of {segment.resource}; lost: {count(segment.cycles - segment.work)}"),
        ("lost to", segment.losses or "nothing"),
        ("limited by", f"{loads}: cycles that the segment alone would keep each busy"),
    ]
    if segment.aliased:
        rows.append(("in place", f"made or loaded where their concatenation lies: {', '.join(segment.aliased)}"))
    lines = [*title(f"Segment {row.index}", width), *pairs(rows, width)]
    lines += title(
        f"Operators: cycles, predicted and of {segment.resource} in the run, in the order of the plan", width
    )
    cells = [
        (o.name, o.engine or "-", count(o.predicted), count(o.cycles), count(o.lost), o.losses.partition(",")[0])
        for o in segment.operators[:_MOST_ROWS]
    ]
    lines += table("operator|engine|predicted|run|lost|most of it", cells, width, wrapped=True)
    lines += more(len(segment.operators) - _MOST_ROWS, "operator", width)

    transfers = [(t.direction, t.tensor, size(t.bytes), extents(t.portion)) for t in segment.transfers[:_MOST_ROWS]]
    if transfers:
        lines += title("Transfers between shared and local memory, in portions of", width)
        lines += table("way|tensor|size|portion", transfers, width)
    lines += more(len(segment.transfers) - _MOST_ROWS, "transfer", width)

    if segment.rooms:
        lines += title("Memories of a core: the most in use at once", width)
        rooms = [(r.memory, size(r.peak), size(r.capacity), share(r.peak, r.capacity), r.at) for r in segment.rooms]
        lines += table("memory|peak|capacity|full|at", rooms, width)

    lines += title("Steps of the plan that are its instances, with predicted cycles", width)
    lines += table("step|begins|ends", [(n, count(a), count(b)) for n, a, b in steps[:_MOST_ROWS]], width)
    return lines + more(len(steps) - _MOST_ROWS, "step", width)
