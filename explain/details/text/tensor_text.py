"""One tensor as text."""

from __future__ import annotations

from itertools import groupby

from ...units import size
from ..tensor_details import StayRow, TensorDetails
from .tables import count, extents, more, pairs, paragraph, table, title

_MOST_GROUPS = 12
"""Places in the text; the JSON has them all."""
_MOST_STAYS = 8
"""Stays at one place in the text."""
_MOST_MOVES = 16


def tensor_text(tensor: TensorDetails, width: int) -> list[str]:
    """What it is, why it moves, its stays and its moves."""
    rows = [
        ("what", f"{tensor.kind}, {extents(tensor.shape)} of {tensor.dtype}, {tensor.bytes:,} bytes"),
        ("made by", tensor.made_by or "nobody: it is in main memory when the run begins"),
        ("read by", ", ".join(tensor.read_by) or "nobody in the network: it is an output"),
        ("why", tensor.reason),
    ]
    if tensor.again:
        rows.append(("again", tensor.again))
    if tensor.circular:
        rows.append(("circular", f"passes through a circular buffer of {tensor.circular} positions"))
    lines = [*title(f"Tensor {tensor.name}", width), *pairs(rows, width)]
    lines += title("Stays: in which memory, in which steps of the plan, and in which cycles of the run", width)
    groups = [(place, list(stays)) for place, stays in groupby(tensor.stays, key=_place)]
    for place, stays in groups[:_MOST_GROUPS]:
        lines += paragraph(place, width, "  ")
        cells = [_stay(stay) for stay in stays[:_MOST_STAYS]]
        lines += table("address|size|steps|begins|ends|note", cells, width, "    ")
        lines += more(len(stays) - len(cells), "stay", width, "    ")
    lines += more(len(groups) - _MOST_GROUPS, "place", width)
    lines += title("Moves by operator; begins and ends: first and last cycle in the run", width)
    moves = [
        (m.kind, f"{m.source} > {m.target}", m.op, count(m.copies), size(m.bytes), count(m.begin), count(m.end))
        for m in tensor.moves[:_MOST_MOVES]
    ]
    if not moves:
        return [*lines, *paragraph("none: it never leaves the cores' local memories", width)]
    lines += table("move|way|in slots of|copies|size|begins|ends", moves, width)
    return lines + more(len(tensor.moves) - len(moves), "move", width)


def _place(stay: StayRow) -> str:
    """What neighbouring stays have in common: the memory, and the first and the last operator."""
    where = stay.memory if stay.segment is None else f"{stay.memory} of each core, segment {stay.segment}"
    return f"{where}: from {stay.since[0]} to {stay.until[0]}"


def _stay(stay: StayRow) -> tuple[str, ...]:
    notes: list[str] = []
    if stay.versions > 1:
        notes.append(f"{stay.versions} versions")
    if stay.fetched:
        notes.append("fetched")
    if stay.stored:
        notes.append("stored")
    if stay.ring_position is not None:
        notes.append(f"ring {stay.ring_position}")
    first, last = stay.since[1], stay.until[1]
    steps = str(first) if first == last else f"{first} to {last}"
    return f"{stay.address:#x}", size(stay.bytes), steps, count(stay.begin), count(stay.end), ", ".join(notes)
