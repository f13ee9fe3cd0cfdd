"""Progress of a compilation on standard error: on a terminal one live line for each model, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ...explain.units import printable

if TYPE_CHECKING:
    from rich.text import Text

    from ...solver.options import Listener, Progress

_PAUSE = 1.0
"""Seconds between two plain lines about one model, unless its status changes."""
_RUNNING_PAUSE = 10.0
"""The same while a search runs."""
_WIDE, _MEDIUM = 90, 60
"""Columns of a terminal from which on the table has all of its columns, and most of them."""


@contextmanager
def live_progress(budget: float) -> Generator[Listener]:
    """A listener that shows progress while the block runs; ``budget``: seconds for the constraint models."""
    if not _is_live():
        yield PlainProgress()
        return
    from rich.console import Console
    from rich.live import Live

    board = Board(budget)
    console = Console(stderr=True)

    def show() -> Text:
        return board.text(console.width)

    with Live(get_renderable=show, console=console, refresh_per_second=4, transient=True):
        yield board


def _is_live() -> bool:
    """Whether standard error is a terminal on which lines can be written again."""
    try:
        return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    except (AttributeError, ValueError):
        # There is none, or it is closed.
        return False


class PlainProgress:
    """One line for each change."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, str, float]] = {}

    def __call__(self, news: Progress) -> None:
        text = describe(news)
        if news.model in self._last:
            status, line, seconds = self._last[news.model]
            searching = news.status == "running" and news.incumbent is not None
            pause = _RUNNING_PAUSE if searching else _PAUSE
            if text == line or ((news.status == status or searching) and news.seconds < seconds + pause):
                return
        self._last[news.model] = news.status, text, news.seconds
        click.echo(f"[{news.seconds:6.1f} s] {news.model}: {text}", err=True)


class Board:
    """The latest news of each model, one line each; the clock of what is running goes on between two pieces of news.

    ``budget``: seconds for the constraint models, which the stage "plan" begins to use.
    """

    def __init__(self, budget: float) -> None:
        self._budget = budget
        self._latest: dict[str, Progress] = {}
        self._clock = 0.0
        self._received = time.monotonic()
        self._planning_since: float | None = None
        self._planned = False

    def __call__(self, news: Progress) -> None:
        before = self._latest.get(news.model)
        if before is not None and news.incumbent is None and news.status in ("done", "costlier"):
            # No other answer: the numbers of the last one stay.
            news = replace(before, status=news.status, seconds=news.seconds, message=news.message)
        self._latest[news.model] = news
        # One clock for the whole compilation, which never goes back.
        self._clock = max(self.seconds, news.seconds)
        self._received = time.monotonic()
        if news.model == "plan" and news.status == "running" and self._planning_since is None:
            self._planning_since = self._clock
        self._planned = self._planned or (news.model == "plan" and news.status == "done")

    @property
    def seconds(self) -> float:
        """Since the compilation began."""
        return self._clock + time.monotonic() - self._received

    @property
    def seconds_left(self) -> float | None:
        """Of the budget; ``None`` while there is no planning."""
        if self._planning_since is None or self._planned:
            return None
        return max(0.0, self._budget - (self.seconds - self._planning_since))

    def lines(self, width: int) -> list[str]:
        """For a terminal of so many columns: aligned, the last column cut where the terminal ends."""
        heads = ["model", "incumbent", *(["bound"] if width >= _MEDIUM else []), "gap"]
        rows = [[*heads, _clock(self.seconds, self.seconds_left)]]
        for news in self._latest.values():
            bound = [_number(news.bound)] if width >= _MEDIUM else []
            rows.append([news.model, _number(news.incumbent), *bound, _percent(news.gap), _remark(news, width)])
        sizes = [max(len(row[i]) for row in rows) for i in range(len(heads))]
        lines: list[str] = []
        for name, *numbers, remark in rows:
            cells = [name.ljust(sizes[0]), *(n.rjust(size) for n, size in zip(numbers, sizes[1:], strict=True)), remark]
            lines.append(_cut("  ".join(cells), width))
        return lines

    def text(self, width: int) -> Text:
        """The lines, for rich."""
        from rich.text import Text

        return Text("\n".join(self.lines(width)), no_wrap=True, overflow="crop")


def _cut(line: str, width: int) -> str:
    line = line.rstrip()
    return line if len(line) <= width else f"{line[: width - 1].rstrip()}…"


def _clock(seconds: float, remaining: float | None) -> str:
    return f"{seconds:.0f} s" if remaining is None else f"{remaining:.0f} s left"


def _remark(news: Progress, width: int) -> str:
    """Status, unit and message in the order of their worth; the unit where numbers need one."""
    unit = news.unit if news.incumbent is not None or news.bound is not None else ""
    parts = (unit, news.status, news.message) if width >= _WIDE else (news.status, unit, news.message)
    return ", ".join(printable(part) for part in parts if part)


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
