"""All that is needed to repeat the compilation: command line, options, versions, digests."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote

from ...compilation import Compilation
from ...report import Report
from ...units import printable
from ..view import View


def repeat_view(report: Report, compilation: Compilation) -> View:
    """The command line, and tables of options, versions and SHA-256 digests."""
    provenance, program = report.provenance, compilation.program
    data = {
        "command": command_line(provenance.options),
        "options": [list(pair) for pair in provenance.options.items()],
        "versions": [list(pair) for pair in provenance.versions.items()],
        "digests": [
            ["network, as imported", program.graph_sha256],
            ["plan", program.plan_sha256],
            ["machine", program.machine_sha256],
        ],
    }
    caption = "The same network, options and versions give the same plan and the same program, byte by byte."
    return View("repeat", "To repeat it", caption, data)


def command_line(options: Mapping[str, str]) -> str:
    """``girih compile`` with the options, whose names are those of the command line."""
    values = dict(options)
    network = values.pop("network", "model")
    parts = ["girih", "compile", quote(printable(f"{network}.onnx"))]
    for name, value in values.items():
        if name.startswith("dim "):
            parts += ["--dim", quote(printable(f"{name[4:]}={value}"))]
        elif name.startswith("plugin "):
            parts += ["--plugin", quote(printable(name[7:]))]
        else:
            parts += [f"--{name}", quote(printable(value))]
    return " ".join(parts)
