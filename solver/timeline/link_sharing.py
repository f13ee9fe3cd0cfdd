"""Shared links and reused memory in the predicted timeline: who waits for bandwidth, and who for an address."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...ir.machine import Link, Machine
from ...ir.plan import SharedBuffer
from ..cost.copy_time import CopyTime, bytes_served, slow_memories
from .parts_in_use import PartsInUse

REMEMBERED = 4096
"""Changes of a link's load that are remembered; before them, it counts as loaded as after the oldest. Chosen, not
measured."""


DmaQueue = Literal["dma in", "dma out"]
"""A queue of DMA, which yields bandwidth to others."""
Reached = tuple[tuple[int, int], ...]
"""Bytes of a buffer, counted from its first: intervals, one for each copy."""
Delay = Callable[[DmaQueue, float, float], None]
"""Hears that a DMA queue is done later with all that it has left at a time, by so many cycles."""


def _crossing(link: Link, homes: Collection[str]) -> tuple[DmaQueue, ...]:
    """The DMA queues that cross a link, of memories with ``homes`` or of the shared one."""
    sides = {(link.direction == "read") == (name in homes) for name in link.memories}
    if link.direction == "both" or len(sides) > 1:
        return "dma in", "dma out"
    return ("dma in",) if sides == {True} else ("dma out",)


class _BandwidthLoad:
    """The bandwidth of one link over time, in bytes a cycle: from ``times[i]`` on, ``rows[i]`` is what is left, and for
    each DMA queue that crosses the link, at its ``place`` and the next one, what it holds and what it works with."""

    def __init__(self, rate: float, queues: Sequence[DmaQueue]) -> None:
        self.rate = rate
        self.times = [0.0]
        self.rows = [[rate, *[0.0] * (2 * len(queues))]]
        self._place: dict[DmaQueue, int] = {queue: 1 + 2 * number for number, queue in enumerate(queues)}
        self._others: dict[DmaQueue | None, list[tuple[DmaQueue, int]]] = {
            queue: [(other, place) for other, place in self._place.items() if other != queue]
            for queue in (*queues, None)
        }

    def carry(
        self, start: float, size: float, limit: float, share: float, kept: float, queue: DmaQueue | None
    ) -> _Carried:
        """Take up to ``limit`` bytes a cycle from ``start`` on, until ``size`` bytes are through.

        This is what is left; where that is less than ``share``, DMA yields the rest, so far as it holds more than
        ``kept``. What a core holds is not taken back, but does not keep DMA from its share either.
        """
        times, rows = self.times, self.rows
        if len(times) > REMEMBERED:
            del times[: REMEMBERED // 2], rows[: REMEMBERED // 2]
            times[0] = 0.0
        share = min(share, limit)
        others = self._others[queue]
        delays: list[tuple[DmaQueue, float, float]] = []
        i = self._split(start)
        time, least = start, _LEAST * min(limit, self.rate)
        while True:
            row = rows[i]
            speed = min(limit, row[0])
            if speed < share:
                yielded = 0.0
                for _, place in others:
                    if row[place] > kept:
                        yielded += row[place] - kept
                speed = share if queue else min(share, speed + yielded)
            if speed > least:
                stop = time + size / speed
                ends = i + 1 == len(times) or stop <= times[i + 1]
                until = stop if ends else times[i + 1]
                # What is too short for the clock's resolution takes nothing.
                if not ends or self._split(stop) > i:
                    missing = speed - row[0]
                    row[0] = max(0.0, -missing)
                    if missing > 0.0:
                        for other, place in others:
                            cut = min(missing, row[place] - kept)
                            if cut > 0.0:
                                row[place] -= cut
                                missing -= cut
                                delays.append((other, time, cut / row[place + 1] * (until - time)))
                    if queue:
                        place = self._place[queue]
                        row[place] += speed
                        row[place + 1] += speed
                if ends:
                    return stop, delays
                size -= speed * (until - time)
            i += 1
            time = times[i]

    def _split(self, at: float) -> int:
        """The index of a change at this time; made if there is none."""
        i = bisect_right(self.times, at) - 1
        if self.times[i] == at:
            return i
        self.times.insert(i + 1, at)
        self.rows.insert(i + 1, self.rows[i].copy())
        return i + 1


_Carried = tuple[float, list[tuple[DmaQueue, float, float]]]
"""When the last byte is through, and what was taken from DMA: queue, since when, cycles of its work."""
_LEAST = 1e-6
"""A smaller share of a link is none: what rounding leaves over."""


class Links:
    """The bandwidth of all links over time.

    Transfers come in program order and not in that of time: each takes what those before it have left from its start
    on, so none holds up what can run before it. But links are shared fairly, and DMA runs ahead: while cores load or
    store, it has one share of the link for each of theirs, and is ``delay``-ed by what it had beyond that.
    ``used``: the bytes in use of each memory.
    """

    def __init__(self, machine: Machine, delay: Delay, used: Mapping[str, int]) -> None:
        self._delay = delay
        self._interleaved = {m.name: (m.interleave, m.banks) for m in slow_memories(machine)}
        self._crowds: dict[tuple[str, int, Reached], float] = {}
        self.crowded = any(block for block, _ in self._interleaved.values())
        """Whether it matters which bytes of a buffer move at one time."""
        levels, cores = machine.levels, machine.cores
        homes = set(levels.homes)
        # Where DMA stands between the homes and the cores, it alone crosses their links.
        apart = homes if levels.has_exchange else set[str]()
        self._shares = {
            link.name: _RateShares(link.bytes_per_cycle, 1 if apart.issuperset(link.memories) else cores)
            for link in machine.links
        }
        self._loads = {
            link.name: _BandwidthLoad(link.bytes_per_cycle, _crossing(link, homes)) for link in machine.links
        }
        copy, dma = (
            max((e.bytes_per_cycle for e in machine.engines if kind in e.classes), default=0)
            for kind in ("copy", "dma")
        )
        # A bank hears of a transfer what the links leave it.
        dma = min([dma, *(link.bytes_per_cycle for link in machine.links if homes.intersection(link.memories))])
        for memory in slow_memories(machine):
            # Its banks are one more link, of both directions. Who asks for more of a bank gets more.
            served = bytes_served(memory, used.get(memory.name, 0))
            only_dma = memory.name in apart
            self._shares[memory.name] = _RateShares(served, 1) if only_dma else _RateShares(served, cores, copy, dma)
            self._loads[memory.name] = _BandwidthLoad(served, ("dma in", "dma out"))

    def _crowding(self, memory: str, buffer: SharedBuffer | None, reached: Reached | None) -> float:
        """How often as long the fullest bank takes for what moves at one time as all banks together would.

        This is taken to be of one tensor. Cores that are ahead and move another one gain nothing by it: who asks for
        little of a full bank is slowed as those that ask for much.
        """
        block, banks = self._interleaved.get(memory, (0, 0))
        if buffer is None or not block or memory != buffer.memory:
            return 1.0
        key = (memory, buffer.address, ((0, buffer.bytes),) if reached is None else reached)
        if key not in self._crowds:
            held = [0] * banks
            for low, high in key[2]:
                for number in range((buffer.address + low) // block, (buffer.address + high - 1) // block + 1):
                    begin, end = number * block - buffer.address, (number + 1) * block - buffer.address
                    held[number % banks] += min(high, end) - max(low, begin)
            self._crowds[key] = banks * max(held) / max(1, sum(held))
        return self._crowds[key]

    def body(
        self, start: float, transfer: CopyTime, buffer: SharedBuffer | None = None, copies: int = 1,
        simultaneous: int | None = None, queue: DmaQueue | None = None, reached: Reached | None = None,
    ) -> float:  # fmt: skip
        """When the last byte of ``copies`` equal transfers has moved; ``queue``: that of DMA, if it is no core's.

        They are from or to ``buffer``; without one, from or to all banks alike. ``reached``: what of it they and those
        that run beside them move, all if not told. ``simultaneous``: how many start at one time; else it is not known
        how many others run.
        """
        crossed = (
            *transfer.links,
            *((name, size * max(1.0, self._crowding(name, buffer, reached))) for name, size in transfer.memories),
        )
        rates = [size * copies / self._shares[name].rate for name, size in crossed]
        body = max([transfer.payload / transfer.rate, *rates])
        stop = start + body
        for name, size in crossed:
            crossing = size * copies
            share, kept = self._shares[name].rates(simultaneous, dma=queue is not None)
            end, delays = self._loads[name].carry(start, crossing, crossing / body, share, kept, queue)
            stop = max(stop, end)
            for other, since, lost in delays:
                self._delay(other, since, lost)
        return stop


@dataclass(frozen=True)
class _RateShares:
    """How ``rate`` bytes a cycle are shared by so many ``others``, cores as a rule, and DMA: by what each asks for."""

    rate: float
    others: int
    core: float = 1.0
    dma: float = 1.0

    def rates(self, simultaneous: int | None, *, dma: bool) -> tuple[float, float]:
        """What a transfer has at least, or so many that are ``simultaneous``; and what DMA keeps beside it."""
        total = (simultaneous or self.others) * self.core + self.dma
        demand = simultaneous * self.core if simultaneous else self.dma if dma else self.core
        return self.rate * demand / total, self.rate * self.dma / total


@dataclass(slots=True)
class Horizon:
    """When all of several results are visible. Those of one's own queue are seen at once, and it issues in order.

    ``engine``: whose result is the last; ``others``: when those of all other engines are visible. ``None`` is an engine
    of several, of which each waits for the others.
    """

    last: float = 0.0
    engine: str | None = None
    others: float = 0.0

    def note(self, stop: float, engine: str | None) -> None:
        """One more result, visible at ``stop``."""
        if engine == self.engine:
            if stop > self.last:
                self.last = stop
        elif stop > self.last:
            self.last, self.engine, self.others = stop, engine, self.last
        elif stop > self.others:
            self.others = stop

    def merge(self, other: Horizon) -> None:
        """All results of another one; it is forgotten who made the earlier ones."""
        self.note(other.last, other.engine)
        self.note(other.others, None)

    def copy(self) -> Horizon:
        """The same, apart."""
        return Horizon(self.last, self.engine, self.others)

    def seen_by(self, engine: str | None) -> float:
        """When an instruction that needs all results can be issued, if the queue of its engine has come to it."""
        return self.others if engine is not None and engine == self.engine else self.last


@dataclass(slots=True)
class Area:
    """Addresses of a memory during one lifetime: free from ``floor``, readable from ``ready`` on, in use till ``uses``.

    ``parts``: of the last use that went tile by tile, until when the engine ``reader`` needs which bytes. ``under``:
    the lifetimes before this one at these addresses, forgotten when the next but one begins.
    """

    low: int
    high: int
    floor: Horizon = field(default_factory=Horizon)
    uses: Horizon = field(default_factory=Horizon)
    ready: Horizon = field(default_factory=Horizon)
    parts: PartsInUse = ()
    reader: str | None = None
    under: tuple[Area, ...] = ()

    def use(self, stop: float, engine: str | None) -> None:
        """Something of this engine that reads or writes here is over, and visible, at ``stop``."""
        self.uses.note(stop, engine)

    def use_parts(self, parts: PartsInUse, engine: str | None) -> None:
        """The same of a use that is done with some bytes sooner than with others; the last part goes on to the end."""
        assert parts
        self.uses = self.used(self.low, self.high).copy()
        (first, _, until), end = parts[-1], self.high - self.low
        self.parts, self.reader = (*parts[:-1], (first, end, until)), engine

    def used(self, low: int, high: int) -> Horizon:
        """Until when any of the addresses from ``low`` up to ``high`` are in use; it may be the area's own, so that who
        keeps it has to copy it."""
        if self.low >= high or low >= self.high:
            return Horizon()
        first, end = low - self.low, high - self.low
        until = max((until for start, stop, until in self.parts if start < end and first < stop), default=None)
        if until is None:
            return self.uses
        used = self.uses.copy()
        used.note(until, self.reader)
        return used

    def floor_of(self, low: int, high: int) -> Horizon:
        """From when on the addresses from ``low`` up to ``high`` are free, some of those of the area."""
        if not self.under:
            return self.floor
        floor = Horizon()
        for old in self.under:
            if old.low < high and low < old.high:
                floor.merge(old.floor)
                floor.merge(old.used(low, high))
        return floor

    def free(self, engine: str | None) -> float:
        """When the engine can write here, whatever used it before."""
        return max(self.floor.seen_by(engine), self.used(self.low, self.high).seen_by(engine))


@dataclass
class Space:
    """The lifetimes in one memory, so far."""

    areas: list[Area] = field(default_factory=list[Area])
    top: int = 0
    """Nothing was above."""

    def open(self, low: int, size: int) -> Area:
        """A new lifetime of these bytes, which waits for everything that used them."""
        high = low + size
        new = Area(low, high)
        if low >= self.top:
            self.top = high
            self.areas.append(new)
            return new
        self.top = max(self.top, high)
        areas: list[Area] = []
        under: list[Area] = []
        for old in self.areas:
            if old.low >= high or low >= old.high:
                areas.append(old)
                continue
            under.append(old)
            # A result can begin in place of an input that is yet to be loaded, which has to know what was there.
            for older in old.under:
                older.under = ()
            new.floor.merge(old.floor)
            new.floor.merge(old.used(low, high))
            if not (low <= old.low and old.high <= high):
                areas.append(old)
        new.under = tuple(under)
        areas.append(new)
        self.areas = areas
        return new
