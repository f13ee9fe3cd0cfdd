"""The work that every plan must do, by resource: engines that compute, kernels, and links that data crosses.

For each resource, cycles = unavoidable work / peak rate, as if it never waited:

- the matrix engines of all cores: multiply-accumulates of the contractions that they can run, in blocks of the array
  that are full but for rows and columns that no plan can fill, and that are filled and drained once for all of a
  reduction (:mod:`.array_blocks`). A plan may give some of these to the vector engine instead;
- the vector engines of all cores: element operations of all other stages, at full lanes of what they write or, if they
  combine, also of what they read. Left out are movements (the next stage can read through them) and a product that is
  written to a private buffer (it can be fused with a sum);
- the links of the main memory: every element of a constant, input or output that is accessed, once;
- the links of the shared memory: the same elements must pass through it, in at least once and out at least once;
- the host, and the scalar engine of a machine that has one: their kernels, and the bytes that they move or the
  operations that they compute.

What nobody needs is not counted, nor is a point that reads outside of a tensor, such as a product with padding:
:mod:`.demanded_elements` says what is left.

A resource's work is also told by operator, so that a report can compare it with what a program does: a constant or
input that has to cross a link counts for the first operator that reads it, a result for the one that makes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..graph import Graph, Op, Stage
from ..isa.scalar_functions import ELEMENTS
from ..machine import Engine, Machine
from ..semantics.kernel_engine import kernel_engine
from .array_blocks import least_blocks, least_fills
from .demanded_elements import InBoundsPoints, Points, demanded_points
from .link_crossings import link_crossings

Needed = Mapping[str, tuple[Points, ...]]
"""By operator: the points of each stage."""


@dataclass(frozen=True)
class ResourceWork:
    """What one resource must do at its peak rate, in cycles: ``cycles`` in all, by operator in ``by_op``.

    ``resource`` is the name of an engine (all cores of a cluster share its work evenly) or of a link; ``kind`` is the
    class of instructions that the engine does it by (it may have several), or "link". Of the cycles of
    an operator, ``rounded`` go to rows and columns of the array that stay empty in every plan, and ``filled`` to fill
    and drain the array in every plan (absent: none).
    """

    resource: str
    kind: str
    cycles: float
    reason: str
    by_op: Mapping[str, float]
    rounded: Mapping[str, float] = field(default_factory=dict[str, float])
    filled: Mapping[str, float] = field(default_factory=dict[str, float])


def bounding(works: tuple[ResourceWork, ...]) -> ResourceWork:
    """The resource with the most work: that of plans that leave to the matrix engines what these can run."""
    return max(works, key=lambda work: work.cycles)


def unavoidable(graph: Graph, machine: Machine) -> tuple[ResourceWork, ...]:
    """The work of each resource: all engines that compute, the host, and the links that data crosses."""
    return work_of(graph, machine, graph.analysis(demanded_points))


def work_of(graph: Graph, machine: Machine, points: Needed) -> tuple[ResourceWork, ...]:
    """As :func:`unavoidable`, for points that are known: first of the matrix and of the vector engines."""
    return (
        _matrix(graph, machine, points),
        _vector(graph, machine, points),
        *_kernels(graph, machine),
        *_links(graph, machine, points),
    )


def on_matrix(op: Op, position: int, dtypes: dict[str, str], machine: Machine) -> bool:
    """Whether a matrix engine can run the stage at ``position``."""
    if position != op.contraction:
        return False
    engine = machine.engine_for("matrix")
    return all(engine.rate_of(dtypes[r.tensor]) for r in op.stages[position].factors)


def operand_dtypes(graph: Graph, op: Op) -> dict[str, str]:
    """The dtype of each tensor and private buffer that the stages touch."""
    return {b.name: b.dtype for b in op.buffers} | {n: graph.tensor[n].dtype for n in (*op.inputs, *op.outputs)}


def _running(graph: Graph, points: Needed) -> Iterator[tuple[Op, int, Stage, InBoundsPoints]]:
    """(operator, position, stage, points) of each stage that must run."""
    for op in graph.ops:
        for position, (stage, run) in enumerate(zip(op.stages, points.get(op.name, ()), strict=False)):
            if run.in_bounds is not None:
                yield op, position, stage, run.in_bounds


def running_contractions(
    graph: Graph, machine: Machine, points: Needed
) -> Iterator[tuple[Op, int, Stage, InBoundsPoints]]:
    """As :func:`_running`, of the contractions that the matrix engines can run."""
    for op, position, stage, inside in _running(graph, points):
        if on_matrix(op, position, operand_dtypes(graph, op), machine):
            yield op, position, stage, inside


def _matrix(graph: Graph, machine: Machine, points: Needed) -> ResourceWork:
    engine, engines = machine.engine_for("matrix"), machine.cores * len(machine.team("matrix"))
    cycles: dict[str, float] = defaultdict(float)
    rounded: dict[str, float] = defaultdict(float)
    filled: dict[str, float] = defaultdict(float)
    macs = 0
    for op, position, stage, inside in _running(graph, points):
        dtypes = operand_dtypes(graph, op)
        if on_matrix(op, position, dtypes, machine):
            rate = (engine.rate_of(dtypes[stage.reads[0].tensor]) or 0.0) * engines * engine.depth
            blocks = least_blocks(stage, inside, engine)
            fill = engine.fill * (least_fills(stage, blocks) if engine.dataflow == "output" else 0) / engines
            cycles[op.name] += blocks / rate + fill
            filled[op.name] += fill
            rounded[op.name] += (blocks - inside.count / (engine.rows * engine.columns)) / rate
            macs += inside.count
    array = f"{engine.rows} x {engine.columns}" + (f" x {engine.depth}" if engine.depth > 1 else "")
    reason = f"{macs:,} multiply-accumulates in blocks of {array} on {_places(machine, 'matrix')}"
    if engine.fill:
        reason += f", each of which takes {engine.fill} cycles to fill and drain"
    return ResourceWork(engine.name, "matrix", sum(cycles.values()), reason, cycles, rounded, filled)


def _places(machine: Machine, kind: str) -> str:
    """Where instructions of a class run."""
    engines = len(machine.team(kind))
    return f"{machine.cores} cores" + (f" with {engines} engines each" if engines > 1 else "")


def _vector(graph: Graph, machine: Machine, points: Needed) -> ResourceWork:
    engine = machine.engine_for("vector")
    cycles: dict[str, float] = defaultdict(float)
    elements = 0
    for op, position, stage, inside in _running(graph, points):
        dtypes = operand_dtypes(graph, op)
        if stage.is_movement or on_matrix(op, position, dtypes, machine):
            continue
        if stage.func == "mul" and stage.combine is None and stage.write.tensor in {b.name for b in op.buffers}:
            continue
        cycles[op.name] += vector_cycles(stage, dtypes, inside, machine)
        elements += inside.count
    reason = f"{elements:,} element operations on {_places(machine, 'vector')}"
    return ResourceWork(engine.name, "vector", sum(cycles.values()), reason, cycles)


def vector_cycles(stage: Stage, dtypes: dict[str, str], inside: InBoundsPoints, machine: Machine) -> float:
    """Cycles of a stage on the vector engines of all cores, at full lanes."""
    engine = machine.engine_for("vector")
    lanes = max((engine.lanes or {}).get(d, 1) for d in _lane_dtypes(stage, dtypes))
    return inside.count * _slowdown(stage, engine) / (lanes * machine.cores * len(machine.team("vector")))


def _lane_dtypes(stage: Stage, dtypes: dict[str, str]) -> list[str]:
    """The dtypes that may decide how many lanes a stage has: of what it writes; if it combines, also of any factor."""
    accesses = [stage.write] if stage.combine is None else [stage.write, *stage.factors]
    return [dtypes[a.tensor] for a in accesses]


def _slowdown(stage: Stage, engine: Engine) -> int:
    """Cycles that a lane takes for a point; a constant operand may turn a special function into another."""
    special = ELEMENTS[stage.func].special and len(stage.reads) == len(stage.operands)
    return engine.special if special else 1


def _kernels(graph: Graph, machine: Machine) -> Iterator[ResourceWork]:
    """The host, and the scalar engine of a machine that has one, each with the kernels that run there."""
    on = {op.name: kernel_engine(graph, op, machine)[0] for op in graph.ops if op.host is not None}
    kernels = {op.name: op.host for op in graph.ops if op.host is not None}
    moved = {n: sum(graph.tensor[t].bytes for t in {*graph.op[n].inputs, *graph.op[n].outputs}) for n in on}
    host = machine.host
    if host is not None:
        cycles = {n: host.issue + moved[n] / host.bytes_per_cycle for n in on if on[n] == "host"}
        reason = f"{len(cycles)} host kernels that move {sum(moved[n] for n in cycles):,} bytes"
        yield ResourceWork(host.name, "host", sum(cycles.values()), reason, cycles)
    scalar = machine.scalar
    if scalar is not None:
        slow = scalar.special - 1
        operations = {n: k.operations + k.special * slow for n, k in kernels.items() if on[n] == "scalar"}
        rate = scalar.operations_per_cycle or 1.0
        times = {n: scalar.issue + max(o / rate, moved[n] / scalar.bytes_per_cycle) for n, o in operations.items()}
        reason = f"{len(operations)} kernels with {sum(operations.values()):,} operations, as many as there can be"
        yield ResourceWork(scalar.name, "scalar", sum(times.values()), reason, times)


def _links(graph: Graph, machine: Machine, points: Needed) -> Iterator[ResourceWork]:
    """Each link of memories outside of the cores, in the machine's order."""
    for link, crossed in link_crossings(graph, machine, points):
        by_op: dict[str, float] = defaultdict(float)
        for name, count in crossed.items():
            by_op[_user(graph, name, points)] += count / link.bytes_per_cycle
        moved = sum(crossed.values())
        reason = f"{moved:,} bytes of constants, inputs and outputs"
        yield ResourceWork(link.name, "link", moved / link.bytes_per_cycle, reason, by_op)


def _user(graph: Graph, tensor: str, points: Needed) -> str:
    """The operator that makes a tensor; of a constant or input, the first one that runs and reads it."""
    producer = graph.producer.get(tensor)
    return producer.name if producer else next((op.name for op in graph.consumers[tensor] if op.name in points), "")
