"""Machines drawn from everything that a file can say: memories, engines and ways, most of them near to what works."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from girih.ir.machine import Dataflow, Engine, Link, Machine, Memory, Scope, Side
from tests.support.machines import with_rom

TYPES = ("float16", "bfloat16", "float32", "int8", "int32", "bool")
SCOPES: tuple[Scope, ...] = ("chip", "cluster", "core")
SIDES: tuple[Side, ...] = ("reads", "weights", "writes")
FLOWS: tuple[Dataflow, ...] = ("output", "weight", "input")


def random_machine(seed: int) -> Machine:
    """1 to 6 memories and 1 to 8 engines. One machine in eight is drawn blindly; others have a way for every operand,
    and half of these are damaged in one or two places afterwards. In four of ten, there are several engines of a kind,
    or one of a cluster that computes; in one of five, constants are in a memory of their own, and in as many, a link
    limits two memories."""
    random = Random(f"machine {seed}")
    groups = Random(f"groups of machine {seed}")
    outside = Random(f"memories outside of machine {seed}")
    if random.random() < 0.125:
        return _blind(random)
    machine = _sound(random)
    machine = with_rom(machine) if outside.random() < 0.2 else machine
    machine = _behind_one_port(outside, machine) if outside.random() < 0.2 else machine
    machine = _of_the_cluster(groups, machine) if groups.random() < 0.15 else machine
    for _ in range(random.choice((0, 0, 1, 2))):
        machine = _damaged(random, machine)
    return _several(groups, machine) if groups.random() < 0.3 else machine


def _of_the_cluster(random: Random, machine: Machine) -> Machine:
    """An engine that computes belongs to the cluster, and so do the memories in its reach."""
    chosen = random.choice([e for e in machine.engines if {"matrix", "vector"} & set(e.classes)])
    reached = {*chosen.sources, *chosen.writes}
    memories = tuple(replace(m, scope="cluster") if m.name in reached else m for m in machine.memories)
    engines = tuple(replace(e, scope="cluster") if e is chosen else e for e in machine.engines)
    return replace(machine, memories=memories, engines=engines)


def _behind_one_port(random: Random, machine: Machine) -> Machine:
    """A link limits another memory of the same scope, too."""
    scopes = {m.name: m.scope for m in machine.memories}
    links = list(machine.links)
    for at in random.sample(range(len(links)), len(links)):
        others = [n for n, scope in scopes.items() if n != links[at].memory and scope == scopes[links[at].memories[0]]]
        if others:
            links[at] = replace(links[at], memory=(*links[at].memories, random.choice(others)))
            break
    return replace(machine, links=tuple(links))


def _several(random: Random, machine: Machine) -> Machine:
    """Some engines more than once."""
    engines = tuple(replace(e, count=random.choice((1, 2, 3, 4))) for e in machine.engines)
    return replace(machine, engines=engines)


def _memory(random: Random, name: str, scope: Scope) -> Memory:
    banks = random.choice((1, 1, 2, 4, 8))
    core = scope == "core"
    return Memory(
        name,
        scope,
        capacity=banks * 2 ** random.randint(9, 15) if core else banks * 2 ** random.randint(16, 22),
        alignment=random.choice((8, 16, 32, 64)),
        banks=banks,
        interleave=random.choice((0, 0, 64, 256)),
        bytes_per_cycle=random.choice((4, 16, 32, 64, 128)),
    )


def _matrix(random: Random, reads: list[str], weights: list[str], writes: list[str]) -> Engine:
    types = random.sample(TYPES[:4], random.randint(1, 4))
    return Engine(
        "MME", "core", ("matrix",), tuple(reads), tuple(writes), random.randint(1, 20), random.randint(0, 50),
        weights=tuple(weights), rows=random.choice((1, 3, 8, 16)), columns=random.choice((1, 4, 7, 16)),
        depth=random.choice((1, 1, 4)), dataflow=random.choice(FLOWS), fill=random.choice((0, 10)),
        rate={t: random.choice((0.5, 1.0, 2.0)) for t in types},
    )  # fmt: skip


def _vector(random: Random, memories: list[str]) -> Engine:
    types = TYPES if random.random() < 0.8 else random.sample(TYPES, random.randint(1, 4))
    return Engine(
        "VME", "core", ("vector",), tuple(memories), tuple(memories), random.randint(1, 20), random.randint(0, 20),
        lanes={t: random.choice((1, 4, 8, 16)) for t in types}, special=random.choice((1, 4)),
    )  # fmt: skip


def _mover(random: Random, name: str, scope: Scope, classes: list[str], reads: list[str], writes: list[str]) -> Engine:
    return Engine(
        name, scope, tuple(classes), tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes)), random.randint(1, 20),
        random.randint(0, 20), bytes_per_cycle=random.choice((4, 8, 16, 64)),
        operations_per_cycle=1.0 if "scalar" in classes else None,
    )  # fmt: skip


def _sound(random: Random) -> Machine:
    """Every operand has a way: of a core one to three memories, and one or two outside of it."""
    names = {"data": "A", "weights": random.choice("AB"), "sums": random.choice("AC")}
    core = sorted(set(names.values()))
    shared = random.random() < 0.6
    far = "LLB" if shared else "DDR"
    memories = [_memory(random, "DDR", random.choice(("cluster", "cluster", "chip")))]
    memories += [_memory(random, "LLB", "cluster")] if shared else []
    memories += [_memory(random, name, "core") for name in core]
    loaded = sorted({names["data"], names["weights"]})
    engines = [
        _matrix(random, sorted({names["data"], names["sums"]}), [names["weights"]], [names["sums"]]),
        _vector(random, sorted({names["data"], names["sums"]})),
        _mover(
            random, "IN", "core", ["copy", "broadcast"] if random.random() < 0.6 else ["copy"],
            [far, *([names["data"]] if random.random() < 0.6 else [])], loaded,
        ),
        _mover(random, "OUT", "core", ["copy"], [names["data"]], [far]),
    ]  # fmt: skip
    if shared:
        engines += [
            _mover(random, "DIN", "cluster", ["dma"], ["DDR"], ["LLB"]),
            _mover(random, "DOUT", "cluster", ["dma"], ["LLB"], ["DDR"]),
        ]
    for name, kind in (("HOST", "host"), ("SCU", "scalar")):
        if random.random() < 0.4:
            engines.append(_mover(random, name, "cluster", [kind], ["DDR"], ["DDR"]))
    links = [
        Link(f"{m.name}-{way}", m.name, way, random.choice((4.0, 13.5, 64.0)), random.randint(0, 100),
             random.choice((1, 32, 64)))
        for m in memories if m.scope != "core" for way in ("read", "write") if random.random() < 0.6
    ]  # fmt: skip
    return Machine(
        "drawn", "drawn at random", 1e9, random.randint(1, 2), random.choice((1, 2, 3, 4)), tuple(memories),
        tuple(engines), tuple(links),
    )  # fmt: skip


def _of(engine: Engine, side: Side) -> tuple[str, ...]:
    return {"reads": engine.reads, "weights": engine.weights, "writes": engine.writes}[side]


def _with(engine: Engine, side: Side, names: tuple[str, ...]) -> Engine:
    names = tuple(dict.fromkeys(names))
    if side == "reads":
        return replace(engine, reads=names)
    return replace(engine, weights=names) if side == "weights" else replace(engine, writes=names)


def _damaged(random: Random, machine: Machine) -> Machine:
    """With something left out, added or exchanged."""
    memories, engines = list(machine.memories), list(machine.engines)
    at, which = random.randrange(len(engines)), random.randrange(len(memories))
    engine, memory = engines[at], memories[which]
    names = [m.name for m in memories]
    side = random.choice(SIDES)
    kept = tuple(n for n in _of(engine, side) if random.random() < 0.5)
    change = random.randrange(8)
    if change == 0 and len(engines) > 1:
        del engines[at]
    elif change == 1:
        engines[at] = _with(engine, side, kept)
    elif change == 2 and (side != "weights" or "matrix" in engine.classes):
        engines[at] = _with(engine, side, (*_of(engine, side), random.choice(names)))
    elif change == 3:
        engines[at] = replace(engine, scope=random.choice(SCOPES[1:]))
    elif change == 4:
        memories[which] = replace(memory, read_only=True)
    elif change == 5:
        memories[which] = replace(memory, scope=random.choice(SCOPES))
    elif change == 6 and len(memories) < 6:
        stage = _memory(random, "X", "core")
        memories.append(stage)
        engines[at] = _with(engine, side if _of(engine, side) else "reads", (*kept, "X"))
        engines += [_mover(random, f"X{i}", "core", ["copy"], *pair) for i, pair in enumerate(
            ([names, ["X"]], [["X"], names]) if random.random() < 0.7 else ([names, ["X"]],)
        )]  # fmt: skip
    elif change == 7 and len(engines) < 8:
        engines.append(replace(engine, name=f"{engine.name}2"))
    return replace(machine, memories=tuple(memories), engines=tuple(engines[:8]))


def _blind(random: Random) -> Machine:
    """Anything at all."""
    memories = [_memory(random, f"M{i}", random.choice(SCOPES)) for i in range(random.randint(1, 6))]
    names = [m.name for m in memories]

    def some() -> list[str]:
        return random.sample(names, random.randint(0, len(names)))

    engines: list[Engine] = []
    for i in range(random.randint(1, 8)):
        kind = random.choice(("matrix", "vector", "copy", "broadcast", "dma", "host", "scalar"))
        if kind == "matrix":
            engine = _matrix(random, some(), some(), some())
        elif kind == "vector":
            engine = replace(_vector(random, names), reads=tuple(some()), writes=tuple(some()))
        else:
            engine = _mover(random, "", random.choice(SCOPES[1:]), [kind], some(), some())
        engines.append(replace(engine, name=f"E{i}"))
    return Machine("drawn", "drawn at random", 1e9, 1, random.randint(1, 4), tuple(memories), tuple(engines), ())
