"""Text in so many columns: titles, paragraphs, aligned pairs, and tables, which become lists where it is narrow."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from ...units import plural, printable

INDENT = "  "
_LEAST_COLUMNS = 20
"""Whatever is said of a terminal, it has so many columns."""
_LEAST_TEXT = 16
"""Columns that a column of text keeps, at least."""
_LEAST_NAME = 12
"""Columns that a column of names keeps, at least."""


def title(text: str, width: int) -> list[str]:
    """An empty line and the title of what follows, at the margin."""
    return ["", *_wrapped(text, width, "", "")]


def paragraph(text: str, width: int, hanging: str = "") -> list[str]:
    """Indented text; its lines from the second on are indented by ``hanging`` more."""
    return _wrapped(text, width, INDENT, INDENT + hanging)


def pairs(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """A name and what is said of it; the names are aligned unless that leaves too little room."""
    broad = max((len(name) for name, _ in rows), default=0)
    if broad + 2 > width // 2:
        return [line for name, value in rows for line in paragraph(f"{name}: {value}", width, INDENT)]
    lines: list[str] = []
    for name, value in rows:
        lines += _wrapped(value, width, f"{INDENT}{name.ljust(broad)}  ", INDENT + " " * (broad + 2))
    return lines


def table(heads: str, rows: Sequence[Sequence[object]], width: int, indent: str = INDENT) -> list[str]:
    """Aligned columns under ``heads`` (separated by ``|``), numbers to the right.

    Where they are too wide, long names lose their middle; where that is not enough, each row becomes a list.
    """
    names = heads.split("|")
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    right = [bool(cells) and all(_is_number(row[i]) for row in cells) for i in range(len(names))]
    widths = [max(len(row[i]) for row in (names, *cells)) for i in range(len(names))]
    room = max(width, _LEAST_COLUMNS) - len(indent) - 2 * (len(names) - 1)
    while sum(widths) > room:
        longest = max((i for i in range(len(names)) if not right[i]), key=lambda i: widths[i], default=None)
        least = 0 if longest is None else max(_LEAST_NAME, len(names[longest]))
        if longest is None or widths[longest] <= least:
            return _lists(names, cells, width)
        widths[longest] -= 1

    def line(row: Sequence[str]) -> str:
        shown = [shortened(cell, w) for cell, w in zip(row, widths, strict=True)]
        aligned = zip(shown, widths, right, strict=True)
        return (indent + "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in aligned)).rstrip()

    return [line(row) for row in (names, *cells)]


def entries(heads: str, rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Numbers in columns, and a last column of text, which is broken where the lines end."""
    *names, last = heads.split("|")
    widths = [max(len(name), *(len(row[i]) for row in rows)) for i, name in enumerate(names)]
    margin = INDENT + " " * (sum(widths) + 2 * len(widths))
    if len(margin) > width - _LEAST_TEXT:
        return _lists([last, *names], [(text, *cells) for *cells, text in rows], width)
    lines = [f"{INDENT}{'  '.join(n.rjust(w) for n, w in zip(names, widths, strict=True))}  {last}"]
    for *cells, text in rows:
        numbers = "  ".join(cell.rjust(w) for cell, w in zip(cells, widths, strict=True))
        lines += _wrapped(text, width, f"{INDENT}{numbers}  ", margin)
    return lines


def more(rows: int, noun: str, width: int, indent: str = INDENT) -> list[str]:
    """That so many rows are left out, if any are."""
    return (
        _wrapped(f"and {plural(rows, f'more {noun}')}; --json has them all", width, indent, indent) if rows > 0 else []
    )


def shortened(text: str, width: int) -> str:
    """The text, with its middle left out where it is longer than ``width``."""
    if len(text) <= width:
        return text
    tail = (width - 2) // 2
    return f"{text[: width - 2 - tail]}..{text[len(text) - tail :]}"


def count(value: float | None) -> str:
    """A number without decimals, with thousands separated; ``-`` where there is none."""
    return "-" if value is None else f"{value:,.0f}"


def extents(values: Sequence[int]) -> str:
    return "x".join(map(str, values)) or "-"


def numbers(values: Sequence[int]) -> str:
    """Numbers in order, a run of consecutive ones as ``0-7``."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _lists(names: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[str]:
    lines: list[str] = []
    for row in cells:
        first, *others = [f"{name} {cell}" for name, cell in zip(names, row, strict=True) if cell]
        lines += paragraph(f"{first}: {', '.join(others)}" if others else first, width, INDENT)
    return lines


def _wrapped(text: str, width: int, first: str, others: str) -> list[str]:
    columns = max(width, _LEAST_COLUMNS)
    return wrap(
        printable(text), columns, initial_indent=first, subsequent_indent=others, break_on_hyphens=False
    ) or [first.rstrip()]  # fmt: skip


def _is_number(cell: str) -> bool:
    return cell in ("-", "") or cell.rstrip("%").rstrip().replace(",", "").replace(".", "", 1).lstrip("-").isdigit()
