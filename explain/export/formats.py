"""The formats in which other tools read a report: one row for each. Libraries are loaded by those that need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..report import Report


@dataclass(frozen=True)
class ExportFormat:
    """How to write a report for another tool.

    ``write`` makes files from a report and the ONNX network: ``""`` is the one that was asked for, others are by what
    they have. ``suffix`` is how names of its files end; ``alone``: no other format ends so, and the name tells it.
    ``network``: it needs the ONNX network.
    """

    name: str
    suffix: str
    write: Callable[[Report, bytes], Mapping[str, bytes]]
    alone: bool = True
    network: bool = False


def _perfetto(report: Report, _: bytes) -> Mapping[str, bytes]:
    import json

    from .perfetto import chrome_trace

    c = report.compilation
    trace = chrome_trace(c.program, c.machine, c.trace, c.plan)
    return {"": json.dumps(trace, separators=(",", ":")).encode()}


def _model_explorer(report: Report, _: bytes) -> Mapping[str, bytes]:
    from .model_explorer import model_explorer

    return model_explorer(report)


def _onnx(report: Report, network: bytes) -> Mapping[str, bytes]:
    from .annotated_onnx import annotated_onnx

    return {"": annotated_onnx(report, network)}


def _csv(report: Report, _: bytes) -> Mapping[str, bytes]:
    from .operator_table import operators_csv

    return {"": operators_csv(report)}


def _parquet(report: Report, _: bytes) -> Mapping[str, bytes]:
    from .operator_table import operators_parquet

    return {"": operators_parquet(report)}


EXPORT_FORMATS = {
    row.name: row
    for row in (
        ExportFormat("perfetto", ".json", _perfetto, alone=False),
        ExportFormat("model-explorer", ".json", _model_explorer, alone=False),
        ExportFormat("onnx", ".onnx", _onnx, network=True),
        ExportFormat("csv", ".csv", _csv),
        ExportFormat("parquet", ".parquet", _parquet),
    )
}
"""By name, as ``girih explain --format`` takes it."""

FORMATS = ("text", "json", "html", *EXPORT_FORMATS)
"""All names: what a report writes itself, and the formats of other tools."""

_BY_SUFFIX = {".json": "json", ".html": "html"} | {row.suffix: row.name for row in EXPORT_FORMATS.values() if row.alone}


def format_of(path: Path | None) -> str:
    """The format that the name of a file tells, else ``text``."""
    return _BY_SUFFIX.get(path.suffix, "text") if path else "text"


def unknown_format(name: str) -> str:
    """What to say about a format that there is not."""
    near = get_close_matches(name.lower(), FORMATS, 1, 0.5)
    known = f"did you mean {near[0]}?" if near else f"there are {', '.join(FORMATS)}"
    return f"there is no format {name!r}; {known}"


def companion(path: Path, what: str) -> Path:
    """Where a further file of an export goes: ``graph.cycles.json`` beside ``graph.json``."""
    return path.with_name(f"{path.stem}.{what}{path.suffix}") if what else path
