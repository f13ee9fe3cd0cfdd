"""Operators that users bring: what is known of each, and which are registered in this process.

A plugin is a Python file that calls :func:`register_operator`, mostly as a decorator. The registry is the only state of
the process that a compilation follows from besides its arguments, so that :func:`digest` is part of the keys of caches.
"""

from __future__ import annotations

import hashlib
import marshal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any, Literal, TypeVar, cast, get_args

from .errors import GirihError, UsageError

Height = Literal["graph", "compute", "library"]
HEIGHTS: tuple[Height, ...] = get_args(Height)
F = TypeVar("F")

AT_MOST = "npu.at_most"
"""The attribute in TIR around a ``while`` that says how often it runs at most."""


@dataclass(frozen=True)
class CustomOperator:
    """An operator of a user for the nodes ``domain::name`` of ONNX models.

    ``function`` makes of the inputs, by position, and the node's attributes, by keyword: at the height ``graph`` a
    Relax expression of Relax expressions, at ``compute`` te tensors of te tensors, at ``library`` it is, or returns, a
    PrimFunc. ``template(schedule, tile)`` schedules it; ``None``: the templates by kind do. ``file`` and ``line`` are
    where it is registered, and ``sha256`` is of the file's bytes, or of the function's code where there is no file.
    """

    domain: str
    name: str
    height: Height
    function: Any
    template: Callable[..., Any] | None = None
    file: str = ""
    line: int = 0
    sha256: str = field(default="", repr=False)

    @property
    def key(self) -> str:
        """As :attr:`girih.ir.graph.Op.template` names it."""
        return f"{self.domain}::{self.name}"

    @property
    def place(self) -> str:
        """File and line, for messages."""
        return f"{self.file}:{self.line}"


_registered: dict[str, CustomOperator] = {}
_shipped: dict[str, CustomOperator] = {}
"""What ships with the compiler, of the height ``library``; users may register others under the same names."""


def ship_operator(domain: str, name: str) -> Callable[[F], F]:
    """A decorator for the library operators that ship with the compiler."""

    def ship(function: F) -> F:
        code: CodeType = cast("Any", function).__code__
        operator = CustomOperator(domain, name, "library", function, None, code.co_filename, code.co_firstlineno)
        _shipped[operator.key] = operator
        return function

    return ship


def register_operator(
    domain: str, name: str, *, height: Height = "compute", template: Callable[..., Any] | None = None
) -> Callable[[F], F]:
    """A decorator that registers a function as the operator of the ONNX nodes ``domain::name``.

    See :class:`CustomOperator` for the function and for ``template``. Raises :class:`UsageError` for a name that is
    registered already, for an unknown height, and for what cannot be a function or a name.
    """
    caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    file, line = caller.f_code.co_filename, caller.f_lineno
    domain = "" if domain == "ai.onnx" else domain

    def register(function: F) -> F:
        code: CodeType | None = getattr(function, "__code__", None)
        first = line if code is None or code.co_filename != file else code.co_firstlineno
        place = Path(file)
        content = place.read_bytes() if place.is_file() else _code_bytes(function) + _code_bytes(template)
        _add(
            CustomOperator(
                domain,
                name,
                height,
                function,
                template,
                file,
                first,
                hashlib.sha256(content).hexdigest(),
            )
        )
        return function

    return register


def _code_bytes(function: object) -> bytes:
    """What a function without a file does, such as one that is typed into a notebook."""
    code: CodeType | None = getattr(function, "__code__", None)
    return str(function).encode() if code is None else marshal.dumps(code)


def _add(operator: CustomOperator) -> None:
    where = f"{operator.place}: the operator {operator.key}"
    if not all(isinstance(cast("object", text), str) for text in (operator.domain, operator.name)) or not operator.name:
        raise UsageError(f"{where}: domain and name are texts, and the name is not empty")
    if operator.height not in HEIGHTS:
        raise UsageError(f"{where}: there is no height {operator.height!r}; choose one of {', '.join(HEIGHTS)}")
    if operator.height != "library" and not callable(operator.function):
        raise UsageError(f"{where}: what is registered is no function, but of type {type(operator.function).__name__}")
    if operator.template is not None and not callable(operator.template):
        raise UsageError(f"{where}: its template is no function, but of type {type(operator.template).__name__}")
    if operator.template is not None and operator.height != "compute":
        raise UsageError(f"{where}: only operators of the height compute have a template, not {operator.height}")
    if operator.key in _registered:
        raise UsageError(f"{where} is registered twice, first at {_registered[operator.key].place}; rename one of them")
    _registered[operator.key] = operator


def find_operator(domain: str, name: str) -> CustomOperator | None:
    """The registered operator of the ONNX nodes ``domain::name``, if there is one."""
    key = f"{'' if domain == 'ai.onnx' else domain}::{name}"
    return _registered.get(key) or _shipped.get(key)


def operator_by_key(key: str) -> CustomOperator:
    """The operator that :attr:`girih.ir.graph.Op.template` names; :class:`UsageError` if its plugin is not loaded."""
    operator = _registered.get(key) or _shipped.get(key)
    if operator is None:
        raise UsageError(f"the operator {key} is not registered; give the plugin that has it (--plugin FILE.py)")
    return operator


def shipped_operators() -> tuple[CustomOperator, ...]:
    """All that ships with the compiler, by key."""
    return tuple(_shipped[key] for key in sorted(_shipped))


def operators() -> tuple[CustomOperator, ...]:
    """All that is registered, by key."""
    return tuple(_registered[key] for key in sorted(_registered))


def digest() -> str:
    """The SHA-256 of what is registered: keys, heights and contents of the files; empty if nothing is."""
    rows = [f"{o.key} {o.height} {o.template is not None} {o.sha256}" for o in operators()]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest() if rows else ""


@contextmanager
def all_or_nothing() -> Generator[None]:
    """What is registered inside stays so only if nothing is raised."""
    before = dict(_registered)
    try:
        yield
    except BaseException:
        _registered.clear()
        _registered.update(before)
        raise


@contextmanager
def registered_for_now() -> Generator[None]:
    """What is registered inside is forgotten at the end."""
    before = dict(_registered)
    try:
        yield
    finally:
        _registered.clear()
        _registered.update(before)


@contextmanager
def blaming(operator: CustomOperator, doing: str) -> Generator[None]:
    """An exception inside becomes a :class:`UsageError` that names the user's file and line, and what was being done.

    So does ``sys.exit()``, which would end the compiler without a word. The line is the innermost one of the user's
    file that was being executed, else where the operator is registered. Errors of ours pass as they are.
    """
    try:
        yield
    except GirihError:
        raise
    except (Exception, SystemExit) as error:
        line, trace = operator.line, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == operator.file:
                line = trace.tb_lineno
            trace = trace.tb_next
        raise UsageError(
            f"{operator.file}:{line}: {doing} of the operator {operator.key} failed: {_message(error)}"
        ) from error


def _message(error: BaseException) -> str:
    """Kind and message of an exception; of TVM's errors of schedules, which hold the whole function, first and last."""
    kind = type(error).__name__
    text = str(error).strip().removeprefix(f"{kind}: ")
    head, _, reason = text.partition("\nError message: ")
    return f"{kind}: {head.splitlines()[0]} {reason}" if reason else f"{kind}: {text}".removesuffix(": ")
