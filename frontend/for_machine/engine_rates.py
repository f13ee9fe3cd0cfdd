"""How much the engines of all cores of a machine compute in a cycle, at most."""

from __future__ import annotations

from ...ir.machine import Machine


def multipliers(machine: Machine, dtype: str) -> float | None:
    """Multiplications a cycle of the matrix engines of all cores; ``None`` if these have no such type."""
    engine = machine.shared_engine("matrix")
    rate = engine.rate_of(dtype)
    if rate is None:
        return None
    return engine.rows * engine.columns * engine.depth * rate * engine.count * machine.cores


def lanes(machine: Machine, dtype: str) -> float:
    """Elements a cycle of the vector engines of all cores; one of each core if these have no lanes of the type."""
    engine = machine.shared_engine("vector")
    return (engine.lanes or {}).get(dtype, 1) * engine.count * machine.cores
