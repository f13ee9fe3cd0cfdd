"""Which version of a distribution is installed."""

from __future__ import annotations

from importlib import metadata


def version(name: str) -> str:
    """As the package index knows it; "unknown" for one that runs from its sources without being installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"
