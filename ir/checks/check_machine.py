"""Whether a machine makes sense: sizes, roles, names that lead somewhere, and every way that the compiler relies on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import chain
from typing import cast

from ..errors import UsageError
from ..graph import DTYPES
from ..machine import Engine, Link, Machine, Memory

Finding = tuple[str, str]
"""Where (a path as ``memories[2].capacity``, ``engines`` or ``clusters``), and what is wrong."""

CLASSES = ("matrix", "vector", "copy", "broadcast", "dma", "host")
ROLES = ("main", "shared", "local", "weights", "accumulator")
LARGEST = 2**40 - 1
"""Capacities are at most this, because instructions hold addresses in 40 bits."""
_MAY_BE_ZERO = {"interleave", "issue", "latency", "queue_depth", "rows", "columns", "fill", "bytes_per_cycle@engines"}
_NEEDS = {"matrix": ("rows", "columns", "rate"), "vector": ("lanes",)}
_WAYS = (
    ("copy", "shared", "local"), ("copy", "local", "shared"), ("copy", "shared", "weights"),
    ("copy", "local", "weights"), ("broadcast", "shared", "local"), ("dma", "main", "shared"),
    ("dma", "shared", "main"), ("matrix", "local", "accumulator"), ("matrix", "weights", "accumulator"),
    ("vector", "accumulator", "local"), ("vector", "local", "accumulator"), ("host", "main", "main"),
)  # fmt: skip
"""Some engine of the class must read the one role and write the other."""


def check_machine(machine: Machine) -> None:
    """Raise :class:`UsageError` with the first problem."""
    for path, message in problems(machine):
        raise UsageError(f"machine {machine.name!r}: {message} (in {path})")


def problems(machine: Machine) -> Iterator[Finding]:
    """What is wrong; what comes after the first may be its consequence."""
    return chain(_sizes(machine), _names(machine), _roles(machine), _engines(machine), _links(machine), _ways(machine))


def _entries(machine: Machine) -> Iterator[tuple[str, int, Memory | Engine | Link]]:
    for table in ("memories", "engines", "links"):
        for index, entry in enumerate(getattr(machine, table)):
            yield table, index, entry


def _sizes(machine: Machine) -> Iterator[Finding]:
    for key in ("frequency", "clusters", "cores"):
        if not 0 < (value := getattr(machine, key)) < float("inf"):
            yield key, f"{key} must be greater than 0, not {value}"
    for table, index, entry in _entries(machine):
        for spec in fields(entry):
            value = getattr(entry, spec.name)
            numbers = cast("Iterable[object]", value.values() if isinstance(value, dict) else (value,))
            optional = spec.name in _MAY_BE_ZERO or f"{spec.name}@{table}" in _MAY_BE_ZERO
            for number in numbers:
                if isinstance(number, int | float) and not (0 < number < float("inf") or (optional and number == 0)):
                    least = "at least 0" if optional else "greater than 0"
                    where = f"{table}[{index}].{spec.name}"
                    yield where, f"{spec.name} of {entry.name} must be {least}, not {number}"
    for index, m in enumerate(machine.memories):
        path = f"memories[{index}]"
        if m.capacity > LARGEST:
            yield f"{path}.capacity", f"capacity of {m.name} must be at most {LARGEST:,} bytes, not {m.capacity:,}"
        if m.banks > 0 and m.capacity % m.banks:
            message = f"the {m.banks} banks of {m.name} must divide its capacity, {m.capacity:,} bytes"
            yield f"{path}.banks", message
        if m.interleave > 0 and m.alignment > 0 and m.interleave % m.alignment:
            message = f"interleave of {m.name} ({m.interleave}) must be a multiple of its alignment ({m.alignment})"
            yield f"{path}.interleave", message


def _names(machine: Machine) -> Iterator[Finding]:
    taken: set[tuple[str, str]] = set()
    for table, index, entry in _entries(machine):
        if (table, entry.name) in taken:
            yield f"{table}[{index}].name", f"two of the {table} are named {entry.name!r}; names must differ"
        taken.add((table, entry.name))


def _roles(machine: Machine) -> Iterator[Finding]:
    for role in ROLES:
        holders = [i for i, m in enumerate(machine.memories) if m.role == role]
        if not holders:
            yield "memories", f"no memory has the role {role!r}; exactly one must: add a [[memories]] table"
        if len(holders) > 1:
            names = " and ".join(machine.memories[i].name for i in holders)
            yield f"memories[{holders[1]}].role", f"{names} have the role {role!r}; exactly one memory may"
        expected = "cluster" if role in ("main", "shared") else "core"
        for i in holders[:1]:
            if machine.memories[i].scope != expected:
                yield f"memories[{i}].scope", f'the memory with the role {role!r} must have scope "{expected}"'


def _engines(machine: Machine) -> Iterator[Finding]:
    for index, engine in enumerate(machine.engines):
        path = f"engines[{index}]"
        if engine.scope == "chip":
            yield f"{path}.scope", f'{engine.name} must have scope "core" or "cluster"'
        for kind in engine.classes:
            if kind not in CLASSES:
                yield f"{path}.classes", f"unknown instruction class {kind!r}; known are {', '.join(CLASSES)}"
            for key in _NEEDS.get(kind, ("bytes_per_cycle",)):
                if not getattr(engine, key):
                    yield f"{path}.{key}", f"{engine.name} runs {kind} instructions, and needs {key}"
        for key in ("reads", "writes"):
            for name in getattr(engine, key):
                if name not in machine.memory:
                    known = ", ".join(machine.memory)
                    yield f"{path}.{key}", f"{engine.name} {key} an unknown memory {name!r}; known are {known}"
                elif engine.scope == "cluster" and machine.memory[name].scope == "core":
                    yield f"{path}.{key}", f"{engine.name} is a cluster's engine, and {name} belongs to a core"
        for key in ("rate", "lanes"):
            for dtype in getattr(engine, key) or {}:
                if dtype not in DTYPES:
                    yield f"{path}.{key}", f"unknown dtype {dtype!r}; known are {', '.join(DTYPES)}"


def _links(machine: Machine) -> Iterator[Finding]:
    for index, link in enumerate(machine.links):
        if link.memory not in machine.memory:
            known = ", ".join(machine.memory)
            message = f"{link.name} limits an unknown memory {link.memory!r}; known are {known}"
            yield f"links[{index}].memory", message


def _ways(machine: Machine) -> Iterator[Finding]:
    roles = {m.name: m.role for m in machine.memories}
    for kind, origin, target in _WAYS:
        runs = [i for i, e in enumerate(machine.engines) if kind in e.classes]
        engines = [machine.engines[i] for i in runs]
        if not any(origin in map(roles.get, e.reads) and target in map(roles.get, e.writes) for e in engines):
            wanted = f"that reads the {origin} memory and writes the {target} memory"
            where = f"engines[{runs[0]}]" if runs else "engines"
            yield where, f"no engine of class {kind!r} {wanted}; add it to classes, reads and writes of one"
