"""A perfect nest of loops: one store, whose indices are affine in the loops."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.box import Affine


@dataclass(frozen=True)
class Load:
    """``buffer[index...]``; where a condition fails (each affine must be >= 0) it yields ``fill``."""

    buffer: str
    index: tuple[Affine, ...]
    conditions: tuple[Affine, ...] = ()
    fill: float | None = None

    def __str__(self) -> str:
        text = _element(self.buffer, self.index)
        return f"({text} if {_all(self.conditions)} else {self.fill:g})" if self.conditions else text


@dataclass(frozen=True)
class PerfectNest:
    """``buffer[index...] = func(*operands)``, combined with the old value if ``combine`` is set.

    The loops run from 0; ``conditions`` (each affine >= 0) guard the store. A contraction has func "mul" and combine
    "sum". ``instruction`` is the family of instructions that the user asks for, and ``axes`` says of each loop which
    field of them it shall be (:mod:`girih.lowering.schedule.hints`); both may be empty.
    """

    extents: tuple[int, ...]
    buffer: str
    index: tuple[Affine, ...]
    func: str
    operands: tuple[Load | float, ...]
    combine: str | None
    conditions: tuple[Affine, ...]
    instruction: str = ""
    axes: tuple[str, ...] = ()

    def __str__(self) -> str:
        fields = self.axes or ("",) * len(self.extents)
        loops = ", ".join(
            f"i{a} < {extent}{field and f' ({field})'}"
            for a, (extent, field) in enumerate(zip(self.extents, fields, strict=True))
        )
        value = f"{self.func}({', '.join(str(o) if isinstance(o, Load) else f'{o:g}' for o in self.operands)})"
        hint = f" by {self.instruction}" if self.instruction else ""
        guard = f" if {_all(self.conditions)}" if self.conditions else ""
        return f"for {loops}: {_element(self.buffer, self.index)} {self.combine or ''}= {value}{guard}{hint}"


def _element(buffer: str, index: tuple[Affine, ...]) -> str:
    return f"{buffer}[{', '.join(map(_sum, index))}]"


def _all(conditions: tuple[Affine, ...]) -> str:
    return " and ".join(f"{_sum(c)} >= 0" for c in conditions)


def _sum(affine: Affine) -> str:
    terms = [f"i{a}" if c == 1 else f"{c}*i{a}" for a, c in enumerate(affine.coeffs) if c]
    if affine.const or not terms:
        terms.append(str(affine.const))
    return " + ".join(terms).replace("+ -", "- ")
