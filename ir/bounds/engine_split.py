"""The fewest cycles of plans that put matrix work on the vector engine: a split of contractions between both engines.

Contraction i takes ``m_i`` cycles on the matrix engines, or ``c_i`` on the vector engines, which have V cycles of other
work. A plan that gives the contractions S to the vector engine takes max(Σ_{i ∉ S} m_i, V + Σ_{i ∈ S} c_i) at least.
The minimum over S is that of a knapsack; it is relaxed to fractions, of which those with the least c_i / m_i come first
(Dantzig, Operations Research 5, 1957). S is not empty here, so that one contraction, each in turn, is in S as a whole.
A contraction that alone makes the vector engines take longer than a bound of the other plans cannot be in S of a plan
that beats it: it is left to the matrix engines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, order=True)
class Contraction:
    """Cycles on the ``matrix`` engines, or on the ``vector`` engines: a plan runs an operator on one of them."""

    matrix: float
    vector: float

    @property
    def ratio(self) -> float:
        """Cycles of the vector engines for a cycle that the matrix engines save."""
        return self.vector / self.matrix if self.matrix else inf


@dataclass(frozen=True)
class EngineSplit:
    """``cycles`` that both engines take at least, and the ``ratio`` of the contraction that is moved last.

    Cycles of the matrix engines, weighted by ratio, and those of the vector engines, weighted by 1, have a mean that no
    split can make smaller than if each contraction were where it weighs less: that mean is the relaxation's dual.
    """

    cycles: float
    ratio: float

    def weighted(self, contractions: Mapping[str, Contraction], vector: Mapping[str, float]) -> dict[str, float]:
        """Cycles by operator that no split avoids on both engines, however few operators are counted."""
        share = self.ratio / (1.0 + self.ratio)
        by_op = {name: min(share * c.matrix, (1.0 - share) * c.vector) for name, c in contractions.items()}
        return {n: by_op.get(n, 0.0) + (1.0 - share) * vector.get(n, 0.0) for n in dict.fromkeys((*by_op, *vector))}


def least_split(movable: Sequence[Contraction], matrix: float, vector: float) -> EngineSplit:
    """The least cycles of plans that run at least one of the contractions ``movable`` on the vector engines.

    ``matrix`` and ``vector`` are cycles of other work of these engines. There is no such plan without contractions.
    """
    order = sorted(movable, key=lambda c: (c.ratio, c))
    matrix += sum(c.matrix for c in order)
    first = {c: n for n, c in enumerate(order)}
    splits = [
        _fractional([*order[:n], *order[n + 1 :]], matrix - moved.matrix, vector + moved.vector)
        for moved, n in first.items()
    ]
    return min(splits, key=lambda split: split.cycles, default=EngineSplit(inf, 0.0))


def _fractional(order: Sequence[Contraction], matrix: float, vector: float) -> EngineSplit:
    """Of plans in which fractions of contractions, in this order, move to the vector engines."""
    ratio = 0.0
    for contraction in order:
        if matrix <= vector or contraction.ratio == inf:
            break
        moved = min(1.0, (matrix - vector) / (contraction.matrix + contraction.vector))
        matrix -= moved * contraction.matrix
        vector += moved * contraction.vector
        ratio = contraction.ratio
    return EngineSplit(max(matrix, vector), ratio)
