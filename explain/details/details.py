"""Details on demand as one frozen noun: what was asked for, in the order in which it was asked."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.codec import to_json
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan
from ..compilation import Compilation
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
    tensors: tuple[TensorDetails, ...]
    segments: tuple[SegmentDetails, ...]
    memories: tuple[MemoryDetails, ...]
    models: tuple[ModelDetails, ...]

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

    def to_json(self) -> bytes:
        """Canonical JSON."""
        return to_json(self)


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
