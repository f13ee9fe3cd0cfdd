"""The answer to "why does my schedule look like this?", as one frozen noun."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

from ..ir.codec import from_json, to_json
from ..ir.errors import UsageError
from ..ir.files import as_path, check_places, written_whole
from ..ir.notebook.fragments import html_table, paragraph
from .compilation import Compilation, Provenance
from .convergence import Convergence
from .cycles.breakdown import CycleBreakdown
from .file_formats import file_format
from .memory_use import MemoryRow, TrafficRow
from .model_answers import ModelRow
from .overview.idle_engines import IdleRow
from .overview.next_steps import NextStep
from .overview.waterfall import WaterfallRow
from .plan_tables import HostRow, OperatorRow, SegmentRow
from .report_summary import ReportSummary
from .text import render

FORMAT = 1
"""The version of the JSON; it grows when a key changes its meaning or goes."""

WIDTH = 80
"""Columns of text, unless its reader has fewer."""
_NOTEBOOK_OPERATORS = 8
"""Operators that a notebook shows: those that lose most."""
_TABLES_ALONE = "this report was read from JSON, which has tables alone; explain the .girih file again"

Exporter = Callable[["Report", str, Path], Mapping[Path, bytes]]
"""Makes the files of a format for another tool, by the name of the format and the place of the first file."""


@dataclass(frozen=True)
class Report:
    """Tables about one compiled network; rows are documented where they are defined.

    ``format`` is the version of this JSON. ``verdict`` is two sentences: how good the schedule is, and whether more
    time can make it better. ``waterfall`` leads from the lower bound to the cycles of the run, cause by cause, to the
    cycle; ``breakdown`` has all of it. ``largest_losses`` is a sentence about each of the operators that lose most
    cycles. ``convergence`` has the incumbents and bounds of each model against work. ``warnings`` are sentences about
    what of the machine stays unused, and what to change.
    """

    summary: ReportSummary
    verdict: tuple[str, str]
    warnings: tuple[str, ...]
    waterfall: tuple[WaterfallRow, ...]
    idle: tuple[IdleRow, ...]
    next_steps: tuple[NextStep, ...]
    largest_losses: tuple[str, ...]
    models: tuple[ModelRow, ...]
    convergence: tuple[Convergence, ...]
    breakdown: CycleBreakdown
    segments: tuple[SegmentRow, ...]
    memories: tuple[MemoryRow, ...]
    traffic: tuple[TrafficRow, ...]
    operators: tuple[OperatorRow, ...]
    hosts: tuple[HostRow, ...]
    provenance: Provenance
    format: int = FORMAT

    def drawn_from(
        self, compilation: Compilation, page: Callable[[Report], str], export: Exporter | None = None
    ) -> Report:
        """The same report with what it is about, what draws it as a page, and what writes it for other tools.

        They are no fields, and so not in the JSON.
        """
        report = replace(self)
        vars(report).update(compilation=compilation, _page=page)
        if export is not None:
            vars(report).update(_export=export)
        return report

    @cached_property
    def compilation(self) -> Compilation:
        """What the report is about, which pictures need; :class:`UsageError` for a report that was read from JSON."""
        raise UsageError(_TABLES_ALONE)

    def __str__(self) -> str:
        return self.screen()

    def _repr_html_(self) -> str:
        causes = [(row.title, row.cycles, f"{row.cycles / max(1, self.summary.cycles):.1%}") for row in self.waterfall]
        causes.append(("= simulated", self.summary.cycles, "100.0%"))
        ranked = sorted(self.operators, key=lambda row: -row.lost)[:_NOTEBOOK_OPERATORS]
        losers = [
            (row.name, row.segment, row.engine, round(row.run_cycles), round(row.lost), row.limit) for row in ranked
        ]
        return (
            "".join(paragraph(sentence) for sentence in self.verdict)
            + html_table(("cause", "cycles", "of the run"), causes)
            + html_table(("operator", "segment", "engine", "cycles", "lost", "limited by"), losers)
        )

    def screen(self, width: int = WIDTH) -> str:
        """What costs cycles and what to look at next, in lines of ``width`` columns; :attr:`tables` has the rest."""
        return render(self._shown, "overview.txt.j2", width)

    @property
    def tables(self) -> str:
        """All of the report as text: the screen, and every table behind it."""
        return render(self._shown, "report.txt.j2", WIDTH)

    @property
    def _shown(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def to_json(self) -> bytes:
        """Canonical JSON."""
        return to_json(self)

    def to_html(self) -> str:
        """A page that needs nothing but a browser; :class:`UsageError` for a report that was read from JSON."""
        return self._page(self)

    @cached_property
    def _page(self) -> Callable[[Report], str]:
        raise UsageError(_TABLES_ALONE)

    @cached_property
    def _export(self) -> Exporter:
        raise UsageError(_TABLES_ALONE)

    @classmethod
    def from_json(cls, data: bytes | str) -> Report:
        """Read back what :meth:`to_json` wrote; raises :class:`UsageError` for JSON of another version."""
        report = from_json(data, cls)
        if report.format != FORMAT:
            raise UsageError(f"a report of format {report.format}; this version reads format {FORMAT}: explain again")
        return report

    def files(self, path: str | Path, format: str | None = None) -> dict[Path, bytes]:
        """What :meth:`save` writes, by place: one file, and for Model Explorer node data beside it."""
        place, kind = as_path("the file", path), file_format(path, format)
        texts = {"text": lambda: self.tables, "json": lambda: self.to_json().decode(), "html": self.to_html}
        if kind in texts:
            return {place: f"{texts[kind]()}\n".encode()}
        return dict(self._export(self, kind, place))

    def save(self, path: str | Path, format: str | None = None) -> None:
        """Write all of the report in a format of ``girih explain --format``, by default the one that the name tells.

        ``*.txt``, ``*.md`` and names without a suffix are text; ``*.json``, ``*.html``, ``*.csv``, ``*.parquet`` and
        ``*.onnx`` (which needs a network with its data) are what they say. Raises :class:`UsageError` for other names,
        and for those that contradict ``format``.
        """
        files = self.files(path, format)
        check_places(files)
        for place, data in files.items():
            with written_whole(place) as file:
                file.write(data)
