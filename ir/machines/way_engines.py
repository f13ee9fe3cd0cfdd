"""Who goes each way: the engines that move data from one memory to another, and those that compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from .engine import Engine, Side
from .hardware import Hardware
from .memories import Memory
from .staging_memories import Staging, stagings, stopovers
from .ways import WAYS, Role, Way


@dataclass(frozen=True)
class WayEngines:
    """The engines of a machine whose memories have these ``roles``."""

    hardware: Hardware
    roles: Mapping[Role, Memory]

    @cached_property
    def stagings(self) -> dict[tuple[str, Side, str], Staging]:
        """See :func:`girih.ir.machines.staging_memories.stagings`."""
        return stagings(self.hardware, self.roles)

    @cached_property
    def stopovers(self) -> dict[tuple[str, str], Memory]:
        """See :func:`girih.ir.machines.staging_memories.stopovers`."""
        return stopovers(self.hardware, self.roles)

    @cached_property
    def ways(self) -> dict[Way, Engine]:
        """The engine of each way that has one."""
        roles = self.roles
        known = [way for way in WAYS if {*way.reads, *way.writes} <= set(roles)]
        if "main" in roles:
            # Either DMA stands between the cores and the homes, or they copy by themselves.
            direct = roles["shared"].name == roles["main"].name
            by_cores = [way for way in known if way.kind != "dma"]
            known = by_cores if direct else [w for w in known if w.kind == "dma" or "constants" not in w.reads]
        fitting = {way: [e for e in self.hardware.engines if self.goes(way, e)] for way in known}
        if "constants" in roles:
            # A kernel reads constants where they are.
            name = roles["constants"].name
            for way in (way for way in known if way.kind in ("host", "scalar")):
                fitting[way] = [e for e in fitting[way] if name in e.reads]
        return {way: engines[0] for way, engines in fitting.items() if engines}

    def goes(self, way: Way, engine: Engine) -> bool:
        """Whether an engine can go a way, or the last part of one that data goes by two copies."""
        if way.fits(engine, self.roles):
            return True
        if way.kind not in engine.classes or way.scope != engine.scope:
            return False
        if way.kind in ("matrix", "vector"):
            reads, writes = (tuple(self.roles[r].name for r in ends) for ends in (way.reads, way.writes))
            return all(
                n in engine.sources or (engine.name, "reads", n) in self.stagings
                or (engine.name, "weights", n) in self.stagings
                for n in reads
            ) and all(n in engine.writes or (engine.name, "writes", n) in self.stagings for n in writes)  # fmt: skip
        source, target = (self.roles[ends[0]].name for ends in (way.reads, way.writes))
        stop = self.stopovers.get((source, target))
        return way.kind == "copy" and stop is not None and stop.name in engine.reads and target in engine.writes

    @cached_property
    def first(self) -> dict[str, Engine]:
        """The engine of each class of instructions; of several ways, that of the first."""
        return {way.kind: engine for way, engine in reversed(self.ways.items())}

    @cached_property
    def teams(self) -> dict[str, tuple[Engine, ...]]:
        """The engines of a core that share the instructions of a class (matrix, vector): equally fast ones."""
        return {
            way.kind: tuple(e for e in self.hardware.engines if self.goes(way, e) and e.pace == first.pace)
            for way, first in self.ways.items()
            if way.kind in ("matrix", "vector")
        }

    @cached_property
    def movers(self) -> dict[tuple[str, str, str], Engine]:
        """By class, source and target (by name): the engine that moves data so."""
        names = {role: memory.name for role, memory in self.roles.items()}
        movers: dict[tuple[str, str, str], Engine] = {}
        for way, engine in self.ways.items():
            movers.setdefault((way.kind, names[way.reads[0]], names[way.writes[0]]), engine)
        for (source, target), stop in self.stopovers.items():
            for ends in ((self.hardware.memory[source], stop), (stop, self.hardware.memory[target])):
                engine = self.hardware.copier("copy", *ends)
                assert engine is not None
                movers.setdefault(("copy", ends[0].name, ends[1].name), engine)
        return movers

    @cached_property
    def staging_copies(self) -> frozenset[tuple[str, str, str]]:
        """Engine, source and target (by name) of each copy to a staging memory and from there."""
        copies: set[tuple[str, str, str]] = set()
        for (_, _, memory), staging in self.stagings.items():
            copies.add((staging.into.name, memory, staging.memory.name))
            if staging.out is not None:
                copies.add((staging.out.name, staging.memory.name, memory))
        for (source, target), stop in self.stopovers.items():
            for ends in ((source, stop.name), (stop.name, target)):
                copies.add((self.movers["copy", *ends].name, *ends))
        return frozenset(copies)

    @cached_property
    def staging_memories(self) -> tuple[str, ...]:
        """Names of the memories that operands are staged in, in the order of the machine."""
        names = {s.memory.name for s in self.stagings.values()} | {m.name for m in self.stopovers.values()}
        return tuple(m.name for m in self.hardware.memories if m.name in names)
