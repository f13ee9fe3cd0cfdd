"""How much of what each bank of a memory can serve was asked for, over time.

An instruction's traffic to an operand crosses evenly while its engine works, and is spread evenly over the addresses
that the operand covers (a walk with gaps may in truth meet its banks unevenly). Where more is asked for than a bank
serves, the simulator slows all that touch it: bank conflicts. It counts the cycles lost by memory and core, not by
bank.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from ...ir.machine import Machine, Memory
from .instruction_columns import InstructionColumns
from .memory_accesses import Accesses, MemoryAccesses


def bank_load(
    machine: Machine, columns: InstructionColumns, accesses: MemoryAccesses, memory: int, core: int | None,
    cycles: int, bins: int,
) -> np.ndarray:  # fmt: skip
    """(banks, bins): the mean share of a bank's bytes a cycle that is asked for, in ``bins`` equal parts of the run."""
    described, touched = machine.memories[memory], accesses.of(memory, core)
    traffic = np.array(
        [[*c.cost.cost.traffic, 0, 0, 0, 0][: columns.bases.shape[1]] for c in columns.classes], np.float64
    ).reshape(-1, columns.bases.shape[1])
    served = traffic[columns.class_of[touched.row], touched.operand]
    begin = columns.start[touched.row] + columns.of_class([c.cost.cost.issue for c in columns.classes])[touched.row]
    end = np.maximum(columns.end[touched.row], begin + 1)
    edges = np.arange(bins + 1) * max(1, cycles) / bins
    shares = _bank_shares(described, touched)
    rows: list[np.ndarray] = []
    for bank in range(described.banks):
        part = shares[:, bank] > 0
        moved = _moved(begin[part], end[part], served[part] * shares[part, bank], edges)
        rows.append(np.diff(moved) / np.diff(edges) / described.bytes_per_cycle)
    return np.array(rows)


def _bank_shares(memory: Memory, accesses: Accesses) -> np.ndarray:
    """(accesses, banks): the part of the covered addresses that is in each bank."""
    size = memory.interleave or ceil(memory.capacity / memory.banks)
    turn = size * memory.banks
    low, high = accesses.low.astype(np.float64), accesses.high.astype(np.float64)
    starts = np.arange(memory.banks) * size

    def before(address: np.ndarray) -> np.ndarray:
        """Bytes of each bank below an address."""
        whole, rest = np.divmod(address, turn)
        return whole[:, None] * size + np.clip(rest[:, None] - starts, 0, size)

    return (before(high) - before(low)) / np.maximum(1, high - low)[:, None]


def _moved(begin: np.ndarray, end: np.ndarray, count: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The bytes moved before each of ``edges``, if each access moves its bytes evenly."""
    moments = np.concatenate([np.zeros(1), begin, end])
    rate = np.concatenate([np.zeros(1), count / (end - begin), -count / (end - begin)])
    order = np.argsort(moments, kind="stable")
    level = np.cumsum(np.cumsum(rate[order])[:-1] * np.diff(moments[order]))
    return np.interp(edges, moments[order], np.concatenate([np.zeros(1), level]))
