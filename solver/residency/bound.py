"""What no decisions of residency can beat, without a solver: all computation, all bytes that must move at least once,
and what runs of slots need at once.

What the slots i to j use is held when slot i begins, or comes after that. With U(i, j), its bytes, R_i, the room in
slot i, n_i, what slot i itself adds to what is held, c_i, its cycles, and B, the most bytes a cycle that the link
moves, what remains of the run when slot i begins is at least

    T_i = max(T_(i+1) + c_i, T_(j+1) + (U(i, j) - R_i + n_i) / B for each j >= i)

Nothing is held when the first slot begins. U leaves out intermediates that are first written in slot i or later. Any
runs give a bound; those of up to :data:`LONGEST_RUN` slots are taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .decisions import STALL_WEIGHT
from .problem import FetchItem, ResidencyProblem

LONGEST_RUN = 256
"""Slots of a run at most, or the time would grow with the square of them. Chosen: ResNet-50 at batch 16 has 238."""


def lower_bound(problem: ResidencyProblem, room: NDArray[np.int64]) -> int:
    """No decisions have a smaller objective if slot ``s`` has ``room[s]`` bytes."""
    moved = _moved(problem)
    return STALL_WEIGHT * max(_end(problem, room), moved) + moved


def _moved(problem: ResidencyProblem) -> int:
    """Cycles of the link for what must move at least once."""
    circular = {tensor for tensor, _ in problem.circular}
    moved = sum(
        min(block.cycles, int(block.bytes / problem.rate)) if item.streamed in circular else block.cycles
        for item in problem.items
        if item.intermediate is None
        for block in item.blocks
    )
    return moved + sum(
        tensor.block.cycles if tensor.may_be_resident else sum(block.cycles for _, block in tensor.writes)
        for tensor in problem.intermediates
        if tensor.stored
    )


def _end(problem: ResidencyProblem, room: NDArray[np.int64]) -> int:
    """Cycles until the last slot ends."""
    slots, items = len(problem.cycles), len(problem.items)
    best_rate = max([problem.rate, *(item.bytes / item.cycles for item in problem.items)])
    adds = np.zeros(slots, dtype=np.int64)
    first_written: list[list[int]] = [[] for _ in range(slots)]
    for p, tensor in enumerate(problem.intermediates):
        slot, block = tensor.writes[0]
        adds[slot] += block.bytes
        first_written[slot].append(items + p)
    uses: list[Counter[int]] = [Counter() for _ in range(slots)]
    for i, item in enumerate(problem.items):
        # Items that read one intermediate overlap.
        number = i if item.intermediate is None else items + item.intermediate
        for slot, size in _sizes(problem, item):
            uses[slot][number] = max(uses[slot][number], size)
    next_use: dict[int, tuple[int, int]] = {}
    used_first = np.zeros(slots, dtype=np.int64)
    """By slot, bytes that it is the first to use of those from the present one on."""
    remaining = np.zeros(slots + 1)
    for s in reversed(range(slots)):
        for number, size in uses[s].items():
            later, before = next_use.get(number, (s, 0))
            used_first[later] -= before
            used_first[s] += size
            next_use[number] = s, size
        for number in first_written[s]:
            later, before = next_use.pop(number, (s, 0))
            used_first[later] -= before
        stop = min(slots, s + LONGEST_RUN)
        held = room[s] - adds[s] if s else 0
        waits = (np.cumsum(used_first[s:stop]) - held) / best_rate + remaining[s + 1 : stop + 1]
        remaining[s] = max(remaining[s + 1] + problem.cycles[s], waits.max())
    return int(remaining[0])


def _sizes(problem: ResidencyProblem, item: FetchItem) -> Iterator[tuple[int, int]]:
    """Slots that use an item, and how many bytes of it are there or come for that at least."""
    for use in item.uses:
        operand = item.streamed or "", use.slot
        # A circular buffer leaves out what the slot does not use of an item; what it moves, it does for all of them.
        shares = (buffer.traffic / problem.streamed_bytes[operand] for buffer in problem.circular.get(operand, ()))
        yield use.slot, int(item.bytes * min([1.0, *shares]))
