"""Checks the types of arguments of the Python API; an error says what to pass instead."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsFloat, SupportsIndex, TypeVar, cast

from ..ir.errors import wrong_type


def whole(name: str, value: object) -> int:
    """A whole number, of Python or NumPy."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise wrong_type(name, value, "a whole number")
    try:
        return operator.index(value)
    except TypeError as error:
        # An array looks like a number, but only one without dimensions is one.
        raise wrong_type(name, value, "a whole number") from error


Function = TypeVar("Function", bound=Callable[..., Any])


def listener(name: str, value: Function | None) -> Function | None:
    """A function that is called with what happens, or ``None``."""
    if value is not None and not callable(cast("object", value)):
        raise wrong_type(name, value, "a function of one argument, a Progress")
    return value


def text(name: str, value: object, choices: Sequence[str] = ()) -> str:
    """A text, also of NumPy or another class of texts; an error names the ``choices``, if there are any."""
    if not isinstance(value, str):
        raise wrong_type(name, value, f"one of {', '.join(choices)}" if choices else "a text")
    return str(value)


def number(name: str, value: object) -> float:
    """A number, which may be infinite or NaN."""
    if isinstance(value, (bool, str, bytes)) or not isinstance(value, SupportsFloat):
        raise wrong_type(name, value, "a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError) as error:
        raise wrong_type(name, value, "a number") from error


def named(name: str, value: object) -> dict[str, Any]:
    """A mapping whose keys are names."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in cast("Mapping[object, Any]", value)):
        raise wrong_type(name, value, "a dictionary whose keys are names")
    return dict(cast("Mapping[str, Any]", value))


def names(name: str, value: object, *, numbers: bool = False) -> tuple[str, ...]:
    """A sequence of names, or also of whole numbers, as text; a text alone is none: it would be one of letters."""
    wanted = "a list of numbers" if numbers else "a list of names"
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise wrong_type(name, value, f"{wanted}, such as [{value!r}]" if isinstance(value, (str, int)) else wanted)
    items = cast("Sequence[object]", value)
    if not all(isinstance(item, str) or (numbers and isinstance(item, SupportsIndex)) for item in items):
        raise wrong_type(name, value, wanted)
    return tuple(str(item) if isinstance(item, str) else str(whole(name, item)) for item in items)
