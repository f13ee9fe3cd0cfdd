"""What engines that share vector instructions wait for each other, by hand and against the simulator."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from girih.ir.graph import Op
from girih.ir.isa.timing import write_apart
from girih.ir.load_machine import load_machine
from girih.ir.machines.as_planned import as_planned
from girih.ir.plan import Segment, Tile
from girih.ir.semantics.cell import Cell, Cells
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver.cost.instruction_shape import InstructionShape, ShapedOperand, Walk
from girih.solver.cost.team.waits import TeamShares, TeamWaits, meet
from girih.solver.cost.tile_walk import TileWalk, TileWalks
from girih.solver.pipeline.model import walk_cycles
from girih.solver.pipeline.solve import PipelineOverflow, Pipelines
from girih.solver.timeline.predict import predict
from tests.support import graphs
from tests.support.machines import with_count
from tests.support.plans.plain_plans import plain_plan

ENGINE = replace(load_machine("tiny").engine_for("vector"), count=4, issue=1, latency=10)
LANES, ITEMS = dict.fromkeys("xyzw", 8), dict.fromkeys("xyzw", 4)


def shape(result: str, source: str, rows: int = 8, columns: int = 16, *, corner: bool = False) -> InstructionShape:
    """One of ``rows`` x ``columns``, the columns along the lanes: 2 rows for each of four engines.

    They read the same of the source, or all its ``corner``.
    """
    steps = (0, 0) if corner else (columns, 1)
    walks = tuple(Walk(stride, ((name, 1),)) for name, stride in zip(("n1", "n2"), steps, strict=True))
    dense = (Walk(columns, (("n1", 1),)), Walk(1, (("n2", 1),)))
    busy = ENGINE.issue + rows // 4 * -(-columns // 8)
    sizes = {"n1": rows, "n2": columns}
    operands = (ShapedOperand(result, dense), ShapedOperand(source, walks))
    return InstructionShape(1, busy, sizes, dict.fromkeys(sizes, 1), (), operands)


def waits(rooms: dict[str, int] | None = None) -> TeamWaits:
    return TeamWaits(ENGINE, LANES, ITEMS, rooms or {})


def test_who_reads_what_it_has_written_does_not_wait() -> None:
    team = waits()
    assert team.run([shape("y", "x")], 5) == 5
    assert team.run([shape("z", "y")], 5) == 5


def test_who_reads_what_others_have_written_waits_until_that_is_visible() -> None:
    team = waits()
    team.run([shape("y", "x")], 5)
    assert team.run([shape("z", "y", corner=True)], 5) == 10 + 5
    # Something else to do in between hides some of it.
    team = waits()
    team.run([shape("y", "x")], 5)
    team.run([shape("w", "x")], 5)
    assert team.run([shape("z", "y", corner=True)], 5) == 5 + 5


def test_instructions_are_cut_so_that_none_waits_if_that_is_sooner() -> None:
    """Columns of what lies column by column are where the rows were: 4 engines x 8 steps, and no wait of 10 cycles."""
    team = waits()
    team.run([shape("y", "x")], 5)
    turned = shape("z", "y")
    walks = (Walk(1, (("n1", 1),)), Walk(8, (("n2", 1),)))
    turned = replace(turned, operands=(turned.operands[0], ShapedOperand("y", walks)))
    assert team.run([turned], 5) == 1 + 8


def test_work_that_banks_slow_takes_longer() -> None:
    team = waits()
    assert team.run([shape("y", "x"), shape("z", "y", corner=True)], 20) == 10 + 20


def test_a_room_that_others_use_is_awaited() -> None:
    """z lies where x was, of which the last engine reads the rows that the first writes."""
    team = waits({"y": 0, "z": 0})
    team.run([shape("y", "x"), shape("w", "y")], 10)
    assert team.run([shape("z", "w")], 5) == 5  # each in its own rows
    wide = waits({"y": 0, "z": 0})
    wide.run([shape("y", "x"), shape("w", "y")], 10)
    assert wide.run([shape("z", "x", rows=16)], 9) == 10 + 9  # twice as many rows each: into those of the next


def test_engines_go_on_each_by_itself() -> None:
    """All but the first have the next rows free; what the first waits for is over when it has to wait again."""
    team = waits({"y": 0, "z": 0})
    team.run([shape("y", "x"), shape("w", "y")], 10)
    team.run([shape("z", "x", rows=16)], 9)
    assert team.run([shape("x", "z", rows=16)], 9) == 9


def test_shares_tell_whether_the_next_operator_waits() -> None:
    rows = [(0, 4), (4, 8)]
    assert TeamShares(rows, {0: rows}).waits_for(0, TeamShares(rows, {})) is False
    assert TeamShares(rows, {0: [(0, 8), (0, 8)]}).waits_for(0, TeamShares(rows, {})) is True
    assert TeamShares(rows, {0: None}).waits_for(0, TeamShares(rows, {})) is None
    assert TeamShares(rows, {}).waits_for(0, TeamShares(rows, {})) is None
    assert TeamShares(rows, {0: rows}).waits_for(0, TeamShares(None, {})) is None
    assert meet(None, rows) and not meet(None, None)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(-12, 12)), min_size=1, max_size=4), st.sets(st.integers(0, 3)))
def test_instructions_write_apart_if_no_two_meet_from_first_to_last(
    loops: list[tuple[int, int]], chosen: set[int]
) -> None:
    extents, strides = zip(*loops, strict=True)
    inside = {a for a in chosen if a < len(loops)}
    places: list[int] = [0]
    for a, (extent, stride) in enumerate(loops):
        if a not in inside:
            places = [at + i * stride for at in places for i in range(extent)]
    reach = sum((extents[a] - 1) * abs(strides[a]) for a in inside)
    places.sort()
    apart = all(behind - before > reach for before, behind in pairwise(places))
    # Loops whose steps interleave may be apart, too; that is not told.
    assert apart or not write_apart(extents, strides, inside)
    if len(loops) - len(inside) <= 1:
        assert apart == write_apart(extents, strides, inside)


@pytest.mark.parametrize("name", ["matmul", "conv", "residual", "attention"])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("engines", [3, 8])
def test_a_team_is_predicted(name: str, depth: int, engines: int) -> None:
    machine = as_planned(with_count(load_machine("tiny"), {"vector": engines}))
    graph = getattr(graphs, name)(dtype="float32")
    plan = plain_plan(graph, machine, depth=depth, barrier=depth == 1)
    predicted = predict(graph, Cells(graph), machine, plan, TileWalks(graph, machine)).cycles
    simulated = simulate(lower(graph, plan, machine), machine, graph.data, {}, data=False).summary.cycles
    assert abs(predicted / simulated - 1.0) <= 0.03, predicted / simulated - 1.0


class OtherShares(TileWalks):
    """Of the operator ``second``, nothing is known of what each engine reads and writes."""

    def walk(self, op: Op, tile: Tile, cell: Cell) -> TileWalk:
        walk = super().walk(op, tile, cell)
        unknown = tuple(replace(timing, shares=TeamShares(None, {})) for timing in walk.timings)
        return replace(walk, timings=unknown) if op.name == "second" else walk


def test_timings_of_a_team_are_one_key_whatever_its_shares() -> None:
    """The pipeline takes cycles alone, in which waits are counted, and solves equal ones once.

    Which engine reads what another has made is asked of the walks of an operator and its producer, never by a key.
    """
    machine = as_planned(with_count(load_machine("tiny"), {"vector": 2}))
    net = graphs.Net("chain", "float32")
    graph = net.graph(net.matmul("second", net.matmul("first", net.input("x", 64, 32), 32), 32))
    cells, walks = Cells(graph), OtherShares(graph, machine)
    alone, second = plain_plan(graph, machine, depth=1, barrier=False).segments
    both = replace(alone, ops=("first", "second"), tiles=(*alone.tiles, *second.tiles))
    cell = cells.busiest(both, 0)
    (one, *_), (other, *_) = (walks.walk(graph.op[n], both.tile[n], cell).timings for n in both.ops)
    assert one.shares != other.shares and one.shares is not None
    assert one == other and len({one, other}) == 1
    assert one != replace(other, finish=other.finish + 1)

    def solved(segment: Segment) -> int:
        with mock.patch("girih.solver.pipeline.solve.walk_cycles", wraps=walk_cycles) as calls:
            assert not isinstance(Pipelines(graph, cells, machine, walks).segment(0, segment), PipelineOverflow)
        return calls.call_count

    assert solved(both) == solved(alone) > 0
