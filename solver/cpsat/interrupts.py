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
        self._held = False

    @contextmanager
    def watch(self) -> Generator[None]:
        """Take note of interrupts, and pass them on, until the end of the block.

        A SIGINT that the process ignores, as one in the background of a script does, is none. A SIGTERM is one if its
        handler raises ``KeyboardInterrupt``, as that of the command line does.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        termination = before[signal.SIGTERM]

        def note(number: int, frame: FrameType | None) -> None:
            first, self.seen = not self.seen, True
            if not (first and self._held):
                raise KeyboardInterrupt

        def terminate(number: int, frame: FrameType | None) -> None:
            assert callable(termination)
            try:
                termination(number, frame)
            except KeyboardInterrupt:
                note(number, frame)

        try:
            # What is not Python's (None) could not be put back.
            if before[signal.SIGINT] not in (signal.SIG_IGN, None):
                signal.signal(signal.SIGINT, note)
            if callable(termination):
                signal.signal(signal.SIGTERM, terminate)
            yield
        finally:
            for number, handler in before.items():
                if handler is not None:
                    signal.signal(number, handler)

    @contextmanager
    def held(self, *, held: bool = True) -> Generator[None]:
        """Whether the first interrupt, until the end of the block, is only taken note of. Later ones are passed on.

        For what is short, and has something to lose; who holds one looks whether it was ``seen``.
        """
        before, self._held = self._held, held
        try:
            yield
        finally:
            self._held = before
