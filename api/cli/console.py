"""The command ``girih``: the command line, started and left so that an interrupt at any time is a quiet one."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn


def console() -> NoReturn:
    """Run the command line, and leave at once.

    Unloading TVM and OR-Tools takes half a second, in which a signal would change the exit code, and it aborts the
    process if a second Ctrl-C left a search running.
    """
    code = 128 + signal.SIGINT
    # Loading takes a moment in which Ctrl-C may come, and so may a second one while the first is being reported.
    with suppress(KeyboardInterrupt, OSError, ValueError):
        try:
            from .app import main

            main()
        except SystemExit as done:
            code = done.code if isinstance(done.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
