"""Attempts cases in processes of their own, which may run out of time or memory, or die, without harm."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import cast

from benchmarks.hostile.case import Case, Outcome, judge
from benchmarks.hostile.families import FAMILIES

MEMORY_BYTES = 8 << 30
"""Of data that a process may hold."""

_CONTEXT = multiprocessing.get_context("spawn")


def run_all(
    cases: Iterable[Case], workers: int, seconds: float, done: Callable[[int, Case, Outcome], None]
) -> list[Outcome]:
    """The outcome of each case, in order. ``seconds`` is what one may take; ``done`` is called after each."""
    numbered = enumerate(cases)
    lock = threading.Lock()
    outcomes: dict[int, Outcome] = {}

    def work() -> None:
        with _Worker(seconds) as worker:
            while (job := _next(numbered, lock)) is not None:
                number, case = job
                outcome = worker.attempt(case)
                with lock:
                    outcomes[number] = outcome
                    done(number, case, outcome)

    with ThreadPoolExecutor(workers) as pool:
        for thread in [pool.submit(work) for _ in range(workers)]:
            thread.result()  # Which raises what making a case raised.
    return [outcomes[number] for number in sorted(outcomes)]


def _next(numbered: Iterator[tuple[int, Case]], lock: threading.Lock) -> tuple[int, Case] | None:
    with lock:
        return next(numbered, None)


class _Worker:
    """A process that attempts one case after the other; a new one takes the place of one that was lost."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> _Worker:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start(self) -> None:
        self.connection, far = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=serve, args=(far,), daemon=False)
        self.process.start()
        far.close()

    def _stop(self) -> None:
        self.connection.close()
        if self.process.is_alive() and self.process.pid is not None:
            # With its children, such as a solver; the process may end on its own meanwhile.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join()

    def attempt(self, case: Case) -> Outcome:
        """The outcome of a case, also if the process is lost with it."""
        try:
            if self.process.exitcode is not None:
                self._stop()
                self._start()
            self.connection.send(case)
            if self.connection.poll(self.seconds):
                return cast("Outcome", self.connection.recv())
            message, verdict = f"no result after {self.seconds:g} s", "too slow"
        except (EOFError, OSError):
            self.process.join()
            message, verdict = f"the process ended with exit code {self.process.exitcode}", "internal error"
        self._stop()
        self._start()
        return Outcome(case.family, case.kind, case.change, verdict, message, "", self.seconds)


def serve(connection: Connection) -> None:
    """Attempt the cases that arrive, until nobody sends any more; what libraries print on the way is dropped."""
    os.setpgid(0, 0)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            case = cast("Case", connection.recv())
        except EOFError:
            return
        connection.send(judge(case, FAMILIES[case.family].attempt))
