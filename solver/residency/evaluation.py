"""What each residency decision costs, and the timing that follows: the judge of all residency decisions.

Slot s begins at P[s] and computes for c[s] cycles. The link to main memory serves one transfer after the other: slot by
slot, those that are issued in a slot after it has begun; first the stores of what the slot before wrote, then fetches
in the order of their use, at last what passes through circular buffers. Each use waits for its own transfer alone:

    A[r] = max(A[the transfer before], P[slot of issue of r]) + cycles of r
    P[s+1] = max(P[s] + c[s], A[r] + remaining, ...)   for each fetch r of something that slot s uses

with the cycles of the slot's work that remain to be done when the data has arrived. Each decision has an
:class:`Effect` on load and on the bytes held; effects of decisions add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .decisions import Decisions, NoFetch, ResidencyTiming, Source
from .problem import ResidencyProblem


class Effect(NamedTuple):
    """What one decision adds: (slot, cycles) of ``load``, (first slot, the one after the last, bytes) ``held``."""

    load: tuple[tuple[int, int], ...] = ()
    held: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class ItemFetch:
    """A transfer of ``cycles`` for use ``k`` of item ``i`` in slot ``use``; it ends ``remaining`` cycles before the
    slot's end at the latest."""

    use: int
    i: int
    k: int
    cycles: int
    remaining: int

    @property
    def order(self) -> tuple[int, int, int]:
        """What is issued in one slot is served in this order."""
        return self.use, self.i, self.k


@dataclass(frozen=True)
class CircularTransfer:
    """All fetches of a circular buffer: of so many ``cycles``, of which the first ``before`` come before the slot's
    work, and ``remaining`` cycles of that come after the last."""

    cycles: int
    before: int
    remaining: int


def fetch_of(problem: ResidencyProblem, i: int, k: int) -> ItemFetch:
    """The fetch for use ``k`` of item ``i``."""
    item = problem.items[i]
    use = item.uses[k]
    return ItemFetch(use.slot, i, k, item.cycles, problem.remaining(item, use))


def circular_transfer(problem: ResidencyProblem, operand: tuple[str, int], option: int) -> CircularTransfer:
    """What circular buffer ``option`` of an operand moves in its slot."""
    buffer, cycles = problem.circular[operand][option], problem.cycles[operand[1]]
    first = int(buffer.first_phase_bytes / problem.rate)
    return CircularTransfer(problem.circular_cycles(buffer), first, cycles // buffer.ring_positions)


def source_effect(problem: ResidencyProblem, i: int, k: int, source: Source) -> Effect:
    """Use ``k`` of item ``i`` is served by ``source``."""
    item = problem.items[i]
    use = item.uses[k]
    if source is NoFetch.RETAINED:
        return Effect(held=((item.uses[k - 1].slot + 1, use.slot + 1, item.bytes),))
    if isinstance(source, NoFetch):
        return Effect()
    return Effect(((source, item.cycles),), ((source, use.slot + 1, item.bytes),))


def circular_effect(problem: ResidencyProblem, operand: tuple[str, int], option: int) -> Effect:
    """A streamed operand passes through a circular buffer in its slot."""
    buffer, slot = problem.circular[operand][option], operand[1]
    return Effect(((slot, problem.circular_cycles(buffer)),), ((slot, slot + 1, buffer.bytes),))


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


def link_load(slots: int, effects: Iterable[Effect]) -> NDArray[np.int64]:
    """Cycles of the link by slot; the last entry is what the last of the ``slots`` stores."""
    load = np.zeros(slots + 1, dtype=np.int64)
    for effect in effects:
        for slot, cycles in effect.load:
            load[slot] += cycles
    return load


def held_bytes(slots: int, effects: Iterable[Effect]) -> NDArray[np.int64]:
    """Bytes of the shared memory by slot."""
    held = np.zeros(slots, dtype=np.int64)
    for effect in effects:
        for first, stop, size in effect.held:
            held[first:stop] += size
    return held


def stored_cycles(problem: ResidencyProblem, resident: Iterable[bool]) -> list[int]:
    """By slot, cycles of the link for stores of what the slot before wrote; last what follows the last slot."""
    ways = (resident_effect(problem, p) if stays else spilled_effect(problem, p) for p, stays in enumerate(resident))
    return link_load(len(problem.cycles), ways).tolist()


def circular_transfers(problem: ResidencyProblem, decisions: Decisions) -> list[list[CircularTransfer]]:
    """By slot, what passes through circular buffers."""
    circular: list[list[CircularTransfer]] = [[] for _ in problem.cycles]
    for operand, option in decisions.circular.items():
        circular[operand[1]].append(circular_transfer(problem, operand, option))
    return circular


def evaluate_decisions(problem: ResidencyProblem, decisions: Decisions) -> ResidencyTiming:
    """What the decisions cost."""
    stores, circular = stored_cycles(problem, decisions.resident), circular_transfers(problem, decisions)
    issued: list[list[ItemFetch]] = [[] for _ in problem.cycles]
    for i, row in enumerate(decisions.source):
        for k, source in enumerate(row):
            if not isinstance(source, NoFetch):
                issued[source].append(fetch_of(problem, i, k))
    begin = [0]
    link = traffic = 0
    least = [0] * len(problem.cycles)
    """By slot, when it ends at the earliest, by what it has to wait for."""
    for s, cycles in enumerate(problem.cycles):
        link = max(link, begin[s]) + stores[s]
        traffic += stores[s]
        for fetch in sorted(issued[s], key=attrgetter("order")):
            link += fetch.cycles
            traffic += fetch.cycles
            least[fetch.use] = max(least[fetch.use], link + fetch.remaining)
        for transfer in circular[s]:
            least[s] = max(least[s], link + transfer.before + cycles, link + transfer.cycles + transfer.remaining)
            link += transfer.cycles
            traffic += transfer.cycles
        begin.append(max(begin[s] + cycles, least[s]))
    end = max(link, begin[-1]) + stores[-1]
    return ResidencyTiming(tuple(begin), end, traffic + stores[-1])
