"""Machines whose engines work on memories of their own, to which others copy: one kind for each operand, and all."""

from __future__ import annotations

from dataclasses import replace

from girih.ir.machine import Engine, Machine, Memory
from tests.support.machines import with_engines, without_memory


def staged(
    machine: Machine, engine: str, stage: Memory, memories: tuple[str, ...], sides: tuple[str, ...], *, back: bool
) -> Machine:
    """With ``stage`` instead of ``memories`` on these ``sides`` of an engine, and an engine that copies there and,
    if told so, ``back``."""

    def change(e: Engine) -> Engine:
        if e.name != engine:
            return e
        kept = {s: tuple(n for n in getattr(e, s) if n not in memories) for s in sides}
        return replace(e, **{s: (*names, stage.name) for s, names in kept.items()})

    changed = with_engines(machine, change)
    copy = next(e for e in machine.engines if "copy" in e.classes)
    into = replace(copy, name=f"TO-{stage.name}", classes=("copy",), reads=memories, writes=(stage.name,))
    out = replace(into, name=f"FROM-{stage.name}", reads=into.writes, writes=into.reads)
    return replace(
        changed,
        name=f"{machine.name}-{stage.name}",
        memories=(*changed.memories, stage),
        engines=(*changed.engines, into, *((out,) if back else ())),
    )


def staged_kinds(machine: Machine, capacity: int = 4096) -> dict[str, Machine]:
    """By what is staged, for a machine with memories called DDR, LLB, L1, L1W and IM and engines MME, VME and MTO."""

    def memory(name: str) -> Memory:
        return Memory(name, "core", capacity, 32, banks=2)

    def activations(m: Machine) -> Machine:
        return staged(m, "MME", memory("L0A"), ("L1",), ("reads",), back=False)

    def vectors(m: Machine) -> Machine:
        return staged(m, "VME", memory("UB"), ("L1",), ("reads", "writes"), back=True)

    def stored_from_staging(m: Machine) -> Machine:
        return with_engines(m, lambda e: replace(e, reads=("UB",)) if e.name == "MTO" else e)

    one_local = without_memory(machine, "L1W", "L1")
    return {
        "activations": activations(machine),
        "weights": staged(machine, "MME", memory("L0B"), ("L1W",), ("weights",), back=False),
        "vectors": vectors(machine),
        "vectors and sums": staged(machine, "VME", memory("UB"), ("L1", "IM"), ("reads", "writes"), back=True),
        "results on their way out": stored_from_staging(vectors(machine)),
        "everything": stored_from_staging(
            vectors(activations(staged(one_local, "MME", memory("L0B"), ("L1",), ("weights",), back=False)))
        ),
    }
