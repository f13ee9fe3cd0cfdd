"""What each residency decision costs, and the timing that follows: stated here for evaluation, greedy and the model.

Slot s begins at P[s] and computes for c[s] cycles. The link to main memory serves in order; what is issued in slots up
to s has arrived at D[s]:

    D[s] = max(D[s-1], P[s]) + load[s]        load[s]: fetches issued in s, stores of what slot s - 1 wrote
    P[s+1] = max(P[s] + c[s], D[f] + remaining, ...)   for each fetch, issued in slot f, of something that slot s uses

Each decision has an :class:`Effect` on load, on the bytes held and on these waits. Effects of decisions add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .decisions import STALL_WEIGHT, Decisions, NoFetch, Source, Timing
from .problem import ResidencyProblem


class FetchWait(NamedTuple):
    """``slot`` ends no earlier than ``remaining`` cycles after what was issued up to slot ``issued`` has arrived."""

    slot: int
    issued: int
    remaining: int


class Inline(NamedTuple):
    """A transfer of ``cycles`` at the begin of the ``slot`` that uses it: after it and those before it in the same
    slot, ``remaining`` cycles of the slot's work are still to be done."""

    slot: int
    cycles: int
    remaining: int


class Effect(NamedTuple):
    """What one decision adds: (slot, cycles) of ``load``, (first slot, the one after the last, bytes) ``held``."""

    load: tuple[tuple[int, int], ...] = ()
    held: tuple[tuple[int, int, int], ...] = ()
    wait: FetchWait | None = None
    inline: Inline | None = None


def source_effect(problem: ResidencyProblem, i: int, k: int, source: Source) -> Effect:
    """Use ``k`` of item ``i`` is served by ``source``."""
    item = problem.items[i]
    use = item.uses[k]
    if source is NoFetch.RETAINED:
        return Effect(held=((item.uses[k - 1].slot + 1, use.slot + 1, item.bytes),))
    if isinstance(source, NoFetch):
        return Effect()
    return Effect(
        ((source, item.cycles),),
        ((source, use.slot + 1, item.bytes),),
        FetchWait(use.slot, source, problem.remaining(item, use)),
        Inline(use.slot, item.cycles, use.remaining) if source == use.slot else None,
    )


def circular_effect(problem: ResidencyProblem, operand: tuple[str, int], option: int) -> Effect:
    """A streamed operand passes through a circular buffer in its slot."""
    buffer, slot = problem.circular[operand][option], operand[1]
    cycles = problem.cycles[slot]
    return Effect(
        ((slot, problem.circular_cycles(buffer)),),
        ((slot, slot + 1, buffer.bytes),),
        FetchWait(slot, slot, cycles // buffer.ring_positions),
        Inline(slot, int(buffer.first_phase_bytes / problem.rate), cycles),
    )


def resident_effect(problem: ResidencyProblem, p: int) -> Effect:
    """Intermediate ``p`` stays in the shared memory for its life; it is stored once if main memory needs it, too."""
    tensor = problem.intermediates[p]
    load = ((tensor.writes[0][0] + 1, tensor.block.cycles),) if tensor.stored else ()
    return Effect(load, ((*tensor.live, tensor.block.bytes),))


def spilled_effect(problem: ResidencyProblem, p: int) -> Effect:
    """Intermediate ``p`` is stored to main memory as it is written."""
    writes = problem.intermediates[p].writes
    return Effect(
        tuple((slot + 1, block.cycles) for slot, block in writes),
        tuple((slot, slot + 1, block.bytes) for slot, block in writes),
    )


def effects(problem: ResidencyProblem, decisions: Decisions) -> Iterator[Effect]:
    """The effects of all decisions."""
    for p, resident in enumerate(decisions.resident):
        yield resident_effect(problem, p) if resident else spilled_effect(problem, p)
    for i, row in enumerate(decisions.source):
        for k, source in enumerate(row):
            yield source_effect(problem, i, k, source)
    for operand, option in decisions.circular.items():
        yield circular_effect(problem, operand, option)


def link_load(slots: int, of: Iterable[Effect]) -> NDArray[np.int64]:
    """Cycles of the link by slot; the last entry is what the last of the ``slots`` stores."""
    load = np.zeros(slots + 1, dtype=np.int64)
    for effect in of:
        for slot, cycles in effect.load:
            load[slot] += cycles
    return load


def held_bytes(slots: int, of: Iterable[Effect]) -> NDArray[np.int64]:
    """Bytes of the shared memory by slot."""
    held = np.zeros(slots, dtype=np.int64)
    for effect in of:
        for first, stop, size in effect.held:
            held[first:stop] += size
    return held


def slot_waits(cycles: Sequence[int], of: Iterable[Effect]) -> tuple[list[list[tuple[int, int]]], list[int]]:
    """By slot: (slot of issue, remaining cycles) of each fetch that it waits for; and the least duration of the slot,
    with what is transferred inline."""
    waits: list[list[tuple[int, int]]] = [[] for _ in cycles]
    moved = [0] * len(cycles)
    duration = list(cycles)
    for effect in of:
        if effect.wait is not None:
            waits[effect.wait.slot].append((effect.wait.issued, effect.wait.remaining))
        if effect.inline is not None:
            slot = effect.inline.slot
            moved[slot] += effect.inline.cycles
            duration[slot] = max(duration[slot], moved[slot] + effect.inline.remaining)
    return waits, duration


def evaluate_decisions(problem: ResidencyProblem, decisions: Decisions) -> Timing:
    """What the decisions cost."""
    added = list(effects(problem, decisions))
    load: list[int] = link_load(len(problem.cycles), added).tolist()
    waits, duration = slot_waits(problem.cycles, added)
    begin, done = [0], list[int]()
    for s, least in enumerate(duration):
        done.append(max(done[-1] if done else 0, begin[s]) + load[s])
        begin.append(max([begin[s] + least, *(done[f] + remaining for f, remaining in waits[s])]))
    end = max(done[-1] if done else 0, begin[-1]) + load[-1]
    return Timing(tuple(begin), tuple(done), end, sum(load))


def lower_bound(problem: ResidencyProblem) -> int:
    """No decisions have a smaller objective: all computation, and each byte that must move at least once."""
    circular = {tensor for tensor, _ in problem.circular}
    moved = sum(
        min(block.cycles, int(block.bytes / problem.rate)) if item.streamed in circular else block.cycles
        for item in problem.items
        if item.intermediate is None
        for block in item.blocks
    )
    moved += sum(
        tensor.block.cycles if tensor.may_be_resident else sum(block.cycles for _, block in tensor.writes)
        for tensor in problem.intermediates
        if tensor.stored
    )
    return STALL_WEIGHT * max(sum(problem.cycles), moved) + moved
