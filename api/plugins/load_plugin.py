"""Loads plugins.

A plugin is loaded whole or not at all: whatever it raises, nothing that it registered stays.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points
from os import PathLike
from pathlib import Path
from types import CodeType, ModuleType

from ...ir.custom_operators import all_or_nothing, operators, registered_for_now
from ...ir.errors import GirihError, UsageError
from ...ir.files import as_path

GROUP = "girih.operators"
"""The entry points that packages have plugins in: modules that register on import, or functions that do when called."""


def load_plugin(path: str | PathLike[str]) -> None:
    """Run a Python file that registers operators; one that is loaded already, unchanged, is left alone.

    Raises :class:`UsageError` with file and line for whatever goes wrong in it.
    """
    file = Path(as_path("plugin", path)).resolve()
    try:
        source = file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the plugin {file}: {error.strerror}") from error
    digest = sha256(source).hexdigest()
    if any((o.file, o.sha256) == (str(file), digest) for o in operators()):
        return
    name = f"girih_plugin_{digest[:12]}_{file.stem}"
    module = ModuleType(name)
    module.__file__ = str(file)
    before = len(operators())
    with all_or_nothing():
        code = _parsed(source, file)
        sys.modules[name] = module  # Where dataclasses and TVMScript look for the module of a class.
        try:
            exec(code, module.__dict__)
        except GirihError:
            sys.modules.pop(name)
            raise
        except (Exception, SystemExit) as error:
            sys.modules.pop(name)
            raise UsageError(f"{file}:{_line(error, file)}: the plugin raises {_shown(error)}") from error
        if len(operators()) == before:
            raise UsageError(f"{file}: the plugin registers no operator; it does with girih.register_operator")


def _parsed(source: bytes, file: Path) -> CodeType:
    try:
        return compile(source, str(file), "exec")
    except SyntaxError as error:
        raise UsageError(f"{file}:{error.lineno or 1}: the plugin is not Python: {error.msg}") from error
    except ValueError as error:
        raise UsageError(f"{file}: the plugin is not Python: {error}") from error


def _line(error: BaseException, file: Path) -> int:
    """The innermost line of the file that was being executed."""
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


@cache
def load_installed() -> None:
    """Load what installed packages have in the group ``girih.operators``, once; names the package that is broken."""
    for entry in sorted(entry_points(group=GROUP), key=lambda e: (e.name, e.value)):
        try:
            with all_or_nothing():
                target = entry.load()
                if callable(target):
                    target()
        except Exception as error:
            package = entry.dist.name if entry.dist is not None else entry.module
            raise UsageError(
                f"the package {package} cannot register its operators ({entry.value}): {_shown(error)}; mend or "
                "remove it"
            ) from error


@contextmanager
def loaded(paths: Sequence[str | PathLike[str]]) -> Generator[None]:
    """The installed plugins and those of files; what the files register is forgotten at the end."""
    load_installed()
    with registered_for_now():
        for path in paths:
            load_plugin(path)
        yield
