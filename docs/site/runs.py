"""Runs the commands that pages show, so that what they print is what this version prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click

from girih.api.cli.app import cli

BLOCK = re.compile(r"^```sh run( quiet)?\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
"""A fenced block of commands to be run; what a quiet one prints is not shown."""

HELP = "```help\n```\n"


def with_outputs(markdown: str, folder: Path) -> str:
    """The page with what its commands print, each behind its block; they run in ``folder``, which is the page's own.

    Raises ``RuntimeError`` with the output of a block that fails.
    """

    def run(block: re.Match[str]) -> str:
        output = _run(block[2], folder)
        shown = f"```sh\n{block[2]}```\n"
        return shown if block[1] else f"{shown}\n```text\n{output}```\n"

    return BLOCK.sub(run, markdown)


def with_help(markdown: str) -> str:
    """The page with the help of every command in place of its block ``help``."""
    if HELP not in markdown:
        return markdown
    width = 100
    parent = click.Context(cli, info_name="girih", max_content_width=width, terminal_width=width)
    parts = [f"```text\n{cli.get_help(parent)}\n```\n"]
    for name, command in sorted(cli.commands.items()):
        context = click.Context(command, info_name=name, parent=parent)
        parts.append(f"## girih {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return markdown.replace(HELP, "\n".join(parts))


def _run(commands: str, folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "-c", commands],
        cwd=folder,
        env={**os.environ, "PATH": path, "GIRIH_CACHE": "off", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"a command of a page failed:\n{commands}\n{done.stdout}\n{done.stderr}")
    return done.stdout
