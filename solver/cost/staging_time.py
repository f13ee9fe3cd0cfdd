"""What staging operands costs: the copies that :mod:`girih.lowering.emission.staging` puts around instructions.

While an engine works on one block, the next one is copied, so that the slowest of the engines decides; but where a
stage of the vector engine takes up what the one before it has written back, they take turns.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from ...ir.box import Box, intersect, is_empty, shape_of, volume
from ...ir.graph import DTYPES, Access, Stage
from ...ir.machine import Engine, Machine, Side, Staging
from ...ir.machines.engine import side_of
from ...ir.semantics.packing import pack
from .instructions import EngineTime, StageBuffers, access_strides


def staged_layout(machine: Machine, engine: Engine, stage: Stage, layout: StageBuffers) -> StageBuffers:
    """The buffers of a stage, with those that the engine has in a memory of its own there."""
    if not machine.staging_memories:
        return layout
    changed = dict(layout)
    for access, side in _operands(engine, stage):
        if access.tensor in layout:
            box, dtype, memory = layout[access.tensor]
            staging = machine.staging(engine, side, memory.name)
            if staging is not None:
                changed[access.tensor] = box, dtype, staging.memory
    return changed


def with_staging(
    machine: Machine,
    engine: Engine,
    stage: Stage,
    points: Box,
    layout: StageBuffers,
    run: EngineTime,
    product: str = "",
) -> EngineTime:
    """The time of a stage's instructions with that of the copies.

    ``layout``: where operands lie before they are staged; ``product``: the tensor that the matrix engine makes, if any.
    """
    if not machine.staging_memories or not run.instructions:
        return run
    staged: list[tuple[Access, Staging, int]] = []
    for access, side in _operands(engine, stage):
        if access.tensor in layout:
            staging = machine.staging(engine, side, layout[access.tensor][2].name)
            if staging is not None:
                size = _bytes(access, points, layout)
                staged.append(
                    (access, staging, -(-size // _copiers(machine, engine, side, layout[access.tensor][2].name)))
                )
    if not staged:
        return run
    rooms: dict[str, int] = {}
    for _, staging, size in staged:
        rooms[staging.memory.name] = rooms.get(staging.memory.name, 0) + size
    blocks = max(ceil(2 * size / machine.memory[name].capacity) for name, size in rooms.items())
    instructions = max(run.instructions, blocks)
    cycles: dict[str, int] = {}
    latency = 0
    takes_turns = False
    local = machine.levels.activations.name
    for access, staging, size in staged:
        writes = access == stage.write
        mover = staging.out if writes and staging.out is not None else staging.into
        cycles[mover.name] = cycles.get(mover.name, 0) + instructions * mover.issue + ceil(size / mover.bytes_per_cycle)
        latency += mover.latency
        follows = access.tensor != product and layout[access.tensor][2].name != local
        takes_turns |= not writes and "vector" in engine.classes and follows
    busy = run.busy + (instructions - run.instructions) * engine.issue
    if takes_turns:
        return replace(run, busy=busy + sum(cycles.values()) + run.instructions * (latency + engine.latency))
    return replace(run, busy=max(busy, *cycles.values()))


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


def _bytes(access: Access, points: Box, layout: StageBuffers) -> int:
    """What is copied of an operand."""
    box, dtype, _ = layout[access.tensor]
    item = DTYPES[dtype]
    strides = [item * s for s in access_strides(access, box, len(points))]
    inside = intersect(tuple(index.over(points) for index in access.index), box)
    held = 0 if is_empty(inside) else volume(inside) * item
    return min(pack(item, shape_of(points), strides).bytes, held)
