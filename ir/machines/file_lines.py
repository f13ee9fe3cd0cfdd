"""On which line of a TOML file each key and each table stands.

Python's parser keeps no positions, but it tells where a statement ends: at the first line with which the lines since
the statement before are TOML by themselves. What a line means is thus left to the parser, as in texts of several lines.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any, cast

_ENDS = ('"""', "'''", "]", "}")
"""One of these is in the last line of every statement of several lines."""
_MOST_ENDS = 64
"""A statement that ends at none of so many lines where it could is longer than any of a machine file."""


def file_lines(text: str) -> dict[str, int]:
    """The first line of each key and table of a TOML file without mistakes, counted from 1.

    Keys of the result are as ``cores``, ``engines[2]`` or ``engines[2].rate.float16``; ``engines`` is the first of the
    tables of this name. Where a value takes several lines, all that is in it is on the first of them. Lines behind a
    very long value (:data:`_MOST_ENDS`) are left out.
    """
    lines: dict[str, int] = {}
    tables: dict[str, int] = {}
    """How many tables of each name there were before this line."""
    table = ""
    for line, statement, data in _statements(text):
        if statement.lstrip().startswith("["):
            table = _opened(data, tables, statement.lstrip().startswith("[["), lines, line)
            lines.setdefault(table, line)
        else:
            for path in _paths(table, data):
                lines.setdefault(path, line)
    return lines


def _statements(text: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The headers of tables and the assignments: the first line, the text, and what it means by itself."""
    first, statement, ends = 1, "", 0
    # Only these end a line of TOML; splitlines knows others, which may stand in comments and texts.
    for line, content in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        begun, statement = bool(statement), f"{statement}{content}\n"
        # To ask the parser at each line of a long value would take time that grows with its square.
        if begun and not any(end in content for end in _ENDS):
            continue
        try:
            data = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            ends += 1
            if ends > _MOST_ENDS:
                return
            continue
        if data:
            yield first, statement, data
        first, statement, ends = line + 1, "", 0


def _opened(
    data: dict[str, Any], tables: dict[str, int], one_of_several: bool, lines: dict[str, int], line: int
) -> str:
    """The path of the table that a header opens; counts it if it is one of several, and notes where the first is."""
    path = ""
    while data:
        ((name, value),) = data.items()
        path = _joined(path, name)
        data = cast("dict[str, Any]", value[0] if isinstance(value, list) else value)
        if not data and one_of_several:
            lines.setdefault(path, line)
            tables[path] = tables.get(path, 0) + 1
        if path in tables:
            # A table in tables of which there are several is in the last one.
            path = f"{path}[{tables[path] - 1}]"
    return path


def _paths(path: str, value: object) -> Iterator[str]:
    """The paths of all that a value contains, which is at ``path`` itself."""
    pending = [(path, value)]
    # Keys with dots can be nested deeper than functions can.
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict):
            items = [(_joined(path, key), inner) for key, inner in cast("dict[str, object]", value).items()]
        elif isinstance(value, list):
            items = [(f"{path}[{index}]", inner) for index, inner in enumerate(cast("list[object]", value))]
        else:
            continue
        yield from (inner_path for inner_path, _ in items)
        pending += items


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
