"""Linear index expressions over named axes, and exact division of them.

Division is where reshapes, grouped convolutions and flattened heads come from: ``(64*h + d) // 64`` is ``h``. Where the
quotient is not linear, splitting one axis into two often makes it so; :class:`SplitAxis` and :class:`CutAxis` say
which, and whoever owns the loop does it and tries again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class NotAffine(Exception):
    """This access has no linear form; the message says why."""


class Retry(Exception):
    """The loop must change before the expression has a linear form."""

    axis: str


class SplitAxis(Retry):
    """Replace ``axis`` by two: an outer one, and an inner one of extent ``factor``."""

    def __init__(self, axis: str, factor: int) -> None:
        super().__init__(axis, factor)
        self.axis = axis
        self.factor = factor


class CutAxis(Retry):
    """Run the loop as two: the axis below ``at``, and from ``at`` on."""

    def __init__(self, axis: str, at: int) -> None:
        super().__init__(axis, at)
        self.axis = axis
        self.at = at


@dataclass(frozen=True)
class Linear:
    """``sum(coefficient * axis) + const``; the terms are sorted by axis and none is zero."""

    terms: tuple[tuple[str, int], ...] = ()
    const: int = 0

    @staticmethod
    def from_terms(terms: Mapping[str, int], const: int = 0) -> Linear:
        return Linear(tuple(sorted((a, c) for a, c in terms.items() if c)), const)

    @staticmethod
    def axis(name: str) -> Linear:
        return Linear(((name, 1),))

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(a for a, _ in self.terms)

    def coefficient(self, axis: str) -> int:
        return next((c for a, c in self.terms if a == axis), 0)

    @property
    def single(self) -> str | None:
        """The axis, if this is exactly one axis."""
        if self.const == 0 and len(self.terms) == 1 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return None

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for a, c in other.terms:
            terms[a] = terms.get(a, 0) + c
        return Linear.from_terms(terms, self.const + other.const)

    def __mul__(self, factor: int) -> Linear:
        return Linear.from_terms({a: c * factor for a, c in self.terms}, self.const * factor)

    def __sub__(self, other: Linear) -> Linear:
        return self + other * -1

    def substitute(self, values: Mapping[str, Linear]) -> Linear:
        if not any(a in values for a, _ in self.terms):
            return self
        result = Linear((), self.const)
        for a, c in self.terms:
            result = result + (values[a] * c if a in values else Linear(((a, c),)))
        return result

    def bounds(self, extents: Mapping[str, int]) -> tuple[int, int]:
        """The smallest and the largest value, both inclusive."""
        lo = hi = self.const
        for a, c in self.terms:
            reach = c * (extents[a] - 1)
            lo += min(0, reach)
            hi += max(0, reach)
        return lo, hi

    def divide(self, by: int, extents: Mapping[str, int]) -> tuple[Linear, Linear]:
        """Floor quotient and remainder, both linear; raises a :class:`Retry` or :class:`NotAffine`."""
        if by <= 0:
            raise NotAffine(f"division by {by}")
        quotient = Linear.from_terms({a: c // by for a, c in self.terms}, self.const // by)
        rest = Linear.from_terms({a: c % by for a, c in self.terms}, self.const % by)
        lo, hi = rest.bounds(extents)
        if lo // by == hi // by:
            whole = lo // by
            return quotient + Linear((), whole), rest + Linear((), -whole * by)
        for a, c in sorted(rest.terms, key=lambda term: -term[1] * extents[term[0]]):
            factor = by // c
            if by % c == 0 and 1 < factor < extents[a] and extents[a] % factor == 0:
                raise SplitAxis(a, factor)
        if len(rest.terms) == 1 and hi // by - lo // by <= 8:
            ((a, c),) = rest.terms
            raise CutAxis(a, -((rest.const - by) // c))
        raise NotAffine(f"{self} divided by {by}")

    def __str__(self) -> str:
        parts = [a if c == 1 else f"{c}*{a}" for a, c in self.terms]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)
