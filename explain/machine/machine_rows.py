"""A machine as text: its memories with what each is used for, and the ways of its engines."""

from __future__ import annotations

from ...ir.machine import Machine
from ...ir.machines.as_planned import as_planned, name_in_file
from ..units import plural


def uses(machine: Machine) -> dict[str, str]:
    """What each memory of a machine file is used for, by name: its roles, staging, or nothing."""
    planned = as_planned(machine)
    return {name_in_file(machine, m.name): planned.use_of(m.name) for m in planned.memories}


def machine_rows(machine: Machine) -> str:
    """A line for the machine, and one for each memory and engine."""
    used = uses(machine)
    count = f"{plural(machine.clusters, 'cluster')} x {plural(machine.cores, 'core')}"
    rows = [f"{machine.name}: {count} at {machine.frequency / 1e9:g} GHz"]
    wide = max((len(m.name) for m in machine.memories), default=0)
    rows += [f"  {m.name:{wide}} {m.scope:7} {m.capacity:>13,} B  {used[m.name]}" for m in machine.memories]
    names = {e.name: f"{e.count} x {e.name}" if e.count > 1 else e.name for e in machine.engines}
    wide = max(map(len, names.values()), default=0)
    for e in machine.engines:
        weights = f" x {', '.join(e.weights)}" if e.weights else ""
        way = f"{', '.join(e.reads)}{weights} -> {', '.join(e.writes)}"
        rows.append(f"  {names[e.name]:{wide}} {e.scope:7} {', '.join(e.classes):15} {way}")
    return "\n".join(rows)
