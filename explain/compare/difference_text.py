"""A comparison as text: one screen, and the tables after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..details.text.tables import more, paragraph, table
from ..details.text.tables import title as titled
from ..text import number
from .rows import CauseChange, Change, Differences, OperatorChange, ResidencyChange, SegmentChange

_TOP = 8
"""Operators on the first screen."""
_MOST = 30
"""Rows of a table of the text; the JSON has them all."""
_BAR = 12
"""Characters of the bar of the largest change."""


def comparison_text(comparison: Differences, width: int = 80) -> str:
    """Verdict, causes, operators, figures; then what is decided otherwise, in tables. No line is above ``width``."""
    c = comparison
    lines = [*_side("A", c, width), *_side("B", c, width)]
    lines += [*titled("Verdict", width), *(line for text in (*c.verdict, *c.notes) for line in paragraph(text, width))]
    if c.change or not c.same:
        lines += [*titled(f"Cycles by cause, of {c.resource}; fewer in B: bar to the left", width)]
        lines += _causes(c.causes, width)
        lines += [*titled("Operators whose cycles change most", width), *_operators(c, width)]
        lines += [*titled("In figures", width), *_figures(c, width)]
    for title, changes in (("Machine", c.machine), ("Options", c.options), ("Versions", c.versions)):
        if changes:
            lines += [*titled(f"{title}: what differs", width), *_changes(changes, width)]
    if c.segments:
        lines += [*titled("Segments: how the same operators are grouped and cut", width)]
        lines += _segments(c.segments, width)
    if any(row.decisions for row in c.operators):
        lines += _decisions(c.operators, width)
    if c.residency:
        lines += [*titled("Residency: bytes of tensors to and from main memory", width)]
        lines += _residency(c.residency, width)
    if c.order:
        lines += [*titled("Order of slots: an operator of one instance of a segment", width)]
        lines += _changes(c.order, width)
    if c.movement or c.addresses:
        lines += [*titled("Movement and addresses", width), *(_changes(c.movement, width) if c.movement else ())]
        lines += paragraph(f"{c.addresses:,} buffers of both lie at another address", width)
    return "\n".join(lines)


def _causes(rows: Sequence[CauseChange], width: int) -> list[str]:
    """One line a cause, with a bar to the left for fewer cycles and to the right for more; and their sum."""
    most = max((abs(row.change) for row in rows), default=0)
    cells = [(r.title, number(r.a), number(r.b), signed(r.change), bar(r.change, most)) for r in rows]
    a, b = sum(row.a for row in rows), sum(row.b for row in rows)
    cells.append(("= simulated", number(a), number(b), signed(b - a), ""))
    return table("cause|A|B|B - A|", cells, width, bars=4)


def bar(change: int, most: int) -> str:
    """To the left of the middle for fewer, to the right for more."""
    length = max(1, round(abs(change) * _BAR / most)) if change else 0
    left, right = ("█" * length, "") if change < 0 else ("", "█" * length)
    return f"{left.rjust(_BAR)}|{right}"


def _figures(comparison: Differences, width: int) -> list[str]:
    """Bound, prediction, traffic and peaks of both."""
    rows = [(name, number(a), number(b), signed(b - a), _times(a, b)) for name, a, b in figure_rows(comparison)]
    return table("|A|B|B - A|B / A", rows, width)


def figure_rows(comparison: Differences) -> list[tuple[str, int, int]]:
    """(what, in A, in B)."""
    a, b = comparison.a, comparison.b
    memories = dict.fromkeys((*a.peaks, *b.peaks))
    return [
        ("cycles, simulated", a.cycles, b.cycles),
        ("cycles, predicted", a.cycles_predicted, b.cycles_predicted),
        ("cycles, lower bound", a.lower_bound_cycles, b.lower_bound_cycles),
        ("instructions", a.instructions, b.instructions),
        ("bytes from main memory", a.fetched, b.fetched),
        ("bytes to main memory", a.stored, b.stored),
        *((f"peak of {memory}, bytes", a.peaks.get(memory, 0), b.peaks.get(memory, 0)) for memory in memories),
    ]


def _times(a: int, b: int) -> str:
    return f"{b / a:.3f}" if a else "-"


def _side(which: str, comparison: Differences, width: int) -> list[str]:
    side = comparison.a if which == "A" else comparison.b
    batch = "" if side.batch is None else f", batch {side.batch}"
    text = f"{which}: {side.file}: {side.network} on {side.machine} ({side.strategy}{batch}), {side.cycles:,} cycles"
    return titled(text, width)[1:]


def _operators(comparison: Differences, width: int) -> list[str]:
    rows = comparison.operators
    titles = {row.cause: row.title for row in comparison.causes}
    ranked = [row for row in sorted(rows, key=lambda r: -abs(r.change)) if row.change]
    largest = max((abs(row.change) for row in ranked), default=0)
    cells: list[tuple[str, ...]] = [
        (r.name, number(r.a), number(r.b), signed(r.change), bar(r.change, largest), _mostly(r, titles))
        for r in ranked[:_TOP]
    ]
    rest = [*ranked[_TOP:], *(row for row in rows if not row.change)]
    a, b = (sum(getattr(row, side) for row in rest) for side in ("a", "b"))
    if rest:
        cells.append((f"{len(rest):,} others", number(a), number(b), signed(b - a), "", ""))
    return table("operator|A|B|B - A||mostly", cells, width, bars=4)


def _mostly(row: OperatorChange, titles: Mapping[str, str]) -> str:
    """The title of the cause that changes most."""
    return next((titles.get(cause, cause) for cause in row.causes), "")


def _decisions(rows: Sequence[OperatorChange], width: int) -> list[str]:
    ranked = sorted((row for row in rows if row.decisions), key=lambda r: -abs(r.change))
    lines = titled("Operators: what is decided otherwise, and the change in cycles (B - A)", width)
    for row in ranked[:_MOST]:
        lines += paragraph(f"{row.name} ({signed(row.change)}): {'; '.join(row.decisions)}", width, "    ")
    return [*lines, *_more(ranked, width)]


def _segments(rows: Sequence[SegmentChange], width: int) -> list[str]:
    cells = [
        (
            f"{r.first} .. {r.last}" if r.first != r.last else r.first,
            number(r.operators),
            f"{len(r.segments_a)} -> {len(r.segments_b)}",
            number(r.a),
            number(r.b),
            signed(r.change),
            _some(r.splits_a),
            _some(r.splits_b),
        )
        for r in sorted(rows, key=lambda r: -abs(r.change))[:_MOST]
    ]
    heads = "from .. to|operators|segments|cycles A|cycles B|B - A|cut in A|cut in B"
    return [*table(heads, cells, width), *_more(rows, width)]


def _residency(rows: Sequence[ResidencyChange], width: int) -> list[str]:
    cells = [
        (r.tensor, r.kind, signed(r.change), number(r.fetched_a), number(r.fetched_b), r.text) for r in rows[:_MOST]
    ]
    heads = "tensor|kind|B - A|fetched A|fetched B|what B does"
    return [*table(heads, cells, width, wrapped=True), *_more(rows, width)]


def _some(splits: Sequence[str]) -> str:
    kinds = list(dict.fromkeys(splits))
    return "-" if not kinds else kinds[0] if len(kinds) == 1 else f"in {len(kinds)} ways"


def _changes(rows: Sequence[Change], width: int) -> list[str]:
    return table("|A|B", [(row.what, row.a or "-", row.b or "-") for row in rows], width)


def _more(rows: Sequence[object], width: int) -> list[str]:
    return more(len(rows) - _MOST, "row", width)


def signed(value: int) -> str:
    """With its sign."""
    return f"{value:+,}" if value else "0"
