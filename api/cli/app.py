"""The command line: its commands, and what happens to their errors."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

import click

from ...explain.units import printable
from ...ir.errors import GirihError, UnsupportedError
from .cache_command import cache_command
from .compile_command import compile_command
from .completion.completion_command import completion_command
from .diff_command import diff_command
from .explain_command import explain_command
from .inspect_commands import (
    disasm_command,
    lower_command,
    models_command,
    ops_command,
    plan_command,
    schema_command,
    targets_command,
)
from .output import dump
from .pareto.pareto_command import pareto_command
from .run_command import run_command
from .standard_streams import OutputError

_STATUS = {1: "internal_error", 2: "usage_error", 3: "unsupported", 4: "infeasible", 5: "check_failed"}
_UNREAD = 141
"""The exit code of what writes to a pipe that nobody reads, as of a process that SIGPIPE ends."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="girih", prog_name="girih")
def cli() -> None:
    """Compile neural networks for domain-specific accelerators, and simulate the result.

    \b
    A first tour:
      girih models resnet50 -o resnet50.onnx
      girih compile resnet50.onnx -o resnet50.girih --precision fp16 --batch 32
      girih run resnet50.girih --check
      girih explain resnet50.girih

    Exit codes: 0 done, 1 internal error, 2 wrong usage or input, 3 unsupported, 4 infeasible, 5 check failed.
    """


for _command in (
    compile_command, run_command, explain_command, diff_command, pareto_command, plan_command, disasm_command,
    lower_command, targets_command, models_command, ops_command, schema_command, cache_command, completion_command,
):  # fmt: skip
    cli.add_command(_command)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code; every error becomes a short message."""
    try:
        _main(args)
    except OutputError as error:
        if not error.unread:
            click.echo(f"girih: {error}", err=True)
        sys.exit(_UNREAD if error.unread else 2)


def _main(args: Sequence[str] | None) -> NoReturn:
    words = list(sys.argv[1:] if args is None else args)
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        received.append(number)
        # While the solver works, it takes note of this, too, and keeps the best plan so far.
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    # A shell may have told a command in the background to ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL):
        signal.signal(signal.SIGINT, interrupt)
    try:
        result = cli.main(words, prog_name="girih", standalone_mode=False)
        sys.exit(result if isinstance(result, int) else 0)
    except OutputError:
        raise
    except click.ClickException as error:
        _debug()
        error.show()
        _fail(words, 2, error.format_message())
    except (click.Abort, KeyboardInterrupt):
        _interrupted(words, received)
    except GirihError as error:
        _debug()
        if isinstance(error, UnsupportedError) and (received or _began_with_interrupt(error)):
            # TVM turns an interrupt into an error, and the importer that into an operator that is not supported.
            _interrupted(words, received)
        # Names in a message are those of files, and may hold whatever moves the cursor.
        message = "\n".join(map(printable, error.lines))
        click.echo(f"girih: {_STATUS[error.exit_code].replace('_', ' ')}: {message}", err=True)
        _fail(words, error.exit_code, str(error))
    except Exception as error:
        _debug()
        if received or _began_with_interrupt(error):
            _interrupted(words, received)
        message = f"{type(error).__name__}: {error}".strip()
        click.echo(
            f"girih: internal error: {message}\n"
            "This is a bug in Girih. Please report this message, the command and, if you can, the model; "
            "GIRIH_DEBUG=1 shows where it happened.",
            err=True,
        )
        _fail(words, 1, message)


def _began_with_interrupt(error: BaseException) -> bool:
    """Libraries in C++ turn an interrupt into an error of their own, which some of them chain to it."""
    cause = error.__cause__ or error.__context__
    return cause is not None and (isinstance(cause, KeyboardInterrupt) or _began_with_interrupt(cause))


def _interrupted(words: Sequence[str], received: Sequence[int]) -> NoReturn:
    click.echo("girih: interrupted; no file is half-written", err=True)
    if "--json" in words:
        _echo_error({"status": "interrupted", "error": "interrupted"})
    sys.exit(128 + (received or [signal.SIGINT])[0])


def _fail(words: Sequence[str], code: int, message: str) -> NoReturn:
    if "--json" in words:
        _echo_error({"status": _STATUS[code], "error": message})
    sys.exit(code)


def _echo_error(data: Mapping[str, object]) -> None:
    """Print the object, if it can be: standard error has said what is wrong, and that is what the exit code is of."""
    with suppress(OutputError):
        click.echo(dump(data))


def _debug() -> None:
    if os.environ.get("GIRIH_DEBUG"):
        traceback.print_exc()
