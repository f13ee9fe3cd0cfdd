"""The plan decides where cells run and how operands move: each decision changed by hand is still a valid plan, shows in
the program, and nowhere in the results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import CheckError
from girih.ir.graph import Graph
from girih.ir.isa.table import Instruction, field
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan, SharedBuffer, Transfer
from girih.ir.program import Program
from girih.lowering import lower
from tests.support import graphs
from tests.support.numpy_check import inputs_of, run
from tests.support.plans.rough_plans import rough_plan, wide
from tests.support.plans.sequential_plans import sequential_plan

MACHINE = load_machine("tiny")
GRAPH = graphs.conv(size=8, channels=6, out=8, dtype="float32")


def plain(**cuts: int) -> Plan:
    """Rows of a convolution on two cores: weights and bias are broadcast."""
    return sequential_plan(GRAPH, MACHINE, **{"parts": 1, "reduce_parts": 1, "depth": 1, "core_dim": 1, **cuts})


def lowered(plan: Plan, graph: Graph = GRAPH) -> Program:
    check_plan(plan, graph, MACHINE)
    return lower(graph, plan, MACHINE)


def queue(program: Program, engine: str, core: int | None) -> list[Instruction]:
    """What an engine does beside waiting."""
    return [
        i
        for q, stream in zip(program.queues, program.streams, strict=True)
        if (q.engine, q.core) == (engine, core)
        for i in stream
        if i.row.kind != "sync"
    ]


def broadcasts(program: Program) -> list[int]:
    """How many each core issues."""
    return [sum(i.mnemonic == "mbcast" for i in queue(program, "MTI", core)) for core in range(MACHINE.cores)]


def with_transfer(plan: Plan, tensor: str, **changes: tuple[int, ...]) -> Plan:
    def change(t: Transfer) -> Transfer:
        return replace(t, **changes) if t.tensor == tensor else t

    return replace(plan, transfers=tuple(map(change, plan.transfers)))


def with_stream(plan: Plan, **changes: object) -> Plan:
    (stream,) = plan.weight_streams
    return replace(plan, weight_streams=(replace(stream, **changes),))  # type: ignore[arg-type]


def results(program: Program, graph: Graph = GRAPH) -> np.ndarray:
    trace = run(graph, MACHINE, program, inputs_of(graph))
    assert trace.violations == ()
    (result,) = trace.outputs.values()
    return np.asarray(result)


def differ_in_order_alone(first: Program, second: Program, graph: Graph = GRAPH) -> None:
    assert first.streams != second.streams
    np.testing.assert_array_equal(results(first, graph), results(second, graph))


def test_cells_run_on_the_cores_of_the_plan() -> None:
    plan = plain()
    swapped = lowered(replace(plan, cell_cores=((1, 0),)))
    here = lowered(plan)
    rows = [[int(field(i, "src.base")) for i in queue(p, "MTO", core)] for p in (here, swapped) for core in (0, 1)]
    targets = [[int(field(i, "dst.base")) for i in queue(p, "MTO", core)] for p in (here, swapped) for core in (0, 1)]
    assert rows[0] == rows[3]
    assert targets[:2] == targets[:1:-1] and targets[0] != targets[1]
    differ_in_order_alone(here, swapped)
    alone = plain(cores=1)
    second = lowered(replace(alone, cell_cores=((1,),)))
    assert [bool(queue(second, "MME", core)) for core in (0, 1)] == [False, True]
    differ_in_order_alone(lowered(alone), second)


def test_broadcasts_are_issued_by_the_receivers_of_the_plan() -> None:
    plan = plain()
    (bias,) = (t.tensor for t in plan.transfers if t.tensor == "conv.b")
    by = {
        (b, w): broadcasts(lowered(with_stream(with_transfer(plan, bias, issuers=b), issuers=w)))
        for b in ((0,), (1,))
        for w in ((0,), (1,))
    }
    assert by == {((0,), (0,)): [2, 0], ((0,), (1,)): [1, 1], ((1,), (0,)): [1, 1], ((1,), (1,)): [0, 2]}
    differ_in_order_alone(lowered(with_stream(plan, issuers=(0,))), lowered(with_stream(plan, issuers=(1,))))


def test_loads_and_stores_come_in_the_portions_of_the_plan() -> None:
    plan = plain()
    (stored,) = (t.tensor for t in plan.transfers if not t.issuers)
    whole = with_transfer(with_transfer(plan, "x", portion=(1, 8, 8, 6)), stored, portion=(1, 8, 8, 8))
    rows = with_transfer(whole, "x", portion=(1, 1, 8, 6))
    halves = with_transfer(whole, stored, portion=(1, 2, 8, 8))
    counts = {
        name: (len(queue(lowered(p), "MTI", 0)), len(queue(lowered(p), "MTO", 0)))
        for name, p in {"whole": whole, "rows": rows, "halves": halves}.items()
    }
    # A core computes four rows of eight, and reads one more.
    assert counts["rows"] == (counts["whole"][0] + 4, counts["whole"][1])
    assert counts["halves"] == (counts["whole"][0], counts["whole"][1] + 1)
    differ_in_order_alone(lowered(whole), lowered(rows))
    differ_in_order_alone(lowered(whole), lowered(halves))


def test_weights_are_prefetched_as_the_plan_says() -> None:
    plan = plain()
    weights = [m.name for m in MACHINE.memories].index(MACHINE.levels.weights.name)

    def first(prefetch: int) -> int:
        """How many copies come before the weights, in the queue that brings them."""
        program = lowered(with_stream(plan, prefetch=prefetch, issuers=(0,)))
        return next(n for n, i in enumerate(queue(program, "MTI", 0)) if field(i, "dst.mem") == weights)

    assert first(1) == 0 < first(0)
    differ_in_order_alone(lowered(with_stream(plan, prefetch=0)), lowered(with_stream(plan, prefetch=1)))


def test_weights_of_later_tiles_are_prefetched_too() -> None:
    """As many as there are versions, each once: a tile of the result that wants the same weights adds none."""
    weights = [m.name for m in MACHINE.memories].index(MACHINE.levels.weights.name)
    plan = plain(depth=3)
    segment = plan.segments[0]

    def ahead(order: tuple[int, ...], prefetch: int) -> int:
        """How many copies to weight memory come before the first other one."""
        tile = replace(segment.tiles[0], sizes=(1, 2, 8, 2), order=order)
        tiled = replace(plan, segments=(replace(segment, tiles=(tile,)),))
        program = lowered(with_stream(tiled, versions=(0, 1, 2), prefetch=prefetch, issuers=(0,)))
        differ_in_order_alone(program, lowered(with_stream(tiled, versions=(2, 0, 1), prefetch=0, issuers=(0,))))
        return next(n for n, i in enumerate(queue(program, "MTI", 0)) if field(i, "dst.mem") != weights)

    # Channels innermost: the second tile wants other weights. Rows innermost: it wants the same.
    for order in ((0, 1, 2, 3), (0, 3, 1, 2)):
        assert [ahead(order, prefetch) for prefetch in (0, 1, 2, 3)] == [0, 1, 2, 3]


def test_versions_are_used_in_the_order_of_the_plan() -> None:
    plan = plain(depth=2)
    segment = plan.segments[0]
    # Channels by four, for each of two tiles of rows: two tiles of weights, each needed twice.
    tile = replace(segment.tiles[0], sizes=(1, 2, 8, 4), order=(0, 1, 2, 3))
    plan = replace(plan, segments=(replace(segment, tiles=(tile,)),))

    def versions(order: tuple[int, ...]) -> tuple[list[int], int]:
        """The version that the products of each tile read, and how many tiles the cores are sent."""
        program = lowered(with_stream(plan, versions=order, prefetch=0))
        buffer = next(b for b in plan.local if b.use == "weights")
        products = [i for i in queue(program, "MME", 0) if i.mnemonic == "mconv" and not field(i, "acc")]
        read = [(int(field(i, "b.base")) - buffer.address) // (buffer.bytes // 2) for i in products]
        bias = 1
        return read, sum(broadcasts(program)) - bias

    assert versions((0, 1)) == ([0, 1, 0, 1], 2)
    assert versions((1, 0)) == ([1, 0, 1, 0], 2)
    assert versions((0,)) == ([0, 0, 0, 0], 4)
    assert versions((1, 1, 0)) == ([1, 1, 0, 1], 3)
    differ_in_order_alone(
        lowered(with_stream(plan, versions=(0,), prefetch=1)), lowered(with_stream(plan, versions=(1, 0)))
    )


def test_positions_of_a_ring_are_fetched_as_far_ahead_as_the_plan_says() -> None:
    """With no lead one place is enough: each position is fetched when the tiles of the one before it are done."""
    graph, segment = wide()
    plan = rough_plan(graph, MACHINE, (segment,))
    ring = [b for b in plan.shared if b.tensor == "fc.w" and b.fetch]
    # Each core has a part of the columns, which passes through two places of its own.
    parts = [[b.address for b in ring if b.ring_position == position] for position in range(2)]
    assert {b.ring_lead for b in ring if b.ring_position} == {1} and len({*parts[0], *parts[1]}) == 4

    def in_one_place(lead: int) -> Plan:
        def change(b: SharedBuffer) -> SharedBuffer:
            if not b.ring_position:
                return b
            part = parts[b.ring_position % 2].index(b.address)
            return replace(b, ring_lead=lead, address=parts[0][part])

        return replace(plan, shared=tuple(map(change, plan.shared)))

    with pytest.raises(CheckError, match="share"):
        check_plan(in_one_place(1), graph, MACHINE)
    ahead, just_in_time = lowered(plan, graph), lowered(in_one_place(0), graph)
    differ_in_order_alone(ahead, just_in_time, graph)
