"""What staging operands costs: the copies that :mod:`girih.lowering.emission.staging` puts around instructions.

While an engine works on one block, the next one is copied, so that the slowest of the engines decides; but where a
stage of the vector engine takes up what the one before it has written back, they take turns.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from ...ir.box import Box
from ...ir.graph import DTYPES, Access, Stage
from ...ir.machine import Engine, Link, Machine, Side
from ...ir.machines.engine import side_of
from .copy_time import crossed_links
from .instructions import EngineTime, StageBuffers, matrix_run, vector_run
from .staged_run import StagedCopy, StagedRun
from .staging_blocks import StagedOperand, in_blocks


def vector_time(
    machine: Machine, engine: Engine, stage: Stage, points: Box, layout: StageBuffers, product: str = "", *,
    shaped: bool = False,
) -> EngineTime:  # fmt: skip
    """The vector instructions for ``points`` of a stage, with the copies of what is staged.

    ``layout``: where operands lie before they are staged; ``product``: the tensor that the matrix engine makes, if any.
    ``shaped``: with the shapes of the instructions.
    """
    if not machine.staging_memories:
        return vector_run(engine, stage, points, layout, shaped=shaped)
    run = vector_run(engine, stage, points, _staged_layout(machine, engine, stage, layout), shaped=True)
    return _with_staging(machine, engine, layout, run, product)


def matrix_time(
    machine: Machine, engine: Engine, stage: Stage, points: Box, layout: StageBuffers, dtype: str, *,
    accumulates: bool = False,
) -> EngineTime:  # fmt: skip
    """The matrix instructions for ``points`` of a contraction, with the copies of what is staged."""
    if not machine.staging_memories:
        return matrix_run(engine, stage, points, layout, dtype, accumulates=accumulates)
    near = _staged_layout(machine, engine, stage, layout)
    run = matrix_run(engine, stage, points, near, dtype, accumulates=accumulates, staged=True, shaped=True)
    return _with_staging(machine, engine, layout, run, "")


def _staged_layout(machine: Machine, engine: Engine, stage: Stage, layout: StageBuffers) -> StageBuffers:
    """The buffers of a stage, with those that the engine has in a memory of its own there."""
    changed = dict(layout)
    for access, side in _operands(engine, stage):
        if access.tensor in layout:
            box, dtype, memory = layout[access.tensor]
            staging = machine.staging(engine, side, memory.name)
            if staging is not None:
                changed[access.tensor] = box, dtype, staging.memory
    return changed


def _with_staging(machine: Machine, engine: Engine, layout: StageBuffers, run: EngineTime, product: str) -> EngineTime:
    """Instructions whose operands lie as in ``layout``, with their copies."""
    matrix = "matrix" in engine.classes
    parts: list[StagedRun] = []
    local = machine.levels.activations.name
    turns = 0.0
    for shape in run.shapes:
        operands: list[StagedOperand] = []
        for position, operand in enumerate(shape.operands):
            if operand.tensor in layout:
                _, dtype, memory = layout[operand.tensor]
                side: Side = side_of(stationary=matrix and position == 2) if position else "writes"
                staging = machine.staging(engine, side, memory.name)
                if staging is not None:
                    shared = _copiers(machine, engine, side, memory.name)
                    operands.append(StagedOperand(operand, staging, DTYPES[dtype], not position, shared))
        part = in_blocks(engine, shape, operands, float(run.sums) if matrix else None)
        part = _slowed_by_links(machine, part, layout)
        parts.append(part)
        follows = any(
            not copy.back and copy.operand != product and layout[str(copy.operand)][2].name != local
            for copy in part.copies
        )
        if follows and not matrix:
            latency = engine.latency + sum(copy.latency for copy in part.copies)
            turns += part.busy + sum(copy.cycles for copy in part.copies) + shape.count * latency
        else:
            turns += max([part.busy, *_by_engine(part).values()])
    if not any(part.copies for part in parts):
        return run
    return replace(run, busy=ceil(turns), staged=tuple(parts))


def _slowed_by_links(machine: Machine, part: StagedRun, layout: StageBuffers) -> StagedRun:
    """Copies as links leave them time, which all copies of these blocks, on all cores, share equally.

    Where one of the copies is through, as much of each of the others is, or all of it.
    """
    crossed: list[dict[Link, int]] = []
    sizes: list[float] = []
    for copy in part.copies:
        ends = (layout[str(copy.operand)][2].name, copy.memory)
        crossed.append(crossed_links(machine, *(ends[::-1] if copy.back else ends)))
        mover = machine.engine[copy.engine]
        sizes.append((copy.cycles - copy.times * mover.issue) * mover.bytes_per_cycle)
    if not any(crossed):
        return part
    copies: list[StagedCopy] = []
    for copy, size, links in zip(part.copies, sizes, crossed, strict=True):
        cycles = copy.cycles
        for link in links:
            others = zip(sizes, crossed, strict=True)
            carried = machine.cores * sum(min(size, other) * often.get(link, 0) for other, often in others)
            cycles = max(cycles, copy.times * machine.engine[copy.engine].issue + carried / link.bytes_per_cycle)
        latency = copy.latency + sum(link.latency for link in links)
        copies.append(replace(copy, cycles=cycles, latency=latency))
    return replace(part, copies=tuple(copies))


def _by_engine(part: StagedRun) -> dict[str, float]:
    """Cycles of each engine that copies."""
    cycles: dict[str, float] = {}
    for copy in part.copies:
        cycles[copy.engine] = cycles.get(copy.engine, 0.0) + copy.cycles
    return cycles


def _copiers(machine: Machine, engine: Engine, side: Side, memory: str) -> int:
    """How many engines stage an operand: one for each of those that share the work, or one for all of them."""
    if engine.count == 1:
        return 1
    team = machine.team("matrix" if "matrix" in engine.classes else "vector")
    return len({staging.into.name for e in team if (staging := machine.staging(e, side, memory)) is not None})


def _operands(engine: Engine, stage: Stage) -> list[tuple[Access, Side]]:
    sides: list[tuple[Access, Side]] = [(stage.write, "writes")]
    for position, access in enumerate(stage.factors):
        sides.append((access, side_of(stationary="matrix" in engine.classes and position == 1)))
    return sides if stage.start is None else [*sides, (stage.start, "reads")]
