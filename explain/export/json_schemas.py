"""JSON Schemas of what users read and write: reports, plans and machine files; ``python -m`` writes them anew.

They derive from the dataclasses, whose field descriptions and docstrings they carry, so that editors complete machine
files by them. The kept files are part of the package, in ``ir/schemas``.
"""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec

from ...ir.machine import Machine
from ...ir.plan import Plan
from ...ir.schemas.shipped import SchemaName, schema_path
from ..report import FORMAT, Report

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS: dict[SchemaName, tuple[type, str]] = {
    "machine": (Machine, "A machine file of Girih"),
    "plan": (Plan, "A plan of Girih, as `girih plan --json` prints it"),
    "report": (Report, f"A report of Girih, format {FORMAT}, as `girih explain --json` prints it"),
}
"""What has a schema, and its title."""


def schema(name: SchemaName) -> dict[str, Any]:
    """The schema of ``machine``, ``plan`` or ``report``."""
    kind, title = KINDS[name]
    (reference,), definitions = msgspec.json.schema_components([kind])
    for definition in definitions.values():
        # What is no key is a mistake: a machine file with one is refused.
        if "properties" in definition:
            definition["additionalProperties"] = False
        if "description" in definition:
            definition["description"] = " ".join(str(definition["description"]).split())
    root = cast("dict[str, Any]", definitions.pop(str(reference["$ref"]).rsplit("/", 1)[-1]))
    root["title"] = title
    if name == "report":
        root["properties"]["format"] = {"description": "Version of the report.", "const": FORMAT}
    return {"$schema": DIALECT, **root, "$defs": dict(sorted(definitions.items()))}


def schema_text(name: SchemaName) -> str:
    """The kept file with the schema of ``name``."""
    return json.dumps(schema(name), indent=2) + "\n"


if __name__ == "__main__":
    for kept in KINDS:
        schema_path(kept).write_text(schema_text(kept), encoding="utf-8")
