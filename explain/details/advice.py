"""What a user can change about the losses of an operator: one sentence for each cause, the largest loss first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir.isa.timing import matrix_blocks, matrix_shape
from ...ir.machine import Engine, Machine
from ...ir.semantics.cell import count
from ..compilation import Compilation
from ..cycles.breakdown import BreakdownRow
from ..cycles.losses import of_the_cluster
from ..memory_use import FULL
from ..units import share

_WORTH = 0.03
"""Losses below this share of the operator's cycles are not worth a sentence."""


@dataclass(frozen=True)
class Advice:
    """``cycles`` that ``cause`` (a part of the cycle breakdown, or a wait) costs, and what would make them fewer."""

    cause: str
    cycles: float
    text: str


def advice(compilation: Compilation, row: BreakdownRow, segment: int, full: Mapping[str, float]) -> tuple[Advice, ...]:
    """For the losses of a row of the breakdown; ``full``: the share of each memory that is in use meanwhile."""
    parts = {
        "extra": row.extra or 0.0,
        "rounding": row.rounding,
        "fill": row.fill,
        "slowed": row.slowed,
        "weights": row.waits["fetch_weights"],
        "data": row.waits["fetch_data"] + row.waits["spill"],
        "loads": row.waits["load_weights"] + row.waits["load_data"] + row.waits["store"],
        "engine": row.waits["engine"],
        "cores": row.waits["cores"],
        "host": row.waits["host"],
    }
    worth = [(cause, cycles) for cause, cycles in parts.items() if cycles > _WORTH * row.cycles]
    ranked = sorted(worth, key=lambda part: -part[1])
    return tuple(Advice(cause, cycles, _sentence(cause, compilation, row, segment, full)) for cause, cycles in ranked)


def _fill(compilation: Compilation, op: str, matrix: Engine) -> str:
    """How much of the array the operator's first matrix instruction fills."""
    program = compilation.program
    for queue, stream in zip(program.queues, program.streams, strict=True):
        for instruction in stream if queue.engine == matrix.name else ():
            if instruction.row.kind == "matrix" and program.ops[instruction.op].name == op:
                rows, columns, deep = matrix_shape(instruction)
                blocks, steps = matrix_blocks(matrix, rows, columns, deep)
                room = blocks * steps * matrix.rows * matrix.columns * matrix.depth
                array = f"{matrix.rows} x {matrix.columns}" + (f" x {matrix.depth}" if matrix.depth > 1 else "")
                return (
                    f"a tile has {rows} rows and {columns} columns for an array of {array}, "
                    f"and fills {share(rows * columns * deep, room)} of it"
                )
    return "lanes or bursts are not full"


def _with_rate(machine: Machine, memory: str) -> str:
    """A memory, and what the first link that limits it gives."""
    link = next((link for link in machine.links if memory in link.memories), None)
    return f"{memory} (now {link.bytes_per_cycle:g} bytes a cycle)" if link else memory


def _sentence(cause: str, compilation: Compilation, row: BreakdownRow, segment: int, full: Mapping[str, float]) -> str:
    plan, machine = compilation.plan, compilation.machine
    levels = machine.levels
    shared, local = levels.exchange.name, levels.activations.name
    instances = count(plan.segments[segment].instances)
    main, constants = (_with_rate(machine, level.name) for level in (levels.home, levels.constants))
    in_use = {name: f"{name} is {share(full.get(name, 0.0), 1.0)} full" for name in (shared, local)}
    again = f", which each of the {instances} instances of segment {segment} may fetch again" if instances > 1 else ""
    matrix = machine.engine_for("matrix")
    cluster = of_the_cluster(row.resource, machine)
    others = sorted((reason for reason in row.reasons if reason.op != row.op), key=lambda reason: -reason.cycles)
    awaited = f"{row.op} waits for {others[0].op}, see --operator {others[0].op}; " if others else ""
    room = f"a larger {shared} ({in_use[shared]})" if full.get(shared, 0.0) >= FULL else "fewer bytes before them"
    return {
        "extra": (
            "what was on the chip is moved again; --tensor NAME says why"
            if cluster
            else f"halos between cells or padding are computed as well: fewer or larger cells need fewer of them, "
            f"for which {local} must hold more ({in_use[local]})"
        ),
        "rounding": (
            f"{_fill(compilation, row.op, matrix)}: extents that fill them, by another batch or split, lose less; the "
            "alternatives below say what other tiles cost"
        ),
        "fill": (
            "the array is filled again for each part of the reduction: larger parts, for which the weight memory must "
            "hold more, need it less often"
        ),
        "slowed": "links and banks are shared with transfers that run meanwhile: see --memory for who shares a bank",
        "weights": (
            f"weights are not there in time{again}: {room}, a faster link to {constants}, or a larger batch, in "
            "which more work shares each fetch"
        ),
        "data": (
            f"inputs or spilled results pass through {main}: "
            + (f"{room} or a smaller batch helps" if full.get(shared, 0.0) >= FULL else "a faster link helps")
        ),
        "loads": (
            f"{awaited}operands pass from or to {shared}: deeper multi-buffering hides that if {local} and the weight "
            f"memory have room ({in_use[local]}), and so does a segment that keeps them in {local}"
        ),
        "engine": "another engine of the core has more to do, or its result is awaited tile by tile: smaller tiles "
        "overlap more, a faster engine takes less",
        "cores": (
            f"while the cores compute, {row.resource} has nothing left to do: faster cores, or more of them, take less"
            if cluster
            else "other cores have more to do: a split into equal parts, or a batch that is a multiple of the cores"
        ),
        "host": "the host or scalar engine computes: an operator that the engines can run avoids the detour",
    }[cause]
