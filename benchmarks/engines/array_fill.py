"""How full compiled programs keep the array of the matrix engine: cycles by operator, and what becomes of them.

    girih models vit-b16 -o vit.onnx --param layers=3
    girih compile vit.onnx -o vit.girih --precision fp16 --batch 32
    python -m benchmarks.engines.array_fill vit.girih                # a table for each file
    python -m benchmarks.engines.array_fill vit.girih --most 5       # the five operators that lose the most

Read from instructions alone, so that it shares nothing with what chose the splits. All figures are cycles of one
cluster in which each core works or waits for the busiest one in the same slot: "paid" is what the busiest core takes,
summed over slots, and "needed" the multiply-accumulates of the operators at the peak of all cores. Between them are
rows, columns and depth of the array that an instruction leaves empty (rows of the columns that it uses, both of the
depth that it uses), filling, draining and issue of instructions, cores with less to do than the busiest one, and what
is computed more than once or with padding ("again"; below zero where the bound counts padding that is left out).
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from math import prod
from pathlib import Path

from rich.console import Console
from rich.table import Table

import girih
from benchmarks.networks import columns
from girih.ir.bounds.unavoidable_work import unavoidable
from girih.ir.isa.table import Instruction
from girih.ir.isa.timing import instruction_cost, matrix_fill, matrix_shape
from girih.ir.machine import Engine

HEADS = ("operator", "paid", "needed", "ratio", "rows", "columns", "depth", "fill", "idle cores", "again")


@dataclass(frozen=True)
class Loss:
    """Cycles of one cluster; ``paid`` is the sum of all others."""

    paid: float = 0.0
    needed: float = 0.0
    rows: float = 0.0
    columns: float = 0.0
    depth: float = 0.0
    fill: float = 0.0
    idle: float = 0.0
    again: float = 0.0

    def plus(self, other: Loss) -> Loss:
        return Loss(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def losses(compiled: girih.Compiled) -> dict[str, Loss]:
    """Of each operator with matrix instructions."""
    machine, plan = compiled.machine, compiled.plan
    busy: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    of_slot: dict[int, Loss] = defaultdict(Loss)
    engine = machine.engine_for("matrix")
    for core, slot, instruction in _matrix_instructions(compiled, engine):
        cost = instruction_cost(machine, engine, instruction, [])
        fill = matrix_fill(engine, *matrix_shape(instruction))
        loss = spent(engine, matrix_shape(instruction), cost.body - fill, cost.issue + fill)
        of_slot[slot] = of_slot[slot].plus(loss)
        busy[slot][core] += cost.busy
    by_op: dict[str, Loss] = defaultdict(Loss)
    for slot, loss in of_slot.items():
        paid = max(busy[slot].values())
        idle = paid - sum(busy[slot].values()) / machine.cores
        share = Loss(*(x / machine.cores for x in astuple(loss)))
        name = plan.slots[slot][1]
        by_op[name] = by_op[name].plus(share).plus(Loss(paid=paid, idle=idle))
    works = unavoidable(compiled.graph, machine)
    work = next(w for w in works if w.resource == engine.name)
    return {
        # The bound counts rows and columns that no plan can fill, and fills; here they are losses.
        name: _with_needed(loss, work.by_op[name] - work.rounded.get(name, 0.0) - work.filled.get(name, 0.0))
        for name, loss in by_op.items()
    }


def _with_needed(loss: Loss, needed: float) -> Loss:
    return replace(loss, needed=needed, again=loss.again - needed)


def _matrix_instructions(compiled: girih.Compiled, engine: Engine) -> Iterator[tuple[int, int, Instruction]]:
    """(core, slot, instruction) of each."""
    program = compiled.program
    for queue, stream, runs in zip(program.queues, program.streams, program.slots, strict=True):
        if queue.engine != engine.name:
            continue
        slots = [slot for slot, number in runs for _ in range(number)]
        for slot, instruction in zip(slots, stream, strict=True):
            if queue.core is not None and instruction.row.kind == "matrix":
                yield queue.core, slot, instruction


def spent(engine: Engine, shape: tuple[int, int, int], body: float, fill: float) -> Loss:
    """Of one instruction: its useful cycles as ``again``, the rest of its ``body`` where the array is not full."""
    m, n, k = shape
    rows, columns, depth = {
        "output": (engine.rows, engine.columns, engine.depth),
        "weight": (1, engine.columns, engine.rows * engine.depth),
    }.get(engine.dataflow, (engine.columns, 1, engine.rows * engine.depth))
    filled = [extent / (-(-extent // unit) * unit) for extent, unit in ((m, rows), (n, columns), (k, depth))]
    full = body * prod(filled)
    lost = [body * prod(filled[i + 1 :]) * (1 - filled[i]) for i in range(3)]
    return Loss(rows=lost[0], columns=lost[1], depth=lost[2], fill=fill, again=full)


def table(losses_by_op: dict[str, Loss], most: int) -> Table:
    """The operators that lose the most cycles first, and the sum of all."""
    lines = columns("|".join(HEADS), left_aligned=("operator",))
    total = Loss()
    for loss in losses_by_op.values():
        total = total.plus(loss)
    worst = sorted(losses_by_op.items(), key=lambda item: item[1].needed - item[1].paid)[:most]
    for name, loss in [*worst, ("all", total)]:
        ratio = f"{loss.paid / loss.needed:.3f}" if loss.needed else "-"
        parts = (loss.rows, loss.columns, loss.depth, loss.fill, loss.idle, loss.again)
        lines.add_row(name, f"{loss.paid:,.0f}", f"{loss.needed:,.0f}", ratio, *(f"{x:,.0f}" for x in parts))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="compiled networks")
    parser.add_argument("--most", type=int, default=20, help="operators of each (default: %(default)s)")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    for file in arguments.files:
        compiled = girih.load(file)
        console.print(f"{file.name}: {compiled.plan.cycles:,} cycles, at least {compiled.plan.lower_bound_cycles:,}")
        console.print(table(losses(compiled), arguments.most))


if __name__ == "__main__":
    main()
