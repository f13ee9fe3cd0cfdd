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

from pictures import PICTURES, SCHEMES
from runs import with_help, with_outputs
from tables import comparison, machine_keys

import girih
from girih.explain.machine.machine_picture import machine_picture
from girih.ir.load_machine import load_machine

KEYS = "```keys\n```\n"
ROLE = re.compile(r":(?:class|func|attr|mod|data|meth|exc):(?=<code>)")
DRAWN = re.compile(r"^```(picture \w+|report|compare|machine) (.+)\n(?:((?:(?!```).*\n)*))```\n", re.MULTILINE)
"""``picture KIND FILE.girih`` or ``report FILE.girih`` with a caption, ``compare FILE.girih...``, or ``machine NAME``
with a caption."""


def on_pre_build(config: MkDocsConfig) -> None:
    """Begin without files of an earlier build."""
    shutil.rmtree(_folder(config), ignore_errors=True)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Run the commands of a page, and put what is drawn from the files that they wrote in place of its blocks."""
    folder = _folder(config) / Path(page.file.src_uri).stem

    def publish(name: str, content: str) -> str:
        place = f"runs/{folder.name}/{name}"
        files.append(File.generated(config, place, content=content))
        return place

    def draw(block: re.Match[str]) -> str:
        kind, compiled, caption = (text.strip() for text in block.groups())
        paths = [folder / name for name in compiled.split()]
        if kind == "compare":
            return comparison(paths)
        stem = paths[0].stem
        if kind == "machine":
            place = publish(f"{compiled}.svg", machine_picture(load_machine(compiled)))
            shown = f"![The memories, engines and links of {compiled}]({place})\n"
        elif kind == "report":
            place = publish(f"{stem}.html", girih.load(paths[0]).explain().to_html())
            shown = f'<iframe class="report" src="{place}" title="Report" loading="lazy"></iframe>\n'
            caption = f"{caption} [Open it alone]({place})."
        else:
            kind = kind.removeprefix("picture ")
            pictures = {s: publish(f"{kind}-{stem}-{s}.svg", PICTURES[kind](paths[0], s)) for s in SCHEMES}
            shown = "".join(f"![{kind} of a run]({place}#only-{scheme})\n" for scheme, place in pictures.items())
        return f"<figure markdown>\n{shown}<figcaption markdown>{caption}</figcaption>\n</figure>\n"

    text = with_help(with_outputs(markdown, folder))
    return DRAWN.sub(draw, text.replace(KEYS, machine_keys()) if KEYS in text else text)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave out the roles of Sphinx, by which docstrings say what a name is."""
    return ROLE.sub("", html)


def _folder(config: MkDocsConfig) -> Path:
    """Where commands run: beside the site."""
    return Path(config.site_dir).parent / "site-runs"
