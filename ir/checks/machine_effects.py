"""What of a machine the compiler has no use for: it may be true of the chip, but changes neither plan nor program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import chain

from ..machine import WAYS, Engine, Machine, Way
from ..machines.as_planned import as_planned, name_in_file
from ..machines.computed_types import KEYS, more_types
from ..machines.engine import SIDES
from ..machines.requirements import candidates
from .check_machine import Finding

KINDS_OF_KEY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("rows", "columns", "depth", "dataflow", "rate", "fill", "weights"), ("matrix",)),
    "lanes": ("vector",), "special": ("vector", "scalar"), "operations_per_cycle": ("scalar",),
    "bytes_per_cycle": ("copy", "broadcast", "dma", "host", "scalar"), "queue_depth": (),
    "count": ("matrix", "vector"),
}  # fmt: skip
"""The instruction classes whose times follow from a key of an engine; what is not here concerns all of them."""
_TRANSFERS = ("copy", "broadcast", "dma", "scalar")


def without_effect(machine: Machine) -> tuple[str, ...]:
    """A sentence for each engine, link and key without effect on what is compiled for a machine that passed its checks.

    It ends in the path of what it is about, such as ``engines[2].queue_depth``.
    """
    planned = as_planned(machine)
    findings = chain(_memories(machine, planned), _engines(machine, planned), _links(machine, planned))
    return tuple(f"{message} (in {path})" for path, message in findings)


def _memories(machine: Machine, planned: Machine) -> Iterator[Finding]:
    used = {name_in_file(machine, m.name) for m in planned.memories if planned.use_of(m.name) != "unused"}
    for index, memory in enumerate(machine.memories):
        if memory.interleave and memory.banks == 1:
            yield f"memories[{index}].interleave", f"interleave of {memory.name} has no effect: there is one bank"
        reached = -(-memory.capacity // memory.interleave) if memory.interleave else memory.banks
        if reached < memory.banks:
            message = f"interleave of {memory.name} ({memory.interleave:,}) is so large that all of its "
            message += f"{memory.capacity:,} bytes are in {reached} of its {memory.banks} banks"
            cure = f"give at most {memory.capacity // memory.banks:,}, or 0 for banks of consecutive addresses"
            yield f"memories[{index}].interleave", f"{message}; {cure}"
        if memory.name not in used:
            why = "other memories are on the way of every operand"
            if memory.read_only:
                able = candidates(planned, "constants", planned.roles)
                lacks = (c.lacks for c in able if c.memory.name == memory.name)
                why = "; ".join(text for texts in lacks for text in texts) or why
            yield f"memories[{index}]", f"{memory.name} is never used: {why}"


def _engines(machine: Machine, planned: Machine) -> Iterator[Finding]:
    def in_file(name: str) -> str:
        return name_in_file(machine, name)

    ways_of: dict[str, list[Way]] = {}
    for way, runner in planned.ways.items():
        team = planned.team(way.kind) if way.kind in ("matrix", "vector") else (runner,)
        for name in dict.fromkeys(in_file(e.name) for e in team):
            ways_of.setdefault(name, []).append(way)
    copies = [tuple(map(in_file, copy)) for copy in planned.staging_copies]
    for index, engine in enumerate(machine.engines):
        path = f"engines[{index}]"
        ways = ways_of.get(engine.name, [])
        staging = [copy for copy in copies if copy[0] == engine.name]
        # A DMA that fills the memory of a core copies for it.
        kinds = {kind: "copy" if kind == "dma" and _copies(planned, engine) else kind for kind in engine.classes}
        if not ways and not staging:
            why = "; ".join(_instead(machine, planned, kind, engine) for kind in kinds.values())
            yield path, f"{engine.name} is never used: {why}"
            continue
        for kind, planned_kind in kinds.items():
            if planned_kind not in {way.kind for way in ways} and not (planned_kind == "copy" and staging):
                why = _instead(machine, planned, kind, engine)
                yield f"{path}.classes", f"class {kind!r} of {engine.name} has no effect: {why}"
        weights = planned.levels.weights.name
        for key in SIDES:
            if key == "weights":
                used = {weights}
            else:
                roles = (
                    role for way in ways for role in getattr(way, key) if (way.kind, role) != ("matrix", "weights")
                )
                used = {planned.roles[role].name for role in roles}
            if key == "reads" and {"host", "scalar"} & {way.kind for way in ways}:
                used.add(planned.levels.constants.name)
            used |= {copy[2 if key == "writes" else 1] for copy in staging}
            used |= {
                in_file(s.memory.name)
                for e in planned.engines if in_file(e.name) == engine.name
                for n in planned.memory
                if (s := planned.staging(e, key, n)) is not None
            }  # fmt: skip
            for name in getattr(engine, key):
                if name not in used:
                    verb = "writes nothing to" if key == "writes" else "reads nothing from"
                    yield f"{path}.{key}", f"{name} in {key} of {engine.name} has no effect: it {verb} there"
        yield from _keys(path, engine, {way.kind for way in ways} | ({"copy"} if staging else set()))


def _copies(planned: Machine, engine: Engine) -> bool:
    """Whether an engine of a cluster is one that copies to and from the memory of a core when it is planned for."""
    return any(e.name == engine.name and e.scope == "core" != engine.scope for e in planned.engines)


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


def _instead(machine: Machine, planned: Machine, kind: str, idle: Engine) -> str:
    """Which engines run the instructions of a class that an idle one could run, too, and which dtypes it alone has."""
    runners = {way: name_in_file(machine, engine.name) for way, engine in planned.ways.items() if way.kind == kind}
    scope = next(way.scope for way in WAYS if way.kind == kind)
    names = " and ".join(dict.fromkeys(runners.values()))
    if not names:
        main = planned.levels.home.name
        if kind == "dma":
            return f"the cores reach {main}, the main memory, by themselves"
        need = f"{kind} instructions need an engine of scope {scope!r} that reads and writes {main}, the main memory"
        return f"{need}; {idle.name} has scope {idle.scope!r}" if idle.scope != scope else need
    why = f"{kind} instructions run on {names}, the first of scope {scope!r} with the memories for it"
    types = more_types(idle, planned.engine_for(kind), kind) if kind in KEYS else ()
    if not types:
        return why
    dtypes = " and ".join(types)
    return f"{why}, which does not compute in {dtypes}; give {names} the {KEYS[kind]} of {idle.name} for {dtypes}"


def _links(machine: Machine, planned: Machine) -> Iterator[Finding]:
    ways = [way for way in planned.ways if way.kind in _TRANSFERS]
    crossed = {(name_in_file(machine, planned.roles[role].name), "read") for way in ways for role in way.reads}
    crossed |= {(name_in_file(machine, planned.roles[role].name), "write") for way in ways for role in way.writes}
    for _, source, target in planned.staging_copies:
        crossed |= {(name_in_file(machine, source), "read"), (name_in_file(machine, target), "write")}
    for index, link in enumerate(machine.links):
        directions = ("read", "write") if link.direction == "both" else (link.direction,)
        what = "moves data to or from" if link.direction == "both" else f"{link.direction}s"
        idle = [name for name in link.memories if not any((name, direction) in crossed for direction in directions)]
        if idle == [*link.memories]:
            names = " or ".join(idle)
            yield f"links[{index}]", f"link {link.name} has no effect: no copy, broadcast or DMA {what} {names}"
            continue
        for name in idle:
            path = f"links[{index}].memory"
            yield path, f"{name} in memory of {link.name} has no effect: no copy, broadcast or DMA {what} it"
