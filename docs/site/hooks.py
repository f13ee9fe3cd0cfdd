"""What MkDocs does besides Markdown: runs the commands of the pages, and draws pictures of what they compile."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

from pictures import PICTURES
from runs import with_help, with_outputs

ROLE = re.compile(r":(?:class|func|attr|mod|data|meth|exc):(?=<code>)")
PICTURE = re.compile(r"^```picture (\w+) (\S+)\n(.*?)\n```\n", re.MULTILINE | re.DOTALL)
"""``picture KIND FILE.girih``, and its caption."""


def on_pre_build(config: MkDocsConfig) -> None:
    """Begin without files of an earlier build."""
    shutil.rmtree(_folder(config), ignore_errors=True)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Run the commands of a page, draw its pictures, and publish the HTML that its commands wrote."""
    folder = _folder(config) / Path(page.file.src_uri).stem
    text = with_help(with_outputs(markdown, folder))

    def draw(block: re.Match[str]) -> str:
        kind, compiled, caption = block.groups()
        name = f"runs/{folder.name}/{kind}-{Path(compiled).stem}.svg"
        files.append(File.generated(config, name, content=PICTURES[kind](folder / compiled)))
        return f"![{caption}]({name})\n\n*{caption}*\n"

    for html in sorted(folder.glob("*.html")):
        files.append(File.generated(config, f"runs/{folder.name}/{html.name}", abs_src_path=str(html)))
    return PICTURE.sub(draw, text)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave out the roles of Sphinx, by which docstrings say what a name is."""
    return ROLE.sub("", html)


def _folder(config: MkDocsConfig) -> Path:
    """Where commands run: beside the site."""
    return Path(config.site_dir).parent / "site-runs"
