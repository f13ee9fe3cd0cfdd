"""Shared links and reused memory in the predicted timeline: who waits for bandwidth, and who for an address."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from ...ir.machine import Machine
from ..cost.instructions import Transfer

REMEMBERED = 4096
"""Changes of a link's load that are remembered; what is older counts as free. Chosen, not measured."""


class _Load:
    """The bandwidth that is left of one link: ``left[i]`` bytes a cycle from ``times[i]`` on."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.times = [0.0]
        self.left = [rate]

    def carry(self, start: float, size: float, limit: float) -> float:
        """Take up to ``limit`` bytes a cycle of what is left from ``start`` on; when ``size`` bytes are through."""
        times, left = self.times, self.left
        if len(times) > REMEMBERED:
            del times[: REMEMBERED // 2], left[: REMEMBERED // 2]
            times[0] = 0.0
        i = self._split(start)
        time = start
        while True:
            if left[i] > _LEAST * self.rate:
                speed = min(limit, left[i])
                stop = time + size / speed
                if i + 1 == len(times) or stop <= times[i + 1]:
                    # What is too short for the clock's resolution takes nothing.
                    if self._split(stop) > i:
                        left[i] -= speed
                    return stop
                size -= speed * (times[i + 1] - time)
                left[i] -= speed
            i += 1
            time = times[i]

    def _split(self, at: float) -> int:
        """The index of a change at this time; made if there is none."""
        i = bisect_right(self.times, at) - 1
        if self.times[i] == at:
            return i
        self.times.insert(i + 1, at)
        self.left.insert(i + 1, self.left[i])
        return i + 1


_LEAST = 1e-6
"""A smaller share of a link is none: what rounding leaves over."""


class Links:
    """The bandwidth of all links over time.

    Transfers come in program order and not in that of time: each takes what those before it have left from its start
    on, so none holds up what can run before it.
    """

    def __init__(self, machine: Machine) -> None:
        self._loads = {link.name: _Load(link.bytes_per_cycle) for link in machine.links}

    def body(self, start: float, transfer: Transfer, copies: int = 1) -> float:
        """When the last byte of ``copies`` equal transfers that start together has moved."""
        stop = start + transfer.payload / transfer.rate
        for name, size in transfer.links:
            limit = copies * transfer.rate * size / transfer.payload
            stop = max(stop, self._loads[name].carry(start, size * copies, limit))
        return stop


@dataclass
class Area:
    """Bytes of a memory during one lifetime: free from ``floor``, used until ``last``, readable from ``ready`` on."""

    low: int
    high: int
    floor: float
    last: float = 0.0
    ready: float = 0.0

    def use(self, stop: float) -> None:
        if stop > self.last:
            self.last = stop


@dataclass
class Space:
    """The lifetimes in one memory, so far."""

    areas: list[Area] = field(default_factory=list[Area])
    top: int = 0
    """Nothing was above."""

    def open(self, low: int, size: int) -> Area:
        """A new lifetime of these bytes, which waits for everything that used them."""
        high = low + size
        if low >= self.top:
            self.top = high
            self.areas.append(Area(low, high, 0.0))
            return self.areas[-1]
        self.top = max(self.top, high)
        floor = 0.0
        left: list[Area] = []
        for old in self.areas:
            if old.low >= high or low >= old.high:
                left.append(old)
                continue
            floor = max(floor, old.floor, old.last)
            if not (low <= old.low and old.high <= high):
                left.append(old)
        new = Area(low, high, floor)
        left.append(new)
        self.areas = left
        return new
