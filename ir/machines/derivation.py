"""The levels of a machine, derived from what its engines read and write."""

from __future__ import annotations

from collections.abc import Mapping

from .hardware import Hardware
from .levels import Level, Levels
from .memories import Memory
from .requirements import ComputingEngines, candidates, computing_engines
from .ways import CORE_ROLES, ROLES, Role

_DERIVED: tuple[Role, ...] = (*CORE_ROLES, "shared", "main", "constants")
"""Roles in the order in which they are derived."""
_PARTS: dict[Role, int] = {"local": 2, "accumulator": 1, "weights": 1}
"""How roles divide a memory that they share, in this order; chosen, not measured."""
_USES: dict[Role, str] = {"local": "data", "accumulator": "scratch", "weights": "weights"}
"""What plans call the buffers of a core."""


def derived_roles(hardware: Hardware) -> dict[Role, Memory]:
    """The whole memory that plays each role; without the roles that no memory can play.

    They are those of the first matrix and vector engine with which every role is played, or else the most.
    """
    most: dict[Role, Memory] = {}
    for computing in computing_engines(hardware):
        roles = _roles_with(hardware, computing)
        if set(ROLES) <= set(roles):
            return roles
        most = max(most, roles, key=len)
    return most


def _roles_with(hardware: Hardware, computing: ComputingEngines) -> dict[Role, Memory]:
    """The memories that play roles where these engines compute.

    A memory with one task is the better one for it; of those that cores load from, one that DMA fills.
    """
    fitting: dict[Role, Memory] = {}
    for role in _DERIVED:
        able = [c.memory for c in candidates(hardware, role, fitting, computing=computing) if not c.lacks]
        if not able or (role == "weights" and not any(map(hardware.is_loaded, able))):
            near = candidates(hardware, role, fitting, staged=True, computing=computing)
            staged = [c.memory for c in near if not c.lacks]
            able = [m for m in staged if role != "weights" or hardware.is_loaded(m)] or able
        if role == "shared":
            able.sort(key=lambda m: _distance(hardware, m))
        else:
            able.sort(key=lambda m: m in fitting.values())
        if able:
            fitting[role] = able[0]
    return fitting


def _distance(hardware: Hardware, memory: Memory) -> tuple[bool, int]:
    """Of memories that cores load from, the least comes first: the smallest that DMA fills, or else the largest."""
    behind = any(hardware.copies("dma", m, memory) and hardware.copies("dma", memory, m) for m in hardware.memories)
    return not behind, memory.capacity if behind else -memory.capacity


def derived_levels(hardware: Hardware, played: Mapping[Role, Memory]) -> Levels:
    """The levels of a machine whose roles are all ``played``; but for constants, which ``main`` has too."""
    known = {role: Level(role, memory, 0, _USES.get(role, "")) for role, memory in played.items()}
    for memory in hardware.memories:
        sharing: list[Role] = [role for role in _PARTS if played[role] == memory]
        if len(sharing) > 1:
            begin, total = 0, sum(_PARTS[role] for role in sharing)
            for role in sharing:
                wanted = begin + memory.capacity * _PARTS[role] // total
                end = memory.capacity if role == sharing[-1] else wanted // memory.unit * memory.unit
                known[role] = Level(role, memory.part(begin, end), begin, _USES[role])
                begin = end
    names = [m.name for m in hardware.memories]
    of_core = sorted((known[role] for role in _PARTS), key=lambda level: (names.index(level.name), level.base))
    return Levels(
        activations=known["local"],
        sums=known["accumulator"],
        weights=known["weights"],
        exchange=known["shared"],
        home=known["main"],
        constants=known.get("constants", known["main"]),
        of_core=tuple(of_core),
    )
