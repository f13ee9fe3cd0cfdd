"""Machine files: reading one, and telling exactly what is wrong with one that cannot be."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn, cast

import msgspec

from .errors import UsageError
from .graph import DTYPES
from .machine import Engine, Link, Machine, Memory

_BUILT_IN = Path(__file__).parent / "machines"
_TABLES: dict[str, type] = {"memories": Memory, "engines": Engine, "links": Link}
_CLASSES = ("matrix", "vector", "copy", "broadcast", "dma", "host")
_ROLES = ("main", "shared", "local", "weights", "accumulator")
_MAY_BE_ZERO = {"interleave", "issue", "latency", "queue_depth", "rows", "columns", "bytes_per_cycle@engines"}


def machine_names() -> tuple[str, ...]:
    """The names of the built-in machines."""
    return tuple(sorted(path.stem for path in _BUILT_IN.glob("*.toml")))


def load_machine(name: str | Path) -> Machine:
    """The built-in machine of this name, or the one described by the TOML file at this path.

    Raises :class:`UsageError` that names file, line, what is wrong and what to change.
    """
    path = Path(name)
    if isinstance(name, str) and name in machine_names():
        path = _BUILT_IN / f"{name}.toml"
    elif path.suffix != ".toml":
        known = ", ".join(machine_names())
        raise UsageError(f"there is no machine {str(name)!r}; built in are {known}, and a path must end in .toml")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the machine file {path}: {error}") from error
    return parse_machine(text, str(path))


def parse_machine(text: str, file: str) -> Machine:
    """The machine that ``text`` (TOML) describes; ``file`` is its name in error messages."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise UsageError(f"{file}:{line[1] if line else text.count(chr(10)) + 1}: not valid TOML: {error}") from error
    source = _Source(file, text)
    _check_keys(source, data)
    try:
        machine = msgspec.convert(data, Machine, strict=True)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        source.fail(path.strip("`").removeprefix("$"), message)
    _check_sizes(source, machine)
    _check_roles(source, machine)
    _check_engines(source, machine)
    _check_reach(source, machine)
    return machine


@dataclass(frozen=True)
class _Source:
    """The text of a machine file; ``path`` arguments are as ``.engines[2].lanes`` (``""``: the whole file)."""

    file: str
    text: str

    def fail(self, path: str, message: str) -> NoReturn:
        where = f" (in {path.lstrip('.')})" if path else ""
        raise UsageError(f"{self.file}:{self.line(path)}: {message}{where}")

    def line(self, path: str) -> int:
        """The line of a key, or of its table where the key is missing; the first line if there is no table."""
        found = re.match(r"(?:\.(\w+)\[(\d+)\])?(?:\.?(\w+))?", path)
        assert found is not None
        table, index, key = found.groups()
        lines = self.text.splitlines()
        start = 0
        if table is not None:
            headers = [i for i, line in enumerate(lines) if re.match(rf"\s*\[\[\s*{table}\s*\]\]", line)]
            start = headers[int(index)] if int(index) < len(headers) else 0
        for i in range(start, len(lines)):
            if i > start and lines[i].lstrip().startswith("["):
                break
            if key is not None and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", lines[i]):
                return i + 1
        return start + 1


def _check_keys(source: _Source, data: dict[str, Any]) -> None:
    _check_table(source, "", data, Machine)
    for table, kind in _TABLES.items():
        entries = data[table]
        if not isinstance(entries, list):
            source.fail(f".{table}", f"{table} must be tables, each beginning with [[{table}]]")
        for index, entry in enumerate(cast("list[Any]", entries)):
            path = f".{table}[{index}]"
            if not isinstance(entry, dict):
                source.fail(path, f"{table} must be tables, each beginning with [[{table}]]")
            _check_table(source, path, cast("dict[str, Any]", entry), kind)


def _check_table(source: _Source, path: str, table: dict[str, Any], kind: type) -> None:
    known = {f.name: f for f in fields(kind)}
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            advice = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
            source.fail(f"{path}.{key}", f"unknown key {key!r}; {advice}")
    for key, spec in known.items():
        if spec.default is MISSING and spec.default_factory is MISSING and key not in table:
            what = f"[[{key}]] tables are missing" if key in _TABLES else f"the key {key!r} is missing; add it"
            source.fail(path, what)


def _entries(machine: Machine) -> Iterator[tuple[str, str, Memory | Engine | Link]]:
    for table in _TABLES:
        for index, entry in enumerate(getattr(machine, table)):
            yield table, f".{table}[{index}]", entry


def _check_sizes(source: _Source, machine: Machine) -> None:
    for key in ("frequency", "clusters", "cores"):
        if not 0 < getattr(machine, key) < float("inf"):
            source.fail(f".{key}", f"{key} must be greater than 0")
    names: dict[str, set[str]] = {table: set() for table in _TABLES}
    for table, path, entry in _entries(machine):
        if entry.name in names[table]:
            source.fail(f"{path}.name", f"two of the {table} are named {entry.name!r}; names must differ")
        names[table].add(entry.name)
        for spec in fields(entry):
            value = getattr(entry, spec.name)
            numbers = value.values() if isinstance(value, dict) else (value,)
            optional = spec.name in _MAY_BE_ZERO or f"{spec.name}@{table}" in _MAY_BE_ZERO
            for number in cast("Iterator[object]", numbers):
                if isinstance(number, int | float) and not (0 < number < float("inf") or (optional and number == 0)):
                    least = "at least 0" if optional else "greater than 0"
                    source.fail(f"{path}.{spec.name}", f"{spec.name} of {entry.name} must be {least}, not {number}")
    for index, memory in enumerate(machine.memories):
        if memory.capacity % memory.banks or (memory.interleave and memory.interleave % memory.alignment):
            message = f"{memory.name}: banks must divide the capacity, and the alignment the interleave"
            source.fail(f".memories[{index}].banks", message)


def _check_roles(source: _Source, machine: Machine) -> None:
    for role in _ROLES:
        found = [i for i, m in enumerate(machine.memories) if m.role == role]
        if not found:
            source.fail("", f"no memory has the role {role!r}; exactly one must")
        if len(found) > 1:
            both = " and ".join(machine.memories[i].name for i in found)
            source.fail(f".memories[{found[1]}].role", f"{both} have the role {role!r}; exactly one memory may")
        expected = "cluster" if role in ("main", "shared") else "core"
        if machine.memories[found[0]].scope != expected:
            source.fail(
                f".memories[{found[0]}].scope", f'the memory with the role {role!r} must have scope "{expected}"'
            )


def _check_engines(source: _Source, machine: Machine) -> None:
    for index, engine in enumerate(machine.engines):
        path = f".engines[{index}]"
        if engine.scope == "chip":
            source.fail(f"{path}.scope", f'{engine.name} must have scope "core" or "cluster"')
        for kind in engine.classes:
            if kind not in _CLASSES:
                source.fail(f"{path}.classes", f"unknown instruction class {kind!r}; known are {', '.join(_CLASSES)}")
        for key in ("reads", "writes"):
            for name in getattr(engine, key):
                if name not in machine.memory:
                    known = ", ".join(machine.memory)
                    source.fail(f"{path}.{key}", f"{engine.name} {key} an unknown memory {name!r}; known are {known}")
                if engine.scope == "cluster" and machine.memory[name].scope == "core":
                    source.fail(f"{path}.{key}", f"{engine.name} is a cluster's engine, and {name} belongs to a core")
        for key in ("rate", "lanes"):
            for dtype in getattr(engine, key) or {}:
                if dtype not in DTYPES:
                    source.fail(f"{path}.{key}", f"unknown dtype {dtype!r}; known are {', '.join(DTYPES)}")
        needs = {"matrix": ("rows", "columns", "rate"), "vector": ("lanes",)}
        for kind in engine.classes:
            for key in needs.get(kind, ("bytes_per_cycle",)):
                if not getattr(engine, key):
                    source.fail(f"{path}.{key}", f"{engine.name} runs {kind} instructions, and needs {key}")
    for index, link in enumerate(machine.links):
        if link.memory not in machine.memory:
            source.fail(f".links[{index}].memory", f"{link.name} limits an unknown memory {link.memory!r}")


def _check_reach(source: _Source, machine: Machine) -> None:
    """Every way that the compiler relies on: some engine of the class reads the one role and writes the other."""
    ways = [
        ("copy", "shared", "local"), ("copy", "local", "shared"), ("copy", "shared", "weights"),
        ("copy", "local", "weights"), ("broadcast", "shared", "local"), ("dma", "main", "shared"),
        ("dma", "shared", "main"), ("matrix", "local", "accumulator"), ("matrix", "weights", "accumulator"),
        ("vector", "accumulator", "local"), ("vector", "local", "accumulator"), ("host", "main", "main"),
    ]  # fmt: skip
    roles = {m.name: m.role for m in machine.memories}
    for kind, origin, target in ways:
        engines = [e for e in machine.engines if kind in e.classes]
        if not any(origin in map(roles.get, e.reads) and target in map(roles.get, e.writes) for e in engines):
            wanted = f"that reads the {origin} memory and writes the {target} memory"
            source.fail("", f"no engine of class {kind!r} {wanted}; add it to classes, reads and writes of one")
