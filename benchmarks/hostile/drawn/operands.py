"""Axes, and operands that broadcast with a value."""

from __future__ import annotations

from random import Random

import numpy as np

from benchmarks.hostile.drawn.draft import Draft, Value


def axis_of(rng: Random, rank: int) -> int:
    return rng.randrange(-rank, rank)


def axes_of(rng: Random, rank: int) -> list[int]:
    axes = rng.sample(range(rank), rng.randrange(1, rank + 1))
    return [axis - rank if rng.random() < 0.3 else axis for axis in axes]


def operand_like(draft: Draft, value: Value, scalar: bool = False) -> str | Value:
    """Another operand that broadcasts with a value: a value of the network, or weights with fewer or single axes."""
    other = draft.pick(lambda v: v.dtype == value.dtype and broadcasts(v.shape, value.shape))
    if other is not None and not scalar and draft.rng.random() < 0.5:
        return other
    kept = value.shape[draft.rng.randrange(value.rank + 1) :]
    shape = [1 if draft.rng.random() < 0.3 else size for size in kept]
    if value.dtype == np.float32:
        return draft.noise(*shape)
    generator = np.random.Generator(np.random.PCG64(draft.rng.getrandbits(32)))
    high = 2 if value.dtype == np.bool_ else 9
    return draft.constant(generator.integers(1 if high > 2 else 0, high, shape).astype(value.dtype))


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))
