"""Golden files: texts that are kept, compared, and written anew with ``--update-golden``."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pytest

HELP = 'if this is what you want: make test ARGS="tests/goldens --update-golden"'


@dataclass(frozen=True)
class Golden:
    """``update``: write the files instead of comparing with them."""

    update: bool

    def compare(self, path: Path, text: str) -> None:
        """Fail with the difference if ``text`` is not what the file has, or there is no such file."""
        text = text.rstrip("\n") + "\n"
        if self.update:
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"there is no {path.name}; {HELP}", pytrace=False)
        kept = path.read_text(encoding="utf-8")
        if kept != text:
            lines = difflib.unified_diff(kept.splitlines(), text.splitlines(), path.name, "now", lineterm="")
            pytest.fail("\n".join([*lines, HELP]), pytrace=False)

    def only(self, folder: Path, names: Collection[str]) -> None:
        """Fail if the folder has another text than these; ``update`` deletes it."""
        orphans = sorted(path for path in folder.glob("*.txt") if path.name not in names)
        if self.update:
            for path in orphans:
                path.unlink()
        elif orphans:
            pytest.fail(f"no test compares with {', '.join(p.name for p in orphans)}; {HELP}", pytrace=False)
