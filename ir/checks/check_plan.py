"""Whether a plan is one: every rule of :mod:`girih.ir.plan`, checked without the solver's code.

The first violation is reported with its place and its size. What a plan predicts is only checked to be sane.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from ..box import Box, contains, full, volume
from ..errors import CheckError
from ..graph import Graph, Op
from ..machine import Machine
from ..plan import Plan, Segment, Tile
from ..semantics.box_arrays import Boxes, Int, stack
from ..semantics.cell import count, leaving
from .plan_facts import Facts, Geometry
from .plan_local_memory import check_local
from .plan_movement import check_cores, check_movement
from .plan_shared_memory import check_shared

_DIGITS = 12
"""Hexadecimal digits of a SHA-256 that a message shows."""


def check_plan(plan: Plan, graph: Graph, machine: Machine, geometry: Geometry | None = None) -> None:
    """Raise :class:`CheckError` if the plan cannot be followed on this machine, or computes something else.

    Who checks many plans of a graph can pass its ``geometry``, which remembers what they have in common.
    """
    if plan.machine != machine.name:
        fail(f"it is for machine {plan.machine}, not {machine.name}")
    if plan.graph_sha256 != graph.digest:
        fail(
            f"it is for a network with SHA-256 {plan.graph_sha256[:_DIGITS] or 'missing'}, and {graph.name} has "
            f"{graph.digest[:_DIGITS]}; compile {graph.name} again"
        )
    geometry = geometry or Geometry(graph)
    assert geometry.graph is graph
    facts = Facts(plan, machine, geometry)
    _check_partition(facts)
    for index, segment in enumerate(plan.segments):
        _check_segment(facts, index, segment)
    check_cores(facts)
    _check_steps(facts)
    _check_shares(facts)
    _check_order(facts)
    check_local(facts)
    check_movement(facts)
    check_shared(facts)
    _check_queues(plan, machine)
    _check_predictions(plan)


def fail(message: str) -> NoReturn:
    raise CheckError(f"invalid plan: {message}")


def _check_partition(facts: Facts) -> None:
    """The segments are the graph's operators, run by run; those of a run in an order in which they can run."""
    graph = facts.graph
    wanted = [op.name for op in graph.ops]
    place = 0
    for index, segment in enumerate(facts.plan.segments):
        if not segment.ops:
            fail(f"segment {index} has no operators")
        run = wanted[place : place + len(segment.ops)]
        strange = next((name for name in segment.ops if name not in run), None)
        if strange is not None or len(set(segment.ops)) < len(run) or len(run) < len(segment.ops):
            surplus = "an operator twice" if strange is None else strange
            fail(f"segment {index} has {surplus}, and the graph has {', '.join(run) or 'nothing'} there")
        if segment.ops[-1] != run[-1]:
            fail(f"segment {index} ends with {segment.ops[-1]}, and its root operator is {run[-1]}")
        computed: set[str] = set()
        results = {graph.op[name].output for name in run}
        for name in segment.ops:
            early = [tensor for tensor in graph.op[name].inputs if tensor in results - computed]
            if early:
                fail(f"segment {index} runs {name} before {graph.producer[early[0]].name}, which makes its {early[0]}")
            computed |= set(graph.op[name].outputs)
        place += len(segment.ops)
    if place != len(wanted):
        fail(f"the segments hold {place} operators, and the graph has {len(wanted)}")


def _check_segment(facts: Facts, index: int, segment: Segment) -> None:
    ops = facts.ops(segment)
    where = f"segment {index} ({segment.ops[0]} .. {segment.ops[-1]})"
    if any(op.host is not None for op in ops):
        if len(ops) > 1:
            fail(f"{where} mixes a host operator with others")
        if segment.instances or segment.cores or segment.tiles:
            fail(f"{where} runs on the host and must have neither splits nor tiles")
        return
    _check_ancestors(where, ops)
    shape = facts.graph.tensor[ops[-1].output].shape
    for kind, splits in (("instances", segment.instances), ("cores", segment.cores)):
        for split in splits:
            if not 0 <= split.dim < len(shape):
                fail(
                    f"{where} splits dimension {split.dim} into {kind}, and its root operator's result has {len(shape)}"
                )
            if not 1 <= split.parts <= shape[split.dim]:
                fail(f"{where} splits dimension {split.dim}, of {shape[split.dim]}, into {split.parts} {kind}")
    if count(segment.cores) > facts.machine.cores:
        fail(f"{where} uses {count(segment.cores)} cores, and {facts.machine.name} has {facts.machine.cores}")
    if [t.op for t in segment.tiles] != list(segment.ops):
        fail(f"{where} has tiles for {', '.join(t.op for t in segment.tiles) or 'nothing'}, not for its operators")
    for op in ops:
        _check_tile(facts, op, segment.tile[op.name])


def _check_ancestors(where: str, ops: tuple[Op, ...]) -> None:
    """Everything in a segment is needed by its last operator."""
    needed = set(ops[-1].outputs)
    for op in reversed(ops):
        if not needed & set(op.outputs):
            fail(f"{where}: {op.name} is no ancestor of {ops[-1].name}")
        needed |= set(op.inputs)


def _check_tile(facts: Facts, op: Op, tile: Tile) -> None:
    shape = facts.graph.tensor[op.output].shape
    if len(tile.sizes) != len(shape) or any(s < 1 for s in tile.sizes):
        fail(f"the tile of {op.name} has sizes {tile.sizes} for a result of shape {shape}")
    if sorted(tile.order) != list(range(len(shape))):
        fail(f"the loop order {tile.order} of {op.name} is no permutation of its {len(shape)} dimensions")
    if tile.engine not in ("matrix", "vector"):
        fail(f"the tile of {op.name} names engine {tile.engine!r}")
    if tile.depth < 1 or tile.weight_depth < 1:
        fail(f"the tile of {op.name} has depth {tile.depth} and weight depth {tile.weight_depth}")
    if op.contraction is None:
        if tile.engine == "matrix":
            fail(f"the tile of {op.name} names the matrix engine, which can run none of its stages")
        return
    _check_types(facts, op, op.contraction, tile)
    if tile.engine == "vector":
        return
    axes = [axis for axis in op.stages[op.contraction].axes if axis.reduce]
    if len(tile.reduce) != len(axes) or any(r < 1 for r in tile.reduce):
        fail(f"the tile of {op.name} cuts its {len(axes)} reduce axes by {tile.reduce}")


def _check_types(facts: Facts, op: Op, contraction: int, tile: Tile) -> None:
    """The engine of a tile computes in the types of its contraction."""
    names = {access.tensor for access in (*op.stages[contraction].factors, op.stages[contraction].write)}
    dtypes = {buffer.name: buffer.dtype for buffer in op.buffers}
    dtypes |= {name: facts.graph.tensor[name].dtype for name in names - set(dtypes)}
    stage, engine = op.stages[contraction], facts.machine.engine_for(tile.engine)
    if tile.engine == "matrix":
        missing = [dtypes[access.tensor] for access in stage.factors if not engine.rate_of(dtypes[access.tensor])]
    else:
        missing = [d for d in (dtypes[stage.write.tensor],) if d not in (engine.lanes or {})]
    if missing:
        what = "rate" if tile.engine == "matrix" else "lanes"
        fail(f"the tile of {op.name} is for {engine.name}, which has no {what} for its contraction in {missing[0]}")


def _check_steps(facts: Facts) -> None:
    """Each instance of each segment runs once."""
    seen: set[tuple[int, int]] = set()
    for number, step in enumerate(facts.plan.steps):
        if not 0 <= step.segment < len(facts.plan.segments):
            fail(f"step {number} is of segment {step.segment}, and there are {len(facts.plan.segments)}")
        if not 0 <= step.instance < count(facts.plan.segments[step.segment].instances):
            fail(f"step {number} is instance {step.instance} of segment {step.segment}, which has fewer")
        if (step.segment, step.instance) in seen:
            fail(f"step {number} repeats instance {step.instance} of segment {step.segment}")
        seen.add((step.segment, step.instance))
    wanted = sum(count(segment.instances) for segment in facts.plan.segments)
    if len(seen) != wanted:
        fail(f"there are {len(seen)} steps for {wanted} instances")


def _check_shares(facts: Facts) -> None:
    """The cells' shares of each result that leaves its segment are disjoint, computed, and together the whole."""
    for segment in facts.plan.segments:
        if facts.is_host(segment):
            continue
        cells = facts.all_cells(segment)
        for op in leaving(facts.graph, facts.ops(segment)):
            tensor = facts.graph.tensor[op.output]
            shares = [cell.owned[op.output] for cell in cells if op.output in cell.owned]
            for cell in cells:
                if op.output in cell.owned and not contains(cell.tensors[op.output], cell.owned[op.output]):
                    fail(f"a core owns {cell.owned[op.output]} of {op.output} and computes {cell.tensors[op.output]}")
            boxes = stack(shares, len(tensor.shape))
            total = int(boxes.volumes.sum())
            if total != tensor.elements:
                fail(f"the shares of {op.output} hold {total} elements, and it has {tensor.elements}")
            for i, share in enumerate(shares):
                if int(common(boxes, share)[i + 1 :].sum()):
                    fail(f"two cores own a part of {share} of {op.output}")


def common(boxes: Boxes, box: Box) -> Int:
    """How many elements each of ``boxes`` shares with ``box``."""
    if not box:
        return boxes.volumes
    spans = np.array(box, dtype=np.int64)
    low = np.maximum(boxes.spans[:, :, 0], spans[:, 0])
    high = np.minimum(boxes.spans[:, :, 1], spans[:, 1])
    return np.where(boxes.present, np.prod(np.maximum(high - low, 0), axis=1), 0)


def _check_order(facts: Facts) -> None:
    """What a step reads was made in steps before it."""
    wanted: dict[str, list[tuple[int, Box]]] = {}
    for number, step in enumerate(facts.plan.steps):
        segment = facts.plan.segments[step.segment]
        produced = {name for op in facts.ops(segment) for name in op.outputs}
        if facts.is_host(segment):
            for name in facts.ops(segment)[0].inputs:
                wanted.setdefault(name, []).append((number, full(facts.graph.tensor[name].shape)))
            continue
        for cell in facts.cells_of(segment, step.instance):
            for name, box in cell.tensors.items():
                if name not in produced:
                    wanted.setdefault(name, []).append((number, box))
    step_of = {slot: number for number, slot in enumerate(facts.first_slot)}
    for name, reads in wanted.items():
        shares = facts.shares.get(name)
        if name in facts.by_host:
            maker = step_of[facts.by_host[name]]
            for number, _ in reads:
                if number <= maker:
                    fail(f"step {number} reads {name}, which the host makes in step {maker}")
        if not shares:
            continue
        boxes = stack([m.box for m in shares], len(facts.graph.tensor[name].shape))
        steps = np.array([m.step for m in shares])
        for number, box in dict.fromkeys(reads):
            available = int(common(boxes, box)[steps < number].sum())
            if available < volume(box):
                fail(f"step {number} reads {volume(box)} elements of {name}, and {available} were made before")


def _check_queues(plan: Plan, machine: Machine) -> None:
    """That orders are permutations; of what, and that they wait in no circle, is for the lowering to see."""
    queues = {
        f"{engine.name}{'' if core is None else core}"
        for engine in machine.engines
        for core in (range(machine.cores) if engine.scope == "core" else (None,))
    }
    if plan.order and plan.barrier:
        fail("it has an order of queues, and waits for each operator to end before the next")
    for number, order in enumerate(plan.order):
        if order.queue not in queues:
            fail(f"it orders queue {order.queue!r}; {machine.name} has {', '.join(sorted(queues))}")
        if any(other.queue == order.queue for other in plan.order[:number]):
            fail(f"it orders queue {order.queue} twice")
        next_first = 0
        for first, length in sorted(order.runs):
            if first != next_first or length < 1:
                fail(
                    f"its order of {order.queue} is not one of all instructions once: a run of {length} begins at "
                    f"{first}, and {next_first} comes next"
                )
            next_first += length


def _check_predictions(plan: Plan) -> None:
    if plan.cycles_predicted < 0 or plan.lower_bound_cycles < 0:
        fail(f"it predicts {plan.cycles_predicted} cycles, and at least {plan.lower_bound_cycles}")
    if plan.cycles_predicted < plan.lower_bound_cycles:
        fail(
            f"it predicts {plan.cycles_predicted} cycles, {plan.lower_bound_cycles - plan.cycles_predicted} fewer than "
            f"its lower bound of {plan.lower_bound_cycles} ({plan.lower_bound_reason})"
        )
    if plan.cycles_simulated is not None and plan.cycles_simulated < plan.lower_bound_cycles:
        fail(
            f"its simulation took {plan.cycles_simulated} cycles, {plan.lower_bound_cycles - plan.cycles_simulated} "
            f"fewer than its lower bound of {plan.lower_bound_cycles} ({plan.lower_bound_reason})"
        )
    slots = set(plan.slots)
    for p in plan.predictions:
        if (p.step, p.op) not in slots:
            fail(f"it predicts when {p.op} runs in step {p.step}, which does not run it")
        if not 0 <= p.start <= p.stop:
            fail(f"it predicts that {p.op} runs from {p.start} to {p.stop} in step {p.step}")
