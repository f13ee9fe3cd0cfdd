"""How long a run of operators takes on one core when its queues overlap what they can.

Queues issue in order, operator by operator, and operators that use the accumulator memory take turns in it. So what
overlaps is an operator of one engine alone with the next one of the other; and an operator that streams (it works
through its tiles in the order of its inputs, with all weights at hand) may start when a first part of an input is
there, where others wait for the whole.

    matrix  | q | k | v | scores |        | context |
    vector  | q | k | v | scores | softmax  | context |
                                     ^ context starts when the first part of softmax is done
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.semantics.box_arrays import Bool, Int
from ..tiling.problem import LEADING


@dataclass(frozen=True)
class OperatorTiming:
    """One operator, for each cut: cycles ``alone``, busy cycles of the two engines, and whether it streams.

    ``sources``: positions in the chain of the operators whose results it reads.
    """

    alone: Int
    matrix: Int
    vector: Int
    streams: Bool
    sources: tuple[int, ...]


def makespan(operators: Sequence[OperatorTiming]) -> Int:
    """Cycles from the first start to the last end, for each cut."""
    zero = np.zeros_like(operators[0].alone)
    matrix_free, vector_free = zero, zero
    starts: list[Int] = []
    ends: list[Int] = []
    for operator in operators:
        part = operator.alone // LEADING
        begin = np.where(operator.matrix > 0, matrix_free, vector_free)
        end = zero
        for source in operator.sources:
            producer = operators[source]
            streams = operator.streams & producer.streams
            first = starts[source] + producer.alone // LEADING
            begin = np.maximum(begin, np.where(streams, first, ends[source]))
            end = np.maximum(end, ends[source] + part)
        end = np.maximum.reduce([end, begin + operator.alone, vector_free + operator.vector])
        matrix_free = np.where(operator.matrix > 0, end, matrix_free)
        vector_free = np.where(operator.vector > 0, end, vector_free)
        starts.append(begin)
        ends.append(end)
    return np.maximum.reduce(ends)
