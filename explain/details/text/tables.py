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
_ROOMY_NAME = 18
"""Columns that a column of names keeps beside bars, at least."""


def title(text: str, width: int) -> list[str]:
    """An empty line and the title of what follows, at the margin."""
    return ["", *margin(text, width)]


def margin(text: str, width: int) -> list[str]:
    """Text that is not indented."""
    return _wrapped(text, width, "", "")


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


def table(
    heads: str,
    rows: Sequence[Sequence[object]],
    width: int,
    indent: str = INDENT,
    bars: int | None = None,
    wrapped: bool = False,
) -> list[str]:
    """Aligned columns under ``heads`` (separated by ``|``), numbers to the right.

    Where they are too wide, ``wrapped`` text of the last column is broken into lines, long names lose their middle,
    the column ``bars``, whose bars show no more than numbers do, is left out, and where that is not enough, each row
    becomes a list.
    """
    names = heads.split("|")
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    columns = max(width, _LEAST_COLUMNS)
    widths = _widths(names, cells)
    roomy = [
        w if i == bars else min(w, max(_ROOMY_NAME, len(name)))
        for i, (name, w) in enumerate(zip(names, widths, strict=True))
    ]
    if bars is not None and _left(names, roomy, columns, indent) < 0:
        names, cells = _without(names, bars), [_without(row, bars) for row in cells]
        widths = _widths(names, cells)
    right = [bool(cells) and all(_is_number(row[i]) for row in cells) for i in range(len(names))]
    last = len(names) - 1
    least = [max(_LEAST_NAME, len(name)) for name in names]
    if wrapped:
        # Words are broken only if they take more than a third of a line.
        longest = max((len(word) for row in cells for word in row[last].split()), default=0)
        least[last] = max(_LEAST_TEXT, min(longest, columns // 3))
        lacking = -min(0, _left(names, widths, columns, indent))
        widths[last] = max(min(widths[last], least[last]), widths[last] - lacking)
    while _left(names, widths, columns, indent) < 0:
        narrower = [i for i in range(len(names)) if not right[i] and widths[i] > least[i]]
        if not narrower:
            return _lists(names, cells, width)
        widths[max(narrower, key=lambda i: widths[i])] -= 1

    lines: list[str] = []
    for row in (names, *cells):
        texts = (wrap(row[last], widths[last], break_on_hyphens=False) or [""]) if wrapped else [row[last]]
        for number, text in enumerate(texts):
            shown = [shortened(cell, w) for cell, w in zip((*row[:last], text), widths, strict=True)]
            if number:
                shown[:last] = [""] * last
            aligned = zip(shown, widths, right, strict=True)
            lines.append((indent + "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in aligned)).rstrip())
    return lines


def _widths(names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[i]) for row in (names, *cells)) for i in range(len(names))]


def _without(row: Sequence[str], column: int) -> list[str]:
    return [*row[:column], *row[column + 1 :]]


def _left(names: Sequence[str], widths: Sequence[int], columns: int, indent: str) -> int:
    """Columns that are left beside a table, negative where it is too wide."""
    return columns - len(indent) - 2 * (len(names) - 1) - sum(widths)


def entries(heads: str, rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Numbers in columns, and a last column of text, which is broken where the lines end."""
    *names, last = heads.split("|")
    widths = [max(len(name), *(len(row[i]) for row in rows)) for i, name in enumerate(names)]
    hanging = INDENT + " " * (sum(widths) + 2 * len(widths))
    if len(hanging) > width - _LEAST_TEXT:
        return _lists([last, *names], [(text, *cells) for *cells, text in rows], width)
    lines = [f"{INDENT}{'  '.join(n.rjust(w) for n, w in zip(names, widths, strict=True))}  {last}"]
    for *cells, text in rows:
        numbers = "  ".join(cell.rjust(w) for cell, w in zip(cells, widths, strict=True))
        lines += _wrapped(text, width, f"{INDENT}{numbers}  ", hanging)
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
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def count(value: float | None) -> str:
    """A number without decimals, with thousands separated; ``-`` where there is none."""
    return "-" if value is None else f"{value:,.0f}"


def extents(values: Sequence[int]) -> str:
    return "x".join(map(str, values)) or "-"


def _lists(names: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[str]:
    lines: list[str] = []
    for row in cells:
        first, *others = [f"{name} {cell}".strip() for name, cell in zip(names, row, strict=True) if cell]
        lines += paragraph(f"{first}: {', '.join(others)}" if others else first, width, INDENT)
    return lines


def _wrapped(text: str, width: int, first: str, others: str) -> list[str]:
    columns = max(width, _LEAST_COLUMNS)
    return wrap(
        printable(text), columns, initial_indent=first, subsequent_indent=others, break_on_hyphens=False
    ) or [first.rstrip()]  # fmt: skip


def _is_number(cell: str) -> bool:
    return cell in ("-", "") or cell.rstrip("%").rstrip().replace(",", "").replace(".", "", 1).lstrip("+-").isdigit()
