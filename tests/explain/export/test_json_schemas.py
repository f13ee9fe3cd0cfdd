"""The shipped JSON Schemas are those of the nouns, and tell right JSON from wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from girih.explain.compare.comparison import Comparison
from girih.explain.details.details import Details
from girih.explain.export.json_schemas import FORMATS, KINDS, schema_text
from girih.explain.pareto.curve import Curve
from girih.explain.pareto.curve_rows import CurveRow
from girih.ir.checks.check_machine import CLASSES
from girih.ir.codec import to_json
from girih.ir.load_machine import load_machine, machine_names, machine_text, parse_machine
from girih.ir.schemas.shipped import DIRECTIVE, SCHEMA_NAMES, SchemaName, schema_path, with_schema
from tests.support.compiled import compiled_residual

CURVE = Curve(
    "net", "tiny", "L1", 65536, 768, 640, False, True, 900,
    (CurveRow(768, 2000, 2010, 2.2, 768, 64, 3, None, None), CurveRow(1792, 1000, 990, 1.1, 1500, 64, 2, 1000, 1000.0)),
)  # fmt: skip

EXAMPLES: dict[SchemaName, Callable[[], Any]] = {
    "machine": lambda: tomllib.loads(machine_text("stcp920")),
    "target": lambda: {**tomllib.loads(machine_text("stcp920")), "warnings": ["queue_depth has no effect"]},
    "plan": lambda: json.loads(to_json(compiled_residual().plan)),
    "report": lambda: json.loads(compiled_residual().explain().to_json()),
    "details": lambda: json.loads(all_details().to_json()),
    "comparison": lambda: json.loads(compared().to_json()),
    "curve": lambda: json.loads(CURVE.to_json()),
}


@cache
def all_details() -> Details:
    package = compiled_residual()
    return package.details(
        operators=[op.name for op in package.graph.ops],
        tensors=[package.graph.ops[0].outputs[0], package.graph.constants[0].tensor],
        segments=range(len(package.plan.segments)),
        memories=[memory.name for memory in package.machine.memories],
        models=["tiling"],
    )


@cache
def compared() -> Comparison:
    """Of two schedules that differ in what no instruction shows."""
    package = compiled_residual()
    return package.diff(replace(package, plan=replace(package.plan, seed=7, strategy="layerwise")))


@cache
def validator(name: SchemaName) -> Draft202012Validator:
    schema = json.loads(schema_path(name).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_the_shipped_schema_is_that_of_the_noun(name: SchemaName) -> None:
    assert set(KINDS) == set(SCHEMA_NAMES)
    assert schema_path(name).read_text(encoding="utf-8") == schema_text(name), "run `make docs`"


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_what_is_right_passes(name: SchemaName) -> None:
    validator(name).validate(EXAMPLES[name]())


@pytest.mark.parametrize("machine", machine_names())
def test_built_in_machine_files_pass_and_name_their_schema(machine: str) -> None:
    text = machine_text(machine)
    validator("machine").validate(tomllib.loads(text))
    validator("machine").validate(json.loads(to_json(load_machine(machine))))
    assert text.startswith(f"{DIRECTIVE}../schemas/machine.schema.json\n")
    mine = with_schema(text)
    assert mine.startswith(f"{DIRECTIVE}file://") and mine.count(DIRECTIVE) == 1
    assert parse_machine(mine, "mine.toml") == load_machine(machine)
    assert with_schema("name = 1\n").splitlines()[1:] == ["name = 1"]


def places(value: Any) -> Iterator[Any]:
    """Every object in a JSON value."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from places(item)


KEYED_BY_NAMES = {"waits", "link_bytes", "options", "versions", "rate", "lanes", "peaks", "causes"}
"""Objects whose keys are names, not fields."""


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_what_is_wrong_does_not(name: SchemaName) -> None:
    example = EXAMPLES[name]()
    seen: set[frozenset[str]] = set()
    wrong = 0
    for number, place in enumerate(places(example)):
        keys = frozenset(place)
        if keys in seen:
            continue
        seen.add(keys)
        for change in ("unknown", "missing", "type"):
            copy = deepcopy(example)
            damaged = next(p for i, p in enumerate(places(copy)) if i == number)
            first = next(iter(damaged), None)
            fields_ = not any(parent.get(k) is place for parent in places(example) for k in KEYED_BY_NAMES)
            if change == "unknown" and fields_:
                damaged["no such key"] = 1
            elif change == "missing" and fields_:
                del damaged[first]
            elif change == "type" and first is not None:
                damaged[first] = {"no": ["such", "type"]}
            else:
                continue
            wrong += 1
            assert not validator(name).is_valid(copy), f"{change} of {sorted(keys)[:4]}"
    # A curve has two kinds of objects, everything else more.
    assert wrong >= (6 if name == "curve" else 9)


def test_every_key_of_a_machine_file_is_described() -> None:
    schema = validator("machine").schema
    for table in (schema, *schema["$defs"].values()):
        for key, value in table["properties"].items():
            assert value.get("description", "").endswith("."), key


@pytest.mark.parametrize("name", FORMATS)
def test_another_format_is_another_schema(name: SchemaName) -> None:
    example = EXAMPLES[name]()
    assert not validator(name).is_valid({**example, "format": example["format"] + 1})


def test_the_schema_knows_the_instruction_classes() -> None:
    engine = validator("machine").schema["$defs"]["Engine"]
    assert set(engine["properties"]["classes"]["items"]["enum"]) == set(CLASSES)


TAPLO = Path(sys.executable).with_name("taplo")


@pytest.mark.skipif(not TAPLO.exists(), reason="taplo is not installed")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("", ""), ""),
        (("\ncores = 2", "\ncores = 'two'"), '"two" is not of type "integer"'),
        (("\nclusters = 2", ""), '"clusters" is a required property'),
        (('\nscope = "core"', '\nscope = "kore"'), '"kore" is not one of'),
    ],
)
def test_editors_find_the_schema_by_the_first_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(with_schema(machine_text("tiny")).replace(*change, 1), encoding="utf-8")
    done = subprocess.run([TAPLO, "lint", "--colors", "never", mine], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (not message)
    assert message in done.stderr
