"""Where Ctrl-C has to wait: while modules are loaded, and while what is all but done is finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


@contextmanager
def whole_imports() -> Generator[None]:
    """Until the end of the block, Ctrl-C waits: a large library that is half loaded cannot be loaded any more."""
    waiting: list[int] = []

    def wait(handler: Handler, number: int, frame: FrameType | None) -> None:
        waiting.append(number)

    try:
        with _handled_by(wait, signal.SIGINT):
            yield
    finally:
        if waiting:
            signal.raise_signal(signal.SIGINT)


def load_solver() -> None:
    """Load OR-Tools, which planning else does on first use, whole."""
    with whole_imports():
        import_module("..solver.cpsat.backend", __package__)


@contextmanager
def finishing() -> Generator[None]:
    """Until the end of the block, the first Ctrl-C or SIGTERM changes nothing; a second one does."""
    heard: list[int] = []

    def ignore_first(handler: Handler, number: int, frame: FrameType | None) -> None:
        heard.append(number)
        if len(heard) > 1:
            handler(number, frame)

    with _handled_by(ignore_first, signal.SIGINT, signal.SIGTERM):
        yield


@contextmanager
def _handled_by(handle: Callable[[Handler, int, FrameType | None], None], *numbers: int) -> Generator[None]:
    """Handle signals by a function that gets the handler that they had, where that is a function of Python.

    Only the main thread may handle signals, and only there do they interrupt anything.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {n: handler for n in numbers if is_main and callable(handler := signal.getsignal(n))}
    try:
        for number, handler in handlers.items():
            signal.signal(number, partial(handle, handler))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
