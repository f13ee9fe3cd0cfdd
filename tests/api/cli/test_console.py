"""The command as a process: interrupts while it loads, and standard streams that are closed, full or not read."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CONSOLE = "from girih.api.cli.console import console; console()"
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")


def command(words: str, redirection: str) -> subprocess.CompletedProcess[str]:
    """The command with redirections in the syntax of the shell."""
    line = f'"{sys.executable}" -c "{CONSOLE}" {words} {redirection}'
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)


@needs_full
@pytest.mark.parametrize("words", ["targets", "targets --json", "--help"])
def test_a_full_disk_is_named(words: str) -> None:
    done = command(words, ">/dev/full")
    assert (done.returncode, done.stderr) == (2, "girih: cannot write to standard output: No space left on device\n")


@pytest.mark.parametrize("words", ["targets", "targets --json", "--version"])
def test_a_closed_standard_output_is_named(words: str) -> None:
    done = command(words, ">&-")
    assert (done.returncode, done.stderr) == (2, "girih: cannot write to standard output: it is closed\n")


@pytest.mark.parametrize("words", ["targets", "targets --json", "targets nothing --json"])
def test_a_pipe_without_a_reader_is_quiet(words: str) -> None:
    done = command(words, "| head -0; exit ${PIPESTATUS[0]}")
    named = "nothing" in words
    assert done.returncode == (2 if named else 141)
    assert bool(done.stderr) == named
    assert "Traceback" not in done.stderr


@needs_full
def test_the_exit_code_is_that_of_the_first_error(tmp_path: Path) -> None:
    done = command(f"run {tmp_path}/missing.girih --json", ">/dev/full")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"girih: usage error: there is no file {tmp_path}/missing.girih; `girih compile` makes one"
    ]


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "2>&- <&-"])
def test_a_standard_error_that_cannot_be_written_changes_nothing(redirection: str) -> None:
    if "full" in redirection and not FULL.exists():
        pytest.skip("there is no device that is always full")
    assert "tiny" in json.loads(command("targets --json", redirection).stdout)["targets"]
    assert command("targets nothing", redirection).returncode == 2


def test_no_file_gets_what_libraries_print(tmp_path: Path) -> None:
    """A file that is opened while descriptor 1 is closed would become the standard output of C++."""
    program = f"""
import os
from girih.api.cli import app, console
def main():
    with open({str(tmp_path / "file")!r}, "wb") as file:
        file.write(b"data")
        try:
            os.write(1, b"noise")
        except OSError:
            pass
app.main = main
console.console()
"""
    subprocess.run(["bash", "-c", '"$0" -c "$1" >&-', sys.executable, program], check=False)
    assert (tmp_path / "file").read_bytes() == b"data"


def test_the_command_begins_without_imports() -> None:
    """An interrupt of an import up to here would be a traceback: there must be next to none."""
    program = (
        "import sys; before = set(sys.modules); import girih.api.cli.console; print(*sorted({*sys.modules} - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["girih", "girih.api", "girih.api.cli", "girih.api.cli.console"]


INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
signal.signal(signal.SIGINT, signal.default_int_handler)
from girih.api.cli.console import console
console()
"""


@pytest.mark.parametrize("name", ["girih.api.cli.standard_streams", "girih.api.cli.app", "click", "girih.ir.errors"])
def test_an_interrupt_of_any_import_is_quiet(name: str) -> None:
    program = INTERRUPTED_IMPORT.format(name=name)
    done = subprocess.run([sys.executable, "-c", program, "targets"], capture_output=True, text=True, check=False)
    assert done.returncode in (-signal.SIGINT, 130)
    assert (done.stdout, done.stderr) == ("", "")


LOADING = """
import sys, types
from girih.api.cli.console import console

class Loading(types.ModuleType):
    def __getattr__(self, name):
        raise KeyboardInterrupt

sys.modules["girih.api.cli.app"] = Loading("girih.api.cli.app")
console()
"""


def test_an_interrupt_while_loading_is_quiet() -> None:
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_failed_import_is_an_internal_error_with_a_traceback() -> None:
    program = f"import sys; sys.modules['girih.api.cli.app'] = None; {CONSOLE}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" in done.stderr
    assert "girih.api.cli.app" in done.stderr.splitlines()[-1]


def test_lines_of_errors_are_written_at_once() -> None:
    program = """
import os, sys
from girih.api.cli.standard_streams import open_streams
open_streams()
sys.stderr.write("line\\n")
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == "line\n"


def test_the_command_ends_as_the_command_line_does() -> None:
    for words, code in (["--version"], 0), (["targets", "nothing"], 2):
        program = "from girih.api.cli.console import console; console()"
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert done.stdout or done.stderr
