"""The instructions of a run as columns: one row for each that came to its end, without synchronisation.

Rows are in the order of the program's queues, and in the order of each queue; that is also the order in which they
started on their engine. Instructions that differ in addresses alone share a *class*, which has all else that there is
to say of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from ...ir.graph import Graph
from ...ir.isa.footprint import Strided, footprint
from ...ir.isa.table import Instruction
from ...ir.plan import Plan
from ..cycles.costed_run import CostedRun
from ..cycles.fetched_tensors import fetched_tensors
from ..cycles.instruction_costs import InstructionCost

MOST_OPERANDS = 4
"""Operands of an instruction, at most."""


@dataclass(frozen=True)
class InstructionClass:
    """Instructions of one engine that differ in addresses alone.

    ``instruction`` is the first of them with all addresses 0, ``operands`` its footprint, from its own addresses on.
    """

    engine: str
    instruction: Instruction
    cost: InstructionCost
    operands: tuple[Strided, ...]


@dataclass(frozen=True)
class InstructionColumns:
    """``first[q]`` is the first row of queue q; there is one more entry, the number of rows.

    ``index`` is the position in the queue's stream, synchronisation included. ``op`` indexes the program's operators:
    that which an instruction is marked with; ``work_for`` is the operator that it works for, which differs where data
    is fetched from main memory for a later one, and ``tensor`` then what it fetches, as an index in ``tensors``, or -1.
    ``bases[r, n]`` is the address of operand n, in the order of the table of instructions (0 where there is none).
    ``releaser`` is the row of the instruction that it waited for (see :mod:`..cycles.critical_path`), or -1, and
    ``last`` that of the instruction with which the run ends.
    """

    first: np.ndarray
    index: np.ndarray
    start: np.ndarray
    end: np.ndarray
    op: np.ndarray
    work_for: np.ndarray
    tensor: np.ndarray
    class_of: np.ndarray
    bases: np.ndarray
    releaser: np.ndarray
    last: int
    classes: tuple[InstructionClass, ...]
    tensors: tuple[str, ...]

    @cached_property
    def queue(self) -> np.ndarray:
        """The queue of each row."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def of_class(self, values: Sequence[int], dtype: DTypeLike = np.int64) -> np.ndarray:
        """A value for each class, as a value for each row."""
        return np.array(values, dtype)[self.class_of] if len(self.class_of) else np.zeros(0, dtype)


def instruction_columns(graph: Graph, plan: Plan, run: CostedRun) -> InstructionColumns:
    """The columns of one run."""
    program, trace, path = run.program, run.trace, run.path
    fetched = fetched_tensors(graph, plan, program, run.machine)
    classes: dict[tuple[object, ...], int] = {}
    described: list[InstructionClass] = []
    tensors: dict[str, int] = {}
    rows: list[tuple[int, int, int, int, int, int]] = []
    bases: list[list[int]] = []
    first = [0]
    for queue, stream in zip(program.queues, program.streams, strict=True):
        ends = path.end[len(first) - 1]
        for index, instruction in enumerate(stream):
            row = instruction.row
            if row.kind == "sync" or ends[index] < 0:
                continue
            values = list(instruction.values)
            base = [0] * MOST_OPERANDS
            for number, operand in enumerate(row.operands):
                at = row.position[f"{operand.name}.base"]
                base[number], values[at] = int(values[at]), 0
            key = queue.engine, instruction.mnemonic, *values
            number = classes.setdefault(key, len(classes))
            if number == len(described):
                bare = replace(instruction, values=tuple(values))
                cost = run.costs[len(first) - 1][index]
                described.append(InstructionClass(queue.engine, bare, cost, footprint(bare)))
            work_for, tensor = fetched(instruction)
            fetched_number = tensors.setdefault(tensor, len(tensors)) if tensor else -1
            rows.append((len(first) - 1, index, instruction.op, work_for, fetched_number, number))
            bases.append(base)
        first.append(len(rows))
    queue_of, index_of, op, works, fetches, class_of = np.array(rows, np.int64).reshape(-1, 6).T
    row_of = [np.full(len(stream), -1, np.int64) for stream in program.streams]
    for queue, numbers in enumerate(row_of):
        rows_of_queue = slice(first[queue], first[queue + 1])
        numbers[index_of[rows_of_queue]] = np.arange(first[queue], first[queue + 1])
    releasers = [path.releaser(node) for node in zip(queue_of.tolist(), index_of.tolist(), strict=True)]
    last = path.last()
    return InstructionColumns(
        first=np.array(first, np.int64),
        index=index_of,
        start=_times_of_rows(trace.start, row_of),
        end=_times_of_rows(trace.end, row_of),
        op=op,
        work_for=works,
        tensor=fetches,
        class_of=class_of,
        bases=np.array(bases, np.int64).reshape(-1, MOST_OPERANDS),
        releaser=np.array([-1 if node is None else row_of[node[0]][node[1]] for node in releasers], np.int64),
        last=-1 if last is None else int(row_of[last[0]][last[1]]),
        classes=tuple(described),
        tensors=tuple(tensors),
    )


def _times_of_rows(times: Sequence[np.ndarray], row_of: Sequence[np.ndarray]) -> np.ndarray:
    """The times of all rows."""
    kept = [np.asarray(queue_times, np.int64)[rows >= 0] for queue_times, rows in zip(times, row_of, strict=True)]
    return np.concatenate([np.zeros(0, np.int64), *kept])
