"""An accelerator, as data: memories, engines and links; what each is used for is derived from these.

A machine is clusters of cores of engines. A batch is divided over the clusters, which run the same program on their
own data; everything else speaks of one cluster. Nothing in the code names a chip: what an engine may read, write and
run is in its machine file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import get_args

from .machines.as_planned import as_planned, name_in_file
from .machines.derivation import derived_levels, derived_roles
from .machines.engine import Dataflow, Engine, Side
from .machines.hardware import Hardware
from .machines.levels import Level, Levels
from .machines.memories import Link, Memory, Scope
from .machines.staging_memories import Staging
from .machines.way_engines import WayEngines
from .machines.ways import ROLES, WAYS, Role, Way

__all__ = [
    "ROLES", "WAYS", "Dataflow", "Engine", "Level", "Levels", "Link", "Machine", "Memory", "Role", "Scope", "Side",
    "Staging", "Way",
]  # fmt: skip


@dataclass(frozen=True)
class Machine(Hardware):
    """A whole accelerator."""

    # Levels: where operands lie.

    @cached_property
    def levels(self) -> Levels:
        """Where each kind of operand lies; of a machine that passed its checks, as it is planned for."""
        return derived_levels(self, self.roles)

    @cached_property
    def roles(self) -> dict[Role, Memory]:
        """The whole memory that plays each role; without the roles that no memory can play."""
        return derived_roles(self)

    def roles_of(self, memory: str) -> tuple[Role, ...]:
        """The roles that a memory plays, by its name; none if the compiler does not use it."""
        return tuple(role for role in get_args(Role) if role in self.roles and self.roles[role].name == memory)

    def use_of(self, memory: str) -> str:
        """What a memory is used for, by its name, in one line: its roles, staging, or nothing ("unused")."""
        return self.uses[memory]

    @cached_property
    def uses(self) -> dict[str, str]:
        """What each memory is used for where the machine is planned for, by its name here."""
        planned = as_planned(self)
        staging = planned.staging_memories
        return {
            name_in_file(self, m.name): ", ".join(planned.roles_of(m.name))
            or ("staging" if m.name in staging else "unused")
            for m in planned.memories
        }

    # Staging: operands that an engine has in a memory of its own while it works on them.

    def staging(self, engine: Engine, side: Side, memory: str) -> Staging | None:
        """Where an engine has an operand that lies in a memory (by name); ``None`` if it has it there, or nowhere."""
        return self._way_engines.stagings.get((engine.name, side, memory))

    def stopover(self, source: str, target: str) -> Memory | None:
        """The staging memory through which a core copies from one memory to another, where no engine does at once."""
        return self._way_engines.stopovers.get((source, target))

    @property
    def staging_copies(self) -> frozenset[tuple[str, str, str]]:
        """Engine, source and target (by name) of each copy to a staging memory and from there."""
        return self._way_engines.staging_copies

    @property
    def staging_memories(self) -> tuple[str, ...]:
        """Names of the memories that operands are staged in, in the order of the machine."""
        return self._way_engines.staging_memories

    # Engines: who goes each way.

    @cached_property
    def _way_engines(self) -> WayEngines:
        return WayEngines(self, self.roles)

    @property
    def ways(self) -> dict[Way, Engine]:
        """The engine of each way that has one; the loader guarantees those that the machine needs."""
        return self._way_engines.ways

    def engine_for(self, kind: str) -> Engine:
        """The engine that runs instructions of class ``kind``: matrix, vector or, the first of several, dma."""
        return self._way_engines.first[kind]

    def team(self, kind: str) -> tuple[Engine, ...]:
        """The engines of a core among which instructions of class ``kind`` (matrix, vector) are divided.

        :meth:`engine_for` is the first; the others are as fast, and have the same operands in reach.
        """
        return self._way_engines.teams[kind]

    def shared_engine(self, kind: str) -> Engine:
        """:meth:`engine_for`, with the number of those that share its work as its ``count``."""
        return self._shared_engines[kind]

    @cached_property
    def _shared_engines(self) -> dict[str, Engine]:
        return {kind: replace(team[0], count=len(team)) for kind, team in self._way_engines.teams.items()}

    @property
    def host(self) -> Engine | None:
        """The host of a cluster, if it has one."""
        return self._way_engines.first.get("host")

    @property
    def scalar(self) -> Engine | None:
        """The scalar engine of a cluster, if it has one."""
        return self._way_engines.first.get("scalar")

    def mover(self, kind: str, source: Level | str, target: Level | str) -> Engine:
        """The engine that moves data (``kind``: copy, broadcast, dma) between two levels, or memories by their names.

        Plans and programs name memories.
        """
        return self._way_engines.movers[kind, _name(source), _name(target)]

    def moves(self, kind: str, source: Level | str, target: Level | str) -> bool:
        """Whether an engine moves data so."""
        return (kind, _name(source), _name(target)) in self._way_engines.movers

    def __str__(self) -> str:
        clusters, cores = (
            f"{n} {what}{'s' * (n != 1)}" for n, what in ((self.clusters, "cluster"), (self.cores, "core"))
        )
        rows = [f"{self.name}: {clusters} x {cores} at {self.frequency / 1e9:g} GHz"]
        wide = max((len(m.name) for m in self.memories), default=0)
        rows += [f"  {m.name:{wide}} {m.scope:7} {m.capacity:>13,} B  {self.uses[m.name]}" for m in self.memories]
        names = [f"{e.count} x {e.name}" if e.count > 1 else e.name for e in self.engines]
        wide = max(map(len, names), default=0)
        for name, e in zip(names, self.engines, strict=True):
            weights = f" x {', '.join(e.weights)}" if e.weights else ""
            way = f"{', '.join(e.reads)}{weights} -> {', '.join(e.writes)}"
            rows.append(f"  {name:{wide}} {e.scope:7} {', '.join(e.classes):15} {way}")
        return "\n".join(rows)


def _name(end: Level | str) -> str:
    return end if isinstance(end, str) else end.name
