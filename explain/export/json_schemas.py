"""JSON Schemas of machine files, machines, plans, reports, details and comparisons; ``python -m`` writes them anew.

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
from .. import report
from ..compare import rows
from ..compare.comparison import Comparison
from ..details import details
from ..details.details import Details
from ..pareto import curve_rows
from ..pareto.curve import Curve
from ..report import Report

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS: dict[SchemaName, tuple[type, str]] = {
    "machine": (Machine, "A machine file of Girih"),
    "target": (Machine, "A machine of Girih, as `girih targets NAME --json` prints it"),
    "plan": (Plan, "A plan of Girih, as `girih plan --json` prints it"),
    "report": (Report, "A report of Girih, as `girih explain --json` prints it"),
    "details": (Details, "Details of Girih, as `girih explain --json` prints them for names"),
    "comparison": (Comparison, "A comparison of Girih, as `girih diff --json` prints it"),
    "curve": (Curve, "A curve of Girih, as `girih pareto --json` prints it"),
}
"""What has a schema, and its title."""

_WARNINGS = "Sentences: what of the machine has no effect on what is compiled for it."

FORMATS: dict[SchemaName, int] = {
    "report": report.FORMAT,
    "details": details.FORMAT,
    "comparison": rows.FORMAT,
    "curve": curve_rows.FORMAT,
}
"""The version of what has one; a schema is of this version alone."""


def schema(name: SchemaName) -> dict[str, Any]:
    """The schema of what is called so in :data:`KINDS`."""
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
    if name == "target":
        # Not among the keys of a machine file, where editors would offer it, and the loader refuse it.
        root["properties"]["warnings"] = {"description": _WARNINGS, "type": "array", "items": {"type": "string"}}
        root["required"] = [*root["required"], "warnings"]
    if name in FORMATS:
        root["title"] = f"{title}, format {FORMATS[name]}"
        root["properties"]["format"] = {"description": f"Version of the {name}.", "const": FORMATS[name]}
    return {"$schema": DIALECT, **root, "$defs": dict(sorted(definitions.items()))}


def schema_text(name: SchemaName) -> str:
    """The kept file with the schema of ``name``."""
    return json.dumps(schema(name), indent=2) + "\n"


if __name__ == "__main__":
    for kept in KINDS:
        schema_path(kept).write_text(schema_text(kept), encoding="utf-8")
