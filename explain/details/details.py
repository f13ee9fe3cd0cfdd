"""Details on demand as one frozen noun: what was asked for, in the order in which it was asked."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.codec import to_json
from ...ir.graph import Graph
from ...ir.plan import Plan
from ..compilation import Compilation
from .alternatives import Alternatives, no_alternatives
from .names import find_operators
from .operator_details import OperatorDetails, operator_details
from .text.operator_text import operator_text

COLUMNS = 80
"""Of text that is not for a terminal."""


@dataclass(frozen=True)
class Subjects:
    """What is asked for, by name; segments by number, as text."""

    operators: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()
    models: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any((self.operators, self.tensors, self.segments, self.memories, self.models))


@dataclass(frozen=True)
class Details:
    """The answers. Rows are documented where they are defined."""

    operators: tuple[OperatorDetails, ...]

    def text(self, width: int = COLUMNS) -> str:
        """For so many columns."""
        lines = [line for op in self.operators for line in operator_text(op, width)]
        return "\n".join(lines).strip("\n")

    def __str__(self) -> str:
        return self.text()

    def to_json(self) -> bytes:
        """Canonical JSON."""
        return to_json(self)


def resolved(subjects: Subjects, graph: Graph, plan: Plan) -> Subjects:
    """The same by the names of files; raises :class:`UsageError` for a name that is not there, with what is near."""
    operators = dict.fromkeys(op for name in subjects.operators for op in find_operators(graph, name))
    return Subjects(operators=tuple(operators))


def build_details(
    compilation: Compilation, subjects: Subjects, alternatives: Alternatives = no_alternatives
) -> Details:
    """All about ``subjects``, which are :func:`resolved`."""
    return Details(
        operators=tuple(operator_details(compilation, op, alternatives) for op in subjects.operators),
    )
