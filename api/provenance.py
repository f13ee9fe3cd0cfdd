"""What is needed to repeat a compilation: its options, and the versions of what compiled it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata

from ..explain.compilation import Provenance
from .options import CompileOptions
from .plugins.compiled_with import PLUGIN, plugin_versions

_VERSIONED = ("girih", "apache-tvm", "apache-tvm-ffi", "ortools", "onnx", "numpy")


def version(name: str) -> str:
    """As the package index knows it; "unknown" for one that runs from its sources without being installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"


def versions() -> dict[str, str]:
    """The installed versions of Girih and of every library that its results depend on, and the plugins' SHA-256."""
    return {name: version(name) for name in _VERSIONED} | plugin_versions()


def provenance(network: str, options: CompileOptions, compiled_by: Mapping[str, str]) -> Provenance:
    """The options by their names on the command line, without those that have no value, and the versions.

    Plugins are among the options there, with the SHA-256 of their contents as values.
    """
    dims = {f"dim {name}": str(extent) for name, extent in options.dims.items()}
    values = {
        "network": network,
        "target": options.target,
        "strategy": options.strategy,
        "solver-timeout": f"{options.solver_timeout:g}",
        "precision": options.precision,
        "batch": "" if options.batch is None else str(options.batch),
        **dims,
        "seed": str(options.seed),
        "minimise": "" if options.minimise == "cycles" else options.minimise,
    }
    options_given = {name: value for name, value in values.items() if value}
    plugins = {name: digest for name, digest in compiled_by.items() if name.startswith(PLUGIN)}
    others = {name: number for name, number in compiled_by.items() if name not in plugins}
    return Provenance(options_given | plugins, others)
