"""What the banks of a shared memory give to cores that load the same at one time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.frontend.for_machine.reduction_innermost import reduction_innermost
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.machines.as_planned import as_planned
from girih.ir.machines.shared_banks import ReachedBanks, bytes_for_all_banks
from girih.solver.cost.operator import OpCost, Rates, Weights
from girih.solver.segmentation.candidates import Candidates
from tests.support import graphs


def with_shared(machine: Machine, **changes: int) -> Machine:
    name = machine.levels.exchange.name
    return replace(machine, memories=tuple(replace(m, **changes) if m.name == name else m for m in machine.memories))


MANY = with_shared(as_planned(load_machine("ascend910")), interleave=4096)
"""32 cores that load for themselves, from 32 banks of 128 bytes a cycle that take turns every 4 KiB."""
RATES = Rates.from_machine(MANY)


@pytest.mark.parametrize(
    ("size", "rate"),
    [
        (1, 4),
        (64, 4),
        (96, 6),
        (128, 8),
        (8 * 64, 32),
        # One of nine blocks lies in a bank that has another one already.
        (9 * 64, 32 * 9 / 16),
        (16 * 64, 32),
    ],
)
def test_the_fullest_bank_sets_the_pace(size: int, rate: float) -> None:
    assert ReachedBanks(8, 64, 4.0).rate(size) == pytest.approx(rate)
    assert ReachedBanks(8, 0, 4.0).rate(size) == 32


def test_each_core_loads_for_itself_where_there_is_no_broadcast() -> None:
    size = 1 << 20
    assert Weights(32, 32).load(size, RATES) == Weights(32, 1).load(size, RATES)
    assert Weights(32, 32).load(size, RATES)[0] >= 32 * size / RATES.read
    broadcast = replace(RATES, broadcast=True)
    assert Weights(32, 32).load(size, broadcast)[0] < Weights(32, 1).load(size, broadcast)[0]


def test_cores_wait_for_the_banks_that_hold_their_weights() -> None:
    size = 12 << 12
    spread, narrow = (Weights(32, 32).load(size, RATES, spread=s)[0] for s in (None, size))
    assert spread == RATES.into.issue + size / 128
    assert narrow == 32 * size / (12 * 128)


def test_columns_are_spread_over_all_rows_and_rows_of_the_reduction_are_not() -> None:
    graph = graphs.matmul(m=8, k=512, n=256, dtype="float16")
    turned = reduction_innermost(graph, replace(MANY, links=tuple(replace(x, burst=4096) for x in MANY.links)))
    assert turned is not graph
    ordinary, innermost = (OpCost(g.ops[0], g, MANY) for g in (graph, turned))
    # A tile of 16 columns, for one group of cores that want the same.
    size, row, one = 512 * 16 * 2, 16 * 2, Weights(32, 32)
    assert ordinary.spread(size, row, one) == 511 * 256 * 2 + row
    assert innermost.spread(size, row, one) == size
    # Half of the reduction has half of the rows, and half of each column.
    assert ordinary.spread(size // 2, row, one) == 255 * 256 * 2 + row
    assert innermost.spread(size // 2, row, one) == 15 * 512 * 2 + 512
    # Four groups load tiles of their own, at most all of the weights.
    assert innermost.spread(size, row, Weights(32, 8)) == 4 * size
    assert ordinary.spread(size, row, Weights(32, 8)) == innermost.spread(size, row, Weights(32, 1)) == 512 * 256 * 2


def test_a_column_pays_for_what_lies_in_few_banks() -> None:
    """With blocks as long as the tensors, these are in a bank each."""
    graph = graphs.elementwise_chain(1, rows=64, columns=64)
    cycles = [
        min(column.cycles for column in Candidates(graph, machine).columns())
        for machine in (with_shared(MANY, interleave=256), with_shared(MANY, interleave=16384))
    ]
    # The load, the store, and once more the longer one of them, which an operator alone waits for.
    assert cycles[1] - cycles[0] > 2.5 * 64 * 64 * 4 / 128


def test_weights_stay_spread_where_cores_meet_on_banks() -> None:
    """Their rows are shorter than a burst of main memory, which no tile crosses."""
    graph = graphs.matmul(m=8, k=512, n=256, dtype="float16")
    assert reduction_innermost(graph, MANY) is graph
    assert reduction_innermost(graph, with_shared(MANY, bytes_per_cycle=4096)) is not graph


def test_banks_matter_where_one_gives_less_than_the_cores_take() -> None:
    def needed(machine: Machine) -> int | None:
        return bytes_for_all_banks(machine, machine.levels.exchange, machine.levels.activations)

    assert needed(MANY) == 32 * 4096
    # One engine brings what several cores want; two cores of 128 bytes a cycle have a bank of 256; no bank is alone.
    assert needed(load_machine("stcp920")) is None
    assert needed(as_planned(load_machine("ascend310"))) is None
    assert needed(with_shared(MANY, banks=1)) is None
    assert needed(with_shared(MANY, interleave=0)) is None
    assert needed(replace(MANY, cores=1)) is None
