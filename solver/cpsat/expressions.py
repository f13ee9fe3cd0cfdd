"""Linear expressions that grow term by term."""

from __future__ import annotations

from dataclasses import dataclass, field

from .backend import Expr, Var, weighted


@dataclass
class Sum:
    """A linear expression under construction."""

    terms: list[Var] = field(default_factory=list[Var])
    weights: list[int] = field(default_factory=list[int])
    constant: int = 0

    def add(self, weight: int, *terms: Var) -> None:
        self.terms.extend(terms)
        self.weights.extend([weight] * len(terms))

    def plus(self, weight: int, term: Var | None) -> None:
        """A term, or, if there is none, its weight."""
        if term is None:
            self.constant += weight
        else:
            self.add(weight, term)

    @property
    def expr(self) -> Expr:
        return weighted(self.terms, self.weights) + self.constant

    @property
    def most(self) -> int:
        return sum(w for w in self.weights if w > 0) + self.constant
