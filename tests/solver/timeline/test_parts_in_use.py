"""Buffers that are read tile by tile are free part by part, in prediction as in the program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from girih.frontend import import_onnx
from girih.frontend.for_machine import fitted
from girih.ir.load_machine import load_machine
from girih.ir.semantics.box_arrays import Boxes
from girih.ir.semantics.cell import Cells
from girih.lowering import Lowerer
from girih.models import build
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.cost.tile_walk import TileWalks
from girih.solver.options import Options
from girih.solver.timeline import parts_in_use as module
from girih.solver.timeline.link_sharing import Area, Space
from girih.solver.timeline.parts_in_use import PARTS, parts_in_use
from girih.solver.timeline.predict import predict


def boxes(spans: list[list[tuple[int, int]]], present: list[bool] | None = None) -> Boxes:
    return Boxes(np.array(spans, dtype=np.int64), np.array(present or [True] * len(spans)))


def test_each_byte_is_in_use_until_the_last_tile_that_reads_it() -> None:
    shape, item = (4, 24), 2
    rng = np.random.default_rng(0)
    for _ in range(50):
        low = rng.integers(0, shape, (6, 2))
        high = np.minimum(low + rng.integers(1, (3, 20), (6, 2)), shape)
        present = rng.random(6) < 0.8
        until = np.sort(rng.random(6) * 100).tolist()
        reads = Boxes(np.stack([low, high], axis=2), present)
        exact = np.zeros(shape)
        for tile in np.flatnonzero(present).tolist():
            exact[low[tile, 0] : high[tile, 0], low[tile, 1] : high[tile, 1]] = until[tile]
        by_byte = np.repeat(exact.reshape(-1), item)
        parts = parts_in_use(reads, shape, item, until)
        assert [first for first, *_ in parts] == [0, *(end for _, end, _ in parts[:-1])]
        assert parts[-1][1] == by_byte.size and len(parts) == PARTS
        # Never sooner; what lies between the rows of a tile counts as read.
        assert all(by_byte[first:end].max() <= time for first, end, time in parts)


def test_rows_that_are_read_in_order_are_free_in_order() -> None:
    reads = boxes([[(row, row + 1), (0, 8)] for row in range(16)])
    parts = parts_in_use(reads, (16, 8), 4, [float(row + 1) for row in range(16)])
    assert [time for *_, time in parts] == [float(row + 1) for row in range(16)]


def test_small_and_unread_buffers() -> None:
    assert parts_in_use(boxes([[(0, 1)]]), (1,), 2, [7.0]) == ((0, 1, 7.0), (1, 2, 7.0))
    assert {time for *_, time in parts_in_use(boxes([[(0, 4)]], [False]), (4,), 4, [7.0])} == {0.0}


@pytest.mark.parametrize(("low", "size", "expected"), [(100, 10, 5.0), (150, 10, 9.0), (100, 100, 9.0), (300, 10, 0.0)])
def test_what_comes_next_waits_for_the_bytes_that_it_takes(low: int, size: int, expected: float) -> None:
    space = Space()
    old = space.open(100, 100)
    old.use_parts(((0, 50, 5.0), (50, 90, 9.0)), "VME")
    assert old.free("MTI") == 9.0 and old.free("VME") == 0.0
    assert old.used(190, 200).last == 9.0, "the last part goes on to the end"
    new = space.open(low, size)
    assert new.floor.seen_by("MTI") == new.floor_of(low, low + size).seen_by("MTI") == expected


def test_a_portion_waits_for_what_it_lies_over() -> None:
    space = Space()
    for number, low in enumerate((0, 100)):
        space.open(low, 100).use_parts(((0, 50, 5.0 + number), (50, 100, 9.0 + number)), "VME")
    both = space.open(50, 100)
    assert both.floor.last == 9.0 and both.floor_of(50, 100).last == 9.0 and both.floor_of(100, 150).last == 6.0


def test_a_load_knows_what_was_there_though_its_result_begins_in_place_of_it() -> None:
    space = Space()
    space.open(0, 100).use(7.0, "MTO")
    loaded = space.open(0, 100)
    result = space.open(0, 100)
    assert loaded.floor_of(0, 10).last == result.floor_of(0, 10).last == 7.0
    space.open(0, 100)
    assert not loaded.under, "older lifetimes are forgotten"


def test_an_earlier_use_is_of_the_whole() -> None:
    area = Area(0, 100)
    area.use_parts(((0, 50, 5.0), (50, 100, 9.0)), "VME")
    area.use_parts(((0, 50, 12.0), (50, 100, 20.0)), "MME")
    area.use(11.0, "MTO")
    assert area.used(0, 10).last == 12.0
    assert area.used(0, 10).seen_by("MME") == 11.0
    assert area.free("MTI") == 20.0


def test_values_that_are_loaded_over_scores_are_predicted_better(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load_machine("stcp920")
    small = tuple(
        replace(m, capacity=1 << 19) if m == machine.levels.activations.memory else m for m in machine.memories
    )
    machine = replace(machine, memories=small)
    network = build("bert-base", seq=512, layers=1, hidden=192, heads=3, ffn=384)
    graph = fitted(import_onnx(network, precision="fp16", batch=8, clusters=4), machine, divides=True)
    planned = plan(graph, machine, Options(4.0)).plan
    simulated = simulate(Lowerer(graph, machine).program(planned), machine, {}, {}, data=False).summary.cycles

    def error() -> float:
        timeline = predict(graph, Cells(graph), machine, planned, TileWalks(graph, machine))
        return timeline.cycles / simulated - 1

    by_parts = error()
    monkeypatch.setattr(module, "PARTS", 1)
    assert abs(by_parts) < error() - 0.02
