"""The buffers that fill a memory where the plan takes most of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.plan import LocalBuffer, Plan, SharedBuffer
from ..memory_use import peak_of


@dataclass(frozen=True)
class Peak:
    """Where a memory is fullest: ``bytes`` in slot ``slot`` of the plan (-1: it is never used).

    ``buffers`` are the numbers of the buffers that live then, the largest first. ``bytes`` can be less than their sum:
    what several share counts once.
    """

    bytes: int
    slot: int
    buffers: tuple[int, ...]


def shared_peak(buffers: Sequence[SharedBuffer]) -> Peak:
    """The peak of a memory of the cluster."""
    most, slot = peak_of((*b.live, b.address, b.bytes) for b in buffers)
    if not most:
        return Peak(0, -1, ())
    live = [n for n, b in enumerate(buffers) if b.live[0] <= slot < b.live[1]]
    return Peak(most, slot, tuple(sorted(live, key=lambda n: (-buffers[n].bytes, n))))


def local_peak(plan: Plan, buffers: Sequence[LocalBuffer]) -> Peak:
    """The peak of a memory of the cores: in the first step of the segment that takes most of it."""
    best = Peak(0, -1, ())
    by_segment: dict[int, list[int]] = {}
    for number, buffer in enumerate(buffers):
        by_segment.setdefault(buffer.segment, []).append(number)
    for segment in sorted(by_segment):
        numbers = by_segment[segment]
        most, position = peak_of((*buffers[n].live, buffers[n].address, buffers[n].bytes) for n in numbers)
        if most > best.bytes:
            live = [n for n in numbers if buffers[n].live[0] <= position < buffers[n].live[1]]
            slot = _first_slot(plan, segment) + position
            best = Peak(most, slot, tuple(sorted(live, key=lambda n: (-buffers[n].bytes, n))))
    return best


def _first_slot(plan: Plan, segment: int) -> int:
    slot = 0
    for step in plan.steps:
        if step.segment == segment:
            break
        slot += len(plan.segments[step.segment].ops)
    return slot
