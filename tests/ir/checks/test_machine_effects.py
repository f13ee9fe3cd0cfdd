"""Every key of a machine file changes what comes out, or is told to have no effect."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

import girih
from girih.api.run import run
from girih.ir.checks.check_machine import problems
from girih.ir.checks.machine_effects import KINDS_OF_KEY, without_effect
from girih.ir.load_machine import load_machine
from girih.ir.machine import Engine, Link, Machine, Memory
from tests.support.onnx_models import Model

TINY = load_machine("tiny")
TABLES = {"memories": Memory, "engines": Engine, "links": Link}


def change(machine: Machine, path: tuple[str, int, str], value: object) -> Machine:
    table, index, key = path
    rows = list(getattr(machine, table))
    rows[index] = replace(rows[index], **{key: value})
    return replace(machine, **{table: tuple(rows)})


@pytest.fixture(scope="module")
def network() -> bytes:
    model = Model()
    x = model.input("x", "N", 3, 12, 12)
    hidden = model.node("Conv", x, model.weight("w", 8, 3, 3, 3), name="conv")
    hidden = model.node("Sigmoid", model.node("Relu", hidden), name="out")
    top = model.node("TopK", hidden, model.constant("k", [3]), outputs=("top", "places"))
    return model.build(hidden, top).SerializeToString()


def fingerprint(network: bytes, machine: Machine) -> tuple[object, ...]:
    """What a machine makes of a network: its instructions, and its times."""
    options: dict[str, Any] = {"strategy": "graphturbo", "solver_timeout": 0, "cache": False, "batch": 2}
    compiled = girih.compile(network, target=machine, **options)
    summary = run(compiled, None, check=False, seed=0, data=False).trace.summary
    program = compiled.program
    return program.streams, program.queues, program.replicas, summary.cycles, summary.seconds, summary.counters


CHANGES: dict[str, tuple[int, object]] = {
    "memories.scope": (2, "cluster"), "memories.capacity": (2, 1024),
    "memories.alignment": (2, 256), "memories.banks": (2, 1), "memories.interleave": (2, 0),
    "memories.bytes_per_cycle": (2, 1), "memories.read_only": (0, True), "engines.scope": (0, "cluster"), "engines.classes": (0, ("vector",)),
    "engines.reads": (0, ("L1",)), "engines.weights": (0, ("L1",)), "engines.writes": (0, ("L1",)), "engines.issue": (0, 9), "engines.latency": (0, 99),
    "engines.fill": (0, 999), "engines.rows": (0, 2), "engines.columns": (0, 2), "engines.depth": (0, 2),
    "engines.dataflow": (0, "weight"), "engines.rate": (0, {"float32": 0.5}),
    "engines.lanes": (1, {"float32": 2}), "engines.special": (1, 9), "engines.bytes_per_cycle": (2, 1),
    "engines.operations_per_cycle": (7, 0.5), "engines.count": (0, 2),
    "links.memory": (0, "LLB"), "links.direction": (0, "read"), "links.bytes_per_cycle": (0, 1.0),
    "links.latency": (0, 500), "links.burst": (0, 4096),
}  # fmt: skip
"""By key, which entry of ``tiny`` to change, and to what."""
TEXTS = ("name", "description")
"""What is shown, and changes nothing else."""


def test_every_key_has_a_change() -> None:
    keys = {f"{table}.{spec.name}" for table, kind in TABLES.items() for spec in fields(kind) if spec.name not in TEXTS}
    unused = {f"engines.{key}" for key, kinds in KINDS_OF_KEY.items() if not kinds}
    assert keys == {*CHANGES, *unused}
    assert {spec.name for spec in fields(Machine)} == {*TEXTS, *TABLES, "frequency", "clusters", "cores"}


def test_every_key_has_an_effect(network: bytes) -> None:
    # Where local memory is slow, it matters which bank serves what.
    slow = change(change(TINY, ("memories", 2, "bytes_per_cycle"), 4), ("memories", 2, "interleave"), 64)
    before = fingerprint(network, slow)
    for key, value in (("frequency", 2e9), ("clusters", 1), ("cores", 1)):
        assert fingerprint(network, replace(slow, **{key: value})) != before, key
    for path, (index, value) in CHANGES.items():
        table, key = path.split(".")
        changed = change(slow, (table, index, key), value)
        assert list(problems(changed)) or fingerprint(network, changed) != before, path


def test_a_key_without_effect_is_told(network: bytes) -> None:
    before = fingerprint(network, TINY)
    for key in (key for key, kinds in KINDS_OF_KEY.items() if not kinds):
        changed = change(TINY, ("engines", 0, key), 7)
        assert fingerprint(network, changed) == before
        assert any(f"(in engines[0].{key})" in warning for warning in without_effect(changed))


def more(machine: Machine, **changes: object) -> Machine:
    """A machine with one engine more, at the end."""
    name = changes.pop("like")
    engine = next(e for e in machine.engines if e.name == name)
    return replace(machine, engines=(*machine.engines, replace(engine, name="X", **changes)))  # type: ignore[arg-type]


UNUSED = {
    "a slower matrix engine": (more(TINY, like="MME", rows=2), "X is never used: matrix instructions run on MME", "engines[8]"),
    "a second DMA engine": (more(TINY, like="DMR"), "X is never used: dma instructions run on DMR and DMW", "engines[8]"),
    "DMA of a core": (
        more(TINY, like="DMR", scope="core"),
        "the first of scope 'cluster' with the memories for it",
        "engines[8]",
    ),
    "a class that another engine runs": (
        change(TINY, ("engines", 3, "classes"), ("copy", "broadcast")),
        "class 'broadcast' of MTO has no effect: broadcast instructions run on MTI",
        "engines[3].classes",
    ),
    "matrix writes to another memory": (
        change(TINY, ("engines", 0, "writes"), ("IM", "L1")),
        "L1 in writes of MME has no effect",
        "engines[0].writes",
    ),
    "keys of another class": (change(TINY, ("engines", 0, "special"), 3), "it is for engines that run vector or scalar instructions", "engines[0].special"),
    "interleave of one bank": (change(TINY, ("memories", 0, "interleave"), 64), "there is one bank", "interleave"),
    "interleave of more than the capacity": (
        replace(TINY, memories=tuple(replace(m, banks=4, interleave=m.capacity) if m.name == "DDR" else m for m in TINY.memories)),
        "all of its 1,073,741,824 bytes are in 1 of its 4 banks; give at most 268,435,456, or 0",
        "memories[0].interleave",
    ),
    "a rate of its own for uint8": (
        change(TINY, ("engines", 0, "rate"), {"float32": 1.0, "uint8": 4.0}),
        "at the rate of int8",
        "engines[0].rate",
    ),
    "a link that nothing crosses": (
        replace(TINY, links=(*TINY.links, Link("im", "IM", "both", 1.0, 9))),
        "link im has no effect: no copy, broadcast or DMA moves data to or from IM",
        "links[3]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSED)
def test_what_is_never_used_is_told(name: str) -> None:
    machine, message, path = UNUSED[name]
    assert not list(problems(machine))
    (told,) = set(without_effect(machine)) - set(without_effect(TINY))
    assert message in told and path in told


def test_what_is_told_to_have_no_effect_has_none(network: bytes) -> None:
    """But for the queues that there are then, which stay empty."""
    before = fingerprint(network, TINY)
    for name, (machine, _, _) in UNUSED.items():
        streams, _, _, cycles, *_ = fingerprint(network, machine)
        assert ([s for s in streams if s], cycles) == ([s for s in before[0] if s], before[3]), name  # type: ignore[union-attr]


def test_a_link_that_only_copies_to_staging_memories_cross_has_an_effect() -> None:
    machine = load_machine("ascend310")
    for memories, direction in ((("L0A", "L0B"), "write"), ("UB", "both"), ("UB", "read")):
        link = Link("stage", memories, direction, 16.0, 3)  # type: ignore[arg-type]
        assert without_effect(replace(machine, links=(*machine.links, link))) == without_effect(machine)
    (warning,) = without_effect(replace(machine, links=(*machine.links, Link("stage", "L0A", "read", 16.0, 3))))
    assert "link stage has no effect" in warning
