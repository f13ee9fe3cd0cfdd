"""Rows and columns of the array that stay empty: known totals, and no cut that fills more than the bound says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from random import Random

import numpy as np
import pytest

from girih.ir.bounds.array_blocks import least_blocks
from girih.ir.bounds.demanded_elements import InBoundsPoints
from girih.ir.bounds.unavoidable_work import unavoidable
from girih.ir.box import Affine, Box, Span, full
from girih.ir.graph import DTYPES, Access, Axis, Graph, Op, Stage
from girih.ir.isa.table import ROWS
from girih.ir.isa.timing import instruction_cost, matrix_body
from girih.ir.load_machine import load_machine
from girih.ir.machine import Engine, Machine
from girih.ir.plan import Plan
from girih.ir.semantics.cell import tile_boxes
from girih.ir.semantics.region import op_boxes
from girih.lowering import lower
from girih.lowering.emission.kernel import KernelCache
from girih.lowering.emission.vector import Emitted
from girih.lowering.schedule.cell_spec import byte_strides
from tests.support import graphs
from tests.support.machines import without_fill
from tests.support.odd_graphs import grouped, odd_graph, several_columns
from tests.support.plans.random_plans import random_plan
from tests.support.sampled import sampled
from tests.support.whole_operator import one_tile

TINY, STCP = load_machine("tiny"), without_fill(load_machine("stcp920"))


def filling(machine: Machine, cycles: int) -> Machine:
    """The machine with an array that takes so many cycles to fill and drain for each block."""
    engines = (replace(e, fill=cycles) if "matrix" in e.classes else e for e in machine.engines)
    return replace(machine, engines=tuple(engines))


FILLED = filling(TINY, 5)


def matrix_work(graph: Graph, machine: Machine) -> float:
    """Cycles of one core that does everything."""
    name = machine.engine_for("matrix").name
    return next(work.cycles for work in unavoidable(graph, machine) if work.resource == name) * machine.cores


# Known totals --------------------------------------------------------------------------------------------------------


def test_columns_that_no_plan_fills() -> None:
    rows = 2 * 8 * 8
    for out, blocks in ((1, 1), (16, 1), (32, 1), (33, 2), (96, 3)):
        graph = graphs.conv(batch=2, size=8, channels=48, out=out, kernel=1)
        assert matrix_work(graph, STCP) == rows // 64 * blocks * 48


def test_rows_of_all_images_are_one_sum() -> None:
    for images, blocks in ((1, 1), (2, 2), (16, 13)):
        graph = graphs.conv(batch=images, size=7, channels=8, out=64, kernel=1)
        assert matrix_work(graph, STCP) == blocks * 2 * 8


def test_every_position_of_a_kernel_has_its_own_rows() -> None:
    # Of 49 windows the middle of the kernel sees all, an edge 42, a corner 36.
    graph = graphs.conv(batch=16, size=7, channels=8, out=32, kernel=3)
    blocks = -(-16 * 49 // 64) + 4 * -(-16 * 42 // 64) + 4 * -(-16 * 36 // 64)
    assert matrix_work(graph, STCP) == blocks * 8


def test_each_product_of_a_batch_fills_its_own_blocks() -> None:
    net = graphs.Net("heads", "float16")
    net.product("scores", net.input("q", 2, 3, 65, 16), net.input("k", 2, 3, 33, 16), transposed=True)
    assert matrix_work(net.graph(), STCP) == 6 * 2 * 2 * 16


def test_each_group_fills_its_own_blocks() -> None:
    assert matrix_work(grouped("float16", 1, 8, 5, 4, 8), STCP) == 5 * 9 * 4


def test_where_rows_and_columns_have_several_axes_one_side_rounds() -> None:
    rows, columns = 3 * 31, 3 * 11
    graph = several_columns("float16", (3, 31), (3, 11), 4)
    assert matrix_work(graph, STCP) == pytest.approx(4 * max(2 * columns / 32, 2 * rows / 64))


def test_what_is_rounded_is_reported() -> None:
    graph = graphs.conv(batch=1, size=8, channels=48, out=24, kernel=1)
    work = unavoidable(graph, STCP)[0]
    assert work.by_op == {"conv": 6.0}
    assert work.rounded == {"conv": pytest.approx(6.0 / 4)}


def test_the_array_is_filled_once_for_all_of_a_reduction() -> None:
    # 65 x 33 sums are 2 x 2 blocks, each of which is filled once for all 100 products.
    work = unavoidable(graphs.matmul(m=65, k=100, n=33, dtype="float16"), filling(STCP, 94))[0]
    assert work.cycles * STCP.cores == pytest.approx(4 * (100 + 94))
    assert {name: cycles * STCP.cores for name, cycles in work.filled.items()} == {"matmul": pytest.approx(4 * 94)}
    assert "94 cycles to fill" in work.reason


def test_backward_steps_that_could_cancel_out_are_not_rounded() -> None:
    # Column i of the right operand is its diagonal element (i, 4 - i): its step may be none at all.
    axes = (Axis("m", 3), Axis("n", 5), Axis("k", 2, True))
    left = Access("x", (Affine((1, 0, 0)), Affine((0, 0, 1))))
    right = Access("w", (Affine((0, 0, 1)), Affine((0, 1, 0)), Affine((0, -1, 0), 4)))
    stage = Stage(axes, Access("y", (Affine((1, 0, 0)), Affine((0, 1, 0)))), "mul", (left, right), "sum")
    inside = InBoundsPoints(stage, tuple(np.arange(a.extent) for a in axes), {"x": (3, 2), "w": (2, 5, 5)})
    assert least_blocks(stage, inside, TINY.engine_for("matrix")) == 3 * 5 * 2 / 64


# No way of covering does with fewer ----------------------------------------------------------------------------------


def contraction(rows: Sequence[int], columns: Sequence[int]) -> tuple[Stage, InBoundsPoints]:
    """One product for each of all rows and columns."""
    axes = tuple(Axis(f"i{n}", e) for n, e in enumerate((*rows, *columns)))
    units = [Affine(tuple(int(a == d) for a in range(len(axes)))) for d in range(len(axes))]
    left, right = Access("x", tuple(units[: len(rows)])), Access("w", tuple(units[len(rows) :]))
    stage = Stage(axes, Access("y", tuple(units)), "mul", (left, right), "sum")
    inside = InBoundsPoints(stage, tuple(np.arange(a.extent) for a in axes), {"x": tuple(rows), "w": tuple(columns)})
    return stage, inside


def cut(box: Box, rng: Random, depth: int) -> list[Box]:
    """Boxes that cover ``box``: cut anywhere, again and again, each half on its own; some overlap."""
    long = [d for d, span in enumerate(box) if span.size > 1]
    if not long or depth == 0:
        return [box]
    d = rng.choice(long)
    at = rng.randint(box[d].lo + 1, box[d].hi - 1)
    more = min(box[d].hi, at + rng.choice([0, 0, 0, 1]))
    halves = (*box[:d], Span(box[d].lo, more), *box[d + 1 :]), (*box[:d], Span(at, box[d].hi), *box[d + 1 :])
    return [piece for half in halves for piece in cut(half, rng, depth - 1)]


def in_blocks(boxes: Sequence[Box], rows: int, engine: Engine) -> int:
    sizes = [[span.size for span in box] for box in boxes]
    return sum(-(-prod(s[:rows]) // engine.rows) * -(-prod(s[rows:]) // engine.columns) for s in sizes)


@pytest.mark.parametrize("seed", sampled(range(200)))
def test_no_boxes_cover_with_fewer_blocks(seed: int) -> None:
    rng = Random(seed)
    engine = TINY.engine_for("matrix")
    rows, columns = ([rng.choice([1, 2, 3, 5, 7, 9, 12]) for _ in range(rng.randint(1, 3))] for _ in range(2))
    stage, inside = contraction(rows, columns)
    least = least_blocks(stage, inside, engine)
    assert least >= inside.count / (engine.rows * engine.columns)
    for _ in range(20):
        boxes = cut(full((*rows, *columns)), rng, rng.randint(0, 6))
        assert in_blocks(boxes, len(rows), engine) >= least - 1e-9


# No tiles and no plans do ------------------------------------------------------------------------------------------


KERNELS = {(m.name, m.engine_for("matrix").fill): KernelCache(m) for m in (TINY, STCP, FILLED)}


def tiled(graph: Graph, op: Op, machine: Machine, sizes: tuple[int, ...], reduce: tuple[int, ...]) -> int:
    """Cycles of the matrix engine for all of an operator in these tiles, without issue."""
    engine = machine.engine_for("matrix")
    dtype = graph.tensor[op.inputs[0]].dtype
    whole = full(graph.tensor[op.output].shape)
    held = op_boxes(op, graph.tensor, whole).tensors
    strides = {
        n: byte_strides(tuple(s.size for s in box), DTYPES[graph.tensor[n].dtype])
        for n, box in held.items()
        if n in graph.tensor
    }
    cycles = 0
    for box in tile_boxes(whole, sizes, tuple(range(len(sizes)))):
        _, nests = one_tile(op, graph, op_boxes(op, graph.tensor, box), strides, reduce)
        for step in KERNELS[machine.name, engine.fill].get(nests).steps:
            if isinstance(step, Emitted) and ROWS[step.mnemonic].kind == "matrix":
                f = {name: int(value) for name, value in step.fields}
                m, k = (f["m"], f["k"]) if "m" in f else (f["oh"] * f["ow"], f["kh"] * f["kw"] * f["ci"])
                cycles += matrix_body(engine, m, f["n"], k, dtype)
    return cycles


@pytest.mark.parametrize("seed", sampled(range(40)))
def test_no_tiles_do_with_less(seed: int) -> None:
    """Tiles that change at random as long as they get no worse: a search for the fewest cycles."""
    rng = Random(seed)
    graph, machine = odd_graph(seed, "float32"), (TINY, FILLED)[seed % 2]
    works = {work.resource: work for work in unavoidable(graph, machine)}
    least = works[machine.engine_for("matrix").name].by_op
    for op in graph.ops:
        if op.contraction is None:
            continue
        shape = graph.tensor[op.output].shape
        reduced = [a.extent for a in op.stages[op.contraction].axes if a.reduce]
        choice = [*shape, *reduced]
        best = None
        for _ in range(12):
            trial = list(choice)
            for d in rng.sample(range(len(trial)), rng.choice([1, 1, 2])):
                trial[d] = rng.choice([1, (*shape, *reduced)[d], rng.randint(1, (*shape, *reduced)[d])])
            if prod(-(-e // s) for e, s in zip((*shape, *reduced), trial, strict=True)) > 64:
                continue
            found = tiled(graph, op, machine, tuple(trial[: len(shape)]), tuple(trial[len(shape) :]))
            assert found >= least[op.name] * machine.cores - 1e-6, f"{op.name} in {trial}: {graph}"
            if best is None or found <= best:
                choice, best = trial, found


def test_a_tile_of_one_column_spans_images() -> None:
    """Why rows of each image alone are no lower bound: here they take 9 x 16 blocks, without padding."""
    net = graphs.Net("images", "float16")
    net.conv("conv", net.input("x", 16, 7, 7, 8), 32, kernel=3)
    graph = net.graph()
    op = graph.ops[0]
    assert tiled(graph, op, STCP, (1, 7, 7, 32), (3, 3, 8)) == 9 * 16 * 8
    found = tiled(graph, op, STCP, (16, 7, 1, 32), (3, 1, 8))
    assert 9 * 16 * 8 > found >= matrix_work(graph, STCP)


def executed(graph: Graph, plan: Plan, machine: Machine) -> dict[str, dict[str, float]]:
    """By engine and operator: cycles of a core, without issue."""
    program = lower(graph, plan, machine)
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for queue, stream in zip(program.queues, program.streams, strict=True):
        engine = machine.engine[queue.engine]
        for instruction in stream:
            if instruction.row.kind in ("matrix", "vector"):
                cost = instruction_cost(machine, engine, instruction)
                found[engine.name][program.ops[instruction.op].name] += cost.body / machine.cores
    return found


@pytest.mark.parametrize("target", ["tiny", "stcp920"])
@pytest.mark.parametrize("seed", sampled(range(80)))
def test_no_plan_does_with_less(seed: int, target: str) -> None:
    machine = filling(load_machine(target), (0, 5)[seed % 2])
    graph = odd_graph(seed, {"tiny": "float32", "stcp920": "float16"}[target])
    plan = random_plan(graph, machine, seed, longest=2)
    done = executed(graph, plan, machine)
    tiles = {tile.op: tile for segment in plan.segments for tile in segment.tiles}
    for work in unavoidable(graph, machine):
        if work.resource in (machine.engine_for("matrix").name, machine.engine_for("vector").name):
            for name, cycles in work.by_op.items():
                # The bound is that of plans that give to the matrix engine what it can run.
                if graph.op[name].contraction is None or tiles[name].engine == "matrix":
                    assert done[work.resource][name] >= cycles - 1e-6, f"{work.resource} {name}\n{graph}\n{plan}"
