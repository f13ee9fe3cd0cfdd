"""Seeded random weights, reproducible byte for byte: one stream for each tensor, single precision throughout."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]


def generator(seed: int, name: str) -> np.random.Generator:
    """The random stream that belongs to the tensor `name` of a model built with `seed`."""
    return np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))


def normal(rng: np.random.Generator, shape: Sequence[int], *, mean: float = 0.0, std: float = 1.0) -> FloatArray:
    """Draws from N(mean, std²)."""
    draws = rng.standard_normal(tuple(shape), dtype=np.float32)
    draws *= np.float32(std)
    draws += np.float32(mean)
    return draws


def uniform(rng: np.random.Generator, shape: Sequence[int], low: float, high: float) -> FloatArray:
    """Draws from U[low, high)."""
    draws = rng.random(tuple(shape), dtype=np.float32)
    draws *= np.float32(high - low)
    draws += np.float32(low)
    return draws


def filters(rng: np.random.Generator, shape: Sequence[int], *, gain: float, out_axis: int = 0) -> FloatArray:
    """Draws that sum to zero and have norm about `gain` for each output, of which `out_axis` counts.

    A sum of zero ignores the positive mean that a ReLU leaves on its output; without that, deep random networks
    answer every input alike (Brock et al., "Characterizing signal propagation to close the performance gap in
    unnormalized ResNets", ICLR 2021). All in place, because the largest of these has 400 MB.
    """
    draws = rng.standard_normal(tuple(shape), dtype=np.float32)
    draws -= draws.mean(axis=tuple(axis for axis in range(len(shape)) if axis != out_axis), keepdims=True)
    fan_in = draws.size // shape[out_axis]
    draws *= np.float32(gain / math.sqrt(max(1, fan_in - 1)))
    return draws
