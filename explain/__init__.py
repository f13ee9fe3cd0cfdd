"""Explains why a schedule looks as it does: a pure reader of the nouns, whose answer is a Report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .compilation import Compilation
    from .report import Report


def explain(compilation: Compilation, network: bytes = b"") -> Report:
    """The report on a compilation and a run of its program; a run in time alone (without data) is enough.

    ``network`` are the bytes of the ONNX network, without which the report cannot be saved as ONNX.
    """
    # The command line takes its units from this folder: only a report pays for numpy and the template engine.
    from .build_report import build_report

    return build_report(compilation, network)


__all__ = ["explain"]
