"""What is needed to repeat a compilation: its options, and the versions of what compiled it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata

from ..explain.compilation import Provenance
from .options import CompileOptions
from .plugins.compiled_with import plugin_versions

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
    """The options by their names on the command line, without those that have no value, and the versions."""
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
    }
    return Provenance({name: value for name, value in values.items() if value}, compiled_by)
