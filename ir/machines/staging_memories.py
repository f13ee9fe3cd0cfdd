"""Staging: operands that an engine has in another memory of its core while it works on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .engine import SIDES, Engine, Side
from .hardware import Hardware
from .memories import Memory
from .ways import CORE_ROLES, WAYS, Role


@dataclass(frozen=True)
class Staging:
    """Where an engine has an operand that lies in a memory that it cannot reach, and who copies it there and back.

    ``out`` is ``None`` for what is only read.
    """

    memory: Memory
    into: Engine
    out: Engine | None


def staged_in(
    hardware: Hardware, engine: Engine, side: Side, memory: Memory, roles: Mapping[Role, Memory]
) -> Staging | None:
    """Where an engine has an operand that lies in ``memory``: a memory of the core that plays none of the ``roles``."""
    role_memories = {m.name for m in roles.values()}
    for stage in hardware.memories:
        if (
            stage.scope != "core"
            or stage.name in {*role_memories, memory.name}
            or stage.name not in getattr(engine, side)
        ):
            continue
        into = hardware.copier("copy", memory, stage)
        out = hardware.copier("copy", stage, memory) if side == "writes" else None
        # What is added to is brought before it is taken back.
        if into is not None and (out is not None or side != "writes"):
            return Staging(stage, into, out)
    return None


def stopped_at(hardware: Hardware, source: Memory, target: Memory) -> Memory | None:
    """The memory of a core through which data goes from one memory to another by two copies."""
    endpoints = {source.name, target.name}
    return next(
        (
            m
            for m in hardware.memories
            if m.scope == "core" and m.name not in endpoints
            and hardware.copies("copy", source, m) and hardware.copies("copy", m, target)
        ),
        None,
    )  # fmt: skip


def stagings(hardware: Hardware, roles: Mapping[Role, Memory]) -> dict[tuple[str, Side, str], Staging]:
    """By engine, side and memory (by name): where it has an operand that lies there, if it does not have it there."""
    known: dict[tuple[str, Side, str], Staging] = {}
    for engine in hardware.engines:
        if engine.scope != "core" or not {"matrix", "vector"} & set(engine.classes):
            continue
        for side in SIDES:
            for memory in dict.fromkeys(m.name for role, m in roles.items() if role in CORE_ROLES):
                if memory in getattr(engine, side):
                    continue
                staging = staged_in(hardware, engine, side, hardware.memory[memory], roles)
                if staging is not None:
                    known[engine.name, side, memory] = staging
    return known


def stopovers(hardware: Hardware, roles: Mapping[Role, Memory]) -> dict[tuple[str, str], Memory]:
    """By source and target (by name): the staging memory through which a core copies what no engine copies at once."""
    known: dict[tuple[str, str], Memory] = {}
    for way in WAYS:
        if way.kind != "copy" or not {*way.reads, *way.writes} <= set(roles):
            continue
        source, target = roles[way.reads[0]], roles[way.writes[0]]
        stop = None if hardware.copies("copy", source, target) else stopped_at(hardware, source, target)
        if stop is not None and stop not in roles.values():
            known[source.name, target.name] = stop
    return known
