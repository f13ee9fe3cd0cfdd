"""The dtypes in which engines compute, where only the first engine of a class does."""

from __future__ import annotations

from .engine import Engine
from .hardware import Hardware

KEYS = {"matrix": "rate", "vector": "lanes"}
"""By class of instructions, the key of an engine that lists the dtypes in which it computes."""


def computes(engine: Engine, kind: str, dtype: str) -> bool:
    """Whether an engine runs instructions of a class (matrix, vector) in a dtype."""
    rate = engine.rate_of(dtype) if kind == "matrix" else (engine.lanes or {}).get(dtype)
    return kind in engine.classes and bool(rate)


def more_types(engine: Engine, first: Engine, kind: str) -> tuple[str, ...]:
    """The dtypes in which an engine computes, and the first one of the class does not."""
    dtypes: dict[str, object] = getattr(engine, KEYS[kind]) or {}
    return tuple(d for d in dtypes if computes(engine, kind, d) and not computes(first, kind, d))


def idle_with(hardware: Hardware, kind: str, dtypes: tuple[str, ...]) -> str:
    """A part of a sentence that names the engines of a class that compute in all of these dtypes, if there are any.

    It is for where the first engine of the class does not.
    """
    able = [e.name for e in hardware.engines if all(computes(e, kind, dtype) for dtype in dtypes)]
    if not able or not dtypes:
        return ""
    names, types = " and ".join(able), " and ".join(dtypes)
    return f"{names} would compute in {types}, but only the first {kind} engine of a core that fits is used"
