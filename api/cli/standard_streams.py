"""Standard output and standard error that may be closed, full, or pipes that nobody reads any more.

What cannot be written to standard output is an error of its own kind, wherever it is noticed. What cannot be written to
standard error is lost: there is no place left to say so.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import Any, TextIO


class OutputError(Exception):
    """Standard output cannot be written. It is no :class:`OSError`, so that nobody takes it for that of a file."""

    def __init__(self, cause: OSError) -> None:
        reason = "it is closed" if cause.errno == errno.EBADF else cause.strerror
        super().__init__(f"cannot write to standard output: {reason}")
        self.unread = cause.errno == errno.EPIPE
        """Whether it is a pipe whose reader has gone, as that of ``| head``: then there is nothing to say."""


def open_streams() -> None:
    """Let ``sys.stdout`` and ``sys.stderr`` be streams that behave as this module says.

    Where a descriptor is closed, one that cannot be written takes its place: the next file that is opened would get
    the number, and what libraries print would be in that file.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is this one.
            os.open(os.devnull, os.O_RDONLY)
    output, errors = _Output(1, "wb", closefd=False), _Errors(2, "wb", closefd=False)
    sys.stdout = _text(output, sys.stdout, by_line=output.isatty())
    # As Python's own: whoever watches a log sees each line when it is written.
    sys.stderr = _text(errors, sys.stderr, by_line=True)


def _text(raw: io.FileIO, before: TextIO | None, *, by_line: bool) -> io.TextIOWrapper:
    encoding = before.encoding if before is not None else "utf-8"
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors="backslashreplace", line_buffering=by_line)


class _Output(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(error) from error


class _Errors(io.FileIO):
    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            return super().write(data)
        return len(bytes(data))
