"""Nouns as short HTML for notebooks: escaped, without colours of their own, and without references to anything."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def paragraph(text: str) -> str:
    """A line of text."""
    return f"<p>{escape(text)}</p>"


def preformatted(text: str) -> str:
    """Lines of text whose columns stay aligned."""
    return f"<pre>{escape(text)}</pre>"


def html_table(heads: Sequence[str], rows: Sequence[Sequence[object]], most: int = 12) -> str:
    """A table, of which at most so many rows are shown; whole numbers with their thousands separated."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows[:most])
    more = f"<p>and {len(rows) - most:,} more</p>" if len(rows) > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: object) -> str:
    return escape(f"{value:,}" if isinstance(value, int) else str(value))
