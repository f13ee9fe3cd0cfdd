"""A machine as the compiler plans for it: one cluster, whose engines each have a name, a core and a queue of their own.

What a file says in short is spelt out: several engines of one kind, and engines of a cluster that compute.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from string import ascii_lowercase
from typing import TypeVar

from .engine import Engine
from .hardware import Hardware
from .memories import Link, Memory

Planned = TypeVar("Planned", bound=Hardware)
_COMPUTING = ("matrix", "vector")


def as_planned(machine: Planned) -> Planned:
    """The share of one cluster, its cores as one where an engine of the cluster computes for them, engines apart.

    A machine that is planned for already stays as it is.
    """
    return engines_apart(cores_as_one(share_of_cluster(machine)))


def name_in_file(machine: Hardware, name: str) -> str:
    """The memory or engine of ``machine`` that stands, alone or with others, for one of the planned machine's.

    Raises :class:`KeyError` if there is none.
    """
    known = {entry.name for entry in (*machine.memories, *machine.engines)}
    described = name
    while described not in known:
        if not described:
            raise KeyError(name)
        described = described.rpartition(".")[0]
    return described


def share_of_cluster(machine: Planned) -> Planned:
    """What one cluster has: of each memory of the chip, its bandwidth and its links an equal share.

    The clusters run the same program on their own part of a batch at the same time. Constants are in every share,
    as every cluster has its own copy of them.
    """
    shared = {m.name for m in machine.memories if m.scope == "chip"}
    if not shared:
        return machine

    def memory(m: Memory) -> Memory:
        if m.name not in shared:
            return m
        capacity = max(m.alignment, m.capacity // machine.clusters // m.unit * m.unit)
        served = max(1, m.bytes_per_cycle // machine.clusters)
        return replace(m, scope="cluster", capacity=capacity, bytes_per_cycle=served)

    def link(x: Link) -> Link:
        return replace(x, bytes_per_cycle=x.bytes_per_cycle / machine.clusters) if shared.issuperset(x.memories) else x

    return replace(machine, memories=tuple(map(memory, machine.memories)), links=tuple(map(link, machine.links)))


def cores_as_one(machine: Planned) -> Planned:
    """The cores of a cluster as one core with all of their engines, where an engine of the cluster computes for them.

    That engine, the memories of the cluster that engines compute on, and what moves data to and from these become the
    core's. Each engine and each memory that a core had to itself is there once for each of the cores.
    """
    serving = [e for e in machine.engines if e.scope == "cluster" and _serves_cores(e, machine)]
    if not serving:
        return machine
    cluster = [m for m in machine.memories if m.scope != "core"]
    everything = max(cluster, key=lambda m: m.capacity, default=None)
    computing = [e for e in machine.engines if set(_COMPUTING) & set(e.classes)]
    reached = {name for engine in computing for name in (*engine.sources, *engine.writes)}
    near = {m.name for m in cluster if m.name in reached and m is not everything and not m.read_only}
    core_memories = {m.name for m in machine.memories if m.scope == "core"}
    marks = _marks(machine.cores)
    memories: list[Memory] = []
    for m in machine.memories:
        if m.scope == "core":
            memories += [replace(m, name=m.name + mark) for mark in marks]
        else:
            memories.append(replace(m, scope="core") if m.name in near else m)
    engines: list[Engine] = []
    for e in machine.engines:
        if e.scope == "core":
            engines += [_renamed(e, mark, core_memories) for mark in marks]
        elif e in serving:
            engines.append(replace(e, scope="core"))
        elif {"copy", "dma"} & set(e.classes) and near & {*e.reads, *e.writes}:
            # What comes to the memory of a core, or leaves it, is copied by the core.
            engines.append(replace(e, scope="core", classes=tuple("copy" if c == "dma" else c for c in e.classes)))
        else:
            engines.append(e)
    links: list[Link] = []
    for x in machine.links:
        links += [x.renamed(mark) for mark in marks] if core_memories.issuperset(x.memories) else [x]
    return replace(machine, cores=1, memories=tuple(memories), engines=tuple(engines), links=tuple(links))


def _serves_cores(engine: Engine, machine: Hardware) -> bool:
    """Whether it computes what no engine of a core does."""
    cores = {kind for e in machine.engines if e.scope == "core" for kind in e.classes}
    return any(kind in engine.classes and kind not in cores for kind in _COMPUTING)


def _renamed(engine: Engine, mark: str, core_memories: set[str]) -> Engine:
    """The engine of one of the cores, on that core's memories."""

    def names(memories: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name + mark if name in core_memories else name for name in memories)

    return replace(
        engine,
        name=engine.name + mark,
        reads=names(engine.reads),
        weights=names(engine.weights),
        writes=names(engine.writes),
    )


def engines_apart(machine: Planned) -> Planned:
    """Each of several engines of a kind as an engine of its own."""
    if all(e.count == 1 for e in machine.engines):
        return machine
    apart = tuple(replace(e, name=e.name + mark, count=1) for e in machine.engines for mark in _marks(e.count))
    return replace(machine, engines=apart)


def _marks(count: int) -> tuple[str, ...]:
    """What tells so many names apart: letters, as digits behind a name are the number of a core."""
    if count == 1:
        return ("",)
    length = 1
    while len(ascii_lowercase) ** length < count:
        length += 1
    return tuple("." + "".join(letters) for letters in product(ascii_lowercase, repeat=length))[:count]
