"""How much of what each bank of a memory can serve was used, over time, and when more was asked for.

An instruction's traffic to an operand crosses evenly while its engine works, and is spread evenly over the addresses
that the operand covers (a walk with gaps may in truth meet its banks unevenly). What it asks for is that traffic in the
cycles that it takes alone. Where more is asked of a bank than it serves, the simulator slows all that touch it: bank
conflicts. It counts the cycles lost by memory and core, not by bank.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from ...ir.machine import Machine, Memory
from .instruction_columns import InstructionColumns
from .memory_accesses import Accesses, MemoryAccesses

_TOLERANCE = 1e-6
"""Rounding of rates that add up to what a bank serves."""


@dataclass(frozen=True)
class BankLoad:
    """Both are (banks, bins), for equal parts of the run.

    ``used``: the mean share of a bank's bytes a cycle. ``overloaded``: the share of the cycles in which instructions
    asked for more than the bank serves.
    """

    used: np.ndarray
    overloaded: np.ndarray


def bank_load(
    machine: Machine, columns: InstructionColumns, accesses: MemoryAccesses, memory: int, core: int | None,
    cycles: int, bins: int,
) -> BankLoad:  # fmt: skip
    """The load of the banks of one memory of ``core``, or of the cluster, in ``bins`` equal parts of the run."""
    described, touched = machine.memories[memory], accesses.of_memory(memory, core)
    costs = [c.cost.cost for c in columns.classes]
    operands = columns.bases.shape[1]
    traffic = np.array([[*c.traffic, *[0] * operands][:operands] for c in costs], np.float64).reshape(-1, operands)
    served = traffic[columns.class_of[touched.row], touched.operand]
    begin = columns.start[touched.row] + columns.of_class([c.issue for c in costs])[touched.row]
    end = np.maximum(columns.end[touched.row], begin + 1)
    # A transfer asks for what its links leave it.
    alone = columns.of_class([0 if c.links else c.body for c in costs])[touched.row]
    alone = np.where(alone > 0, np.maximum(alone, 1), end - begin)
    edges = np.arange(bins + 1) * max(1, cycles) / bins
    shares = _bank_shares(described, touched)
    used, overloaded = np.zeros((described.banks, bins)), np.zeros((described.banks, bins))
    for bank in range(described.banks):
        part = shares[:, bank] > 0
        count = served[part] * shares[part, bank]
        times, rate = _rates(begin[part], end[part], count / (end - begin)[part])
        used[bank] = _means(times, rate / described.bytes_per_cycle, edges)
        times, rate = _rates(begin[part], end[part], count / alone[part])
        overloaded[bank] = _means(times, rate > described.bytes_per_cycle * (1 + _TOLERANCE), edges)
    return BankLoad(used, overloaded)


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


def _rates(begin: np.ndarray, end: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(times, sum): the sum of the rates that hold from each of these cycles on."""
    moments = np.concatenate([np.zeros(1), begin, end])
    changes = np.concatenate([np.zeros(1), rate, -rate])
    order = np.argsort(moments, kind="stable")
    return moments[order], np.cumsum(changes[order])


def _means(times: np.ndarray, values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The mean of a step function between the edges."""
    integral = np.concatenate([np.zeros(1), np.cumsum(values[:-1] * np.diff(times))])
    return np.diff(np.interp(edges, times, integral)) / np.diff(edges)
