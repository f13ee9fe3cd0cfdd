"""The command ``girih``: the command line, started and left so that an interrupt at any time is a quiet one."""

# Nothing but what Python has already loaded: an interrupt of an import up here would be a traceback.
import os
import sys

_INTERNAL_ERROR = 1
_INTERRUPTED = 130


def console() -> None:
    """Run the command line, and leave at once; never returns.

    Unloading TVM and OR-Tools takes half a second, in which a signal would change the exit code, and it aborts the
    process if a second Ctrl-C left a search running. Whatever is raised while modules are loaded is an internal error,
    with its traceback.
    """
    code = _INTERRUPTED
    try:
        try:
            code = _run()
        except KeyboardInterrupt:
            # Another one, while the first is being reported.
            pass
        except BaseException:
            code = _INTERNAL_ERROR
            import traceback

            traceback.print_exc()
        _flush()
    finally:
        os._exit(code)


def _flush() -> None:
    """Write what the streams still hold; what cannot be written any more is lost."""
    from contextlib import suppress

    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _run() -> int:
    import signal

    # While modules are loaded there is nothing to tidy up, and libraries in C report interrupts as they like.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .standard_streams import open_streams

    open_streams()
    from .app import main

    try:
        main()
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 1
