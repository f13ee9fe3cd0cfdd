"""Whether data comes to every memory, from those that have it, by the ways of the engines."""

from __future__ import annotations

from collections.abc import Iterator

from ..machine import Machine


def not_filled(machine: Machine, homes: set[str], *, circles: bool = False) -> Iterator[tuple[str, str]]:
    """Memories to which nothing comes from the ``homes`` of data, by all ways that the engines have: where, and what.

    ``circles``: only those that engines write.
    """
    named = {name for engine in machine.engines for name in (*engine.sources, *engine.writes)}
    filled = homes | {m.name for m in machine.memories if m.read_only}
    while more := {n for e in machine.engines if filled & set(e.sources) for n in e.writes} - filled:
        filled |= more
    for index, memory in enumerate(machine.memories):
        if memory.name in filled or memory.name not in named:
            continue
        writers = [e for e in machine.engines if memory.name in e.writes]
        if not writers:
            if circles:
                continue
            what = f"no engine writes {memory.name}, and it is not read_only"
        else:
            sources = dict.fromkeys(name for e in writers for name in e.sources)
            if not sources:
                continue  # Which is told of the engines.
            names = " and ".join(e.name for e in writers)
            what = f"nothing comes to {memory.name}: {names} can bring there what is in {' and '.join(sources)} alone"
            what += ", a circle without a source" if memory.name in _upstream(machine, memory.name) else ""
        known = [m.name for m in machine.memories if m.name in filled]
        cure = f"let an engine that reads {' or '.join(known)} write it, or remove it"
        if not known:
            cure = (
                "add a memory of the cluster or the chip that has the data, and let a copy engine of the cores read it"
            )
        message = f"{what}; {cure}"
        yield f"memories[{index}]", message


def _upstream(machine: Machine, name: str) -> set[str]:
    """The memories from which something can come to a memory."""
    upstream: set[str] = set()
    pending = [name]
    while pending:
        target = pending.pop()
        for source in {s for e in machine.engines if target in e.writes for s in e.sources} - upstream:
            upstream.add(source)
            pending.append(source)
    return upstream
