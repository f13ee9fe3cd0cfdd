"""Memories outside of the cores that no plan would reach, although engines bring data from there."""

from __future__ import annotations

from collections.abc import Iterator

from ..machine import ROLES, Machine, Memory


def left_out(machine: Machine, planned: Machine) -> Iterator[tuple[str, str]]:
    """Where (a path as ``memories[2]``), and what is wrong, for each memory that is left out.

    ``planned``: the machine as it is planned for.
    """
    if not set(ROLES) <= set(planned.roles):
        return
    for index, memory in enumerate(machine.memories):
        outer = planned.memory.get(memory.name)
        if outer is None or outer.scope == "core" or outer.read_only or planned.roles_of(outer.name):
            continue
        yield from _moved_by_cores(machine, planned, outer) or _behind_main(planned, outer, index)


def _moved_by_cores(machine: Machine, planned: Machine, memory: Memory) -> list[tuple[str, str]]:
    """Engines of the cores that move data between the memory and others outside of the cores."""
    others = {planned.roles["shared"].name, planned.roles["main"].name}
    engines = {
        engine.name: number
        for number, engine in enumerate(machine.engines)
        if engine.scope == "core" and {"copy", "dma"} & set(engine.classes)
        and ((memory.name in engine.reads and others & set(engine.writes))
             or (memory.name in engine.writes and others & set(engine.reads)))
    }  # fmt: skip
    if not engines:
        return []
    names = " and ".join(engines)
    message = f"{names} of the cores move data between {memory.name} and {' and '.join(sorted(others))}, which are "
    message += f"outside of the cores: {memory.name} is left out; "
    return [(f"engines[{min(engines.values())}].scope", f'{message}give {names} scope "cluster" and class "dma"')]


def _behind_main(planned: Machine, memory: Memory, index: int) -> list[tuple[str, str]]:
    """That DMA brings data from the memory to main memory, where another one is shared already."""
    shared, main = planned.roles["shared"], planned.roles["main"]
    if not planned.copies("dma", memory, main) or planned.copies("dma", memory, shared):
        return []
    engines = (planned.copier("dma", memory, main), planned.copier("dma", main, memory))
    names = " and ".join(dict.fromkeys(engine.name for engine in engines if engine is not None))
    message = f"{memory.name} is behind {main.name}, the main memory, which is behind {shared.name}, the shared one: "
    message += f"one memory behind the shared one is the most, and {memory.name} is left out; let {names} move data "
    message += f"between {memory.name} and {shared.name}, and remove {main.name}, or remove {memory.name} and let "
    return [(f"memories[{index}]", f"{message}{main.name} have its capacity")]
