"""Versions of the weight buffer take turns, tile after tile, and a tile that one of them holds is not brought again."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import pytest

from girih.ir.isa.table import field
from girih.ir.load_machine import load_machine
from girih.ir.program import Program
from girih.lowering import lower
from girih.lowering.program.lockstep import OpWalk
from tests.support import graphs
from tests.support.plans.sequential_plans import sequential_plan

MACHINE = load_machine("tiny")
GRAPH = graphs.conv(size=8, channels=6, out=8, dtype="float32")
ALL_CHANNELS_FIRST, ROWS_FIRST = (0, 1, 2, 3), (3, 0, 1, 2)
"""From the outermost dimension to the innermost: for each row all channels, and for each part of them all rows."""


def program(channels: int, depth: int, order: tuple[int, ...]) -> Program:
    """Two rows a core, ``channels`` of 8 at a time, with ``depth`` versions of the weights."""
    plan = sequential_plan(GRAPH, MACHINE, parts=1, reduce_parts=1, depth=depth)
    (segment,), (tile,) = plan.segments, plan.segments[0].tiles
    tile = replace(tile, sizes=(1, 2, 8, channels), order=order)
    return lower(GRAPH, replace(plan, segments=(replace(segment, tiles=(tile,)),)), MACHINE)


def brought(lowered: Program) -> list[int]:
    """The weight addresses that core 0 is sent tiles to, in the order of the queues."""
    weights = [m.name for m in MACHINE.memories].index(MACHINE.levels.weights.name)
    return [
        int(field(i, "dst.base"))
        for stream in lowered.streams
        for i in stream
        if any(o.name == "dst" for o in i.row.operands) and field(i, "dst.mem") == weights
    ]


def multiplied(lowered: Program) -> list[int]:
    """The weight addresses of the tiles that the first core's products read, each run of equal ones once."""
    queue = next(s for q, s in zip(lowered.queues, lowered.streams, strict=True) if q.engine == "MME")
    tiles = sorted({*brought(lowered)})
    # A product may take some positions of the kernel alone, and read its weights from the middle of a tile.
    read = [int(field(i, "b.base")) for i in queue if i.mnemonic == "mconv"]
    return [address for address, _ in groupby(max(t for t in tiles if t <= base) for base in read)]


def test_they_take_turns() -> None:
    size = 3 * 3 * 6 * 8 * 4
    for depth, places in ((1, [0]), (2, [0, size, 0, size]), (3, [0, size, 2 * size, 0])):
        lowered = program(2, depth, ROWS_FIRST)
        assert multiplied(lowered) == places
        assert sorted(brought(lowered)) == sorted(places if depth > 1 else places * 4)


def test_what_a_version_holds_is_not_brought_again() -> None:
    """Two tiles, needed twice in turn: with one version each replaces the other, with two both stay."""
    assert len(brought(program(4, 1, ALL_CHANNELS_FIRST))) == 4
    held = program(4, 2, ALL_CHANNELS_FIRST)
    first, second = sorted(brought(held))
    assert multiplied(held) == [first, second, first, second]


def test_the_oldest_is_given_up() -> None:
    """Three tiles in turn in two versions: the one that is needed next has always just been given up."""
    lowered = program(3, 2, ALL_CHANNELS_FIRST)
    places = multiplied(lowered)
    assert len(brought(lowered)) == len(places) == 6
    assert places == [places[0], places[1]] * 3


@pytest.mark.parametrize(("channels", "ahead"), [(8, 1), (4, 2)])
def test_tiles_are_not_gone_through_for_weights_that_have_all_come(
    channels: int, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three versions, and the walk has one weight tile or two: the tiles behind them are begun but once."""
    begun: list[int] = []
    look_at = getattr(OpWalk, "_look_at")  # noqa: B009

    def counted(running: object, index: int) -> None:
        begun.append(index)
        look_at(running, index)

    monkeypatch.setattr(OpWalk, "_look_at", staticmethod(counted))
    lowered = program(channels, 3, ALL_CHANNELS_FIRST)
    assert len(brought(lowered)) == ahead
    tiles = [index for index in {*begun} if index >= ahead]
    assert tiles and all(begun.count(index) * 2 == begun.count(0) for index in tiles)
