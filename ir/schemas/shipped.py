"""The JSON Schemas that the package ships, so that editors and programs can check what users read and write."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

SchemaName = Literal["machine", "target", "plan", "report", "details", "comparison", "curve"]
SCHEMA_NAMES: tuple[SchemaName, ...] = get_args(SchemaName)

DIRECTIVE = "#:schema "
"""How the first line of a TOML file names its schema, for Taplo and Even Better TOML."""


def schema_path(name: SchemaName) -> Path:
    """Where the installed schema is."""
    return Path(__file__).parent / f"{name}.schema.json"


def with_schema(text: str) -> str:
    """A machine file whose first line names the installed schema, in place of any other that it names."""
    first, _, rest = text.partition("\n")
    return f"{DIRECTIVE}{schema_path('machine').as_uri()}\n{rest if first.startswith(DIRECTIVE) else text}"
