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


def test_what_the_process_ignores_is_none() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        interrupts = Interrupts()
        with interrupts.watch():
            signal.raise_signal(signal.SIGINT)
        assert not interrupts.seen and signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("ignored", [False, True])
def test_a_termination_that_raises_is_an_interrupt(*, ignored: bool) -> None:
    def raise_it(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    termination = signal.signal(signal.SIGTERM, raise_it)
    try:
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        interrupts = Interrupts()
        with pytest.raises(KeyboardInterrupt), interrupts.watch():
            signal.raise_signal(signal.SIGTERM)
        assert interrupts.seen and signal.getsignal(signal.SIGTERM) is raise_it
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        interrupts = Interrupts()
        with interrupts.watch():
            signal.raise_signal(signal.SIGTERM)
        assert not interrupts.seen
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, termination)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_is_held(number: signal.Signals) -> None:
    termination = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        interrupts = Interrupts()
        with interrupts.watch(), interrupts.held():
            with pytest.raises(KeyboardInterrupt), interrupts.held(held=False):
                signal.raise_signal(number)
            interrupts.seen = False
            signal.raise_signal(number)
            assert interrupts.seen
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
    finally:
        signal.signal(signal.SIGTERM, termination)


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
