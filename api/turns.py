"""What the whole process has once: threads that compile or check at the same time use it in turns.

TVM's importer keeps scopes in global variables, and its output is silenced by exchanging that of the process. Models
that a compiled network is explained by are kept with it, and every thread that explains it has the same ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")

TVM = threading.RLock()
"""Held by compilations and curves while they import, lower or simulate, by runs while they check, or compute a host
operator, and by explanations while they look for alternatives. A thread may take it again, as one that compiles from a
listener does."""


def in_turns(function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
    """The function, which only one thread at a time is in."""

    @wraps(function)
    def alone(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        with TVM:
            return function(*args, **kwargs)

    return alone
