"""What commands that look at a ``.girih`` file have in common: its argument, where their text goes, and its nouns."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from ..compile import Compiled

FILE = click.argument("compiled", metavar="FILE.girih", type=click.Path(path_type=Path))
OUTPUT = click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead.")


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
