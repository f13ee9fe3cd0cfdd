"""Tables of a plan: segments and operators, with their predicted cycles and what limits them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ..ir.graph import Graph
from ..ir.machine import Machine
from ..ir.plan import Plan, Split
from ..ir.semantics.cell import count
from ..ir.semantics.kernel_engine import kernel_engine
from .compilation import Compilation
from .cycles.engine_loads import Loads, busiest


@dataclass(frozen=True)
class SegmentRow:
    """One segment; ``instances`` and ``cores`` as ``parts@dimension`` of its root operator's result.

    ``cycles`` is the sum of the predictions of all its slots, ``share`` its part of that sum over the whole plan;
    before them, the cores wait ``waits`` cycles in which none computes. ``limit`` is the engine or link with the
    highest load, which alone would take ``limit_cycles``.
    """

    index: int
    first: str
    last: str
    operators: int
    instances: str
    cores: str
    cores_used: int
    cycles: int
    share: float
    waits: int
    limit: str
    limit_cycles: int


@dataclass(frozen=True)
class OperatorRow:
    """One operator: how it runs, and its work in one cluster. ``engine`` is that of its main stage, ``host``
    or ``scalar``.

    ``tile`` are the extents of a tile of the result, ``reduce`` those of the reduced axes; ``depth`` and
    ``weight_depth`` are the multi-buffering degrees of its scratch and of its weights. ``cycles`` are predicted, all
    steps together, and so are the ``waits`` before them, in which no core computes. ``run_cycles`` are those of the run
    that the breakdown of the bounding resource gives to the operator, which add up to the cycles of the run, and
    ``lost`` those of them beyond the work that the lower bound counts. ``link_bytes`` are the bytes of all transfers
    for it, by link.
    """

    name: str
    origin: tuple[str, ...]
    segment: int
    engine: str
    shape: tuple[int, ...]
    tile: tuple[int, ...]
    reduce: tuple[int, ...]
    depth: int
    weight_depth: int
    macs: int
    elements: int
    cycles: int
    waits: int
    limit: str
    run_cycles: float
    lost: float
    link_bytes: Mapping[str, int]


@dataclass(frozen=True)
class HostRow:
    """An operator that no engine of tiles runs, why, and what runs it: ``host`` or ``scalar``."""

    name: str
    origin: tuple[str, ...]
    reason: str
    engine: str


def predicted(plan: Plan) -> Mapping[tuple[int, str], int]:
    """Predicted cycles of each (segment, operator), all instances together."""
    cycles: dict[tuple[int, str], int] = defaultdict(int)
    for p in plan.predictions:
        cycles[plan.steps[p.step].segment, p.op] += p.stop - p.start
    return cycles


def waiting(plan: Plan) -> Mapping[tuple[int, str], int]:
    """Predicted cycles in which nothing computes, by the (segment, operator) that comes next."""
    waits: dict[tuple[int, str], int] = defaultdict(int)
    idle_since = 0
    for p in sorted(plan.predictions, key=lambda p: (p.start, p.stop)):
        waits[plan.steps[p.step].segment, p.op] += max(0, p.start - idle_since)
        idle_since = max(idle_since, p.stop)
    return waits


def ending(plan: Plan) -> int:
    """Predicted cycles after the last computation, in which the last results are stored."""
    return plan.cycles_predicted - max((p.stop for p in plan.predictions), default=plan.cycles_predicted)


def segment_rows(plan: Plan, loads: Loads) -> tuple[SegmentRow, ...]:
    """One row for each segment, in order."""
    cycles, waits = predicted(plan), waiting(plan)
    total = sum(cycles.values())
    rows: list[SegmentRow] = []
    for index, segment in enumerate(plan.segments):
        segment_cycles = sum(cycles.get((index, op), 0) for op in segment.ops)
        load: dict[str, float] = defaultdict(float)
        for op in segment.ops:
            for name, amount in loads.get(op, {}).items():
                load[name] += amount
        limit = busiest(load)
        rows.append(
            SegmentRow(
                index=index,
                first=segment.ops[0],
                last=segment.ops[-1],
                operators=len(segment.ops),
                instances=_splits(segment.instances),
                cores=_splits(segment.cores),
                cores_used=count(segment.cores),
                cycles=segment_cycles,
                share=segment_cycles / total if total else 0.0,
                waits=sum(waits.get((index, op), 0) for op in segment.ops),
                limit=limit,
                limit_cycles=round(load.get(limit, 0.0)),
            )
        )
    return tuple(rows)


def operator_rows(compilation: Compilation) -> tuple[OperatorRow, ...]:
    """In the order in which the plan runs them."""
    graph, plan, program, loads = compilation.graph, compilation.plan, compilation.program, compilation.loads
    machine = compilation.machine
    in_run = {row.op: row for row in compilation.breakdown.operators}
    rates = {link.name: link.bytes_per_cycle for link in machine.links}
    cycles, waits = predicted(plan), waiting(plan)
    work = {op.name: op for op in program.ops}
    rows: list[OperatorRow] = []
    for index, segment in enumerate(plan.segments):
        for name in segment.ops:
            op, tile, executed = graph.op[name], segment.tile.get(name), work.get(name)
            rows.append(
                OperatorRow(
                    name=name,
                    origin=op.origin,
                    segment=index,
                    engine=kernel_engine(graph, op, machine)[0] if op.host else tile.engine if tile else "",
                    shape=graph.tensor[op.output].shape,
                    tile=tile.sizes if tile else (),
                    reduce=tile.reduce if tile else (),
                    depth=tile.depth if tile else 0,
                    weight_depth=tile.weight_depth if tile and tile.reduce else 0,
                    macs=executed.macs if executed else 0,
                    elements=executed.elements if executed else 0,
                    cycles=cycles.get((index, name), 0),
                    waits=waits.get((index, name), 0),
                    limit=busiest(loads.get(name, {})),
                    run_cycles=in_run[name].cycles,
                    lost=in_run[name].lost,
                    link_bytes={
                        link: round(loads[name][link] * rate) for link, rate in rates.items() if link in loads[name]
                    },
                )
            )
    return tuple(rows)


def host_rows(graph: Graph, machine: Machine) -> tuple[HostRow, ...]:
    """One row for each operator of the host or the scalar engine."""
    return tuple(
        HostRow(op.name, op.origin, op.host.reason, kernel_engine(graph, op, machine)[0]) for op in graph.ops if op.host
    )


def _splits(splits: tuple[Split, ...]) -> str:
    return " ".join(f"{s.parts}@{s.dim}" for s in splits if s.parts > 1) or "1"
