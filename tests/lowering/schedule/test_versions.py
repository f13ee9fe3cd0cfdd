"""Multi-buffering made explicit: a leading dimension, of which successive tiles take turns."""

from __future__ import annotations

import tvm

from girih.lowering.schedule.versions import annotated_degrees, with_versions
from tests.support.tir_text import function

TILED = """
    for t in T.serial(3, annotations={"npu.tile": 0ANNOTATED}):
        p = T.alloc_buffer((4,), "float32", scope="local.im")
        for u in T.serial(2, annotations={"npu.tile": -1}):
            w = T.alloc_buffer((2,), "float32", scope="global.l1w")
            for i in range(2):
                w[i] = a[t * 4 + u * 2 + i]
            for i in range(2):
                p[u * 2 + i] = w[i]
        for i in range(4):
            b[t * 4 + i] = p[i]
"""


def after(annotations: str) -> str:
    module = tvm.IRModule({"main": function(TILED.replace("ANNOTATED", annotations))})
    return with_versions(module)["main"].script()


def test_buffers_without_a_degree_stay_where_they_are() -> None:
    before = function(TILED.replace("ANNOTATED", ""))
    module = tvm.IRModule({"main": before})
    assert with_versions(module) is module
    assert annotated_degrees(before) == {}
    assert annotated_degrees(function(TILED.replace("ANNOTATED", ', "npu.degree:p": 1'))) == {}


def test_a_buffer_moves_out_of_the_tile_loops_and_its_versions_take_turns() -> None:
    text = after(', "npu.degree:p": 2')
    lines = [line.strip() for line in text.splitlines()]
    assert 'p = T.alloc_buffer((2, 4), scope="local.im", layout=None)' in lines
    assert lines.index('p = T.alloc_buffer((2, 4), scope="local.im", layout=None)') < next(
        n for n, line in enumerate(lines) if line.startswith("for t ")
    )
    assert "p[t % 2, u * 2 + i] = w[i]" in lines
    assert "b[t * 4 + i] = p[t % 2, i]" in lines


def test_tiles_are_counted_over_all_loops_around_the_buffer() -> None:
    lines = [line.strip() for line in after(', "npu.degree:w": 3').splitlines()]
    assert 'w = T.alloc_buffer((3, 2), scope="global.l1w", layout=None)' in lines
    assert "w[(t * 2 + u) % 3, i] = a[t * 4 + u * 2 + i]" in lines
    assert "p[u * 2 + i] = w[(t * 2 + u) % 3, i]" in lines
