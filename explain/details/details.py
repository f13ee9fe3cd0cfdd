"""Details on demand as one frozen noun: what was asked for, in the order in which it was asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...ir.codec import from_json, to_json
from ...ir.errors import UsageError
from ...ir.files import write_text
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.notebook.fragments import preformatted
from ...ir.plan import Plan
from ..compilation import Compilation
from ..file_formats import DETAILS_FORMATS, file_format
from ..model_answers import Log, model_rows
from .alternatives import Alternatives, no_alternatives
from .memory_details import MemoryDetails, memory_details
from .model_details import ModelDetails, model_details
from .names import find_name, find_operators, find_segment, find_tensor
from .operator_details import OperatorDetails, operator_details
from .segment_details import SegmentDetails, segment_details
from .tensor_details import TensorDetails, tensor_details
from .text.memory_text import memory_text
from .text.model_text import model_text
from .text.operator_text import operator_text
from .text.segment_text import segment_text
from .text.tensor_text import tensor_text

FORMAT = 1
"""The version of the JSON; it grows when a key changes its meaning or goes."""

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
    """All about each thing that was named; ``format`` is the version of this JSON."""

    operators: tuple[OperatorDetails, ...]
    tensors: tuple[TensorDetails, ...]
    segments: tuple[SegmentDetails, ...]
    memories: tuple[MemoryDetails, ...]
    models: tuple[ModelDetails, ...]
    format: int = FORMAT

    def text(self, width: int = COLUMNS) -> str:
        """For so many columns."""
        lines = [line for operator in self.operators for line in operator_text(operator, width)]
        lines += [line for tensor in self.tensors for line in tensor_text(tensor, width)]
        lines += [line for segment in self.segments for line in segment_text(segment, width)]
        lines += [line for memory in self.memories for line in memory_text(memory, width)]
        lines += [line for model in self.models for line in model_text(model, width)]
        return "\n".join(lines).strip("\n")

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return preformatted(self.text())

    def to_json(self) -> bytes:
        """Canonical JSON."""
        return to_json(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Details:
        """Read back what :meth:`to_json` wrote; raises :class:`UsageError` for JSON of another version."""
        details = from_json(data, cls)
        if details.format != FORMAT:
            raise UsageError(f"details of format {details.format}; this version reads format {FORMAT}: explain again")
        return details

    def save(self, path: str | Path, format: str | None = None) -> None:
        """Write JSON to ``*.json``, text to ``*.txt``, ``*.md`` or a name without a suffix.

        Raises :class:`UsageError` for other names, and for those that contradict ``format``.
        """
        texts = {"text": self.text, "json": lambda: self.to_json().decode()}
        write_text(path, f"{texts[file_format(path, format, DETAILS_FORMATS)]()}\n")


def resolved(subjects: Subjects, graph: Graph, plan: Plan, machine: Machine, log: Log) -> Subjects:
    """The same by the names of files; raises :class:`UsageError` for a name that is not there, with what is near."""
    memories = [memory.name for memory in machine.memories]
    models = [row.model for row in model_rows(plan, log)]
    operators = (op for name in subjects.operators for op in find_operators(graph, name))
    return Subjects(
        operators=tuple(dict.fromkeys(operators)),
        tensors=tuple(dict.fromkeys(find_tensor(graph, name) for name in subjects.tensors)),
        segments=tuple(dict.fromkeys(str(find_segment(plan, text)) for text in subjects.segments)),
        memories=tuple(dict.fromkeys(find_name("memory", name, memories) for name in subjects.memories)),
        models=tuple(dict.fromkeys(find_name("model", name, models) for name in subjects.models)),
    )


def build_details(
    compilation: Compilation, subjects: Subjects, alternatives: Alternatives = no_alternatives
) -> Details:
    """All about ``subjects``, which are :func:`resolved`."""
    return Details(
        operators=tuple(operator_details(compilation, name, alternatives) for name in subjects.operators),
        tensors=tuple(tensor_details(compilation, name) for name in subjects.tensors),
        segments=tuple(segment_details(compilation, int(index)) for index in subjects.segments),
        memories=tuple(memory_details(compilation, name) for name in subjects.memories),
        models=tuple(model_details(compilation, name) for name in subjects.models),
    )
