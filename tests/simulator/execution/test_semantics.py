"""Every instruction, run by a whole program, against loops over numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from girih.ir.isa.row import Row
from girih.ir.isa.table import DTYPE_NAMES, ROWS, field
from tests.support.simulator.memory_images import copy_of, in_order, simulated
from tests.support.simulator.random_operands import Case, case
from tests.support.simulator.scalar_oracle import execute, tolerance

DATA_ROWS = [row for row in ROWS.values() if row.operands]


def judge(tried: Case) -> None:
    """Every byte is as the oracle says; elements of the destination may be next to that where rounding may differ."""
    expected = copy_of(tried.before)
    written = execute(expected, tried.instruction, tried.core)
    after = simulated(in_order([(tried.queue, tried.instruction)]), tried.before)
    dtype = DTYPE_NAMES[int(field(tried.instruction, "dst.dtype"))]
    allowed = tolerance(tried.instruction.row)
    relative = {"float32": allowed, "float16": 2.0**-10, "bfloat16": 2.0**-7}
    for place, address in sorted(written):
        got, wanted = (np.float64(s.get(place, address, dtype)) for s in (after, expected))
        if allowed and got != wanted:
            # A float may be rounded to a neighbour, an integer be cut off on the other side.
            limit = relative[dtype] * abs(wanted) + 1e-12 if dtype in relative else float(dtype != "bool")
            assert abs(got - wanted) <= limit, f"{got} at {place} {address:#x}, not {wanted}: {tried.instruction}"
            expected.set(place, address, dtype, after.get(place, address, dtype))
    for place, data in expected.memory.items():
        wrong = np.flatnonzero(after.memory[place] != data)
        assert not len(wrong), f"{place} differs at {wrong[:8]}: {tried.instruction}"


@pytest.mark.parametrize("row", DATA_ROWS, ids=lambda row: row.mnemonic)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_row(row: Row, seed: int) -> None:
    judge(case(row, seed))


@pytest.mark.parametrize(
    "mnemonic", ["mmatmul", "mconv", "mconv.bias", "vpool.max", "vdwconv.vv", "mcopy", "vgather.row"]
)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=30, deadline=None)
def test_rows_with_many_fields(mnemonic: str, seed: int) -> None:
    judge(case(ROWS[mnemonic], seed))
