"""Which bank holds which part of an operand, against counting bytes."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from girih.ir.isa.footprint import Strided
from girih.ir.machine import Memory
from girih.simulator.tasks.places import Banks
from tests.support.simulator.programs import TINY

SMALL = {"DDR": TINY.memories[0], "L1": Memory("L1", "core", 4096, 8, 16),
         "LLB": Memory("LLB", "cluster", 4096, 8, 4, 32)}  # fmt: skip


def bank_of(memory: Memory, address: int) -> int:
    """By the docstring of `Memory`."""
    if memory.interleave:
        return address // memory.interleave % memory.banks
    return address // (memory.capacity // memory.banks)


@pytest.mark.parametrize("name", SMALL)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(-24, 24)), min_size=1, max_size=3),
    st.integers(0, 100), st.sampled_from([1, 2, 4]),
)  # fmt: skip
def test_parts_are_those_of_the_bytes(name: str, dims: list[tuple[int, int]], at: int, size: int) -> None:
    memory = SMALL[name]
    extents, strides = tuple(e for e, _ in dims), tuple(s * size for _, s in dims)
    # A dimension with stride 0 is there once.
    once = [range(e if s else 1) for e, s in zip(extents, strides, strict=True)]
    starts = [sum(i * s for i, s in zip(index, strides, strict=True)) for index in itertools.product(*once)]
    low, base = min(starts), (at + 300) * size
    operand = Strided("a", True, False, 0, {1: 2, 2: 1, 4: 0}[size], 0, extents, strides, low, max(starts) + size)
    counted = Counter(bank_of(memory, base + start + byte) for start in starts for byte in range(size))
    total = counted.total()
    banks = Banks(replace(TINY, memories=(memory,)), {(0, -1): 0}, (), 0)
    found = dict(banks.shares((0, -1), operand, base))
    assert found == {bank: pytest.approx(count / total) for bank, count in counted.items()}
