"""Tables: runs side by side, and the keys of machine files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import girih
from girih.ir.schemas.shipped import schema_path

TABLES = {"machine": "", "Memory": "[[memories]]", "Engine": "[[engines]]", "Link": "[[links]]"}
"""The types of a machine file, and the TOML tables that have them."""


def comparison(paths: Sequence[Path]) -> str:
    """Markdown: a row for each compiled network, with its cycles, those of one item, and the lower bound."""
    rows = ["| file | batch | cycles | cycles an item | lower bound | bound by |", "|---|--:|--:|--:|--:|---|"]
    for path in paths:
        summary = girih.load(path).explain().summary
        batch, cycles, bound = summary.batch or 1, summary.cycles, summary.lower_bound_cycles
        bound_by = summary.lower_bound_reason.partition(":")[0]
        rows.append(
            f"| `{path.name}` | {batch} | {cycles:,} | {cycles / batch:,.0f} "
            f"| {bound:,} ({bound / cycles:.0%} of the run) | {bound_by} |"
        )
    return "\n".join(rows) + "\n"


def machine_keys() -> str:
    """Markdown: the keys of each table of a machine file, as the schema has them."""
    schema = json.loads(schema_path("machine").read_text(encoding="utf-8"))
    parts: list[str] = []
    for name, table in TABLES.items():
        kind = schema["$defs"].get(name, schema)
        parts.append(f"### {f'`{table}`' if table else 'The machine'}\n")
        parts.append("| key | value | without it | meaning |\n|---|---|---|---|")
        for key, value in kind["properties"].items():
            default = "" if value.get("default") is None else f"`{json.dumps(value['default'])}`"
            parts.append(f"| `{key}` | {_type(value)} | {default} | {value['description']} |")
        parts.append("")
    return "\n".join(parts)


def _type(value: dict[str, Any]) -> str:
    """What a value may be, in words."""
    if "enum" in value:
        return " or ".join(f"`{choice}`" for choice in value["enum"])
    if "anyOf" in value:
        return " or ".join(_type(choice) for choice in value["anyOf"] if choice.get("type") != "null")
    if "$ref" in value:
        return f"`{TABLES[value['$ref'].rsplit('/', 1)[-1]]}`"
    if value["type"] == "array":
        return f"list of {_type(value['items'])}"
    return "numbers by dtype" if value["type"] == "object" else value["type"]
