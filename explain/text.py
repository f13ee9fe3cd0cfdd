"""A report as text, by the templates ``templates/*.txt.j2``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import cast

from jinja2 import Environment, PackageLoader, StrictUndefined

from .cycles.breakdown import BreakdownRow
from .overview.idle_engines import IdleRow
from .overview.waterfall import WaterfallRow
from .plan_tables import SegmentRow
from .report_summary import ReportSummary
from .units import plural, printable

_MOST_TRAFFIC = 40
"""Rows of traffic that the text has at most; the JSON has them all."""
_BAR = 16
"""Characters of the bar that is all cycles of the run."""
_MOST_LOSSES = 20
"""Segments, and operators, whose losses the text has at most; the JSON has them all."""


def render(tables: Mapping[str, object], name: str, width: int) -> str:
    """The text of a report, whose ``tables`` are its fields by name, by the template ``name``.

    Sentences are broken at ``width`` columns, of which they have at least 20.
    """
    environment = Environment(
        loader=PackageLoader("girih.explain", "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        autoescape=False,
    )
    filters = cast("dict[str, Callable[..., str]]", environment.filters)
    filters.update(
        table=table,
        number=number,
        percent=percent,
        extents=extents,
        short=short,
        plural=plural,
        breakdown=breakdown,
        steps=steps,
        idle=idle,
    )
    template = environment.get_template(name)
    shown = {name: _printable(value) for name, value in tables.items()}
    return template.render(shown, width=max(20, width), most_traffic=_MOST_TRAFFIC, most_losses=_MOST_LOSSES).rstrip()


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
            name = short(row.op or firsts[row.segment], 16)
            times = f"{row.cycles / row.work:.1f}" if row.work else "-"
            cycles = (number(round(row.lost)), number(round(row.cycles)))
            cells.append((row.segment, name, *cycles, times, *shares))
    heads = "extra|inside|weights|data|loads|stores|own|cores"
    kind = "operator" if rows and rows[0].op else "from"
    first = "engine|busy|busiest|work" if rows and rows[0].segment is None else f"seg|{kind}|lost|cycles|x"
    return table(cells, f"{first}|{heads}")


def steps(rows: Sequence[WaterfallRow], summary: ReportSummary) -> str:
    """The waterfall: a bar for each row, which begins where the one before it ends, and the operator with the most."""
    cells: list[tuple[object, ...]] = []
    reached = 0
    for row in rows:
        title = row.title if row.cause == "bound" else f"+ {row.title}"
        begin, reached = reached, reached + row.cycles
        first = row.operators[:1]
        most = "".join(f"{short(o.op, 18)} {o.cycles:,}" for o in first)
        cells.append((*_step(title, row.cycles, min(begin, reached), summary.cycles), most))
    cells.append((*_step("= simulated", summary.cycles, 0, summary.cycles), ""))
    return table(cells, "cause|cycles|of run||most in")


def _step(title: str, cycles: int, begin: int, total: int) -> tuple[str, str, str, str]:
    scale = _BAR / max(1, total)
    length = max(1, round(abs(cycles) * scale))
    bar = " " * max(0, min(round(begin * scale), _BAR - length)) + "█" * length
    return title, number(cycles), percent(cycles / max(1, total)), bar


def idle(rows: Sequence[IdleRow]) -> str:
    """Busy and idle shares of engines and links."""
    cells = [
        (r.resource, f"{r.busy:.0%}", f"{r.idle:.0%}", short(r.reasons[0], 54) if r.reasons else "-") for r in rows
    ]
    return table(cells, "engine|busy|idle|mostly")


def _percent(part: float | None, whole: float) -> str:
    return "-" if part is None else str(round(100 * part / whole)) if whole else "0"


def table(rows: Sequence[Sequence[object]], heads: str) -> str:
    """Aligned columns under ``heads`` (separated by ``|``): numbers to the right, everything else to the left."""
    names = [head.strip() for head in heads.split("|")]
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [names, *cells]) for i in range(len(names))]
    right = [all(_is_number(row[i]) for row in cells) and bool(cells) for i in range(len(names))]

    def line(row: Sequence[str]) -> str:
        pairs = zip(row, widths, right, strict=True)
        return "  " + "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in pairs).rstrip()

    return "\n".join(line(row) for row in [names, *cells])


def number(value: float | None) -> str:
    """With thousands separated; ``-`` for an absent value."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:,.2f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def extents(values: Sequence[int]) -> str:
    return "x".join(map(str, values)) or "-"


def short(text: str, width: int = 48) -> str:
    """The text, with its middle left out where it is longer than ``width``."""
    if len(text) <= width:
        return text
    tail = width // 3
    return f"{text[: width - tail - 3]}...{text[-tail:]}"


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.rstrip("%").replace(",", "").replace(".", "", 1).lstrip("+-").isdigit()
