"""A command on a pseudo-terminal, and what the terminal shows while it runs."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")
ROWS = 30


class Screen:
    """The lines of a terminal that only moves up and erases lines, as rich does; lines that are too long wrap."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.lines = [""]
        self.row = self.column = 0
        self.cursor_visible = True
        self.wrapped = False
        # What is seen between two redraws: how the output was cut into reads says nothing.
        self.shown: list[str] = []

    def write(self, text: str) -> None:
        """Show a whole output."""
        written = False
        for match in _CONTROL.finditer(text):
            word, parameter, command = match.group(0), match.group(1), match.group(2)
            if command == "K" and written and self.text not in self.shown[-1:]:
                self.shown.append(self.text)
            written = (written or command is None) and command != "K"
            if command == "A":
                self.row = max(0, self.row - int(parameter or 1))
            elif command == "K":
                self.lines[self.row] = ""
            elif command in ("h", "l") and parameter == "?25":
                self.cursor_visible = command == "h"
            elif word == "\r":
                self.column = 0
            elif word == "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append("")
            elif command is None:
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + word + line[self.column + len(word) :]
                self.column += len(word)
                self.wrapped = self.wrapped or self.column > self.columns

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines).rstrip()


@dataclass(frozen=True)
class Session:
    """What was shown before each redraw and at the end, and how it ended."""

    shown: tuple[str, ...]
    cursor_visible: bool
    wrapped: bool
    output: str
    exit_code: int


def run_on_terminal(
    words: Sequence[str], *, columns: int, environment: Mapping[str, str] | None = None, interrupt_at: str | None = None
) -> Session:
    """Run a command with a terminal of so many columns, and interrupt it once as ``interrupt_at`` is shown."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    colours = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    variables = {**colours, "TERM": "xterm-256color", **(environment or {})}
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower, env=variables)
    os.close(follower)
    output = b""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        ready, _, _ = select.select([leader], [], [], 0.1)
        try:
            data = os.read(leader, 1 << 16) if ready else b""
        except OSError:
            break
        if not data and process.poll() is not None:
            break
        output += data
        if interrupt_at is not None and interrupt_at.encode() in output:
            process.send_signal(signal.SIGINT)
            interrupt_at = None
    os.close(leader)
    code = process.wait(timeout=60)
    screen, text = Screen(columns), output.decode(errors="replace")
    screen.write(text)
    return Session((*screen.shown, screen.text), screen.cursor_visible, screen.wrapped, text, code)
