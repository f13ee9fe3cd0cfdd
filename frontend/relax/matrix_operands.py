"""What a matrix product multiplies is made by steps of their own, because the matrix engine reads what memory holds.

t = max(w, 0)                              a step of its own
y = sum over k of x[i, k] * t[k, j]        reads t as any other tensor
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import replace

from ..net.net import Info, Loop, NetStep


def with_operands_apart(steps: Sequence[NetStep], tensors: MutableMapping[str, Info]) -> list[NetStep]:
    """The steps, with one in front for each private tensor that is a factor of a matrix product of its step.

    These tensors are added to ``tensors``.
    """
    return [part for step in steps for part in _apart(step, tensors)]


def _apart(step: NetStep, tensors: MutableMapping[str, Info]) -> list[NetStep]:
    factors = [ref.tensor for loop in step.loops if loop.is_matrix for ref in loop.factors if ref.tensor in step.temps]
    if not factors:
        return [step]
    producers: list[NetStep] = []
    for name in dict.fromkeys(factors):
        loops = _makers(step.loops, name)
        temps = {t: step.temps[t] for loop in loops if (t := loop.write.tensor) != name}
        producers.append(replace(step, outputs=(name,), loops=loops, temps=temps))
        tensors[name] = step.temps[name]
    result_loops = [loop for loop in _makers(step.loops, step.output, set(factors)) if loop.write.tensor not in factors]
    temps = {t: step.temps[t] for loop in result_loops if (t := loop.write.tensor) in step.temps}
    # What several of them need, each computes for itself.
    return [*producers, replace(step, loops=result_loops, temps=temps)]


def _makers(loops: Sequence[Loop], name: str, computed: set[str] | None = None) -> list[Loop]:
    """The loops that write a tensor, and what they need, in their order; what is ``computed`` is there."""
    needed = {name}
    kept: list[Loop] = []
    for loop in reversed(loops):
        if loop.write.tensor in needed and loop.write.tensor not in (computed or set()):
            kept.append(loop)
            needed |= {ref.tensor for ref in loop.reads}
    return kept[::-1]
