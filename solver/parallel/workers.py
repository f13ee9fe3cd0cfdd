"""Worker processes that answer questions about one graph, and what becomes of those that die.

An answer is that of the function that the one who asks would call otherwise, so that plans are the same with any number
of workers. A question that gets none (a worker was killed, or raised an error; a graph that cannot be sent) is
answered with ``None``: then whoever asked works it out.

Workers are started as programs of their own, so that neither the script of the user is imported again nor threads are
forked. They ignore Ctrl-C, and end when the process that started them does.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import IO, Any, Generic, Protocol, TypeVar

from ...ir.graph import Graph

Answer = TypeVar("Answer", covariant=True)
LENGTH = 8
"""Bytes that say how many follow."""
POLL_SECONDS = 0.5
"""How often who waits for an answer looks whether it is over. Chosen."""
WORTH_SECONDS = 5.0
"""The least timeout of a search that starts workers. Starting two takes 2 s of processor time: with timeouts of 0 and
1 s, a small transformer was compiled in 6.0 and 9.7 s with them and in 4.1 and 5.5 s without, beside other work."""


def worth_starting(timeout: float) -> bool:
    """Whether a search with this timeout in seconds has enough to do for workers."""
    return timeout >= WORTH_SECONDS


class Question(Protocol, Generic[Answer]):
    """What a worker is asked; it travels by pickle, as does the answer."""

    def answer(self, graph: Graph, kept: dict[Any, Any]) -> Answer:
        """The answer; ``kept`` is the worker's own, from one question to the next."""
        ...


class Workers:
    """So many ``jobs``: none for one job. They are started with the first question, and end with :meth:`close`."""

    def __init__(self, graph: Graph, jobs: int) -> None:
        # What is decided does not depend on the data of constants.
        self._graph = replace(graph, data={})
        self.jobs = jobs
        self._queue: SimpleQueue[tuple[Any, Future[Any]] | None] = SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._started = False
        self._alive = 0
        self._lock = threading.Lock()

    @property
    def idle(self) -> bool:
        """Whether it is no use to ask: there are no workers, or none is left."""
        return self.jobs <= 1 or (self._started and not self._alive)

    def ask(self, question: Question[Answer]) -> Future[Answer | None]:
        """The answer to come; ``None`` if it could not be had. Nobody begins with what was cancelled before."""
        future: Future[Answer | None] = Future()
        self._start()
        with self._lock:
            if self._alive:
                self._queue.put((question, future))
                return future
        future.set_result(None)
        return future

    def answers(self, questions: Sequence[Question[Answer]]) -> list[Answer | None]:
        """The answers to all, in their order."""
        pending = [self.ask(question) for question in questions]
        return [future.result() for future in pending]

    def close(self) -> None:
        """End all workers, whatever they are at."""
        with self._lock:
            self._alive = 0
            self._drain()
        for process in self._processes:
            self._queue.put(None)
            process.kill()
        for process in self._processes:
            process.wait()

    def _start(self) -> None:
        if self._started or self.jobs <= 1:
            return
        self._started = True
        try:
            graph = pickle.dumps(self._graph, pickle.HIGHEST_PROTOCOL)
        except Exception:
            # An operator of the user's own may have what cannot be sent.
            return
        program = f"import sys; sys.path[:] = {sys.path!r}; from {__package__}.worker_process import main; main()"
        for _ in range(self.jobs):
            try:
                process = subprocess.Popen(
                    [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )  # fmt: skip
            except OSError:
                break
            self._processes.append(process)
        self._alive = len(self._processes)
        for process in self._processes:
            threading.Thread(target=self._serve, args=(process, graph), daemon=True).start()

    def _serve(self, process: subprocess.Popen[bytes], graph: bytes) -> None:
        """Pass questions on to one worker, until it or the queue ends."""
        assert process.stdin is not None and process.stdout is not None
        future: Future[Any] | None = None
        try:
            with process.stdin as questions, process.stdout as answers:
                write_frame(questions, graph)
                while (task := self._queue.get()) is not None:
                    question, pending = task
                    if not pending.set_running_or_notify_cancel():
                        continue
                    future = pending
                    write_frame(questions, pickle.dumps(question, pickle.HIGHEST_PROTOCOL))
                    answer = pickle.loads(read_frame(answers))
                    future.set_result(answer)
                    future = None
        except Exception:
            if future is not None:
                future.set_result(None)
        with self._lock:
            self._alive = max(0, self._alive - 1)
            if not self._alive:
                self._drain()

    def _drain(self) -> None:
        """Nobody answers what is left."""
        while True:
            try:
                task = self._queue.get_nowait()
            except Empty:
                return
            if task is not None and task[1].set_running_or_notify_cancel():
                task[1].set_result(None)


def answered(pending: Future[Answer | None], is_over: Callable[[], bool]) -> Answer | None:
    """The answer once it is there; ``None`` if it could not be had before it ``is_over``."""
    while not is_over():
        with suppress(TimeoutError):
            return pending.result(POLL_SECONDS)
    return None


def write_frame(stream: IO[bytes], data: bytes) -> None:
    """``data`` with its length before it."""
    stream.write(len(data).to_bytes(LENGTH, "little"))
    stream.write(data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes:
    """What :func:`write_frame` wrote; raises ``EOFError`` at the end of the stream."""
    head = stream.read(LENGTH)
    data = stream.read(int.from_bytes(head, "little")) if len(head) == LENGTH else b""
    if len(head) < LENGTH or len(data) < int.from_bytes(head, "little"):
        raise EOFError
    return data
