"""Between binary16 and binary32 by integer arithmetic on whole arrays.

NumPy converts number by number with branches, which real data makes a processor mispredict: 4 ns an element, where
these take 0.3 (to binary32) and 0.8 (from it). Infinities, NaN and overflow are left to NumPy.
"""

from __future__ import annotations

from math import prod

import numpy as np

Array = np.ndarray

_SHIFT = 13
"""Bits of a binary32 significand that binary16 does not have."""
_REBIAS = 112
"""Exponents are stored with a bias of 127 in binary32, and of 15 in binary16."""
_INFINITE = 0x7C00
"""The least magnitude of a binary16 that is not finite, as an integer."""
_OVERFLOWS = 0x477FF000
"""The least magnitude of a binary32 that binary16 rounds to infinity, 65520, as an integer; NaN are above it."""
_SMALLEST_NORMAL = 0x0400
_SIGN_EXPONENT_SIGNIFICAND = np.int32(-(1 << 31) | (1 << 28) - (1 << _SHIFT))
"""The bits of a binary32 that those of a binary16 are moved to."""


def widened(half: Array) -> Array:
    """A new array of binary32 with the same numbers."""
    bits = half.view(np.int16)
    if int((bits & 0x7FFF).max(initial=0)) >= _INFINITE:
        return half.astype(np.float32)
    # The sign is extended into the bits that are masked away.
    wide = bits.astype(np.int32)
    wide <<= _SHIFT
    wide &= _SIGN_EXPONENT_SIGNIFICAND
    value = wide.view(np.float32)
    # Exact, and what is subnormal in binary16 becomes normal.
    value *= np.float32(2.0**_REBIAS)
    return value


def narrow(target: Array, single: Array) -> None:
    """Round binary32 numbers to nearest even into ``target``, an array of binary16 of the same shape."""
    bits = np.ascontiguousarray(single).view(np.int32).reshape(single.shape)
    magnitude, steps, rounded = _scratch(single.shape)
    np.bitwise_and(bits, 0x7FFFFFFF, out=magnitude)
    if int(magnitude.max(initial=0)) >= _OVERFLOWS:
        target[...] = single
        return
    # Below the smallest normal number, binary16 is a fixed-point number with the steps of binary32 near one half.
    np.add(magnitude.view(np.float32), np.float32(0.5), out=steps.view(np.float32))
    np.subtract(steps, 0x3F000000, out=steps)
    np.minimum(steps, _SMALLEST_NORMAL, out=steps)
    # Elsewhere the bits move into place, rounded by adding just under one half, or one half to an odd number.
    np.right_shift(magnitude, _SHIFT, out=rounded)
    np.bitwise_and(rounded, 1, out=rounded)
    np.add(magnitude, ((1 << _SHIFT - 1) - 1) - (_REBIAS << 23), out=magnitude)
    np.add(rounded, magnitude, out=rounded)
    np.right_shift(rounded, _SHIFT, out=rounded)
    # Of the two, the larger one is the right one.
    np.maximum(rounded, steps, out=rounded)
    if int(bits.min(initial=0)) < 0:
        np.right_shift(bits, 16, out=steps)
        np.bitwise_and(steps, 0x8000, out=steps)
        np.bitwise_or(rounded, steps, out=rounded)
    np.copyto(target.view(np.uint16), rounded, casting="unsafe")


_ROOM: list[Array] = [np.empty(0, np.int32)] * 3


def _scratch(shape: tuple[int, ...]) -> list[Array]:
    """Three arrays that the next call overwrites: fresh ones would cost more than what is done in them."""
    size = prod(shape)
    if size > len(_ROOM[0]):
        _ROOM[:] = [np.empty(size, np.int32) for _ in _ROOM]
    return [room[:size].reshape(shape) for room in _ROOM]
