"""Ctrl-C is watched for during the search, and nowhere else."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress

import pytest

from girih.solver.cpsat.interrupts import Interrupts


def test_an_interrupt_is_noted_and_passed_on() -> None:
    interrupts = Interrupts()
    with pytest.raises(KeyboardInterrupt), interrupts.watch():
        assert not interrupts.seen
        signal.raise_signal(signal.SIGINT)
    assert interrupts.seen


@pytest.mark.parametrize("interrupted", [False, True])
def test_what_the_caller_does_about_interrupts_is_back_afterwards(*, interrupted: bool) -> None:
    calls: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: calls.append(number))
    try:
        interrupts = Interrupts()
        try:
            with interrupts.watch():
                if interrupted:
                    signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            assert interrupted
        assert calls == []
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert calls == [signal.SIGINT] and interrupts.seen == interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_interrupts_alone() -> None:
    """Only the main thread may handle signals."""
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def search() -> None:
        with Interrupts().watch():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    assert seen == [before]
