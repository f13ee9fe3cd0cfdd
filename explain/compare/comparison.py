"""What differs between two schedules, A and B, and what it cost, as one frozen noun."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...ir.codec import from_json, to_json
from ...ir.errors import UsageError
from ...ir.files import write_text
from ..file_formats import COMPARISON_FORMATS, file_format
from .difference_page import comparison_fragment, comparison_page
from .difference_text import comparison_text
from .rows import FORMAT, Differences


@dataclass(frozen=True)
class Comparison(Differences):
    """The differences, to be shown and written."""

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = 80) -> str:
        """One screen of text, and the tables after it."""
        return comparison_text(self, width)

    @property
    def html(self) -> str:
        """One page without references to others."""
        return comparison_page(self)

    def _repr_html_(self) -> str:
        return comparison_fragment(self)

    def to_json(self) -> bytes:
        """Canonical JSON."""
        return to_json(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Comparison:
        """Read back what :meth:`to_json` wrote; raises :class:`UsageError` for JSON of another version."""
        comparison = from_json(data, cls)
        if comparison.format != FORMAT:
            raise UsageError(
                f"a comparison of format {comparison.format}; this version reads format {FORMAT}: compare again"
            )
        return comparison

    def save(self, path: str | Path, format: str | None = None) -> None:
        """Write JSON to ``*.json``, a page to ``*.html``, text to ``*.txt``, ``*.md`` or a name without a suffix.

        Raises :class:`UsageError` for other names, and for those that contradict ``format``.
        """
        texts = {"text": self.text, "json": lambda: self.to_json().decode(), "html": lambda: self.html}
        write_text(path, f"{texts[file_format(path, format, COMPARISON_FORMATS)]()}\n")
