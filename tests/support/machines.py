"""Machines for arithmetic by hand, and of other kinds than the built-in ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from girih.ir.machine import Engine, Link, Machine


def without_fill(machine: Machine) -> Machine:
    """Blocks of results follow one another at once in the array."""
    return replace(machine, engines=tuple(replace(e, fill=0) for e in machine.engines))


def without_memory(machine: Machine, name: str, instead: str | None) -> Machine:
    """Engines use another memory in its place, or none; its links are gone with it."""

    def renamed(memories: tuple[str, ...]) -> tuple[str, ...]:
        names = (instead if memory == name else memory for memory in memories)
        return tuple(dict.fromkeys(n for n in names if n is not None))

    engines = (
        replace(e, reads=renamed(e.reads), weights=renamed(e.weights), writes=renamed(e.writes))
        for e in machine.engines
    )
    return replace(
        machine,
        name=f"{machine.name}-{name}",
        memories=tuple(m for m in machine.memories if m.name != name),
        engines=tuple(engines),
        links=tuple(link for link in machine.links if link.memory != name),
    )


def with_capacity(machine: Machine, memory: str, capacity: int) -> Machine:
    """So many bytes of a memory."""
    memories = tuple(replace(m, capacity=capacity) if m.name == memory else m for m in machine.memories)
    return replace(machine, memories=memories)


def with_engines(machine: Machine, change: Callable[[Engine], Engine | None]) -> Machine:
    """Each engine changed, or left out."""
    changed = (change(engine) for engine in machine.engines)
    return replace(machine, engines=tuple(e for e in changed if e is not None))


def without_class(machine: Machine, kind: str) -> Machine:
    """Without a class of instructions, and engines that ran nothing else."""

    def change(engine: Engine) -> Engine | None:
        left = tuple(c for c in engine.classes if c != kind)
        return replace(engine, classes=left) if left else None

    return with_engines(replace(machine, name=f"{machine.name}-{kind}"), change)


def with_rom(machine: Machine) -> Machine:
    """Constants stay in DDR, which nothing writes any more; all else has its homes in another memory, RAM."""

    def moved(engine: Engine) -> Engine:
        reads = tuple(near for name in engine.reads for near in ((name, "RAM") if name == "DDR" else (name,)))
        return replace(engine, reads=reads, writes=tuple("RAM" if name == "DDR" else name for name in engine.writes))

    memories = (*(replace(m, read_only=m.name == "DDR") for m in machine.memories),
                replace(machine.memory["DDR"], name="RAM"))  # fmt: skip
    return with_engines(replace(machine, name=f"{machine.name}-rom", memories=memories), moved)


def kinds_of(machine: Machine) -> dict[str, Machine]:
    """Machines that have less than one with a memory for each role, called DDR, LLB, L1, L1W and IM, by what is missing."""
    no_weights = without_memory(machine, "L1W", "L1")
    one_local = without_memory(no_weights, "IM", "L1")
    no_shared = without_memory(without_class(machine, "dma"), "LLB", "DDR")
    unstaged = with_engines(
        machine, lambda e: replace(e, reads=("LLB",)) if "broadcast" in e.classes else e
    )  # Nothing copies from local to weight memory.
    bare = without_memory(without_class(without_class(without_class(one_local, "dma"), "host"), "scalar"), "LLB", "DDR")

    def from_flash(engine: Engine) -> Engine:
        if "LLB" in engine.reads:
            return replace(engine, reads=(*engine.reads, "DDR"))
        return replace(engine, reads=("LLB", "DDR"), writes=("LLB",)) if "DDR" in engine.reads else engine

    flash = replace(
        with_engines(without_class(machine, "dma"), from_flash),
        name=f"{machine.name}-flash",
        memories=tuple(replace(m, read_only=m.name == "DDR") for m in machine.memories),
    )
    # Constants are fetched by an engine of their own, over a slower link with longer bursts; what else crosses main
    # memory leaves and enters by one port.
    rom = with_rom(machine)
    fetch = replace(rom.engine["DMR"], name="DMC", reads=("DDR",), issue=7, bytes_per_cycle=4)
    ways = (
        Link("ddr", "DDR", "read", 2.0, 40, 64),
        Link("port", ("RAM", "LLB"), "both", 8.0, 3),
        *(x for x in rom.links if x.memory != "DDR"),
    )
    rom = with_engines(rom, lambda e: replace(e, reads=("RAM",)) if e.name == "DMR" else e)
    rom = replace(rom, engines=(*rom.engines, fetch), links=ways)
    return {
        "weight memory": no_weights,
        "accumulator": without_memory(machine, "IM", "L1"),
        "weight memory and accumulator": one_local,
        "shared memory": no_shared,
        "main memory to write": flash,
        "main memory with constants": rom,
        "broadcast": without_class(machine, "broadcast"),
        "host": without_class(machine, "host"),
        "copies to weight memory": replace(unstaged, name="unstaged"),
        "all but local and main memory": without_class(bare, "broadcast"),
    }


def with_count(machine: Machine, counts: dict[str, int]) -> Machine:
    """So many engines of each of these classes."""

    def change(engine: Engine) -> Engine:
        return replace(engine, count=next((n for kind, n in counts.items() if kind in engine.classes), engine.count))

    name = "-".join([machine.name, *(f"{n}{kind}" for kind, n in counts.items())])
    return with_engines(replace(machine, name=name), change)


def of_the_cluster(machine: Machine, kinds: tuple[str, ...]) -> Machine:
    """Engines of these classes belong to the cluster, with the memories called L1, L1W and IM."""
    memories = tuple(replace(m, scope="cluster") if m.name in ("L1", "L1W", "IM") else m for m in machine.memories)

    def change(engine: Engine) -> Engine:
        return replace(engine, scope="cluster") if set(kinds) & set(engine.classes) else engine

    return with_engines(replace(machine, name=f"{machine.name}-cluster", memories=memories), change)


def staged_for_each_core(machine: Machine) -> Machine:
    """The matrix engine serves all cores; each vector engine works on a memory of its own in front of theirs."""
    shared = of_the_cluster(machine, ("matrix",))
    local = shared.memory["L1"]
    own = replace(local, name="UB", scope="core", capacity=local.capacity // 4, banks=1, interleave=0)
    stage = replace(
        shared.engine["MTI"], name="STAGE", classes=("copy",), reads=("L1", "IM", "UB"), writes=("L1", "IM", "UB")
    )
    moved = with_engines(shared, lambda e: replace(e, reads=("UB",), writes=("UB",)) if e.name == "VME" else e)
    return replace(moved, memories=(*moved.memories, own), engines=(*moved.engines, stage))


def kinds_with_shared_engines(machine: Machine) -> dict[str, Machine]:
    """Machines whose engines share the work of a core, or serve the cores of a cluster."""
    return {
        "two matrix engines": with_count(machine, {"matrix": 2}),
        "five vector engines": with_count(machine, {"vector": 5}),
        "three matrix and four vector engines": with_count(machine, {"matrix": 3, "vector": 4}),
        "a matrix engine of the cluster": of_the_cluster(machine, ("matrix",)),
        "a vector engine of the cluster": of_the_cluster(machine, ("vector",)),
        "a memory for the vector engine of each core": staged_for_each_core(machine),
    }
