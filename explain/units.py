"""Numbers and names as people read them."""

from __future__ import annotations

from collections.abc import Sequence


def printable(text: str) -> str:
    """The text with escapes in place of line breaks and of whatever else moves the cursor or cannot be seen.

    Names are those of the network's author: they may break tables, hide what follows, or colour it.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def plural(count: int, noun: str) -> str:
    """The number with its noun, which takes an s unless there is one of it."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def size(count: int) -> str:
    """A number of bytes, in B, kB, MB or GB."""
    if count < 1000:
        return f"{count} B"
    scale, unit = next((s, u) for s, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if count >= s)
    return f"{count / scale:,.1f} {unit}"


def share(part: float, whole: float) -> str:
    """A part of a whole, in percent."""
    return f"{part / whole:.0%}" if whole else "-"


def numbers(values: Sequence[int]) -> str:
    """Numbers in order, a run of consecutive ones as ``0-7``."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
