"""What commands that look at a ``.girih`` file have in common: its argument, format and file of output, its nouns."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ...explain.file_formats import file_format, unknown_format
from ...ir.errors import UsageError
from .output import Written

if TYPE_CHECKING:
    from ..compile import Compiled

_F = TypeVar("_F", bound=Callable[..., object])

FILE = click.argument("compiled", metavar="FILE.girih", type=click.Path(path_type=Path))
OUTPUT = click.option("-o", "--output", type=Written(text=True), help="Write to this file instead.")
FORMAT_JSON = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")


class _Format(click.ParamType):
    """One of the formats, or an error that says which was probably meant."""

    name = "format"

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self._known:
            self.fail(unknown_format(value, self._known), param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in self._known if name.startswith(incomplete)]


def format_option(known: Sequence[str], help_text: str) -> Callable[[_F], _F]:
    """``--format``, which takes one of ``known``."""
    return click.option("--format", "kind", type=_Format(known), help=help_text)


def chosen_format(output: Path | None, kind: str | None, as_json: bool, known: Sequence[str]) -> str:
    """The format that options and the name of the file agree on; :class:`UsageError` if they do not."""
    if as_json and kind not in (None, "json"):
        raise UsageError(f"--json and --format {kind} contradict each other; leave one of them out")
    return file_format(output, "json" if as_json else kind, known)


def load_nouns(path: Path) -> Compiled:
    """Nouns only: neither constants nor the network are needed to look at them."""
    from ..compile import Compiled
    from ..container import read

    return read(path, Compiled, data=False)


NAMES: dict[str, Callable[[Callable[[str], Any]], Iterable[str]]] = {
    "operators": lambda entry: (op["name"] for op in entry("graph")["ops"]),
    "tensors": lambda entry: (tensor["name"] for tensor in entry("graph")["tensors"]),
    "segments": lambda entry: (str(number) for number in range(len(entry("plan")["segments"]))),
    "memories": lambda entry: (memory["name"] for memory in entry("machine")["memories"]),
    "models": lambda entry: (
        run["model"] for run in (*entry("plan")["solved"], *entry("log")["runs"]) if run["model"] != "plan"
    ),
}
"""By the name of an option's parameter, the names to choose from, of the JSON entries of a ``.girih`` file."""


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For the shell: names in the file that the words before say; none where there is no such file, or a damaged one.

    It is asked for at each key, so that the file is not checked, and only the entries that are needed are read.
    """
    # While an option has no value yet, click has sorted nothing into parameters.
    words = [str(ctx.params.get("compiled") or ""), *ctx.args]
    try:
        path = next((word for word in words if zipfile.is_zipfile(word)), "")
        with zipfile.ZipFile(path) as archive:
            names = dict.fromkeys(NAMES[param.name or ""](lambda entry: json.loads(archive.read(f"{entry}.json"))))
    except (OSError, zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, LookupError, TypeError, NotImplementedError):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and name.isprintable()]
