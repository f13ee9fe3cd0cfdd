"""What every engine and link does in the cycles of the run."""

from __future__ import annotations

from ...compilation import Compilation
from ...report import Report
from ..view import View


def engines_view(report: Report, compilation: Compilation) -> View:
    """A stacked bar for each resource: work, what is lost while busy, and waits by cause."""
    idle = {row.resource: row for row in report.idle}
    rows = []
    for row in report.breakdown.totals:
        waits = row.waits
        rows.append(
            {
                "name": row.resource,
                "units": row.units,
                "cycles": row.cycles,
                "busy": row.busy,
                "parts": [
                    row.peak - (row.extra or 0.0),
                    row.extra or 0.0,
                    row.rounding + row.fill + row.issue + row.slowed,
                    waits["fetch_weights"] + waits["fetch_data"] + waits["spill"],
                    waits["load_weights"] + waits["load_data"] + waits["store"],
                    waits["engine"],
                    waits["cores"] + waits["host"],
                ],
                "reasons": list(idle[row.resource].reasons) if row.resource in idle else [],
            }
        )
    machine = compilation.machine
    homes, shared = " and ".join(machine.levels.homes), machine.levels.exchange.name
    parts = [
        "work that the bound counts",
        "extra work",
        "not full, issue, sharing",
        f"waits for {homes}",
        f"waits for {shared}",
        "waits in the core",
        "waits for other cores or the host",
    ]
    caption = (
        "Each bar is all cycles of the run, of an engine as the mean of the cores: blue while it is busy, orange and"
        " grey by what it waits for while it idles. An engine that idles has less work than the one that bounds the"
        " run."
    )
    return View("engines", "Engines and links: busy and idle", caption, {"rows": rows, "parts": parts})
