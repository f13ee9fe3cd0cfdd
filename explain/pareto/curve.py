"""Cycles against bytes of a memory, as one frozen noun: what each KiB buys."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, fields
from pathlib import Path

from ...ir.codec import from_json, to_json
from ...ir.errors import UsageError
from ...ir.files import write_text
from ..file_formats import CURVE_FORMATS, file_format
from .curve_page import curve_page
from .curve_rows import FORMAT, CurveData, CurveRow


@dataclass(frozen=True)
class Curve(CurveData):
    """The curve, to be shown and written."""

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return curve_page(self)

    @property
    def verdict(self) -> tuple[str, ...]:
        """What it comes to, in sentences."""
        first, last = self.points[0], self.points[-1]
        proof = "no plan takes less" if self.proven else f"less than {self.bound:,} is proven to be too little"
        sentences = [
            f"{self.network} runs on {self.machine} with {self.least:,} bytes of {self.memory} ({proof}), in "
            f"{first.cycles:,} cycles."
        ]
        if len(self.points) > 1:
            sentences.append(
                f"With {last.bytes:,} bytes it takes {last.cycles:,} cycles; no plan was found that makes use of more "
                f"of the {self.capacity:,} there are."
            )
        if not self.complete:
            sentences.append("The search was ended before all points were looked for.")
        return tuple(sentences)

    def text(self) -> str:
        """A table, and what it comes to."""
        heads = ("bytes", "activations", "constants", "cycles", "/ bound", "saved", "per KiB")
        rows = [heads, *(_cells(row) for row in self.points)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([*(f"  {line}" for line in lines), *self.verdict])

    def to_csv(self) -> str:
        """One line for each point, after one with the names of the columns."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        names = [f.name for f in fields(CurveRow)]
        writer.writerow(names)
        writer.writerows([getattr(row, name) for name in names] for row in self.points)
        return file.getvalue().rstrip("\n")

    def to_html(self) -> str:
        """One page without references to others, with a picture."""
        return curve_page(self)

    def to_json(self) -> bytes:
        """Canonical JSON."""
        return to_json(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Curve:
        """Read back what :meth:`to_json` wrote; raises :class:`UsageError` for JSON of another version."""
        curve = from_json(data, cls)
        if curve.format != FORMAT:
            raise UsageError(f"a curve of format {curve.format}; this version reads format {FORMAT}: make it again")
        return curve

    def in_format(self, kind: str) -> str:
        """As ``girih pareto --format`` takes it: text, json, html or csv."""
        texts = {"text": self.text, "json": lambda: self.to_json().decode(), "html": self.to_html, "csv": self.to_csv}
        return texts[kind]()

    def save(self, path: str | Path, format: str | None = None) -> None:
        """Write JSON to ``*.json``, a page to ``*.html``, a table to ``*.csv``, text to ``*.txt`` and others.

        Raises :class:`UsageError` for names that say nothing of these, and for those that contradict ``format``.
        """
        write_text(path, f"{self.in_format(file_format(path, format, CURVE_FORMATS))}\n")


def _cells(row: CurveRow) -> tuple[str, ...]:
    return (
        f"{row.bytes:,}", f"{row.activations:,}", f"{row.constants:,}", f"{row.cycles:,}",
        "-" if row.ratio is None else f"{row.ratio:.2f}",
        "-" if row.saved is None else f"{row.saved:,}",
        "-" if row.saved_per_kib is None else f"{row.saved_per_kib:,.1f}",
    )  # fmt: skip
