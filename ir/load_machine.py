"""Machine files: reading one, and telling exactly what is wrong with one that cannot be."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn, cast, get_args, get_type_hints

import msgspec

from .checks.check_machine import problems
from .errors import EngineTypeError, ProblemsError, UsageError
from .machine import Engine, Link, Machine, Memory
from .machines.as_planned import name_in_file

_BUILT_IN = Path(__file__).parent / "machines"
_TABLES: dict[str, type] = {"memories": Memory, "engines": Engine, "links": Link}
MOST_PROBLEMS = 10
"""That are told of one file."""
_TYPES = {"int": "a whole number", "str": "a text", "array": "a list", "object": "a table", "bool": "a switch"}


def machine_names() -> tuple[str, ...]:
    """The names of the built-in machines."""
    return tuple(sorted(path.stem for path in _BUILT_IN.glob("*.toml")))


def load_machine(name: str | Path) -> Machine:
    """The built-in machine of this name, or the one described by the TOML file at this path.

    Raises :class:`UsageError` that names file, line, what is wrong and what to change.
    """
    return parse_machine(*_machine_file(name))


def machine_text(name: str | Path) -> str:
    """The machine file itself, with its comments; raises as :func:`load_machine` does."""
    text, file = _machine_file(name)
    parse_machine(text, file)
    return text


@contextmanager
def telling_lines(name: str | Path) -> Generator[None]:
    """An :class:`EngineTypeError` in here is raised with the line of the machine file that it is about."""
    try:
        yield
    except EngineTypeError as error:
        text, file = _machine_file(name)
        # Engines that an entry counts are called TPC.a, TPC.b and so on.
        machine = parse_machine(text, file)
        name = name_in_file(machine, error.engine)
        number = [engine.name for engine in machine.engines].index(name)
        line = _Source(file, text).line(f"engines[{number}].{error.key}")
        message = re.sub(rf"(?<![\w.-]){re.escape(error.engine)}(?![\w.-])", name, str(error))
        raise error.worded(f"{message} ({file}:{line})") from error


def _machine_file(name: str | Path) -> tuple[str, str]:
    """The text of the machine file, and its name."""
    path = Path(name)
    if isinstance(name, str) and name in machine_names():
        path = _BUILT_IN / f"{name}.toml"
    elif path.suffix != ".toml":
        known = ", ".join(machine_names())
        raise UsageError(f"there is no machine {str(name)!r}; built in are {known}, and a path must end in .toml")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read the machine file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read the machine file {path}: it is not UTF-8, {error.reason}") from error
    return text, str(path)


def parse_machine(text: str, file: str) -> Machine:
    """The machine that ``text`` (TOML) describes; ``file`` is its name in error messages."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise UsageError(f"{file}:{line[1] if line else text.count(chr(10)) + 1}: not valid TOML: {error}") from error
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits, or lists in lists in lists.
        raise UsageError(f"{file}:1: not valid TOML: {error}; shorten it") from error
    source = _Source(file, text)
    _check_keys(source, data)
    try:
        machine = msgspec.convert(data, Machine, strict=True)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        where = path.strip("`").removeprefix("$.")
        source.fail(where, _readable(message, where))
    found = list(problems(machine))
    if found:
        lines = [source.message(path, message) for path, message in found[:MOST_PROBLEMS]]
        left = len(found) - len(lines)
        raise ProblemsError(*lines, *([f"... and {left} more"] if left else []))
    return machine


def _readable(message: str, path: str) -> str:
    """What msgspec says about a value, in words of machine files."""
    key = re.sub(r"\[.*?\]", "", path).split(".")[-1]
    if wrong := re.fullmatch(r"Expected `(\w+)`, got `(\w+)`", message):
        wanted, got = wrong.groups()
        wanted, got = _TYPES.get(wanted, "a number"), _TYPES.get(got, "a fraction")
        return f"{key} must be {wanted}, not {got}"
    if wrong := re.fullmatch(r"Invalid enum value (.*)", message):
        known = get_args(get_type_hints(_TABLES[path.partition("[")[0]])[key])
        return f"{key} cannot be {wrong[1]}; known are {', '.join(known)}"
    return message


@dataclass(frozen=True)
class _Source:
    """The text of a machine file; ``path`` arguments are as ``engines[2].lanes`` (``""``: the whole file)."""

    file: str
    text: str

    def fail(self, path: str, message: str) -> NoReturn:
        raise UsageError(self.message(path, message))

    def message(self, path: str, message: str) -> str:
        """What is wrong, and where."""
        where = f" (in {path})" if path else ""
        return f"{self.file}:{self.line(path)}: {message}{where}"

    def line(self, path: str) -> int:
        """The line of a key, or of its table where the key is missing; the first line if there is no table."""
        match = re.match(r"(?:(\w+)\[(\d+)\]\.?)?(.+?)?(?:\[|$)", path)
        assert match is not None
        table, index, key = match.groups()
        lines = self.text.splitlines()
        headers = self._headers(lines, table) if table is not None else []
        start = headers[int(index)] if index is not None and int(index) < len(headers) else 0
        for i in range(start, len(lines)):
            if i > start and lines[i].lstrip().startswith("["):
                break
            if key is not None and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", lines[i]):
                return i + 1
        if table is None and key is not None:
            start = next(iter(self._headers(lines, key)), start)
        return start + 1

    @staticmethod
    def _headers(lines: list[str], table: str) -> list[int]:
        return [i for i, line in enumerate(lines) if re.match(rf"\s*\[\[?\s*{re.escape(table)}\s*\]", line)]


def _check_keys(source: _Source, data: dict[str, Any]) -> None:
    _check_table(source, "", data, Machine)
    for table, kind in _TABLES.items():
        entries = data[table]
        if not isinstance(entries, list):
            source.fail(table, f"{table} must be tables, each beginning with [[{table}]]")
        for index, entry in enumerate(cast("list[Any]", entries)):
            path = f"{table}[{index}]"
            if not isinstance(entry, dict):
                source.fail(path, f"{table} must be tables, each beginning with [[{table}]]")
            _check_table(source, path, cast("dict[str, Any]", entry), kind)


def _check_table(source: _Source, path: str, table: dict[str, Any], kind: type) -> None:
    known = {f.name: f for f in fields(kind)}
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            if (kind, key) == (Memory, "role"):
                source.fail(f"{path}.{key}", "unknown key 'role'; roles follow from the engines, remove it")
            advice = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
            source.fail(f"{path}.{key}".lstrip("."), f"unknown key {key!r}; {advice}")
    for key, spec in known.items():
        if spec.default is MISSING and spec.default_factory is MISSING and key not in table:
            message = f"[[{key}]] tables are missing" if key in _TABLES else f"the key {key!r} is missing; add it"
            source.fail(path, message)
