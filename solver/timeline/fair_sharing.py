"""Links that are shared fairly, in the predicted timeline: a run of it once more, in the order of time.

The timeline follows transfers in program order, and each takes of a link what those before it have left. Where cores
keep a link busy, that is wrong: whichever begins while others are in flight slows them, wherever it is in the program.
So a run is recorded and replayed: transfers with what each waited for, and how long each takes if links are shared
fairly (``docs/timing.md``, rules 14 and 15). The next run of the timeline takes these durations.

A transfer is released by the end of the one before it in its queue, by that of a transfer that it waited for, or by the
computation: so much later or earlier than in the run as this has been delayed. The computation is delayed by what it
waits for. While engines work on a bank, they slow the copies from and to it, and that share of a link is lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from ..cost.copy_time import CopyTime
from .bank_conflicts import Bank, BankDemand

BUSY = 0.25
"""Part of the time that cores keep a link busy beyond which a run is replayed; chosen: below, errors are small."""
REPLAYS = 2
"""Replays of a run: with a third one, predictions of the networks that were tried changed by 0.2 % at most."""
_LEAST = 1e-9

Flow = tuple[tuple[tuple[str, float], ...], float]
"""What equal transfers ask for: (link, bytes) for a unit of work, and units a cycle at most."""
QueueOf = tuple[str, int]
"""An engine, and the core that has it."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A transfer of a run. It can be issued at ``ready``, and its ``queues`` were ``free`` at a time of their own.

    It is over at ``stop``, visible at ``visible``, and ``loads`` or stores. ``copies`` equal ones go at once; of each,
    ``work`` is the bytes on its busiest link, at up to ``cap`` a cycle, with (link, bytes) for a byte of work.
    ``banks``: those of a core's memory, each with the bytes that it serves for a byte of work.
    """

    queues: tuple[QueueOf, ...]
    ready: float
    free: float
    issue: int
    stop: float
    visible: float
    loads: bool
    copies: int
    work: float
    cap: float
    links: tuple[tuple[str, float], ...]
    banks: Mapping[Bank, float]


@dataclass
class RecordedRun:
    """The transfers of a run in program order, and the computation on the core that stands for all.

    ``waits``: (engine free, transfer visible, its number) of what computation waited for. ``spans``: by engine, since
    when and until when it worked, and what it asked of banks.
    """

    passages: list[Passage] = field(default_factory=list[Passage])
    waits: list[tuple[float, float, int]] = field(default_factory=list[tuple[float, float, int]])
    spans: dict[str, list[tuple[float, float, BankDemand]]] = field(
        default_factory=dict[str, list[tuple[float, float, BankDemand]]]
    )
    visible: dict[float, int] = field(default_factory=dict[float, int])
    """By the time at which a transfer is visible, its number: whoever waits until then waits for it."""
    _last: tuple[str, int] = ("", -1)

    def moved(
        self, queues: tuple[QueueOf, ...], ready: float, free: float, stop: float, copies: int, move: CopyTime,
        banks: Mapping[Bank, float], *, loads: bool,
    ) -> None:  # fmt: skip
        """A transfer; ``banks``: the part of it in each bank of a core's memory."""
        work = float(max([move.payload, *(size for _, size in move.links)]))
        each = 1.0 / max(1.0, work)
        links = tuple((link, size * each) for link, size in (*move.links, *move.memories))
        served = {bank: part * move.payload * each for bank, part in banks.items()}
        cap = move.rate * work / max(1, move.payload)
        visible = stop + move.latency
        self.visible[visible] = len(self.passages)
        self.passages.append(
            Passage(queues, ready, free, move.issue, stop, visible, loads, copies, work, cap, links, served)
        )

    def waited(self, engine: str, free: float, ready: float) -> None:
        """An engine, free since then, waited until ``ready``."""
        number = self.visible.get(ready)
        if number is not None and self._last != (engine, number):
            self._last = engine, number
            self.waits.append((free, ready, number))

    def worked(self, engine: str, start: float, stop: float, demand: BankDemand) -> None:
        """An engine worked without a break, or nearly; of several lanes, the first that did counts."""
        spans = self.spans.setdefault(engine, [])
        if spans and start < spans[-1][1]:
            return
        if spans and spans[-1][2] is demand and start <= spans[-1][1] + _LEAST:
            spans[-1] = spans[-1][0], stop, demand
        else:
            spans.append((start, stop, demand))


def busiest(run: RecordedRun, rates: Mapping[str, float], cycles: float) -> float:
    """The part of the time that the busiest of the links (``rates`` in bytes a cycle) is busy."""
    crossed = dict.fromkeys(rates, 0.0)
    for p in run.passages:
        for link, size in p.links:
            crossed[link] += size * p.work * p.copies
    return max((size / rates[link] for link, size in crossed.items()), default=0.0) / max(1.0, cycles)


def fair_durations(run: RecordedRun, rates: Mapping[str, float], served: Mapping[str, float]) -> list[float]:
    """Cycles that the body of each transfer takes; ``served``: bytes that a bank of each memory gives in a cycle."""
    return _Replay(run, rates, served).run()


def fair_speeds(flows: Sequence[tuple[Flow, int]], rates: Mapping[str, float]) -> list[float]:
    """Units of work a cycle of flows, so many of each: all rise together until a link or their own limit stops them."""
    speeds = [0.0] * len(flows)
    spare = dict(rates)
    rising = list(range(len(flows)))
    level = 0.0
    while rising:
        wanted: dict[str, float] = {}
        for number in rising:
            (links, _), count = flows[number]
            for link, size in links:
                wanted[link] = wanted.get(link, 0.0) + size * count
        level += min(
            min(flows[number][0][1] for number in rising) - level,
            min((spare[link] / size for link, size in wanted.items()), default=inf),
        )
        for link, size in wanted.items():
            spare[link] -= size * (level - speeds[rising[0]])
        for number in rising:
            speeds[number] = level
        full = {link for link in wanted if spare[link] <= _LEAST * rates[link]}
        rising = [n for n in rising if flows[n][0][1] > level and not any(link in full for link, _ in flows[n][0][0])]
    return speeds


class _Computing:
    """The computation of a replay: which transfer it comes to next, and how much later than in the run it is."""

    def __init__(self, run: RecordedRun) -> None:
        waits = sorted((max(free, ready), free, number) for free, ready, number in run.waits)
        self._waits = [(since, free) for since, free, _ in waits]
        self._times = [since for since, _ in self._waits]
        self._awaited = _awaited(run, [(since, number) for since, _, number in waits])
        self._spans = [(spans, [start for start, _, _ in spans]) for spans in run.spans.values()]
        self.later = 0.0
        self.passed = 0
        """Waits that are over."""

    def before(self, time: float) -> int:
        """How many waits come before a time of the run."""
        return bisect_right(self._times, time)

    def awaited(self) -> list[int] | None:
        """The transfers that are waited for next."""
        return self._awaited[self.passed] if self.passed < len(self._waits) else None

    def arrived(self, visible: float) -> None:
        """What is waited for next is visible."""
        since, free = self._waits[self.passed]
        self.later = max(free + self.later, visible) - since
        self.passed += 1

    def demands(self, clock: float) -> tuple[list[BankDemand], float]:
        """What engines ask of banks at a time, and until when at most."""
        at = clock - self.later
        waits_from = self._waits[self.passed][1] if self.passed < len(self._waits) else inf
        if at >= waits_from - _LEAST:
            return [], inf
        until = waits_from
        demands: list[BankDemand] = []
        for spans, starts in self._spans:
            number = bisect_right(starts, at + _LEAST)
            if number < len(spans):
                until = min(until, starts[number])
            if number and spans[number - 1][1] > at + _LEAST:
                demands.append(spans[number - 1][2])
                until = min(until, spans[number - 1][1])
        return demands, until + self.later


def _awaited(run: RecordedRun, waits: Sequence[tuple[float, int]]) -> list[list[int]]:
    """By wait (its time, and the last transfer): all transfers that came before it and were visible by then.

    They are for the same tile, or for what is before it; of several, another one than in the run may be the last.
    """
    by_wait: list[list[int]] = []
    known, late = 0, list[int]()
    for since, last in waits:
        late += range(known, last + 1)
        known = max(known, last + 1)
        by_wait.append([n for n in late if run.passages[n].loads and run.passages[n].visible <= since])
        late = [n for n in late if run.passages[n].loads and run.passages[n].visible > since]
    return by_wait


class _Replay:
    """One replay; what is in flight has a rate until something begins or ends, or engines turn to other work."""

    def __init__(self, run: RecordedRun, rates: Mapping[str, float], served: Mapping[str, float]) -> None:
        self._passages = run.passages
        self._rates = rates
        self._served = served
        self._computing = _Computing(run)
        count = len(run.passages)
        self._open = [0] * count
        """Of each transfer, how much it still waits for."""
        self._ready = [0.0] * count
        self._behind: list[list[tuple[int, float]]] = [[] for _ in range(count)]
        """Of each transfer, others that it releases, each so long after its end."""
        self._with: dict[int, list[int]] = {}
        """By the number of waits that must be over, the transfers that computation releases."""
        self._begins: list[tuple[float, int]] = []
        self._seen = 0.0
        """When those transfers are visible that computation waits for and that are over."""
        self._left: dict[int, float] = {}
        self._begun = [0.0] * count
        self._ended: list[float | None] = [None] * count
        self._fair: dict[tuple[tuple[Flow, int], ...], list[float]] = {}
        self._link(run)

    def _link(self, run: RecordedRun) -> None:
        last: dict[QueueOf, int] = {}
        for number, p in enumerate(run.passages):
            before = [last[queue] for queue in p.queues if queue in last]
            if before:
                earlier = max(before, key=lambda n: run.passages[n].stop)
                self._behind[earlier].append((number, max(0.0, p.free - run.passages[earlier].stop)))
                self._open[number] += 1
            else:
                self._ready[number] = p.free
            last.update(dict.fromkeys(p.queues, number))
            awaited = run.visible.get(p.ready)
            waits = self._computing.before(p.ready)
            if awaited is not None and awaited < number:
                self._behind[awaited].append((number, run.passages[awaited].visible - run.passages[awaited].stop))
                self._open[number] += 1
            elif p.ready and waits:
                self._with.setdefault(waits, []).append(number)
                self._open[number] += 1
            else:
                self._ready[number] = max(self._ready[number], p.ready)
        for number, waiting in enumerate(self._open):
            if not waiting:
                heappush(self._begins, (self._ready[number] + run.passages[number].issue, number))

    def run(self) -> list[float]:
        clock, until = 0.0, inf
        speeds: dict[int, float] = {}
        while self._begins or self._left:
            time = min((clock + work / speeds[n] for n, work in self._left.items()), default=inf)
            time = min(time, until if self._left else inf, self._begins[0][0] if self._begins else inf)
            for number in self._left:
                self._left[number] -= speeds[number] * (time - clock)
            clock = time
            for number in [n for n, work in self._left.items() if work <= 1e-6 * self._passages[n].work]:
                del self._left[number]
                self._end(number, clock)
            while self._begins and self._begins[0][0] <= clock:
                number = heappop(self._begins)[1]
                self._begun[number] = clock
                self._left[number] = self._passages[number].work
                if not self._left[number]:
                    del self._left[number]
                    self._end(number, clock)
            demands, until = self._computing.demands(clock)
            # What is too short for the clock's resolution is no step of time.
            until = max(until, clock + 1e-3)
            speeds = self._speeds(demands)
        return [self._duration(number) for number in range(len(self._passages))]

    def _duration(self, number: int) -> float:
        """As replayed, or as in the run where nothing has released the transfer."""
        end, p = self._ended[number], self._passages[number]
        return p.stop - max(p.ready, p.free) - p.issue if end is None else end - self._begun[number]

    def _end(self, number: int, clock: float) -> None:
        self._ended[number] = clock
        for other, lag in self._behind[number]:
            self._release(other, clock + lag, clock)
        computing = self._computing
        while (awaited := computing.awaited()) is not None:
            while awaited and (end := self._ended[awaited[-1]]) is not None:
                p = self._passages[awaited.pop()]
                self._seen = max(self._seen, end + p.visible - p.stop)
            if awaited:
                return
            computing.arrived(self._seen)
            self._seen = 0.0
            for other in self._with.get(computing.passed, ()):
                self._release(other, self._passages[other].ready + computing.later, clock)

    def _release(self, number: int, at: float, clock: float) -> None:
        self._ready[number] = max(self._ready[number], at)
        self._open[number] -= 1
        if not self._open[number]:
            heappush(self._begins, (max(clock, self._ready[number] + self._passages[number].issue), number))

    def _speeds(self, demands: Sequence[BankDemand]) -> dict[int, float]:
        """Bytes a cycle of the busiest link, of all that is in flight."""
        groups: dict[Flow, list[int]] = {}
        for number in self._left:
            p = self._passages[number]
            groups.setdefault((p.links, p.cap), []).append(number)
        state = tuple((flow, sum(self._passages[n].copies for n in members)) for flow, members in groups.items())
        if state not in self._fair:
            self._fair[state] = fair_speeds(state, self._rates)
        speeds: dict[int, float] = {}
        for members, speed in zip(groups.values(), self._fair[state], strict=True):
            for number in members:
                speeds[number] = speed * min(self._kept(self._passages[number].banks, speed, demands), default=1.0)
        return speeds

    def _kept(self, banks: Mapping[Bank, float], speed: float, demands: Sequence[BankDemand]) -> Iterator[float]:
        """The parts of its speed that banks leave a transfer beside what engines ask of them."""
        for bank, part in banks.items() if demands else ():
            wanted = speed * part + sum(demand.rates.get(bank, 0.0) for demand in demands)
            yield self._served[bank[0]] / max(self._served[bank[0]], wanted)
