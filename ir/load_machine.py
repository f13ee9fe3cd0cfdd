"""Machine files: reading one, and telling exactly what is wrong with one that cannot be."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import msgspec

from .checks.check_machine import problems
from .errors import EngineTypeError, ProblemsError, UsageError
from .files import as_path
from .machine import Engine, Link, Machine, Memory
from .machines.as_planned import name_in_file
from .machines.file_lines import file_lines

_BUILT_IN = Path(__file__).parent / "machines"
_TABLES: dict[str, type] = {"memories": Memory, "engines": Engine, "links": Link}
MOST_PROBLEMS = 10
"""That are told of one file."""
_TYPES = {
    "int": "a whole number", "str": "a text", "array": "a list", "object": "a table", "bool": "a switch",
    "date": "a date", "datetime": "a date", "time": "a time",
}  # fmt: skip
_EXAMPLES = {"rate": "{ float16 = 1.0 }", "lanes": "{ float16 = 8 }"}
"""Of the keys whose values are tables."""


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
    path = as_path("the machine", name)
    if isinstance(name, str) and name in machine_names():
        path = _BUILT_IN / f"{name}.toml"
    elif path.suffix != ".toml":
        known = ", ".join(machine_names())
        raise UsageError(f"there is no machine {str(name)!r}; built in are {known}, and a path must end in .toml")
    try:
        text = path.read_text(encoding="utf-8-sig")
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
        line = re.search(r"\(at line (\d+)", str(error))
        raise UsageError(f"{file}:{line[1] if line else text.count(chr(10)) + 1}: not valid TOML: {error}") from error
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits, or lists in lists in lists.
        raise UsageError(f"{file}:1: not valid TOML: {error}; shorten it") from error
    source = _Source(file, text)
    wrong = sorted(_form(data), key=lambda finding: source.line(finding[0]))
    if not wrong:
        machine = msgspec.convert(data, Machine, strict=True)
        wrong = list(problems(machine))
        if not wrong:
            return machine
    lines = [source.message(path, message) for path, message in wrong[:MOST_PROBLEMS]]
    unlisted = len(wrong) - len(lines)
    raise ProblemsError(*lines, *([f"... and {unlisted} more"] if unlisted else []))


def _readable(message: str, key: str, known: Sequence[str] = ()) -> str:
    """What msgspec says about the value of a key, in words of machine files; ``known``: what it may be."""
    message, _, inner = message.partition(" - at ")
    if wrong := re.fullmatch(r"Expected `([\w| ]+)`, got `(\w+)`", message):
        wanted = [_TYPES.get(name, "a number") for name in wrong[1].split(" | ") if name != "null"]
        example = f" such as {_EXAMPLES[key]}" if "a table" in wanted and key in _EXAMPLES else ""
        got = "a number" if wrong[2] == "float" and wanted != ["a whole number"] else _TYPES.get(wrong[2], "a fraction")
        whose = f"every entry of {key}" if re.search(r"\[\d+\]", inner) else key
        return f"{whose} must be {' or '.join(wanted)}{example}, not {got}"
    if re.fullmatch(r"Expected `array` of length >= 1", message):
        return f"{key} is an empty list; name at least one"
    if wrong := re.fullmatch(r"Invalid enum value (.*)", message):
        return f"{key} cannot be {wrong[1]}; known are {', '.join(known)}"
    return f"{key}: {message}"


@dataclass(frozen=True)
class _Source:
    """The text of a machine file; ``path`` arguments are as ``engines[2].lanes`` (``""``: the whole file)."""

    file: str
    text: str

    def message(self, path: str, message: str) -> str:
        """What is wrong, and where."""
        where = f" (in {path})" if path else ""
        return f"{self.file}:{self.line(path)}: {message}{where}"

    def line(self, path: str) -> int:
        """The line of a key, or of its table where the key is missing; the first line if there is no table."""
        while path and path not in self._lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self._lines.get(path, 1)

    @cached_property
    def _lines(self) -> dict[str, int]:
        return file_lines(self.text)


def _form(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys that are unknown or missing, and values of another type, in all tables of a file: where, and what."""
    yield from _keys("", data, Machine)
    yield from _types("", data, Machine)
    for table, kind in _TABLES.items():
        entries = data.get(table, [])
        if not isinstance(entries, list):
            yield table, f"{table} must be tables, each beginning with [[{table}]]"
            continue
        for index, entry in enumerate(cast("list[Any]", entries)):
            path = f"{table}[{index}]"
            if not isinstance(entry, dict):
                yield path, f"{table} must be tables, each beginning with [[{table}]]"
                continue
            yield from _keys(path, cast("dict[str, Any]", entry), kind)
            yield from _types(path, cast("dict[str, Any]", entry), kind)


def _keys(path: str, table: dict[str, Any], kind: type) -> Iterator[tuple[str, str]]:
    """Unknown keys of a table, and those that are missing and not meant by one of these."""
    known = {f.name: f for f in fields(kind)}
    meant: set[str] = set()
    for key in (key for key in table if key not in known):
        where = f"{path}.{key}".lstrip(".")
        close = difflib.get_close_matches(key, known.keys() - table.keys(), 1) or difflib.get_close_matches(
            key, known, 1
        )
        meant.update(close)
        if (kind, key) == (Memory, "role"):
            yield where, "unknown key 'role'; roles follow from the engines, remove it"
        else:
            advice = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
            yield where, f"unknown key {key!r}; {advice}"
    for key, spec in known.items():
        if spec.default is MISSING and spec.default_factory is MISSING and key not in table and key not in meant:
            if key in _TABLES:
                cure = "; write links = [] above all tables if nothing limits transfers" if key == "links" else ""
                yield path, f"[[{key}]] tables are missing{cure}"
            else:
                yield path, f"the key {key!r} is missing; add it"


def _types(path: str, table: dict[str, Any], kind: type) -> Iterator[tuple[str, str]]:
    """Values of a table that are not of the type of their key."""
    wanted, plain = get_type_hints(kind, include_extras=True), get_type_hints(kind)
    for spec in fields(kind):
        if spec.name not in table or spec.name in _TABLES:
            continue
        value = table[spec.name]
        parts: dict[str, object] = {"": value}
        if isinstance(value, dict) and spec.name in _EXAMPLES:
            parts = {f".{dtype}": {dtype: item} for dtype, item in cast("dict[str, object]", value).items()}
        for inner, part in parts.items():
            try:
                msgspec.convert(part, wanted[spec.name], strict=True)
            except msgspec.ValidationError as error:
                message = _readable(str(error), spec.name, get_args(plain[spec.name]))
                message = message.replace(spec.name, f"{spec.name} for {inner[1:]}", 1) if inner else message
                yield f"{path}.{spec.name}{inner}".lstrip("."), message
