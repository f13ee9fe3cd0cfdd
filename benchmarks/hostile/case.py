"""A hostile case, and what came of it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from girih.ir.errors import CheckError, GirihError

Verdict = Literal["refused", "right", "internal error", "wrong result", "too slow"]
"""``refused``: with a :class:`GirihError`, which is what a wrong input deserves. ``right``: accepted, and what came out
is what it should be. The others are defects."""

DEFECTS: tuple[Verdict, ...] = ("internal error", "wrong result", "too slow")


class WrongResultError(Exception):
    """An input was accepted, and what came out of it is not what it means; the message says by how much."""


@dataclass(frozen=True)
class Case:
    """One hostile input: ``data`` is the file, ``options`` say how it is used.

    ``kind`` groups cases that are made alike; ``change`` says in one line what is hostile about this one.
    """

    family: str
    kind: str
    change: str
    data: bytes = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Outcome:
    """What came of a case; ``message`` is the error's, and ``where`` its place in the code if it is a defect."""

    family: str
    kind: str
    change: str
    verdict: Verdict
    message: str
    where: str
    seconds: float

    @property
    def is_defect(self) -> bool:
        return self.verdict in DEFECTS


@dataclass(frozen=True)
class Family:
    """Makes cases from a seed, without end or not, and attempts one.

    ``share`` is this family's part of all cases, relative to the shares of the others: families whose cases take long
    have fewer. ``attempt`` returns if the input was accepted and the result is right; it raises :class:`GirihError` if
    it was refused, :class:`WrongResultError` or :class:`CheckError` if the result is wrong.
    """

    cases: Callable[[int], Iterator[Case]]
    attempt: Callable[[Case], None]
    share: int = 1


def judge(case: Case, attempt: Callable[[Case], None]) -> Outcome:
    """Attempt a case and classify what comes of it; never raises an :class:`Exception`."""
    started = time.perf_counter()

    def outcome(verdict: Verdict, message: str = "", where: str = "") -> Outcome:
        seconds = round(time.perf_counter() - started, 3)
        return Outcome(case.family, case.kind, case.change, verdict, message, where, seconds)

    try:
        attempt(case)
    except (CheckError, WrongResultError) as error:
        return outcome("wrong result", str(error), place_of(error))
    except GirihError as error:
        if not str(error).strip():
            return outcome("internal error", f"{type(error).__name__} without a message", place_of(error))
        return outcome("refused", str(error))
    except Exception as error:
        return outcome("internal error", f"{type(error).__name__}: {error}", place_of(error))
    return outcome("right")


def place_of(error: BaseException) -> str:
    """File, line and function of the innermost frames: ours, and below it the one that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    our_frames = [f for f in frames if "site-packages" not in f.filename and f.filename != __file__]
    places = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in (*frames[-1:], *reversed(our_frames[-2:]))]
    return " < ".join(dict.fromkeys(places))
