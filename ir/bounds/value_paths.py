"""The fewest cycles between two instructions of which one needs a value that the other makes, by any way of a machine.

What an instruction makes is visible after the latency of its engine and of the links that it crosses (docs/timing.md,
rules 2, 3 and 10); another instruction of the same queue does not wait for that. Where the next engine does not reach
the memory that the value is in, others have to carry it there: each is issued, works for a cycle at least, and has a
latency of its own. No plan has a shorter way than the shortest one, for the engines and the memories of the machine are
all that there are. Which core an engine or a memory belongs to is not looked at, so that no way is too long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf

from ..machine import Engine, Link, Machine

_CARRYING = {"copy", "broadcast", "dma", "vector"}
"""Classes of instructions that can leave a value in another memory as it is."""
_TRANSFERS = {"copy", "broadcast", "dma", "scalar"}
"""Classes of instructions that cross links."""
KINDS = ("matrix", "vector", "host", "scalar")
"""Classes of instructions that make values."""

Ways = Mapping[tuple[str, str], float]
"""Cycles by begin and end of a way; what is absent cannot be gone.

A way begins at the end of the body of an instruction: at its class ("matrix", "vector", "host", "scalar"), or at the
name of a link that it crosses. Or it begins where values are at first, at "main" or "constants". It ends when the body
of an instruction begins: at its class (of the matrix engine, "left", "right" or "start", after the operand), or at the
name of a link that it crosses. Or it ends when the value is visible in the main memory: at "home".
"""


@dataclass(frozen=True)
class _Carry:
    """An instruction takes a value from ``source`` and leaves it in ``target``, visible ``latency`` cycles later.

    ``passed``: whether the value has been in the memory that it has to pass.
    """

    engine: str
    source: str
    target: str
    issue: int
    latency: int
    passed: bool = True


def value_ways(machine: Machine, through: str | None = None) -> Ways:
    """All ways on a machine as it is planned for.

    ``through``: a memory that every value that is computed has to pass, after the instruction that makes it.
    """
    carries = [
        _carry(machine, engine, source, target)
        for engine in machine.engines
        if _CARRYING & set(engine.classes)
        for source in engine.reads
        for target in engine.writes
    ]
    transfers = {e.name for e in machine.engines if _TRANSFERS & set(e.classes)}
    crossing = {
        link.name: [c for c in carries if c.engine in transfers and _crosses(link, c.source, c.target)]
        for link in machine.links
    }
    begins: dict[str, list[_Carry]] = {
        "main": [_Carry("", "", machine.levels.home.name, 0, 0)],
        "constants": [_Carry("", "", machine.levels.constants.name, 0, 0)],
        **crossing,
    }
    for kind in KINDS:
        source = machine.levels.home.name if kind == "scalar" else ""
        of_kind = [
            _carry(machine, e, source, target) for e in machine.engines if kind in e.classes for target in e.writes
        ]
        apart = kind in ("matrix", "vector") and through is not None
        begins[kind] = [replace(c, passed=not apart or c.target == through) for c in of_kind]
    ways: dict[tuple[str, str], float] = {}
    for begin, first in begins.items():
        ended = {c: cycles for c, cycles in _shortest(first, carries, through).items() if c.passed}
        for end, cycles in _ends(machine, ended, crossing).items():
            ways[begin, end] = cycles
    return ways


def _crosses(link: Link, source: str, target: str) -> bool:
    read, written = link.direction in ("read", "both"), link.direction in ("write", "both")
    return (read and source in link.memories) or (written and target in link.memories)


def _carry(machine: Machine, engine: Engine, source: str, target: str) -> _Carry:
    latency = engine.latency
    if _TRANSFERS & set(engine.classes):
        latency += sum(link.latency for link in machine.links if _crosses(link, source, target))
    return _Carry(engine.name, source, target, engine.issue, latency)


def _shortest(first: Sequence[_Carry], carries: Sequence[_Carry], through: str | None) -> dict[_Carry, float]:
    """When the bodies of instructions end at the earliest, if one of ``first`` ends at 0 (Dijkstra's algorithm).

    Left out is what ends no sooner than an instruction of the same engine that leaves the value in the same memory, and
    is visible no sooner: whatever comes after it can come after the other.
    """
    ended: dict[_Carry, float] = {}
    visible: dict[tuple[str, str, bool], float] = {}
    waiting = [(0.0, number, carry) for number, carry in enumerate(first)]
    pushed = len(waiting)
    while waiting:
        cycles, _, carry = heappop(waiting)
        alike = carry.engine, carry.target, carry.passed
        if visible.get(alike, inf) <= cycles + carry.latency:
            continue
        visible[alike] = cycles + carry.latency
        ended[carry] = cycles
        for other in carries:
            if other.source != carry.target:
                continue
            busy, latency = other.issue + 1, other.latency
            if carry.engine == other.engine:
                # A queue retires in order: nothing is visible before what came before it.
                latency = max(latency, carry.latency - busy)
            after = replace(other, latency=latency, passed=carry.passed or other.target == through)
            heappush(waiting, (cycles + _wait(carry, other.engine) + busy, pushed, after))
            pushed += 1
    return ended


def _wait(carry: _Carry, engine: str) -> int:
    """How long an engine waits for what an instruction made, after that ended."""
    return 0 if carry.engine == engine else carry.latency


def _ends(
    machine: Machine, ended: Mapping[_Carry, float], crossing: Mapping[str, Sequence[_Carry]]
) -> dict[str, float]:
    """By end of a way: the fewest cycles after which it is reached."""
    fewest: dict[str, float] = {}

    def reach(end: str, engine: str, memory: str, issue: int) -> None:
        for carry, cycles in ended.items():
            if carry.target == memory:
                fewest[end] = min(fewest.get(end, inf), cycles + _wait(carry, engine) + issue)

    for engine in machine.engines:
        for kind in KINDS:
            if kind in engine.classes:
                for memory in engine.reads:
                    reach("left" if kind == "matrix" else kind, engine.name, memory, engine.issue)
        if "matrix" in engine.classes:
            for memory in engine.weights:
                reach("right", engine.name, memory, engine.issue)
            # What a sum starts from can be copied to where it is made.
            for memory in {*engine.sources, *engine.writes}:
                reach("start", engine.name, memory, engine.issue)
    for link, carries in crossing.items():
        for carry in carries:
            reach(link, carry.engine, carry.source, carry.issue)
    reach("home", "", machine.levels.home.name, 0)
    return fewest
