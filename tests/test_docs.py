"""Pages name files that exist, and link to pages and headings that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FOLDERS = "|".join(path.name for path in sorted(ROOT.iterdir()) if path.is_dir() and not path.name.startswith("."))
TO_BE_WRITTEN = {"models/mlp.py"}
"""What a walk-through has its reader write."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_paths_in_a_page_exist(page: Path) -> None:
    paths = re.findall(rf"`((?:{FOLDERS})/[\w/.-]*)`", page.read_text(encoding="utf-8"))
    missing = [path for path in paths if not (ROOT / path).exists() and path not in TO_BE_WRITTEN]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), target
        if heading:
            assert heading in anchors(path), f"{target}#{heading}"


def anchors(page: Path) -> set[str]:
    """The names by which headings of a page are linked to."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
