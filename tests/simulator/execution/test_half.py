"""Conversions between binary16 and binary32, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from girih.simulator.execution.half import narrow, widened

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Bit by bit, so that zeros have the right sign."""
    return one.tobytes() == other.tobytes()


def narrowed(single: np.ndarray) -> np.ndarray:
    target = np.empty(single.shape, np.float16)
    with np.errstate(all="ignore"):
        narrow(target, single)
    return target


def test_every_half_is_widened_exactly() -> None:
    finite = HALVES[np.isfinite(HALVES)]
    assert same(widened(finite), finite.astype(np.float32))
    assert same(widened(HALVES), HALVES.astype(np.float32))


def test_what_lies_between_two_halves_is_rounded_to_the_nearest_even_one() -> None:
    # Each half, the middle to its neighbour, and the binary32 numbers beside both: every decision that there is.
    finite = HALVES[:0x7C00].astype(np.float32)
    middles = (finite[:-1].astype(np.float64) + finite[1:]) / 2
    points = np.concatenate([finite, middles.astype(np.float32)])
    points = np.concatenate([points, np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(0))])
    points = np.concatenate([points, -points])
    assert same(narrowed(points), points.astype(np.float16))


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 65519.0, 65520.0, -65520.0, 3e38, 1e-45, -1e-45, -0.0])
def test_special_numbers(special: float) -> None:
    values = np.array([1.0, special, -2.5], np.float32)
    with np.errstate(all="ignore"):
        assert same(narrowed(values), values.astype(np.float16))


def test_random_bits() -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, np.uint32)
    values = bits.view(np.float32)
    finite = values[np.abs(values) < 65000]
    assert len(finite) > 1 << 18
    assert same(narrowed(finite), finite.astype(np.float16))


def test_strides_and_shapes() -> None:
    half = np.arange(24, dtype=np.float16).reshape(2, 3, 4)[:, ::-1, ::2]
    assert same(widened(half), half.astype(np.float32))
    assert same(widened(np.broadcast_to(half[:, :, :1], half.shape)), half[:, :, [0, 0]].astype(np.float32))
    target = np.zeros((4, 2, 3), np.float16)
    narrow(target[::2].transpose(1, 2, 0), np.arange(12, dtype=np.float32).reshape(2, 3, 2)[:, ::-1])
    assert target[::2].transpose(1, 2, 0).tolist() == np.arange(12).reshape(2, 3, 2)[:, ::-1].tolist()
    assert not target[1::2].any()
    assert widened(np.zeros((2, 0), np.float16)).shape == (2, 0)
    narrow(np.zeros((2, 0), np.float16), np.zeros((2, 0), np.float32))
