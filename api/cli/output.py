"""Standard output: one JSON object for programs, or short text for people; everything else goes to standard error."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import click
from click.core import ParameterSource

JSON_OPTION = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else, on stdout."
)

PLUGINS = click.option(
    "--plugin", "plugins", multiple=True, type=click.Path(path_type=Path), metavar="FILE.py",
    help="Python that registers operators of your own; repeatable.",
)  # fmt: skip


class Written(click.Path):
    """A file that a command writes, as a :class:`~pathlib.Path`.

    ``-`` stands for standard output: no file, ``None``, for a command that prints its text unless it is given a file
    (``text``), and refused by others. ``./-`` is a file of that name.
    """

    def __init__(self, *, text: bool = False) -> None:
        super().__init__(path_type=Path)
        self._text = text

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value != "-":
            return super().convert(value, param, ctx)
        if not self._text:
            self.fail("this is not written to standard output; name a file, ./- if it shall be called -", param, ctx)
        return None


_PLAIN = str.maketrans("▁▂▃▄▅▆▇█", ".,:-=+*#")


def is_given(ctx: click.Context, parameter: str) -> bool:
    """Whether an option is among the words of the command, even with the value that it has without them."""
    return ctx.get_parameter_source(parameter) is ParameterSource.COMMANDLINE


def emit(as_json: bool, data: Mapping[str, object], text: str) -> None:
    """Print the object or the text."""
    click.echo(dump(data) if as_json else text)


def show(text: str, whole: str) -> None:
    """Print text with wide tables: on a terminal, their rows (indented lines) end where it ends.

    The last line then says so, and names the command ``whole`` that cuts nothing.
    """
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        lines = [f"{t[: width - 1]}…" if t.startswith("  ") and len(t) > width else t for t in text.splitlines()]
        cut = "\n".join(lines)
        text = cut if cut == text else f"{cut}\nRows are cut to {width} columns; all of them: {whole}"
    click.echo(encodable(text))


def columns() -> int:
    """How many columns the reader has: those of the terminal, and 80 where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 80


def encodable(text: str) -> str:
    """The text with plain characters in place of bars and dots, where standard output has none of those."""
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return text.replace("…", "...").translate(_PLAIN)
    return text


def dump(data: Mapping[str, object]) -> str:
    """JSON of an object, in the order of its keys; NaN and infinity, which JSON lacks, become null."""
    return json.dumps(_plain(data), indent=2, allow_nan=False)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


@contextmanager
def reserved_stdout(active: bool) -> Generator[None]:
    """Send what libraries print (from C++ too) to standard error, so that only our object reaches standard output."""
    if not active:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in cast("Mapping[Any, object]", value).items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in cast("Sequence[object]", value)]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
