"""Ctrl-C while planning: the models stop, and the best plan so far is what counts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Whether the user has interrupted."""

    def __init__(self) -> None:
        self.seen = False

    @contextmanager
    def watch(self) -> Generator[None]:
        """Take note of interrupts, and pass them on, until the end of the block."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            self.seen = True
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
