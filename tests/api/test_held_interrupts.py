"""Ctrl-C while modules are loaded, or while the last of a command is done."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Generator

import pytest

from girih.api.held_interrupts import finishing, whole_imports


@pytest.fixture(autouse=True)
def _handled() -> Generator[None]:  # pyright: ignore[reportUnusedFunction]
    before = [(n, signal.signal(n, signal.default_int_handler)) for n in (signal.SIGINT, signal.SIGTERM)]
    yield
    for number, handler in before:
        signal.signal(number, handler)


def test_an_interrupt_comes_after_the_import() -> None:
    steps: list[str] = []
    with pytest.raises(KeyboardInterrupt), whole_imports():
        signal.raise_signal(signal.SIGINT)
        steps.append("loaded")
    assert steps == ["loaded"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_import_that_fails_is_interrupted_as_well() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, whole_imports():
        signal.raise_signal(signal.SIGINT)
        raise ImportError
    assert isinstance(caught.value.__context__, ImportError)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_is_not_handled_is_left_alone(handler: signal.Handlers) -> None:
    signal.signal(signal.SIGINT, handler)
    with whole_imports(), finishing():
        assert signal.getsignal(signal.SIGINT) == handler
    assert signal.getsignal(signal.SIGINT) == handler


def test_other_threads_leave_interrupts_alone() -> None:
    seen: list[object] = []

    def load() -> None:
        with whole_imports(), finishing():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_interrupt_gives_up(number: signal.Signals) -> None:
    with finishing():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


INTERRUPTED = """
import os, signal, sys
import girih
from girih.models import build

class Interrupt:
    begun = False
    def find_spec(self, name, path=None, target=None):
        if name == {name!r} and not self.begun:
            self.begun = True
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
network = build("tiny-cnn").SerializeToString()
for _ in range(2):
    try:
        girih.{verb}(network, target="tiny", batch=1, solver_timeout=1)
        print("done")
    except KeyboardInterrupt:
        print("interrupted", {whole!r} in sys.modules)
"""


@pytest.mark.parametrize(
    ("name", "whole", "verb"),
    [
        ("networkx.algorithms.dag", "girih.api.compile", "compile"),
        ("tvm.relax", "girih.lowering.lowerer", "compile"),
        ("pandas.core.frame", "ortools.sat.python.cp_model", "compile"),
        ("tvm.relax", "ortools.sat.python.cp_model", "pareto"),
        ("pandas.core.frame", "ortools.sat.python.cp_model", "pareto"),
    ],
)
def test_after_an_interrupt_of_an_import_the_process_compiles(
    monkeypatch: pytest.MonkeyPatch, name: str, whole: str, verb: str
) -> None:
    """What was being loaded is whole when the interrupt comes."""
    monkeypatch.setenv("GIRIH_CACHE", "off")
    words = [sys.executable, "-c", INTERRUPTED.format(name=name, whole=whole, verb=verb)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.returncode) == (["interrupted", "True", "done"], 0), done.stderr
