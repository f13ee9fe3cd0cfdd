"""Cycles that copies take: of one with every link to itself, and who makes it.

A copy has up to four loops; loops that are left over repeat it. Durations of single instructions are those of
:mod:`girih.ir.isa.timing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf, prod

from ...ir.box import Box, shape_of
from ...ir.graph import DTYPES
from ...ir.isa.loop_bounds import merge_loops
from ...ir.isa.timing import bank_cycles, burst_bytes, contiguous_runs
from ...ir.machine import Engine, Level, Link, Machine, Memory
from .instructions import element_strides


@dataclass(frozen=True)
class Stopover:
    """The first half of a copy that goes by a staging ``memory``: ``parts`` of so many ``bytes``, to rooms of it.

    An ``engine`` copies each in so many ``cycles``, visible ``latency`` after that. ``delay``: by how much a copy whose
    engines are idle is later.
    """

    memory: str
    engine: str
    parts: int
    bytes: int
    cycles: float
    latency: int
    delay: int


@dataclass(frozen=True)
class CopyTime:
    """A copy when it has every link to itself.

    ``issue`` cycles in all, then ``payload`` bytes at ``rate`` a cycle, that of the engine or of banks; ``links``:
    (name, bytes that cross it); ``memories``: the same of memories whose banks copies share (:func:`slow_memories`).
    ``stopover``: where there is one, of which the ``delay`` is in the latency.
    """

    instructions: int
    issue: int
    payload: int
    rate: float
    links: tuple[tuple[str, int], ...]
    latency: int
    memories: tuple[tuple[str, int], ...] = ()
    stopover: Stopover | None = None

    def busy(self, machine: Machine, shares: Mapping[str, float] | None = None) -> int:
        """Cycles of the engine if each link gives only the share (0 to 1) of its bandwidth that ``shares`` says."""
        slowest = self.payload / self.rate
        for link in machine.links:
            crossing = dict(self.links).get(link.name)
            if crossing:
                slowest = max(slowest, crossing / (link.bytes_per_cycle * (shares or {}).get(link.name, 1.0)))
        return self.issue + ceil(slowest)


def bytes_served(memory: Memory, used: int = 0) -> float:
    """What the banks together give in a cycle, if as many bytes are in use from the first on.

    Banks that do not take turns by an interleave serve only where they are reached: the first of them always.
    """
    banks = memory.banks if memory.interleave else ceil(max(1, used) * memory.banks / memory.capacity)
    return float(min(banks, memory.banks) * memory.bytes_per_cycle)


def slow_memories(machine: Machine) -> tuple[Memory, ...]:
    """The memories of the cluster whose banks may serve less than what comes and goes; there may be no link for it."""

    def carried(memory: Memory) -> float:
        links = [link for link in machine.links if memory.name in link.memories]
        directions = {link.direction for link in links}
        every = "both" in directions or directions >= ({"read"} if memory.read_only else {"read", "write"})
        return sum(link.bytes_per_cycle for link in links) if every else inf

    return tuple(m for m in machine.memories if m.scope != "core" and bytes_served(m) < carried(m))


def route(machine: Machine, source: Level, target: Level) -> Engine:
    """The engine that moves data from one level to another; to several cores at once, one with its rate is assumed."""
    of_core = source in machine.levels.of_core or target in machine.levels.of_core
    return machine.mover("copy" if of_core else "dma", source, target)


def crossed_links(machine: Machine, source: str, target: str) -> dict[Link, int]:
    """The links that a copy from one memory to another (by name) crosses, and how often: once, or in and out."""
    crossed: dict[Link, int] = {}
    for link in machine.links:
        out, into = source in link.memories, target in link.memories
        times = out * (link.direction != "write") + into * (link.direction != "read")
        if times:
            crossed[link] = times
    return crossed


class Transfers:
    """The copies of one machine, each computed once."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._slow = {memory.name for memory in slow_memories(machine)}
        self._known: dict[tuple[object, ...], CopyTime] = {}

    def transfer(self, way: tuple[Level, Level], part: Box, boxes: tuple[Box, Box], dtype: str) -> CopyTime:
        """Copy ``part`` of a tensor between dense buffers that hold the first and the second of ``boxes`` of it."""
        key = (way, shape_of(part), shape_of(boxes[0]), shape_of(boxes[1]), dtype)
        if key not in self._known:
            self._known[key] = self._transfer(way, part, boxes, dtype)
        return self._known[key]

    def _transfer(self, way: tuple[Level, Level], part: Box, boxes: tuple[Box, Box], dtype: str) -> CopyTime:
        engine = route(self.machine, *way)
        item = DTYPES[dtype]
        strides = [element_strides(box) for box in boxes]
        merged, kept = merge_loops(shape_of(part), strides)
        source, target = ([s[a] for a in kept] for s in strides)
        order = sorted(range(len(merged)), key=lambda a: (-source[a], -target[a]))
        times = prod(merged[a] for a in order[:-4])
        inner = order[-4:]
        extents = [merged[a] for a in inner]
        links: list[tuple[str, int]] = []
        latency = engine.latency
        staging = self.machine.stopover(*(level.name for level in way))
        for link in self.machine.links:
            crossed = 0
            for level, direction, walk in zip(way, ("read", "write"), (source, target), strict=True):
                if level.name in link.memories and link.direction in (direction, "both"):
                    crossed += burst_bytes(link, *contiguous_runs(extents, [walk[a] * item for a in inner], item))
            if staging is not None and staging.name in link.memories and link.direction != "write":
                crossed += burst_bytes(link, 1, prod(extents) * item)
            if crossed:
                links.append((link.name, crossed * times))
                latency += link.latency
        payload = times * prod(extents) * item
        rate = float(engine.bytes_per_cycle)
        shared: list[tuple[str, int]] = []
        for level, walk in zip(way, (source, target), strict=True):
            memory = level.memory
            if not payload:
                break
            covered = 1 + sum(
                (extent - 1) * step for extent, step in zip(extents, (walk[a] for a in inner), strict=True)
            )
            rate = min(rate, payload / bank_cycles([(memory, payload, covered * item)]))
            if memory.name in self._slow:
                shared.append((memory.name, payload))
        stopover: Stopover | None = None
        if staging is not None:
            # Part after part: the first is on its way to the staging memory before anything leaves it.
            first = self.machine.mover("copy", way[0], staging.name)
            crossed_first = crossed_links(self.machine, way[0].name, staging.name)
            shares = (x.bytes_per_cycle / often / self.machine.cores for x, often in crossed_first.items())
            first_rate = min([float(first.bytes_per_cycle), *shares])
            first_latency = first.latency + sum(x.latency for x in crossed_first)
            rate = min(rate, first_rate)
            size = min(payload, staging.capacity // 2)
            parts = ceil(payload / max(1, size))
            delay = first.issue + first_latency + ceil(size / first_rate)
            cycles = times * first.issue + size / first_rate
            stopover = Stopover(staging.name, first.name, parts, size, cycles, first_latency, delay)
            latency += delay
        return CopyTime(times, times * engine.issue, payload, rate, tuple(links), latency, tuple(shared), stopover)
