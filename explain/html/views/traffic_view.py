"""Which tensors are moved between main memory and chip, and why; how full memories get."""

from __future__ import annotations

from ...compilation import Compilation
from ...report import Report
from ..view import View


def traffic_view(report: Report, compilation: Compilation) -> View:
    """Bytes by kind of tensor; the page has the tensors themselves."""
    kinds: dict[str, list[int]] = {}
    for row in report.traffic:
        moved = kinds.setdefault(row.kind, [0, 0, 0])
        for i, count in enumerate((row.fetched, row.stored, row.host)):
            moved[i] += count
    main = " and ".join(compilation.machine.levels.homes)
    rows = [{"kind": kind, "fetched": f, "stored": s, "by_host": h} for kind, (f, s, h) in sorted(kinds.items())]
    caption = (
        f"Bytes that one cluster moves between {main} and the chip, by tensor. A constant that is fetched more"
        " than once did not stay on chip between its uses; an activation in this table was spilled."
    )
    return View("traffic", f"Traffic of {main}, tensor by tensor", caption, {"kinds": rows, "main": main})
