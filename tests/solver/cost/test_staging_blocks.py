"""Blocks and copies that are counted are those that are emitted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import Plan
from girih.ir.semantics.cell import Cells
from girih.lowering import lower
from girih.solver.cost.instruction_shape import InstructionShape, ShapedOperand, Walk
from girih.solver.cost.staging_blocks import StagedOperand, in_blocks
from girih.solver.cost.tile_walk import TileWalks
from tests.support import graphs
from tests.support.plans.plain_plans import plain_plan
from tests.support.staged_machines import staged_kinds

TINY = load_machine("tiny")
GRAPHS = {"matmul": graphs.matmul, "conv": graphs.conv, "residual": graphs.residual, "attention": graphs.attention}


def counted(graph: Graph, plan: Plan, machine: Machine) -> Counter[str]:
    """Copies of each engine that stages operands, on all cores."""
    cells, walks, copies = Cells(graph), TileWalks(graph, machine), Counter[str]()
    for step in plan.steps:
        segment = plan.segments[step.segment]
        for cell in cells.row(segment, step.instance):
            for name in (n for n in segment.ops if n in cell.ops):
                walk = walks.walk(graph.op[name], segment.tile[name], cell)
                for kind in (walk.timings[number] for number in walk.timing):
                    for copy in (c for w in (*kind.products, *kind.stages) for p in w.staged for c in p.copies):
                        copies[copy.engine] += copy.times
    return copies


def emitted(graph: Graph, plan: Plan, machine: Machine) -> Counter[str]:
    program, copies = lower(graph, plan, machine), Counter[str]()
    for queue, stream in zip(program.queues, program.streams, strict=True):
        if queue.engine.startswith(("TO-", "FROM-")):
            copies[queue.engine] += sum(i.mnemonic == "mcopy" for i in stream)
    return +copies


def with_banks(machine: Machine, banks: int) -> Machine:
    """With so many banks of each memory to which operands are staged; from 8 on, windows have their own."""
    staging = machine.staging_memories
    return replace(
        machine, memories=tuple(replace(m, banks=banks) if m.name in staging else m for m in machine.memories)
    )


@pytest.mark.parametrize("banks", [2, 8])
@pytest.mark.parametrize("capacity", [4096, 512])
@pytest.mark.parametrize("kind", ["activations", "weights", "vectors", "vectors and sums"])
@pytest.mark.parametrize("name", GRAPHS)
def test_copies_are_those_of_the_program(capacity: int, kind: str, name: str, banks: int) -> None:
    if capacity == 512 and name == "residual":
        pytest.skip("a window that is wider than the memory, or that meets borders differently from block to block")
    graph, machine = GRAPHS[name](dtype="float32"), with_banks(staged_kinds(TINY, capacity)[kind], banks)
    plan = plain_plan(graph, machine, depth=2)
    made = counted(graph, plan, machine)
    assert made and made == emitted(graph, plan, machine)


def product(m: int, n: int, k: int, busy: int) -> InstructionShape:
    def walk(stride: int, name: str) -> Walk:
        return Walk(stride, ((name, 1),))

    return InstructionShape(
        1, busy, {"m": m, "n": n, "k": k}, {"m": 1, "n": 1, "k": 1}, ("k",),
        (
            ShapedOperand("y", (walk(n, "m"), walk(1, "n"))),
            ShapedOperand("x", (walk(k, "m"), walk(1, "k"))),
            ShapedOperand("w", (walk(n, "k"), walk(1, "n"))),
        ),
    )  # fmt: skip


def test_what_the_block_before_has_staged_is_not_counted() -> None:
    machine = staged_kinds(TINY, 1024)["activations"]
    engine = machine.engine_for("matrix")
    staging = machine.staging(engine, "reads", machine.levels.activations.name)
    assert staging is not None
    # 64 rows of 16 bytes: two blocks of half the memory each, brought once for all columns.
    shape = product(64, 8, 4, engine.issue + 256)
    run = in_blocks(engine, shape, [StagedOperand(shape.operands[1], staging, 4, writes=False)], 64.0)
    assert run.blocks == 2 and [copy.times for copy in run.copies] == [2]
    assert run.rooms == ((staging.memory.name, 512, staging.memory.alignment),)
    assert run.copies[0].cycles == 2 * staging.into.issue + 64 * 16 / staging.into.bytes_per_cycle


def test_blocks_of_a_reduction_add_to_their_sums() -> None:
    machine = staged_kinds(TINY, 512)["weights"]
    engine = machine.engine_for("matrix")
    staging = machine.staging(engine, "weights", machine.levels.weights.name)
    assert staging is not None
    shape = product(32, 8, 32, engine.issue + 256)
    run = in_blocks(engine, shape, [StagedOperand(shape.operands[2], staging, 4, writes=False)], 500.0)
    # Four blocks, all but the first of which read the sums before they write them.
    assert run.blocks == 4
    assert run.busy == 4 * engine.issue + 500.0 * (1 + 3 * 2)
