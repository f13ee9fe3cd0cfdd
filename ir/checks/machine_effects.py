"""What of a machine the compiler has no use for: it may be true of the chip, but changes neither plan nor program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import chain

from ..machine import WAYS, Engine, Machine, Side
from .check_machine import Finding

KINDS_OF_KEY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("rows", "columns", "depth", "dataflow", "rate", "fill", "weights"), ("matrix",)),
    "lanes": ("vector",), "special": ("vector", "scalar"), "operations_per_cycle": ("scalar",),
    "bytes_per_cycle": ("copy", "broadcast", "dma", "host", "scalar"), "queue_depth": (),
}  # fmt: skip
"""The instruction classes whose times follow from a key of an engine; what is not here concerns all of them."""
_TRANSFERS = ("copy", "broadcast", "dma", "scalar")


def without_effect(machine: Machine) -> tuple[str, ...]:
    """A sentence for each engine, link and key without effect on what is compiled for a machine that passed its checks.

    It ends in the path of what it is about, such as ``engines[2].queue_depth``.
    """
    findings = chain(_memories(machine), _engines(machine), _links(machine))
    return tuple(f"{message} (in {path})" for path, message in findings)


def _memories(machine: Machine) -> Iterator[Finding]:
    for index, memory in enumerate(machine.memories):
        if memory.interleave and memory.banks == 1:
            yield f"memories[{index}].interleave", f"interleave of {memory.name} has no effect: there is one bank"
        if not machine.roles_of(memory.name) and memory.name not in machine.staging_memories:
            why = "other memories are on the way of every operand"
            if memory.read_only:
                lacks = (c.lacks for c in machine.candidates("constants", machine.roles) if c.memory is memory)
                why = "; ".join(text for texts in lacks for text in texts) or why
            yield f"memories[{index}]", f"{memory.name} is never used: {why}"


def _engines(machine: Machine) -> Iterator[Finding]:
    for index, engine in enumerate(machine.engines):
        path = f"engines[{index}]"
        ways = [way for way, runner in machine.ways.items() if runner is engine]
        staging = [copy for copy in machine.staging_copies if copy[0] == engine.name]
        if not ways and not staging:
            yield path, f"{engine.name} is never used: {'; '.join(_instead(machine, kind) for kind in engine.classes)}"
            continue
        for kind in engine.classes:
            if kind not in {way.kind for way in ways} and not (kind == "copy" and staging):
                yield f"{path}.classes", f"class {kind!r} of {engine.name} has no effect: {_instead(machine, kind)}"
        weights = machine.role("weights").name
        sides: tuple[Side, ...] = ("reads", "weights", "writes")
        for key in sides:
            if key == "weights":
                used = {weights}
            else:
                roles = (
                    role for way in ways for role in getattr(way, key) if (way.kind, role) != ("matrix", "weights")
                )
                used = {machine.role(role).name for role in roles}
            if key == "reads" and {"host", "scalar"} & {way.kind for way in ways}:
                used.add(machine.role("constants").name)
            used |= {copy[2 if key == "writes" else 1] for copy in staging}
            used |= {s.memory.name for n in machine.memory if (s := machine.staging(engine, key, n)) is not None}
            for name in getattr(engine, key):
                if name not in used:
                    verb = "writes nothing to" if key == "writes" else "reads nothing from"
                    yield f"{path}.{key}", f"{name} in {key} of {engine.name} has no effect: it {verb} there"
        yield from _keys(path, engine, {way.kind for way in ways} | ({"copy"} if staging else set()))


def _keys(path: str, engine: Engine, kinds: set[str]) -> Iterator[Finding]:
    for spec in fields(engine):
        users = KINDS_OF_KEY.get(spec.name)
        if users is not None and not kinds & set(users) and getattr(engine, spec.name) != spec.default:
            why = (
                f"it is for engines that run {' or '.join(users)} instructions"
                if users
                else "a queue takes all that comes"
            )
            yield f"{path}.{spec.name}", f"{spec.name} of {engine.name} has no effect: {why}"
    if "matrix" in kinds and "uint8" in (engine.rate or {}):
        yield f"{path}.rate", f"uint8 in rate of {engine.name} has no effect: uint8 is multiplied at the rate of int8"


def _instead(machine: Machine, kind: str) -> str:
    """Which engines run the instructions of a class that another one could run, too."""
    runners = {way: engine.name for way, engine in machine.ways.items() if way.kind == kind}
    scope = next(way.scope for way in WAYS if way.kind == kind)
    names = " and ".join(dict.fromkeys(runners.values()))
    return f"{kind} instructions run on {names}, the first of scope {scope!r} with the memories for it"


def _links(machine: Machine) -> Iterator[Finding]:
    ways = [way for way in machine.ways if way.kind in _TRANSFERS]
    crossed = {(machine.role(role).name, "read") for way in ways for role in way.reads}
    crossed |= {(machine.role(role).name, "write") for way in ways for role in way.writes}
    for index, link in enumerate(machine.links):
        directions = ("read", "write") if link.direction == "both" else (link.direction,)
        if not any((link.memory, direction) in crossed for direction in directions):
            what = "moves data to or from" if link.direction == "both" else f"{link.direction}s"
            yield f"links[{index}]", f"link {link.name} has no effect: no copy, broadcast or DMA {what} {link.memory}"
