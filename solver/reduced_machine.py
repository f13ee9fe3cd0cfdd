"""The same machine with less of one memory: what plans on it is a plan on the whole machine too.

Addresses below the smaller capacity are below the larger one, so that such a plan only has to be timed again: where
the banks of a memory lie one after the other, they are smaller in a smaller memory, and other accesses meet at one.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.errors import InfeasibleError
from ..ir.machine import Machine, Memory
from ..ir.plan import Plan


def reducible(machine: Machine) -> tuple[Memory, ...]:
    """The memories of which there can be less: those that are used."""
    levels = machine.levels
    used = {level.name for level in (*levels.of_core, levels.exchange, levels.constants, levels.home)}
    return tuple(m for m in machine.memories if m.name in used)


def reduced(machine: Machine, memory: str, capacity: int) -> Machine:
    """``machine`` with ``capacity`` bytes of the memory of that name.

    Raises :class:`InfeasibleError` if another memory were used in its place.
    """
    memories = tuple(replace(m, capacity=capacity) if m.name == memory else m for m in machine.memories)
    smaller = replace(machine, memories=memories)
    if any(smaller.roles_of(m.name) != machine.roles_of(m.name) for m in memories):
        raise InfeasibleError(f"with {capacity:,} bytes of {memory}, {machine.name} uses another memory in its place")
    return smaller


def granule(memory: Memory) -> int:
    """Capacities of the memory are multiples of so many bytes: each bank is, of the alignment."""
    return memory.alignment * memory.banks


def extent(plan: Plan, memory: str) -> int:
    """The end of the last buffer of a plan in the memory of that name: the bytes without which it is none."""
    return max((b.address + b.bytes for b in (*plan.shared, *plan.local) if b.memory == memory), default=0)


def smaller_capacities(memory: Memory) -> tuple[int, ...]:
    """Capacities below that of ``memory``, the largest first: powers of two and the middles between them.

    They do not depend on the memory's own capacity, so that those of a larger memory have those of a smaller one among
    them.
    """
    step = granule(memory)
    powers = (1 << n for n in range((memory.capacity - 1).bit_length(), -1, -1))
    steps = (capacity for power in powers for capacity in (power * 3 // 2, power))
    return tuple(c for c in steps if step <= c < memory.capacity and c % step == 0)
