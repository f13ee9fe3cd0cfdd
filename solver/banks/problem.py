"""The data of model 5: requests for room in one memory, and which of them should not share a bank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from ...ir.machine import Memory
from .first_fit import Item

PAIRS = 60
"""Weighted pairs in one constraint model, the heaviest first; chosen."""


@dataclass(frozen=True)
class BufferRequest:
    """``bytes`` in the memory during ``live`` and, if that is given, from ``again`` on.

    ``name`` is for messages, ``at`` an address from a valid placement of all requests, if one is known.
    """

    name: str
    bytes: int
    live: tuple[int, int]
    at: int | None = None
    again: int | None = None


@dataclass(frozen=True)
class BankProblem:
    """Requests of one memory, in units: sizes, which are never 0, and addresses are multiples of ``unit`` bytes."""

    requests: tuple[BufferRequest, ...]
    memory: Memory
    unit: int
    items: tuple[Item, ...]
    capacity: int
    bank: int
    """Units of a bank; 0 where banks do not matter."""
    pairs: tuple[tuple[int, int, int], ...]

    def conflict(self, at: Sequence[int]) -> int:
        """The weight of the pairs that share a bank."""
        if not self.bank:
            return 0
        first = [a // self.bank for a in at]
        last = [(a + item.size - 1) // self.bank for a, item in zip(at, self.items, strict=True)]
        return sum(w for i, j, w in self.pairs if first[i] <= last[j] and first[j] <= last[i])


def bank_problem(
    requests: tuple[BufferRequest, ...], memory: Memory, conflicts: tuple[tuple[int, int, float], ...]
) -> BankProblem:
    """The instance in units as large as sizes, known addresses and banks allow; ``conflicts`` are (i, j, weight)."""
    sizes = [-(-max(1, r.bytes) // memory.alignment) for r in requests]
    banked = memory.interleave == 0 and memory.banks > 1
    bank = memory.capacity // memory.banks // memory.alignment if banked else 0
    capacity = memory.capacity // memory.alignment
    known = (r.at // memory.alignment for r in requests if r.at is not None)
    step = gcd(*sizes, *known, bank) or 1
    merged: dict[tuple[int, int], int] = {}
    for i, j, w in conflicts:
        if bank and i != j and round(w) > 0:
            key = (min(i, j), max(i, j))
            merged[key] = merged.get(key, 0) + round(w)
    heaviest = sorted(merged.items(), key=lambda kv: (-kv[1], kv[0]))[:PAIRS]
    return BankProblem(
        requests,
        memory,
        step * memory.alignment,
        tuple(Item(s // step, *r.live, r.again) for s, r in zip(sizes, requests, strict=True)),
        capacity // step,
        bank // step,
        tuple((i, j, w) for (i, j), w in heaviest),
    )
