"""A comparison as text: one screen, and the tables after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill

from ..text import number, short, table
from ..units import printable
from .rows import CauseChange, Change, Differences, OperatorChange, SegmentChange

_TOP = 8
"""Operators on the first screen."""
_MOST = 30
"""Rows of a table of the text; the JSON has them all."""
_BAR = 12
"""Characters of the bar of the largest change."""


def comparison_text(comparison: Differences, width: int = 80) -> str:
    """Verdict, causes, operators, figures; then what is decided otherwise, in tables."""
    c, wide = comparison, max(40, width)
    blocks = [f"A: {_side(c.a.file, c, 'a')}\nB: {_side(c.b.file, c, 'b')}"]
    blocks.append(_prose("Verdict", (*c.verdict, *c.notes), wide))
    if c.change or not c.same:
        blocks.append(f"Cycles by cause, of {c.resource}; fewer in B: bar to the left\n{causes(c.causes)}")
        blocks.append(_operators("Operators whose cycles change most", c.operators, _TOP))
        blocks.append(f"In figures\n{figures(c)}")
    for title, changes in (("Machine", c.machine), ("Options", c.options), ("Versions", c.versions)):
        if changes:
            blocks.append(f"{title}: what differs\n{_changes(changes)}")
    if c.segments:
        blocks.append(f"Segments: how the same operators are grouped and cut\n{_segments(c.segments)}")
    if any(row.decisions for row in c.operators):
        blocks.append(_decisions(c.operators, wide))
    if c.residency:
        cells = [
            (short(_p(r.tensor), 28), r.kind, signed(r.change), number(r.fetched_a), number(r.fetched_b), r.text)
            for r in c.residency[:_MOST]
        ]
        rows = table(cells, "tensor|kind|B - A|fetched A|fetched B|what B does")
        blocks.append(f"Residency: bytes of tensors to and from main memory\n{rows}{_more(c.residency)}")
    if c.order:
        blocks.append(f"Order of slots: an operator of one instance of a segment\n{_changes(c.order)}")
    if c.movement or c.addresses:
        rows = f"{_changes(c.movement)}\n" if c.movement else ""
        blocks.append(f"Movement and addresses\n{rows}  {c.addresses:,} buffers of both lie at another address")
    return "\n\n".join(blocks)


def causes(rows: Sequence[CauseChange]) -> str:
    """One line a cause, with a bar to the left for fewer cycles and to the right for more; and their sum."""
    most = max((abs(row.change) for row in rows), default=0)
    cells = [(_p(r.title), number(r.a), number(r.b), signed(r.change), bar(r.change, most)) for r in rows]
    a, b = sum(row.a for row in rows), sum(row.b for row in rows)
    return table([*cells, ("= simulated", number(a), number(b), signed(b - a), "")], "cause|A|B|B - A|")


def bar(change: int, most: int) -> str:
    """To the left of the middle for fewer, to the right for more."""
    length = max(1, round(abs(change) * _BAR / most)) if change else 0
    left, right = ("█" * length, "") if change < 0 else ("", "█" * length)
    return f"{left.rjust(_BAR)}|{right}"


def figures(comparison: Differences) -> str:
    """Bound, prediction, traffic and peaks of both."""
    rows = [(_p(name), number(a), number(b), signed(b - a), _times(a, b)) for name, a, b in figure_rows(comparison)]
    return table(rows, "|A|B|B - A|B / A")


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


def _side(file: str, comparison: Differences, which: str) -> str:
    side = comparison.a if which == "a" else comparison.b
    batch = "" if side.batch is None else f", batch {side.batch}"
    return _p(f"{file}: {side.network} on {side.machine} ({side.strategy}{batch}), {side.cycles:,} cycles")


def _prose(title: str, sentences: Iterable[str], width: int) -> str:
    lines = [
        fill(_p(s), width, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for s in sentences
    ]
    return "\n".join([title, *lines])


def _operators(title: str, rows: Sequence[OperatorChange], most: int) -> str:
    ranked = [row for row in sorted(rows, key=lambda r: -abs(r.change)) if row.change]
    largest = max((abs(row.change) for row in ranked), default=0)
    cells: list[tuple[str, ...]] = [
        (short(_p(r.name), 24), number(r.a), number(r.b), signed(r.change), bar(r.change, largest), _mostly(r))
        for r in ranked[:most]
    ]
    rest, other = ranked[most:], [row for row in rows if not row.change]
    a, b = (sum(getattr(row, side) for row in (*rest, *other)) for side in ("a", "b"))
    if rest or other:
        cells.append((f"{len(rest) + len(other):,} others", number(a), number(b), signed(b - a), "", ""))
    return f"{title}\n{table(cells, 'operator|A|B|B - A||mostly')}"


def _mostly(row: OperatorChange) -> str:
    """The cause that changes most."""
    return next((_CAUSES.get(cause, cause) for cause in row.causes), "")


_CAUSES = {
    "work": "work", "extra": "extra work", "rounding": "parts not full", "contention": "issue, sharing",
    "main_memory": "main memory", "shared_memory": "shared memory", "core": "the core", "other_cores": "other cores",
}  # fmt: skip


def _decisions(rows: Sequence[OperatorChange], width: int) -> str:
    ranked = sorted((row for row in rows if row.decisions), key=lambda r: -abs(r.change))
    lines = ["Operators: what is decided otherwise, and the change in cycles (B - A)"]
    for row in ranked[:_MOST]:
        text = f"{_p(row.name)} ({signed(row.change)}): {_p('; '.join(row.decisions))}"
        lines.append(fill(text, width, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False))
    return "\n".join(lines) + _more(ranked)


def _segments(rows: Sequence[SegmentChange]) -> str:
    cells = [
        (
            short(f"{_p(r.first)} .. {_p(r.last)}" if r.first != r.last else _p(r.first), 40),
            number(r.operators),
            f"{len(r.segments_a)} -> {len(r.segments_b)}",
            number(r.a),
            number(r.b),
            signed(r.change),
            short(_some(r.splits_a), 44),
            short(_some(r.splits_b), 44),
        )
        for r in sorted(rows, key=lambda r: -abs(r.change))[:_MOST]
    ]
    return table(cells, "from .. to|operators|segments|cycles A|cycles B|B - A|cut in A|cut in B") + _more(rows)


def _some(splits: Sequence[str]) -> str:
    kinds = list(dict.fromkeys(splits))
    return "-" if not kinds else kinds[0] if len(kinds) == 1 else f"in {len(kinds)} ways"


def _changes(rows: Sequence[Change]) -> str:
    return table([(_p(r.what), _p(r.a) or "-", _p(r.b) or "-") for r in rows], "|A|B")


def _more(rows: Sequence[object]) -> str:
    left = len(rows) - _MOST
    return f"\n  and {left:,} more; --json has them all" if left > 0 else ""


def signed(value: int) -> str:
    """With its sign."""
    return f"{value:+,}" if value else "0"


def _p(text: str) -> str:
    return printable(text)
