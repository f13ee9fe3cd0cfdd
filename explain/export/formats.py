"""The formats in which other tools read a report: one row for each. Libraries are loaded by those that need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..file_formats import SUFFIXES

if TYPE_CHECKING:
    from ..report import Report


@dataclass(frozen=True)
class ExportFormat:
    """How to write a report for another tool.

    ``write`` makes files from a report and the ONNX network: ``""`` is the one that was asked for, others are by what
    they have. ``network``: it needs the ONNX network.
    """

    name: str
    write: Callable[[Report, bytes], Mapping[str, bytes]]
    network: bool = False

    @property
    def suffix(self) -> str:
        """How names of its files end."""
        return SUFFIXES[self.name][0]


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
        ExportFormat("perfetto", _perfetto),
        ExportFormat("model-explorer", _model_explorer),
        ExportFormat("onnx", _onnx, network=True),
        ExportFormat("csv", _csv),
        ExportFormat("parquet", _parquet),
    )
}
"""By name, as ``girih explain --format`` takes it."""


def exported(report: Report, kind: str, path: Path, network: bytes) -> dict[Path, bytes]:
    """The files of a format for another tool: the one at ``path``, and others beside it."""
    return {companion(path, what): data for what, data in EXPORT_FORMATS[kind].write(report, network).items()}


def companion(path: Path, what: str) -> Path:
    """Where a further file of an export goes: ``graph.cycles.json`` beside ``graph.json``."""
    return path.with_name(f"{path.stem}.{what}{path.suffix}") if what else path
