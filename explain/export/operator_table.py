"""The operators as one table of plain columns, for spreadsheets and data frames: CSV and Parquet."""

from __future__ import annotations

import csv
import io

from ...ir.errors import UsageError
from ..report import Report
from .operator_facts import output_memories

Cell = str | int | float


def operator_columns(report: Report) -> dict[str, list[Cell]]:
    """By name of a column, its values in the order of the plan.

    ``cycles_simulated`` add up to the cycles of the run; ``lost_`` columns divide ``cycles_lost`` by cause as the cycle
    breakdown does; ``bytes_`` columns are the bytes of all transfers for the operator, by link.
    """
    c = report.compilation
    memories = output_memories(c.graph, c.plan, c.machine)
    breakdown = {row.op: row for row in report.breakdown.operators}
    links = list(dict.fromkeys(link for row in report.operators for link in row.link_bytes))
    parts = ("extra", "rounding", "fill", "issue", "slowed")
    waits = list(dict.fromkeys(wait for row in report.breakdown.operators for wait in row.waits))
    rows: list[dict[str, Cell]] = []
    for row in report.operators:
        lost = breakdown[row.name]
        rows.append(
            {
                "operator": row.name,
                "onnx_nodes": " ".join(row.origin),
                "segment": row.segment,
                "engine": row.engine,
                "shape": "x".join(map(str, row.shape)),
                "tile": "x".join(map(str, row.tile)),
                "tile_reduce": "x".join(map(str, row.reduce)),
                "depth": row.depth,
                "weight_depth": row.weight_depth,
                "macs": row.macs,
                "elements": row.elements,
                "cycles_predicted": row.cycles,
                "waits_predicted": row.waits,
                "cycles_simulated": row.run_cycles,
                "cycles_lost": row.lost,
                "limited_by": row.limit,
                "output_memory": memories[row.name],
                **{f"lost_{part}": float(getattr(lost, part) or 0.0) for part in parts},
                **{f"lost_{wait}": float(lost.waits[wait]) for wait in waits},
                **{f"bytes_{link}": row.link_bytes.get(link, 0) for link in links},
            }
        )
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}


def operators_csv(report: Report) -> bytes:
    """RFC 4180, in UTF-8. A text that a spreadsheet would take for a formula begins with an apostrophe."""
    columns, file = operator_columns(report), io.StringIO()
    writer = csv.writer(file)
    writer.writerow(columns)
    writer.writerows(zip(*(map(_inert, column) for column in columns.values()), strict=True))
    return file.getvalue().encode()


def _inert(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def operators_parquet(report: Report) -> bytes:
    """Needs pyarrow, which the optional dependencies ``tables`` bring."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError("Parquet needs pyarrow: pip install 'girih[tables]', or use --format csv") from error
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(operator_columns(report)), file)
    return file.getvalue()
