"""Progress of the solver on standard error: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ...explain.units import printable

if TYPE_CHECKING:
    from rich.table import Table

    from ...solver.options import Listener, Progress

_PAUSE = 1.0
"""Seconds between two plain lines about one model, unless its status changes."""


@contextmanager
def live_progress() -> Generator[Listener]:
    """A listener that shows progress while the block runs."""
    if not sys.stderr.isatty():
        yield PlainProgress()
        return
    from rich.console import Console
    from rich.live import Live

    board = Board()
    with Live(get_renderable=board.table, console=Console(stderr=True), refresh_per_second=4, transient=True):
        yield board


class PlainProgress:
    """One line for each change."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, str, float]] = {}

    def __call__(self, news: Progress) -> None:
        text = describe(news)
        status, line, seconds = self._last.get(news.model, ("", "", 0.0))
        if text == line or (news.status == status and news.seconds < seconds + _PAUSE):
            return
        self._last[news.model] = news.status, text, news.seconds
        click.echo(f"[{news.seconds:6.1f} s] {news.model}: {text}", err=True)


class Board:
    """The latest news of each model, as a table; the clock of what is running goes on between two pieces of news."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[Progress, float]] = {}

    def __call__(self, news: Progress) -> None:
        self._latest[news.model] = news, time.monotonic()

    def table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for head in ("stage", "status"):
            table.add_column(head, no_wrap=True)
        for head in ("incumbent", "bound", "gap", "seconds"):
            table.add_column(head, no_wrap=True, justify="right")
        # The only column that gives way on a narrow terminal.
        table.add_column("", overflow="ellipsis")
        now = time.monotonic()
        for news, received in self._latest.values():
            seconds = news.seconds + (now - received if news.status == "running" else 0.0)
            table.add_row(
                news.model, news.status, _number(news.incumbent), _number(news.bound), _percent(news.gap),
                f"{seconds:.1f}", Text(news.message, no_wrap=True, overflow="ellipsis"),
            )  # fmt: skip
        return table


def describe(news: Progress) -> str:
    """Status, incumbent, bound, gap and message, as far as they are known."""
    parts = [news.status]
    if news.incumbent is not None:
        parts.append(f"incumbent {_number(news.incumbent)} {news.unit}".rstrip())
    if news.bound is not None:
        parts.append(f"bound {_number(news.bound)}")
    if news.gap is not None:
        parts.append(f"gap {_percent(news.gap)}")
    if news.message:
        parts.append(printable(news.message))
    return ", ".join(parts)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
