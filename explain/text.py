"""A report as text, by the templates ``templates/*.txt.j2``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import cast

from jinja2 import Environment, PackageLoader, StrictUndefined

from .cycles.breakdown import BreakdownRow
from .details.text.tables import extents, margin, paragraph
from .details.text.tables import table as aligned
from .overview.idle_engines import IdleRow
from .overview.waterfall import WaterfallRow
from .plan_tables import SegmentRow
from .report_summary import ReportSummary
from .units import plural, printable

_UNBOUNDED = 100_000
"""Columns that tables have where nothing is to be shortened."""
_MOST_TRAFFIC = 40
"""Rows of traffic that the text has at most; the JSON has them all."""
_BAR = 16
"""Characters of the bar that is all cycles of the run."""
_MOST_LOSSES = 20
"""Segments, and operators, whose losses the text has at most; the JSON has them all."""


def render(tables: Mapping[str, object], name: str, width: int) -> str:
    """The text of a report, whose ``tables`` are its fields by name, by the template ``name``.

    Lines of the first screen have ``width`` columns, at least 20; so have sentences of the tables behind it.
    """
    environment = Environment(
        loader=PackageLoader("girih.explain", "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        autoescape=False,
    )
    filters = cast("dict[str, Callable[..., str]]", environment.filters)
    wide = max(20, width)
    filters.update(
        table=table,
        number=number,
        percent=percent,
        extents=extents,
        plural=plural,
        breakdown=breakdown,
        steps=partial(steps, width=wide),
        idle=partial(idle, width=wide),
        heading=partial(_heading, width=wide),
        sentence=partial(_sentence, width=wide),
    )
    template = environment.get_template(name)
    shown = {name: _printable(value) for name, value in tables.items()}
    return template.render(shown, width=wide, most_traffic=_MOST_TRAFFIC, most_losses=_MOST_LOSSES).rstrip()


def _heading(text: str, width: int) -> str:
    return "\n".join(margin(text, width))


def _sentence(text: str, hanging: int = 0, margin: int = 2, *, width: int) -> str:
    """Lines that begin at a margin, from the second on with ``hanging`` columns more."""
    indent = " " * (margin - 2)
    return "\n".join(indent + line for line in paragraph(text, width - len(indent), " " * hanging))


def _printable(value: object) -> object:
    """The same with all texts in it :func:`printable`: most are names of the network's author."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, tuple):
        return tuple(_printable(item) for item in cast("tuple[object, ...]", value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _printable(getattr(value, f.name)) for f in fields(value)})
    return value


def breakdown(rows: Sequence[BreakdownRow], segments: Sequence[SegmentRow] = ()) -> str:
    """Rows of resources, of ``segments`` or of operators; losses and waits in percent of the row's cycles."""
    firsts = {segment.index: segment.first for segment in segments}
    cells: list[tuple[object, ...]] = []
    for row in rows:
        waits = row.waits
        parts = (
            row.extra, row.rounding + row.fill + row.issue + row.slowed, waits["fetch_weights"],
            waits["fetch_data"], waits["load_weights"] + waits["load_data"], waits["store"] + waits["spill"],
            waits["engine"], waits["cores"] + waits["host"],
        )  # fmt: skip
        shares = [_percent(part, row.cycles) for part in parts]
        if row.segment is None:
            busy = (number(round(row.busy)), number(round(row.busiest)))
            cells.append((row.resource, *busy, _percent(row.peak - (row.extra or 0.0), row.cycles), *shares))
        else:
            name = row.op or firsts[row.segment]
            times = f"{row.cycles / row.work:.1f}" if row.work else "-"
            cycles = (number(round(row.lost)), number(round(row.cycles)))
            cells.append((row.segment, name, *cycles, times, *shares))
    heads = "extra|inside|weights|data|loads|stores|own|cores"
    kind = "operator" if rows and rows[0].op else "from"
    first = "engine|busy|busiest|work" if rows and rows[0].segment is None else f"seg|{kind}|lost|cycles|x"
    return table(cells, f"{first}|{heads}")


def steps(rows: Sequence[WaterfallRow], summary: ReportSummary, width: int) -> str:
    """The waterfall: a bar for each row, which begins where the one before it ends, and the operator with the most."""
    cells: list[tuple[object, ...]] = []
    reached = 0
    for row in rows:
        title = row.title if row.cause == "bound" else f"+ {row.title}"
        begin, reached = reached, reached + row.cycles
        first = row.operators[:1]
        most = "".join(f"{o.op} {o.cycles:,}" for o in first)
        cells.append((*_step(title, row.cycles, min(begin, reached), summary.cycles), most))
    cells.append((*_step("= simulated", summary.cycles, 0, summary.cycles), ""))
    return "\n".join(aligned("cause|cycles|of run||most in", cells, width, bars=3))


def _step(title: str, cycles: int, begin: int, total: int) -> tuple[str, str, str, str]:
    scale = _BAR / max(1, total)
    length = max(1, round(abs(cycles) * scale))
    bar = " " * max(0, min(round(begin * scale), _BAR - length)) + "█" * length
    return title, number(cycles), percent(cycles / max(1, total)), bar


def idle(rows: Sequence[IdleRow], width: int) -> str:
    """Busy and idle shares of engines and links."""
    cells = [(r.resource, f"{r.busy:.0%}", f"{r.idle:.0%}", r.reasons[0] if r.reasons else "-") for r in rows]
    return "\n".join(aligned("engine|busy|idle|mostly", cells, width, wrapped=True))


def _percent(part: float | None, whole: float) -> str:
    return "-" if part is None else str(round(100 * part / whole)) if whole else "0"


def table(rows: Sequence[Sequence[object]], heads: str) -> str:
    """Aligned columns, as wide as what is in them."""
    return "\n".join(aligned(heads, rows, _UNBOUNDED))


def number(value: float | None) -> str:
    """With thousands separated; ``-`` for an absent value."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:,.2f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
