"""Every error that a user can meet, by kind; the kind decides the exit code of the command line."""

from __future__ import annotations

from typing import Self


class GirihError(Exception):
    """An expected failure. The message says what, where, by how much, and what to change."""

    exit_code = 1

    @property
    def lines(self) -> tuple[str, ...]:
        """The message: one line, whatever names are in it, but for several problems at once."""
        return (str(self),)

    def worded(self, message: str) -> Self:
        """The same failure, told by another message."""
        return type(self)(message)


class UsageError(GirihError):
    """Wrong usage or wrong input: the user can mend it."""

    exit_code = 2


class ProblemsError(UsageError):
    """All that is wrong with an input, a line for each problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self._problems = problems

    @property
    def lines(self) -> tuple[str, ...]:
        return self._problems


class UnsupportedError(GirihError):
    """A well-formed input that this version cannot compile."""

    exit_code = 3


class EngineTypeError(UnsupportedError):
    """An engine computes nothing of a type: ``engine`` names it, and ``key`` the key of its table in the machine file
    that lists what it does (``lanes``, ``rate``)."""

    def __init__(self, message: str, engine: str, key: str) -> None:
        super().__init__(message)
        self.engine = engine
        self.key = key

    def __reduce__(self) -> tuple[type[EngineTypeError], tuple[str, str, str]]:
        return EngineTypeError, (str(self), self.engine, self.key)

    def worded(self, message: str) -> Self:
        """The same failure, told by another message."""
        return type(self)(message, self.engine, self.key)


class InfeasibleError(GirihError):
    """No plan exists for this graph on this machine, or none was found: the message says which of the two, and names
    the operator and the shortfall."""

    exit_code = 4


class CheckError(GirihError):
    """An independent check found a plan, a program or a result to be wrong."""

    exit_code = 5


def wrong_type(name: str, value: object, wanted: str) -> UsageError:
    """The error for a value of a wrong type."""
    shown = repr(value)
    if len(shown) > 60:
        shown = f"{shown[:57]}..."
    return UsageError(f"{name} is {shown}, of type {type(value).__name__}; pass {wanted}")
