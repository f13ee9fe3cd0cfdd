"""Whether a machine makes sense: sizes, roles, names that lead somewhere, and every way that the compiler relies on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import chain, islice
from typing import cast

from ..errors import UsageError
from ..graph import DTYPES
from ..machine import ROLES, WAYS, Engine, Link, Machine, Memory, Role
from ..machines.as_planned import as_planned, name_in_file
from ..machines.requirements import Candidate, candidates
from ..machines.ways import CORE_ROLES
from .filled_memories import not_filled
from .outer_memories import left_out

Finding = tuple[str, str]
"""Where (a path as ``memories[2].capacity``, ``engines`` or ``clusters``), and what is wrong."""

CLASSES = ("matrix", "vector", "copy", "broadcast", "dma", "host", "scalar")
LARGEST = 2**40 - 1
"""Capacities are at most this, because instructions hold addresses in 40 bits."""
_ELEMENT = max(DTYPES.values())
"""Bytes of the largest element: what is aligned to it is aligned to all of them, since sizes are powers of two."""
_MOST, _LONGEST = 2**20, 2**24
"""Of a rate or a size of an engine, and of a delay in cycles: with larger ones, times leave the range of the solver."""
_RANGES: dict[str, tuple[float, float]] = {
    "machine.frequency": (1, 1e12), "machine.clusters": (1, 2**16), "machine.cores": (1, 64),
    "memories.capacity": (1, LARGEST), "memories.alignment": (_ELEMENT, LARGEST), "memories.banks": (1, 2**12),
    "memories.interleave": (0, LARGEST), "memories.bytes_per_cycle": (1, _MOST),
    "engines.issue": (0, _LONGEST), "engines.latency": (0, _LONGEST), "engines.rows": (0, _MOST),
    "engines.columns": (0, _MOST), "engines.depth": (1, _MOST), "engines.rate": (1 / 1024, _MOST),
    "engines.lanes": (1, _MOST),
    "engines.special": (1, 2**12), "engines.bytes_per_cycle": (0, _MOST), "engines.queue_depth": (0, _MOST),
    "engines.fill": (0, _MOST), "engines.count": (1, 64), "engines.operations_per_cycle": (1 / 1024, _MOST),
    "links.bytes_per_cycle": (1 / 1024, _MOST), "links.latency": (0, _LONGEST), "links.burst": (1, _MOST),
}  # fmt: skip
"""By table and key, the least and the largest number. A broadcast names its cores in 64 bits."""
_NEEDS = {
    "matrix": ("rows", "columns", "rate", "weights"),
    "vector": ("lanes",),
    "scalar": ("operations_per_cycle", "bytes_per_cycle"),
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,31}")


def check_machine(machine: Machine) -> None:
    """Raise :class:`UsageError` with the first problem."""
    for path, message in problems(machine):
        raise UsageError(f"machine {machine.name!r}: {message} (in {path})")


def problems(machine: Machine) -> Iterator[Finding]:
    """What is wrong: with the entries by themselves, or, if nothing is, with the first role or way that is missing."""
    alone = [
        *_sizes(machine), *_memories(machine), *_names(machine), *_engines(machine), *_links(machine),
        *_reached(machine), *not_filled(machine, {m.name for m in machine.memories if m.scope != "core"}, circles=True),
    ]  # fmt: skip
    if alone:
        yield from alone
        return
    planned = as_planned(machine)
    homes = {name_in_file(machine, planned.roles[role].name) for role in ("main", "constants") if role in planned.roles}
    together = (
        _computing(machine), _apart(machine, planned), _roles(machine, planned), left_out(machine, planned),
        _ways(machine, planned), not_filled(machine, homes),
    )  # fmt: skip
    yield from islice(chain(*together), 1)


def _entries(machine: Machine) -> Iterator[tuple[str, int, Memory | Engine | Link]]:
    for table in ("memories", "engines", "links"):
        for index, entry in enumerate(getattr(machine, table)):
            yield table, index, entry


def _sizes(machine: Machine) -> Iterator[Finding]:
    for table, index, entry in (("machine", None, machine), *_entries(machine)):
        for spec in fields(entry):
            value = getattr(entry, spec.name)
            numbers = cast("dict[str, object]", value if isinstance(value, dict) else {"": value})
            for dtype, number in numbers.items():
                if isinstance(number, bool) or not isinstance(number, int | float):
                    continue
                needed = isinstance(entry, Engine) and spec.name in _needed(entry)
                if wrong := _beyond(f"{table}.{spec.name}", number, needed):
                    if index is None:
                        yield spec.name, f"{spec.name} must be {wrong}"
                    else:
                        key, which = (f".{dtype}", f" for {dtype}") if dtype else ("", "")
                        path = f"{table}[{index}].{spec.name}{key}"
                        yield path, f"{spec.name} of {entry.name}{which} must be {wrong}"


def _needed(engine: Engine) -> dict[str, list[str]]:
    """The keys without which an engine cannot run its instructions, and the classes that need each of them."""
    needed: dict[str, list[str]] = {}
    for kind in dict.fromkeys(engine.classes):
        # Of a misspelt class, that is all there is to say: what it would need is not known.
        for key in _NEEDS.get(kind, ("bytes_per_cycle",)) if kind in CLASSES else ():
            needed.setdefault(key, []).append(kind)
    return needed


def _beyond(key: str, number: float, needed: bool = False) -> str | None:
    """What a number must be, if it is not. ``needed``: 0, which the table may allow, is refused elsewhere."""
    least, most = _RANGES[key]
    if least <= number <= most:
        return None
    shown = f"{number:,}" if isinstance(number, float) or abs(number) < 2**64 else "one of more than 64 bits"
    if number > most:
        return f"at most {most:,}, not {shown}"
    if number <= 0 and (needed or 0 < least <= 1):
        return f"greater than 0, not {shown}"
    return f"at least {f'1/{1 / least:g}' if 0 < least < 1 else f'{least:g}'}, not {shown}"


def _memories(machine: Machine) -> Iterator[Finding]:
    for index, m in enumerate(machine.memories):
        path = f"memories[{index}]"
        if m.alignment < 1 or m.alignment & (m.alignment - 1):
            nearest = 1 << max(m.alignment, _ELEMENT).bit_length() - 1
            message = f"alignment of {m.name} must be a power of two, such as {nearest}, not {m.alignment}"
            yield f"{path}.alignment", message
        if m.alignment > m.capacity:
            message = f"alignment of {m.name} ({m.alignment:,}) must be at most its capacity ({m.capacity:,})"
            yield f"{path}.alignment", message
        if m.banks > 0 and m.capacity % m.banks:
            message = f"the {m.banks} banks of {m.name} must divide its capacity, {m.capacity:,} bytes"
            yield f"{path}.banks", message
        if m.interleave > 0 and m.alignment > 0 and m.interleave % m.alignment:
            message = f"interleave of {m.name} ({m.interleave}) must be a multiple of its alignment ({m.alignment})"
            yield f"{path}.interleave", message


def _reached(machine: Machine) -> Iterator[Finding]:
    used = {name for engine in machine.engines for name in (*engine.sources, *engine.writes)}
    for index, memory in enumerate(machine.memories):
        if memory.name not in used:
            message = f"no engine reads or writes {memory.name}; add it to reads or writes of one, or remove it"
            yield f"memories[{index}]", message


def _names(machine: Machine) -> Iterator[Finding]:
    if not machine.name.isprintable() or not 0 < len(machine.name.strip()) <= 80:
        yield "name", f"name must be a line of 1 to 80 characters, not {machine.name[:80]!r}"
    table_of: dict[tuple[str, str], str] = {}
    seen: set[tuple[str, str]] = set()
    queues: dict[str, str] = {}
    for table, index, entry in _entries(machine):
        path = f"{table}[{index}].name"
        if not _NAME.fullmatch(entry.name):
            rule = "a letter, then at most 31 letters, digits, '.', '_' or '-'"
            yield path, f"{entry.name[:80]!r} is no name for one of the {table}: {rule}"
        # Engines and links are the rows of one table of the report; counters have the names of memories in lower case.
        space = "memories" if table == "memories" else "engines and links"
        name = entry.name.lower() if table == "memories" else entry.name
        if (other := table_of.setdefault((space, name), table)) != table or (table, name) in seen:
            both = table if other == table else space
            hint = " in more than case" if table == "memories" else ""
            yield path, f"two of the {both} are named {entry.name!r}; names must differ{hint}"
        seen.add((table, name))
        if isinstance(entry, Engine):
            cores = range(min(machine.cores, 64)) if entry.scope == "core" else ("",)
            for queue in (f"{entry.name}{core}" for core in cores):
                if queues.setdefault(queue, entry.name) != entry.name:
                    message = f"queues of {entry.name} and {queues[queue]} are both called {queue}; rename one engine"
                    yield path, message


_PLAYS: dict[Role, str] = {
    "local": "has the data of a core",
    "accumulator": "takes the results of a matrix engine",
    "weights": "has the stationary operand of a matrix engine",
    "shared": "the cores load from and store to",
    "main": "holds everything",
}


def _apart(machine: Machine, planned: Machine) -> Iterator[Finding]:
    """Names that meet where several of a kind are told apart by what is put behind their name."""
    for table in ("memories", "engines"):
        names = [entry.name for entry in getattr(planned, table)]
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                index = [entry.name for entry in getattr(machine, table)].index(name)
                yield f"{table}[{index}].name", f"{name} is the name of one of several {table} of a kind; rename it"


def _computing(machine: Machine) -> Iterator[Finding]:
    """Classes of engines that compute, of which there is none."""
    for kind in ("matrix", "vector"):
        if not any(kind in engine.classes for engine in machine.engines):
            message = (
                f"there is no {kind} engine, and operators need one; add an engine of class {kind!r} to [[engines]]"
            )
            yield "engines", f"{message}, with {' and '.join(_NEEDS[kind])}"


def _roles(machine: Machine, planned: Machine) -> Iterator[Finding]:
    """The first role that no memory can play, with the memory that comes nearest to it."""
    for role in (*CORE_ROLES, "shared", "main"):
        if role in planned.roles:
            continue
        scope = "core" if role in CORE_ROLES else "cluster"
        able = candidates(planned, role, planned.roles, staged=True)
        message = f'there is no memory (scope "{scope}") that {_PLAYS[role]}'
        if not able:
            yield "memories", f"{message}: add one to [[memories]]"
            return
        nearest = min(able, key=lambda c: (len(c.lacks), c.memory in planned.roles.values()))
        name = name_in_file(machine, nearest.memory.name)
        index = [m.name for m in machine.memories].index(name)
        yield f"memories[{index}]", f"{message}; {name} comes nearest, but {_listed(nearest)}"
        return


def _listed(candidate: Candidate) -> str:
    *others, last = candidate.lacks
    return f"{', '.join(others)} and {last}" if others else last


def _engines(machine: Machine) -> Iterator[Finding]:
    for index, engine in enumerate(machine.engines):
        path = f"engines[{index}]"
        if engine.scope == "chip":
            yield f"{path}.scope", f'{engine.name} must have scope "core" or "cluster"'
        if not engine.classes:
            yield f"{path}.classes", f"{engine.name} runs nothing; classes are {', '.join(CLASSES)}"
        for kind in dict.fromkeys(engine.classes):
            if kind not in CLASSES:
                yield f"{path}.classes", f"unknown instruction class {kind!r}; known are {', '.join(CLASSES)}"
        yield from _repeated(path, engine)
        for key, kinds in _needed(engine).items():
            value = getattr(engine, key)
            # What is 0 and may not be is told by its size.
            if not value and (value is None or isinstance(value, tuple | dict) or not _beyond(f"engines.{key}", value)):
                more = " of more than 0" if value == 0 else " for at least one dtype" if value == {} else ""
                yield f"{path}.{key}", f"{engine.name} runs {' and '.join(kinds)} instructions, and needs {key}{more}"
        for key in (key for key in ("reads", "writes") if not getattr(engine, key)):
            yield f"{path}.{key}", f"{engine.name} {key} no memory; name one in {key}"
        for key in ("reads", "weights", "writes"):
            for name in dict.fromkeys(getattr(engine, key)):
                if name not in machine.memory:
                    known = ", ".join(machine.memory)
                    yield f"{path}.{key}", f"{engine.name} {_VERBS[key]} an unknown memory {name!r}; known are {known}"
                elif engine.scope == "cluster" and machine.memory[name].scope == "core":
                    yield f"{path}.{key}", f"{engine.name} is a cluster's engine, and {name} belongs to a core"
                elif key == "writes" and machine.memory[name].read_only:
                    message = f"{engine.name} writes {name}, which is read_only"
                    message += f"; take it out of writes, or read_only out of {name}"
                    yield f"{path}.{key}", message
        for key in ("rate", "lanes"):
            for dtype in getattr(engine, key) or {}:
                if dtype not in DTYPES:
                    yield f"{path}.{key}.{dtype}", f"unknown dtype {dtype!r}; known are {', '.join(DTYPES)}"


_VERBS = {"classes": "runs", "reads": "reads", "weights": "takes weights from", "writes": "writes"}
"""What an engine does with the names that these keys list."""


def _repeated(path: str, engine: Engine) -> Iterator[Finding]:
    """Names that are more than once in a list of an engine."""
    for key, verb in _VERBS.items():
        names: tuple[str, ...] = getattr(engine, key)
        for name in (name for name in dict.fromkeys(names) if names.count(name) > 1):
            times = "twice" if names.count(name) == 2 else f"{names.count(name)} times"
            yield f"{path}.{key}", f"{engine.name} {verb} {name} {times}; name it once"


def _links(machine: Machine) -> Iterator[Finding]:
    for index, link in enumerate(machine.links):
        path = f"links[{index}].memory"
        unknown = [name for name in link.memories if name not in machine.memory]
        if not link.memories:
            yield path, f"{link.name} limits no memory; name one"
        elif unknown:
            known = ", ".join(machine.memory)
            yield path, f"{link.name} limits an unknown memory {unknown[0]!r}; known are {known}"
        elif len(set(link.memories)) < len(link.memories):
            yield path, f"{link.name} limits a memory twice: {', '.join(link.memories)}; name each once"
        elif len({machine.memory[name].scope for name in link.memories}) > 1:
            scopes = ", ".join(f"{name} of a {machine.memory[name].scope}" for name in link.memories)
            yield path, f"{link.name} limits memories of different scopes ({scopes}); give the memories one scope"


def _ways(machine: Machine, planned: Machine) -> Iterator[Finding]:
    if not set(ROLES) <= set(planned.roles):
        return
    for way in WAYS:
        runs = [i for i, e in enumerate(machine.engines) if way.kind in e.classes]
        if way in planned.ways or way.optional or (way.kind == "dma" and not planned.levels.has_exchange):
            continue
        reads, writes = (_named(planned, roles) for roles in (way.reads, way.writes))
        where = f"engines[{runs[0]}]" if runs else "engines"
        message = f'no engine of class {way.kind!r} with scope "{way.scope}" that reads {reads} and writes {writes}'
        yield where, f"{message}; add it to classes, reads and writes of one"
    constants = planned.roles.get("constants")
    for index, engine in enumerate(machine.engines):
        if constants is not None and {"host", "scalar"} & set(engine.classes) and constants.name not in engine.reads:
            message = f"{engine.name} runs kernels, and cannot read {constants.name}, which has the constants"
            yield f"engines[{index}].reads", f"{message}; add it to reads"


def _named(machine: Machine, roles: Sequence[Role]) -> str:
    """Memories, by role and name."""
    words = [f"the {role} memory ({machine.roles[role].name})" for role in roles]
    return " and ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]
