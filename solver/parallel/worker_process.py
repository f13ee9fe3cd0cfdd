"""The program of a worker: a graph and then questions come in, answers go out (see :mod:`.workers`)."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
from queue import SimpleQueue
from typing import IO, Any

from .workers import read_frame, write_frame

COLLECTION_THRESHOLDS = (100_000, 20, 100)
"""Of Python's garbage collector, as in a compilation: nearly all objects live to the end."""


def main() -> None:
    """Answer all questions of standard input; the end of it ends this, also in the middle of an answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever prints must not come between the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    frames: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, frames), daemon=True).start()
    graph = pickle.loads(frames.get())
    kept: dict[Any, Any] = {}
    while True:
        question = pickle.loads(frames.get())
        try:
            answer = question.answer(graph, kept)
        except Exception:
            # Whoever asked runs into it, too, and says what it is.
            answer = None
        write_frame(answers, pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))


def _receive(stream: IO[bytes], frames: SimpleQueue[bytes]) -> None:
    try:
        while True:
            frames.put(read_frame(stream))
    except EOFError:
        os._exit(0)
