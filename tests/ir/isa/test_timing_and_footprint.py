"""Latency rules, and what an instruction reaches, against counting."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from girih.ir.errors import UnsupportedError
from girih.ir.isa.footprint import Strided, footprint, overlaps_itself, taps
from girih.ir.isa.row import Row
from girih.ir.isa.table import DTYPE_NAMES, ROWS, make
from girih.ir.isa.timing import (
    bank_cycles,
    burst_bytes,
    contiguous_runs,
    instruction_cost,
    matrix_body,
    vector_body,
)
from girih.ir.load_machine import load_machine
from tests.support.machines import without_fill

CHIP = without_fill(load_machine("stcp920"))
MME, VME = CHIP.engine["MME"], CHIP.engine["VME"]


def test_vector_body() -> None:
    assert vector_body(VME, (2, 3, 64), "float16") == 6
    assert vector_body(VME, (2, 3, 65), "float16") == 12
    assert vector_body(VME, (2, 3, 64), "float32") == 12
    assert vector_body(VME, (2, 3, 64), "float16", special=True) == 24
    assert vector_body(VME, (128,), "float16") == 2
    with pytest.raises(UnsupportedError, match="VME has no lanes for int64"):
        vector_body(VME, (1,), "int64")


def test_parts_of_a_memory_have_banks_of_their_own() -> None:
    memory = load_machine("ipu-gc200").memories[1]
    bank = memory.capacity // memory.banks
    data, weights, sums = memory.part(0, 2 * bank), memory.part(2 * bank, 3 * bank), memory.part(3 * bank, 4 * bank)
    assert memory.banks == 4 and memory.bytes_per_cycle == 32
    # Each in a bank of its own, the busiest decides; two of one part that has a single bank take turns.
    assert bank_cycles([(data, 3200, 8), (weights, 32000, 8), (sums, 16000, 8)]) == 1000
    assert bank_cycles([(data, 3200, 8), (weights, 32000, 8), (weights, 16000, 8)]) == 1500
    assert bank_cycles([(memory, 32000, 8)] * 8) == 2000


def test_matrix_body() -> None:
    assert matrix_body(MME, 64, 32, 100, "float16") == 100
    assert matrix_body(MME, 65, 33, 100, "float16") == 400
    assert matrix_body(MME, 64, 32, 101, "int8") == matrix_body(MME, 64, 32, 101, "uint8") == 51
    with pytest.raises(UnsupportedError, match="MME does not multiply float64"):
        matrix_body(MME, 1, 1, 1, "float64")


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(
    "row", [r for r in ROWS.values() if any(f.number == "float" for f in r.fields)], ids=lambda r: r.mnemonic
)
def test_immediates_cost_nothing_whatever_they_are(row: Row, value: float) -> None:
    engine = next(e for e in CHIP.engines if row.kind in e.classes)
    sizes: dict[str, int | float] = {f.name: 2 for f in row.scalars if f.number == "unsigned"}
    sizes |= {f"{operand.name}.dtype": 1 for operand in row.operands}
    immediates = {f.name: value for f in row.fields if f.number == "float"}
    found = instruction_cost(CHIP, engine, make(row.mnemonic, 0, sizes | immediates))
    assert found == instruction_cost(CHIP, engine, make(row.mnemonic, 0, sizes))


def test_runs() -> None:
    assert contiguous_runs((2, 3, 4), (24, 8, 2), 2) == (1, 48)
    assert contiguous_runs((2, 3, 4), (48, 8, 2), 2) == (2, 24)
    assert contiguous_runs((2, 3, 4), (48, 16, 2), 2) == (6, 8)
    assert contiguous_runs((2, 1, 4), (8, 999, 2), 2) == (1, 16)
    assert contiguous_runs((2, 3), (2, 4), 2) == (6, 2)
    assert contiguous_runs((5, 3), (0, 2), 2) == (5, 6)
    assert 0 in contiguous_runs((0, 3), (6, 2), 2)


def test_bursts() -> None:
    link = CHIP.links[0]
    assert link.burst == 64
    assert burst_bytes(link, 1, 64) == 64
    assert burst_bytes(link, 10, 65) == 1280


def test_traffic_of_a_matrix_instruction_counts_its_passes() -> None:
    # 2 blocks of rows, 3 of columns: a is read 3 times, b twice; dst is read and written.
    fields = {"m": 128, "n": 96, "k": 10, "acc": 1, "a.dtype": 1, "b.dtype": 1, "a.s0": 20, "a.s1": 2, "b.s0": 192,
              "b.s1": 2, "dst.s0": 384, "dst.s1": 4}  # fmt: skip
    cost = instruction_cost(CHIP, MME, make("mmatmul", 0, fields))
    assert cost.body == 2 * 3 * 10
    assert cost.traffic == (2 * 128 * 96 * 4, 3 * 128 * 10 * 2, 2 * 96 * 10 * 2)
    assert cost.busy == MME.issue + 60


@given(
    st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(-6, 6), st.integers(1, 9)
)  # fmt: skip
def test_taps(outputs: int, kernel: int, stride: int, dilation: int, origin: int, bound: int) -> None:
    lattice = taps(outputs, kernel, stride, dilation, origin, bound)
    visited = {i * stride + j * dilation + origin for i, j in itertools.product(range(outputs), range(kernel))}
    points = [lattice.origin + lattice.step * r for r in range(lattice.length)]
    assert visited <= set(points)
    assert points[lattice.first : lattice.last] == [p for p in points if 0 <= p < bound]
    for i, j in itertools.product(range(outputs), range(kernel)):
        assert points[i * lattice.stride + j * lattice.dilation] == i * stride + j * dilation + origin


def test_reach_of_a_strided_convolution() -> None:
    # Rows -1, 1, 3 of 4: 1 and 3 are there.
    fields = {"oh": 3, "ow": 1, "n": 1, "kh": 1, "kw": 1, "ci": 2, "sh": 2, "sw": 1, "dh": 1, "dw": 1, "h0": -1, "H": 4,
              "W": 1, "a.dtype": 1, "a.base": 100, "a.s0": 64, "a.s1": 4, "a.s2": 2}  # fmt: skip
    a = footprint(make("mconv", 0, fields))[1]
    assert (a.start, a.extents, a.strides) == (164, (2, 1, 2), (128, 4, 2))
    assert (a.low, a.high) == (164, 164 + 128 + 4)
    nothing = footprint(make("mconv", 0, fields | {"h0": 9}))[1]
    assert nothing.low == nothing.high


def test_reach_knows_what_is_read() -> None:
    for acc in (0, 1):
        assert footprint(make("vred.sum", 0, {"n0": 1, "n1": 1, "n2": 1, "acc": acc}))[0].reads == bool(acc)
    assert footprint(make("vacc.sum", 0, {}))[0].reads
    assert not footprint(make("vneg.v", 0, {}))[0].reads
    assert footprint(make("wait", 0, {})) == ()


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), min_size=1, max_size=4), st.sampled_from([1, 2, 4])
)  # fmt: skip
def test_overlap_with_itself(dims: list[tuple[int, int]], size: int) -> None:
    extents, strides = tuple(e for e, _ in dims), tuple(s * size for _, s in dims)
    starts = [sum(i * s for i, s in zip(at, strides, strict=True)) for at in itertools.product(*map(range, extents))]
    low, high = min(starts, default=0), max(starts, default=-size) + size
    dtype = {1: "int8", 2: "float16", 4: "float32"}[size]
    at = Strided("dst", False, True, 0, DTYPE_NAMES.index(dtype), 0, extents, strides, low, high)
    assert overlaps_itself(at) == (len(set(starts)) < len(starts))
