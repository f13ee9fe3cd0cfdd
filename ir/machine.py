"""An accelerator, as data: memories, engines, links and their timing.

A machine is clusters of cores of engines. A batch is divided over the clusters, which run the same program on their
own data; everything else speaks of one cluster. Nothing in the code names a chip: what an engine may read, write and
run is in its machine file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm
from typing import Annotated, Literal, get_args

from msgspec import Meta

Scope = Literal["chip", "cluster", "core"]
Dataflow = Literal["output", "weight", "input"]
Side = Literal["reads", "weights", "writes"]
"""Which of the lists of an engine says where it takes an operand from, or leaves it."""

_CLASS = Meta(extra_json_schema={"enum": ["matrix", "vector", "copy", "broadcast", "dma", "host", "scalar"]})
"""For editors alone: what else a file says is told with the place and the known ones (:mod:`.checks.check_machine`)."""
Role = Literal["main", "shared", "local", "weights", "accumulator", "constants"]
"""What the compiler uses a memory for: see :attr:`Machine.roles`."""
ROLES: tuple[Role, ...] = tuple(role for role in get_args(Role) if role != "constants")
"""Those that a memory of every machine plays; constants have a memory of their own where one is read-only."""


@dataclass(frozen=True)
class Memory:
    """One memory."""

    name: Annotated[str, Meta(description="How engines and links refer to it.")]
    scope: Annotated[Scope, Meta(description="What has one of it: the chip, each cluster, or each core.")]
    capacity: Annotated[int, Meta(description="Bytes.")]
    alignment: Annotated[
        int, Meta(description="Addresses are multiples of so many bytes: a power of two of at least 8.")
    ]
    banks: Annotated[int, Meta(description="Number of banks.")] = 1
    interleave: Annotated[
        int,
        Meta(
            description="Bytes after which the next bank follows. The bank of address a is (a // interleave) % banks; "
            "with 0 it is a // (capacity // banks)."
        ),
    ] = 0
    bytes_per_cycle: Annotated[
        int, Meta(description="Bytes that one bank serves in a cycle, to all engines together.")
    ] = 64
    read_only: Annotated[
        bool,
        Meta(
            description="Whether no engine writes it, as flash: it holds what was there before the run, the constants."
        ),
    ] = False

    @property
    def unit(self) -> int:
        """Bytes at whose multiples it can be divided: whole banks, where there are enough of them."""
        turn = self.interleave * self.banks if self.interleave else self.capacity // self.banks
        aligned = lcm(turn, self.alignment)
        return aligned if 4 * aligned <= self.capacity else self.alignment

    def part(self, begin: int, end: int) -> Memory:
        """The bytes ``begin .. end`` as a memory of its own, with the banks that they lie in."""
        bank = self.capacity // self.banks
        banks = self.banks if self.interleave else max(1, (end - begin) // bank)
        return replace(self, capacity=end - begin, banks=banks)


@dataclass(frozen=True)
class Engine:
    """One kind of engine, with an in-order queue for each instance (one a core, or one a cluster)."""

    name: Annotated[str, Meta(description="How reports and queues call it; a core's number follows.")]
    scope: Annotated[Scope, Meta(description="What has it: each cluster, or each core.")]
    classes: Annotated[
        tuple[Annotated[str, _CLASS], ...],
        Meta(description="The instruction classes that it runs: matrix, vector, copy, broadcast, dma, host, scalar."),
    ]
    reads: Annotated[
        tuple[str, ...],
        Meta(
            description="Names of the memories that it reads; of a matrix engine: that it takes the moving operand "
            "(activations) from."
        ),
    ]
    writes: Annotated[tuple[str, ...], Meta(description="Names of the memories that it writes.")]
    issue: Annotated[int, Meta(description="Cycles that issuing an instruction takes.")]
    latency: Annotated[int, Meta(description="Cycles from the end of an instruction to when its result is visible.")]
    weights: Annotated[
        tuple[str, ...],
        Meta(
            description="Of a matrix engine: names of the memories that it takes the stationary operand (weights) from."
        ),
    ] = ()
    rows: Annotated[int, Meta(description="Rows of the array of a matrix engine.")] = 0
    columns: Annotated[int, Meta(description="Columns of the array of a matrix engine.")] = 0
    depth: Annotated[
        int, Meta(description="Products that each cell of the array of a matrix engine adds up at once: a dot product.")
    ] = 1
    dataflow: Annotated[
        Dataflow,
        Meta(
            description="What stays in the cells of the array of a matrix engine while the rest streams through "
            "(Samajdar et al., ISPASS 2020): sums (output: rows x columns of the result), weights, or the moving "
            "operand (input), of which rows are the reduction and columns those of the result or its rows."
        ),
    ] = "output"
    fill: Annotated[
        int,
        Meta(
            description="Cycles in which the array of a matrix engine is filled and drained for each block of what "
            "stays in it, on top of its products; an output-stationary array that finishes a block before the next "
            "begins has rows + columns - 2 (Samajdar et al., ISPASS 2020), one that overlaps them has 0."
        ),
    ] = 0
    rate: Annotated[
        dict[str, float] | None,
        Meta(
            description="Of a matrix engine, by dtype of its operands: the factor by which it multiplies faster than "
            "rows x columns x depth multiply-accumulates a cycle. A dtype that is absent is not multiplied."
        ),
    ] = None
    lanes: Annotated[
        dict[str, int] | None,
        Meta(description="Of a vector engine, by dtype of the result: elements a cycle."),
    ] = None
    special: Annotated[
        int,
        Meta(
            description="Of a vector or scalar engine: the factor by which special functions (such as exp) are slower."
        ),
    ] = 1
    operations_per_cycle: Annotated[
        float | None,
        Meta(
            description="Of a scalar engine: operations a cycle (loads, stores, arithmetic, comparisons, and two for "
            "each iteration of a loop)."
        ),
    ] = None
    bytes_per_cycle: Annotated[int, Meta(description="Of an engine that moves data: bytes a cycle, at most.")] = 0
    queue_depth: Annotated[int, Meta(description="Without effect: queues have as much room as they need.")] = 0
    count: Annotated[
        int,
        Meta(
            description="Of a matrix or vector engine: how many there are of it, named NAME.a, NAME.b and so on. "
            "Instructions are divided among them."
        ),
    ] = 1

    @property
    def sources(self) -> tuple[str, ...]:
        """All memories that it takes operands from."""
        return (*self.reads, *self.weights)

    def rate_of(self, dtype: str) -> float | None:
        """The ``rate`` at which operands of ``dtype`` are multiplied, uint8 at that of int8; ``None``: not at all."""
        return (self.rate or {}).get("int8" if dtype == "uint8" else dtype)


def _pace(engine: Engine) -> Engine:
    """What two engines that differ only in their names and memories have in common."""
    return replace(engine, name="", reads=(), weights=(), writes=())


@dataclass(frozen=True)
class Link:
    """A bandwidth that all transfers of one direction share."""

    name: Annotated[str, Meta(description="How reports call it.")]
    memory: Annotated[str, Meta(description="Name of the memory that it limits.")]
    direction: Annotated[Literal["read", "write", "both"], Meta(description="Which accesses to the memory it limits.")]
    bytes_per_cycle: Annotated[
        float, Meta(description="Bytes a cycle, shared equally among the transfers in flight in one cluster.")
    ]
    latency: Annotated[int, Meta(description="Cycles that are added once to each transfer.")]
    burst: Annotated[int, Meta(description="Contiguous pieces are rounded up to so many bytes.")] = 1


@dataclass(frozen=True)
class Way:
    """What the compiler has one engine do: class ``kind``, from all memories of ``reads`` to all of ``writes``.

    ``scope``: of the engine. ``optional``: a machine may do without.
    """

    kind: str
    reads: tuple[Role, ...]
    writes: tuple[Role, ...]
    scope: Scope
    optional: bool = False

    def fits(self, engine: Engine, memories: Mapping[Role, Memory]) -> bool:
        """Whether an engine can go this way; ``memories``: those of the machine, by role."""
        return (
            self.kind in engine.classes
            and self.scope == engine.scope
            and {memories[r].name for r in self.reads} <= set(engine.sources)
            and {memories[r].name for r in self.writes} <= set(engine.writes)
        )


WAYS = (
    Way("matrix", ("local", "accumulator", "weights"), ("accumulator",), "core"),
    Way("vector", ("local", "accumulator"), ("local", "accumulator"), "core"),
    Way("copy", ("shared",), ("local",), "core"),
    Way("copy", ("shared",), ("weights",), "core"),
    Way("copy", ("local",), ("shared",), "core"),
    Way("copy", ("local",), ("weights",), "core", optional=True),
    Way("broadcast", ("shared",), ("local",), "core", optional=True),
    Way("broadcast", ("shared",), ("weights",), "core", optional=True),
    Way("dma", ("main",), ("shared",), "cluster"),
    Way("dma", ("shared",), ("main",), "cluster"),
    Way("host", ("main",), ("main",), "cluster", optional=True),
    Way("scalar", ("main",), ("main",), "cluster", optional=True),
    Way("copy", ("constants",), ("local",), "core", optional=True),
    Way("copy", ("constants",), ("weights",), "core", optional=True),
    Way("broadcast", ("constants",), ("local",), "core", optional=True),
    Way("broadcast", ("constants",), ("weights",), "core", optional=True),
)
"""All that the compiler uses a machine for: each way is the business of the first engine that fits.

Without a way from local to weight memory, products of two activations run on the vector engine; without broadcasts,
each core loads for itself; DMA is not needed where the cores load from the main memory; without host and scalar engine,
operators that no engine of tiles runs are refused.
"""

_DERIVED: tuple[Role, ...] = ("local", "accumulator", "weights", "shared", "main", "constants")
"""Roles in the order in which they are derived."""
_PARTS: dict[Role, int] = {"local": 2, "accumulator": 1, "weights": 1}
"""How roles divide a memory that they share, in this order; chosen, not measured."""


@dataclass(frozen=True)
class Staging:
    """Where an engine has an operand that lies in a memory that it cannot reach, and who copies it there and back.

    ``out`` is ``None`` for what is only read.
    """

    memory: Memory
    into: Engine
    out: Engine | None


@dataclass(frozen=True)
class Candidate:
    """A memory that might play a role, and what of the machine stands against it, as sentences."""

    memory: Memory
    lacks: tuple[str, ...]


@dataclass(frozen=True)
class Machine:
    """A whole accelerator."""

    name: Annotated[str, Meta(description="How reports call the machine.")]
    description: Annotated[str, Meta(description="One line for lists of machines.")]
    frequency: Annotated[float, Meta(description="Clock in Hz.")]
    clusters: Annotated[int, Meta(description="Clusters of the chip; the batch is divided over them.")]
    cores: Annotated[int, Meta(description="Cores of each cluster.")]
    memories: Annotated[
        tuple[Memory, ...],
        Meta(description="What each is used for follows from the engines that read and write it."),
    ]
    engines: Annotated[
        tuple[Engine, ...], Meta(description="The first whose class, scope and memories fit does a task.")
    ]
    links: Annotated[tuple[Link, ...], Meta(description="Bandwidths that transfers share.")]

    @cached_property
    def memory(self) -> dict[str, Memory]:
        return {m.name: m for m in self.memories}

    @cached_property
    def engine(self) -> dict[str, Engine]:
        return {e.name: e for e in self.engines}

    # Roles: what lies on the way of an operand.

    def role(self, role: Role) -> Memory:
        """The memory that plays ``role``, or the part of it that is for this role; the loader guarantees one.

        ``main`` holds everything, and ``shared`` is what the cores load from and store to: one memory, where they reach
        the main memory by themselves. Of each core, ``local`` has the data, ``weights`` the stationary operands of the
        matrix engine, ``accumulator`` its results and the temporaries of the vector engine; roles of a core that are
        played by one memory divide it, and addresses of its parts begin at :meth:`base`. ``constants`` is a read-only
        memory that the cores load from, or else ``main``.
        """
        return self._places[self._known(role)][0]

    def base(self, role: Role) -> int:
        """The address in its memory at which the part for ``role`` begins."""
        return self._places[self._known(role)][1]

    def _known(self, role: Role) -> Role:
        return "main" if role == "constants" and role not in self.roles else role

    def home(self, *, constant: bool) -> Memory:
        """The memory that a tensor has its home in."""
        return self.role("constants" if constant else "main")

    def loads_from(self, *, constant: bool) -> Role:
        """The memory that the cores load a tensor from: constants have one of their own, or come through the shared."""
        return "constants" if constant and "constants" in self.roles else "shared"

    @property
    def core_roles(self) -> tuple[Role, ...]:
        """The roles of the memories of a core, in the order of their addresses and of the machine's memories."""
        return tuple(sorted(_PARTS, key=lambda role: (self.memories.index(self.roles[role]), self.base(role))))

    def roles_of(self, memory: str) -> tuple[Role, ...]:
        """The roles that a memory plays, by its name; none if the compiler does not use it."""
        return tuple(role for role in get_args(Role) if role in self.roles and self.roles[role].name == memory)

    def use_of(self, memory: str) -> str:
        """The roles that a memory plays, by its name, in one line."""
        return ", ".join(self.roles_of(memory)) or ("staging" if memory in self.staging_memories else "unused")

    @property
    def has_shared(self) -> bool:
        """Whether a memory on chip stands between the cores and the main memory."""
        return self.roles["shared"].name != self.roles["main"].name

    @cached_property
    def roles(self) -> dict[Role, Memory]:
        """The whole memory that plays each role; without the roles that no memory can play."""
        fitting: dict[Role, Memory] = {}
        for role in _DERIVED:
            able = [c.memory for c in self.candidates(role, fitting) if not c.lacks]
            if not able or (role == "weights" and not any(map(self._is_loaded, able))):
                staged = [c.memory for c in self.candidates(role, fitting, staged=True) if not c.lacks]
                able = [m for m in staged if role != "weights" or self._is_loaded(m)] or able
            # A memory with one task is the better one for it; of those that cores load from, one that DMA fills.
            if role == "shared":
                able.sort(key=self._distance)
            else:
                able.sort(key=lambda m: m in fitting.values())
            if able:
                fitting[role] = able[0]
        return fitting

    def candidates(self, role: Role, known: Mapping[Role, Memory], *, staged: bool = False) -> list[Candidate]:
        """Every memory of the scope for a role, and what stands against it; ``known``: the roles that come before.

        ``staged``: engines may have operands in a memory of their own, to which and from which others copy.
        """
        near = role in _PARTS
        memories = [m for m in self.memories if (m.scope == "core") == near]
        far = [m for m in self.memories if m.scope != "core"]
        matrix, vector = (
            next((e for e in self.engines if kind in e.classes and e.scope == "core"), None)
            for kind in ("matrix", "vector")
        )

        def has(engine: Engine | None, side: Side, m: Memory) -> bool:
            if engine is None:
                return False
            return m.name in getattr(engine, side) or (staged and self._staged_in(engine, side, m, known) is not None)

        def moves(source: Memory, target: Memory) -> bool:
            return self._moves("copy", source, target) or (staged and self._stopped_at(source, target) is not None)

        def lacks(m: Memory) -> list[tuple[bool, str]]:
            by_vector = (
                (has(vector, "reads", m), "no vector engine of a core reads it"),
                (has(vector, "writes", m), "no vector engine of a core writes it"),
            )
            if role == "local":
                return [
                    (has(matrix, "reads", m), "no matrix engine of a core reads it"),
                    *by_vector,
                    (any(self._moves("copy", f, m) for f in far), "nothing copies from a memory outside of the core"),
                    (any(moves(m, f) for f in far), "nothing copies to a memory outside of the core"),
                ]
            if role == "accumulator":
                return [(matrix is not None and m.name in matrix.writes, "no matrix engine writes it"), *by_vector]
            if role == "weights":
                return [(has(matrix, "weights", m), "no matrix engine has it in its weights")]
            if role == "shared":
                local = known.get("local")
                return [
                    (local is not None and self._moves("copy", m, local), "no core copies from it to its local memory"),
                    (local is not None and moves(local, m), "no core copies to it from its local memory"),
                ]
            if role == "constants":
                targets = [memory for role, memory in known.items() if role in ("local", "weights")]
                return [
                    (m.read_only, "it is not read-only"),
                    ("main" in known and known["main"] == known.get("shared"), "constants come through another memory"),
                    (all(self._moves("copy", m, t) for t in targets), "no core copies from it to where it needs them"),
                ]
            shared = known.get("shared")
            return [
                (shared is not None and (m == shared or self._moves("dma", m, shared)), "no DMA reads it"),
                (shared is not None and (m == shared or self._moves("dma", shared, m)), "no DMA writes it"),
            ]

        written = role != "constants"
        return [
            Candidate(
                m,
                (
                    *(("it is read-only",) if m.read_only and written else ()),
                    *(text for ok, text in lacks(m) if not ok),
                ),
            )
            for m in memories
        ]

    def _distance(self, memory: Memory) -> tuple[bool, int]:
        """Of memories that cores load from, the least comes first: the smallest that DMA fills, or else the largest."""
        behind = any(self._moves("dma", m, memory) and self._moves("dma", memory, m) for m in self.memories)
        return not behind, memory.capacity if behind else -memory.capacity

    def _moves(self, kind: str, source: Memory, target: Memory) -> bool:
        return self._copier(kind, source, target) is not None

    def _copier(self, kind: str, source: Memory, target: Memory) -> Engine | None:
        """The first engine that moves data from one memory to another."""
        scope = "cluster" if kind == "dma" else "core"
        able = (e for e in self.engines if kind in e.classes and e.scope == scope)
        return next((e for e in able if source.name in e.reads and target.name in e.writes), None)

    def _is_loaded(self, memory: Memory) -> bool:
        """Whether a core copies to one of its memories from outside."""
        return any(self._moves("copy", far, memory) for far in self.memories if far.scope != "core")

    # Staging: operands that an engine has in a memory of its own while it works on them.

    def _staged_in(self, engine: Engine, side: Side, memory: Memory, roles: Mapping[Role, Memory]) -> Staging | None:
        """Where an engine has an operand that lies in ``memory``: a memory of the core that plays no role."""
        taken = {m.name for m in roles.values()}
        for stage in self.memories:
            if stage.scope != "core" or stage.name in {*taken, memory.name} or stage.name not in getattr(engine, side):
                continue
            into = self._copier("copy", memory, stage)
            out = self._copier("copy", stage, memory) if side == "writes" else None
            # What is added to is brought before it is taken back.
            if into is not None and (out is not None or side != "writes"):
                return Staging(stage, into, out)
        return None

    def _stopped_at(self, source: Memory, target: Memory) -> Memory | None:
        """The memory of a core through which data goes from one memory to another by two copies."""
        taken = {source.name, target.name}
        return next(
            (
                m
                for m in self.memories
                if m.scope == "core" and m.name not in taken
                and self._moves("copy", source, m) and self._moves("copy", m, target)
            ),
            None,
        )  # fmt: skip

    @cached_property
    def _stagings(self) -> dict[tuple[str, Side, str], Staging]:
        known: dict[tuple[str, Side, str], Staging] = {}
        sides: tuple[Side, ...] = ("reads", "weights", "writes")
        for engine in self.engines:
            if engine.scope != "core" or not {"matrix", "vector"} & set(engine.classes):
                continue
            for side in sides:
                for memory in dict.fromkeys(m.name for role, m in self.roles.items() if role in _PARTS):
                    if memory in getattr(engine, side):
                        continue
                    staging = self._staged_in(engine, side, self.memory[memory], self.roles)
                    if staging is not None:
                        known[engine.name, side, memory] = staging
        return known

    def staging(self, engine: Engine, side: Side, memory: str) -> Staging | None:
        """Where an engine has an operand that lies in a memory (by name); ``None`` if it has it there, or nowhere."""
        return self._stagings.get((engine.name, side, memory))

    def _staged_by(self, engine: Engine) -> set[tuple[Side, str]]:
        return {(side, memory) for name, side, memory in self._stagings if name == engine.name}

    def stopover(self, source: str, target: str) -> Memory | None:
        """The staging memory through which a core copies from one memory to another, where no engine does at once."""
        return self._stopovers.get((source, target))

    @cached_property
    def _stopovers(self) -> dict[tuple[str, str], Memory]:
        known: dict[tuple[str, str], Memory] = {}
        for way in WAYS:
            if way.kind != "copy" or not {*way.reads, *way.writes} <= set(self.roles):
                continue
            source, target = self.roles[way.reads[0]], self.roles[way.writes[0]]
            stop = None if self._moves("copy", source, target) else self._stopped_at(source, target)
            if stop is not None and stop not in self.roles.values():
                known[source.name, target.name] = stop
        return known

    @cached_property
    def staging_copies(self) -> frozenset[tuple[str, str, str]]:
        """Engine, source and target (by name) of each copy to a staging memory and from there."""
        copies: set[tuple[str, str, str]] = set()
        for (_, _, memory), staging in self._stagings.items():
            copies.add((staging.into.name, memory, staging.memory.name))
            if staging.out is not None:
                copies.add((staging.out.name, staging.memory.name, memory))
        for (source, target), stop in self._stopovers.items():
            copies.add((self.mover("copy", source, stop.name).name, source, stop.name))
            copies.add((self.mover("copy", stop.name, target).name, stop.name, target))
        return frozenset(copies)

    @cached_property
    def staging_memories(self) -> tuple[str, ...]:
        """Names of the memories that operands are staged in, in the order of the machine."""
        names = {s.memory.name for s in self._stagings.values()} | {m.name for m in self._stopovers.values()}
        return tuple(m.name for m in self.memories if m.name in names)

    @cached_property
    def _places(self) -> dict[Role, tuple[Memory, int]]:
        places: dict[Role, tuple[Memory, int]] = {role: (memory, 0) for role, memory in self.roles.items()}
        for memory in self.memories:
            sharing: list[Role] = [role for role in _PARTS if role in self.roles and self.roles[role] == memory]
            if len(sharing) > 1:
                begin, total = 0, sum(_PARTS[role] for role in sharing)
                for number, role in enumerate(sharing):
                    wanted = begin + memory.capacity * _PARTS[role] // total
                    last = number == len(sharing) - 1
                    end = memory.capacity if last else wanted // memory.unit * memory.unit
                    places[role] = memory.part(begin, end), begin
                    begin = end
        return places

    # Engines: who goes each way.

    @cached_property
    def ways(self) -> dict[Way, Engine]:
        """The engine of each way that has one; the loader guarantees those that the machine needs."""
        roles = self.roles
        known = [way for way in WAYS if {*way.reads, *way.writes} <= set(roles)]
        if "main" in roles and not self.has_shared:
            known = [way for way in known if way.kind != "dma"]
        fitting = {way: [e for e in self.engines if self._goes(way, e)] for way in known}
        if "constants" in roles:
            # A kernel reads constants where they are.
            name = roles["constants"].name
            for way in (way for way in known if way.kind in ("host", "scalar")):
                fitting[way] = [e for e in fitting[way] if name in e.reads]
        return {way: engines[0] for way, engines in fitting.items() if engines}

    def _goes(self, way: Way, engine: Engine) -> bool:
        """Whether an engine can go a way, or the last part of one that data goes by two copies."""
        if way.fits(engine, self.roles):
            return True
        if way.kind not in engine.classes or way.scope != engine.scope:
            return False
        if way.kind in ("matrix", "vector"):
            reads, writes = (tuple(self.roles[r].name for r in roles) for roles in (way.reads, way.writes))
            return all(
                n in engine.sources or any(self.staging(engine, side, n) for side in ("reads", "weights"))
                for n in reads
            ) and all(n in engine.writes or self.staging(engine, "writes", n) for n in writes)
        source, target = (self.roles[roles[0]].name for roles in (way.reads, way.writes))
        stop = self.stopover(source, target)
        return way.kind == "copy" and stop is not None and stop.name in engine.reads and target in engine.writes

    @cached_property
    def _engines(self) -> dict[str, Engine]:
        return {way.kind: engine for way, engine in reversed(self.ways.items())}

    @cached_property
    def _movers(self) -> dict[tuple[str, str, str], Engine]:
        names = {role: memory.name for role, memory in self.roles.items()}
        movers: dict[tuple[str, str, str], Engine] = {}
        for way, engine in self.ways.items():
            movers.setdefault((way.kind, names[way.reads[0]], names[way.writes[0]]), engine)
        for (source, target), stop in self._stopovers.items():
            for ends in ((self.memory[source], stop), (stop, self.memory[target])):
                engine = self._copier("copy", *ends)
                assert engine is not None
                movers.setdefault(("copy", ends[0].name, ends[1].name), engine)
        return movers

    def engine_for(self, kind: str) -> Engine:
        """The engine that runs instructions of class ``kind``: matrix, vector or, the first of several, dma."""
        return self._engines[kind]

    def team(self, kind: str) -> tuple[Engine, ...]:
        """The engines of a core among which instructions of class ``kind`` (matrix, vector) are divided.

        :meth:`engine_for` is the first; the others are as fast, and have the same operands in reach.
        """
        return self._teams[kind]

    def shared_engine(self, kind: str) -> Engine:
        """:meth:`engine_for`, with the number of those that share its work as its ``count``."""
        return self._shared_engines[kind]

    @cached_property
    def _shared_engines(self) -> dict[str, Engine]:
        return {kind: replace(team[0], count=len(team)) for kind, team in self._teams.items()}

    @cached_property
    def _teams(self) -> dict[str, tuple[Engine, ...]]:
        return {
            way.kind: tuple(e for e in self.engines if self._goes(way, e) and _pace(e) == _pace(first))
            for way, first in self.ways.items()
            if way.kind in ("matrix", "vector")
        }

    @property
    def host(self) -> Engine | None:
        """The host of a cluster, if it has one."""
        return self._engines.get("host")

    @property
    def scalar(self) -> Engine | None:
        """The scalar engine of a cluster, if it has one."""
        return self._engines.get("scalar")

    def mover(self, kind: str, source: str, target: str) -> Engine:
        """The engine that moves data (``kind``: copy, broadcast, dma) from one memory to another, by their names."""
        return self._movers[kind, source, target]

    def moves(self, kind: str, source: Role, target: Role) -> bool:
        """Whether an engine moves data so."""
        return (kind, self.role(source).name, self.role(target).name) in self._movers

    def __str__(self) -> str:
        rows = [f"{self.name}: {self.clusters} clusters x {self.cores} cores at {self.frequency / 1e9:g} GHz"]
        wide = max((len(m.name) for m in self.memories), default=0)
        rows += [f"  {m.name:{wide}} {m.scope:7} {m.capacity:>13,} B  {self.use_of(m.name)}" for m in self.memories]
        names = [f"{e.count} x {e.name}" if e.count > 1 else e.name for e in self.engines]
        wide = max(map(len, names), default=0)
        for name, e in zip(names, self.engines, strict=True):
            weights = f" x {', '.join(e.weights)}" if e.weights else ""
            way = f"{', '.join(e.reads)}{weights} -> {', '.join(e.writes)}"
            rows.append(f"  {name:{wide}} {e.scope:7} {', '.join(e.classes):15} {way}")
        return "\n".join(rows)
