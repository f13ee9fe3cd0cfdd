"""Machines that are too small for a graph whatever the plan, found before any model is asked.

Whatever the segments, splits and tiles, some cell of some segment makes the middle element of a result, and some tile
of that cell holds it. All that this element alone takes is in the memories at that time:

- private buffers of the tile: what is live at one stage is at different addresses, however rooms are shared;
- one point of the stationary operand, where the matrix engine multiplies;
- in local memory, what the element reads of each input that is not streamed, and the element, unless it takes the
  place of an input;
- in shared memory, each of those boxes that no core can have made, one at a time, but together those that no other
  operator reads, with the element if it is an output of the graph;
- in main memory, constants, inputs and outputs of the graph, each as a whole.

Which engine multiplies is no decision of a plan: the matrix engine, if it has a rate for both operands.

What does not fit here fits nowhere, so an :class:`InfeasibleError` from here is a proof. Where the search ends without
a plan although all this fits, nothing is proven (:func:`unproven`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir.box import Box, volume
from ...ir.equivalence import EquivalenceClasses
from ...ir.errors import InfeasibleError
from ...ir.graph import DTYPES, Graph, Op
from ...ir.machine import Level, Machine
from ...ir.semantics.in_place import replaced
from ...ir.semantics.region import op_boxes
from ..cost.local_buffers import round_up, scratch_sizes, weight_size
from ..cost.operator import OpCost
from ..cost.scratch import scratch_lower_bound
from ..cost.smallest_tile import middle_element, smallest_tile


@dataclass(frozen=True)
class _Need:
    """The least ``bytes`` of a memory that something takes."""

    level: Level
    what: str
    bytes: int
    levers: str


def check_smallest(graph: Graph, machine: Machine) -> None:
    """Raise :class:`InfeasibleError` for the first thing that is too large for a memory under every plan."""
    for need in _needs(graph, machine):
        memory = need.level
        if need.bytes > memory.capacity:
            raise InfeasibleError(
                f"{need.what} {need.bytes:,} bytes of {memory.name}, {need.bytes - memory.capacity:,} more than the "
                f"{memory.capacity:,} there are; {need.levers} or use a machine with more {memory.name}"
            )


def least_bytes(graph: Graph, machine: Machine, memory: str) -> int:
    """The bytes of a memory without which there is no plan; more may be needed."""
    return max((n.bytes for n in _needs(graph, machine) if n.level.name == memory), default=0)


def unproven(error: InfeasibleError, graph: Graph, machine: Machine, more: str = "") -> InfeasibleError:
    """The end of a search that found no plan and no reason why there is none.

    ``error`` is what came nearest to a plan, ``more`` what else could find one.
    """
    return InfeasibleError(
        f"no plan of {graph.name} for {machine.name} was found, which is no proof that there is none; what came "
        f"nearest: {error}" + (f"; or {more}" if more else "")
    )


def _needs(graph: Graph, machine: Machine) -> Iterator[_Need]:
    levels = machine.levels
    ports, constants = graph.input_tensors | graph.output_tensors, graph.constant_names
    if levels.has_constants:
        size = sum(graph.tensor[name].bytes for name in constants)
        yield _Need(levels.constants, f"constants of {graph.name} need", size, "use a narrower precision")
        size = sum(graph.tensor[name].bytes for name in ports - constants)
        yield _Need(levels.home, f"inputs and outputs of {graph.name} need", size, "use a smaller batch")
    else:
        size = sum(graph.tensor[name].bytes for name in constants | ports)
        yield _Need(levels.home, f"constants, inputs and outputs of {graph.name} need", size, "use a smaller batch")
    for op in graph.analysis(EquivalenceClasses).representatives:
        if op.host is None:
            yield from _of_operator(op, graph, machine)
    from_outside = graph.input_tensors | {o for op in graph.ops if op.host is not None for o in op.outputs}
    for op in graph.ops:
        if op.host is None:
            yield from _crossing(op, graph, machine, from_outside)


def _of_operator(op: Op, graph: Graph, machine: Machine) -> Iterator[_Need]:
    """The memories of a core."""
    cost = OpCost(op, graph, machine)
    middle = middle_element(op, graph)
    tile = smallest_tile(op, graph, cost.engine, middle)
    what = f"operator {op.name}: the smallest tile on {machine.engine_for(cost.engine).name} needs"
    sizes, alignment = scratch_sizes(graph, op, tile, [middle]), machine.levels.sums.alignment
    need = scratch_lower_bound(op, cost.engine, sizes, alignment)
    yield _Need(machine.levels.sums, what, need, "split the operator's inner loop in the model")
    if cost.engine == "matrix":
        need = round_up(weight_size(graph, op, tile, [middle]), machine.levels.weights.alignment)
        yield _Need(machine.levels.weights, what, need, "use a narrower precision")
    parts = op_boxes(op, graph.tensor, middle).tensors
    # Parts of a concatenation can be made in place.
    inputs = () if all(stage.is_movement for stage in op.stages) else op.inputs
    held = {name: parts[name] for name in (*inputs, op.output) if name in parts}
    if cost.streamed and cost.stationary is not None:
        held.pop(cost.stationary, None)
    for name in replaced(graph, (op,)):
        held.pop(name, None)
    if held:
        need = sum(_bytes(graph, machine.levels.activations, name, box) for name, box in held.items())
        largest = max(held, key=lambda name: volume(held[name]))
        what = f"operator {op.name}: one element of its result and what that reads, most of it {largest}, need"
        yield _Need(machine.levels.activations, what, need, "split the operator in the model, use a narrower precision")


def _crossing(op: Op, graph: Graph, machine: Machine, from_outside: frozenset[str] | set[str]) -> Iterator[_Need]:
    """The shared memory, for what reaches or leaves the chip there."""
    parts = op_boxes(op, graph.tensor, middle_element(op, graph)).tensors
    need = {
        name: _bytes(graph, machine.levels.exchange, name, parts[name])
        for name in dict.fromkeys((*op.inputs, op.output))
        if name in parts and (name in from_outside or name in graph.output_tensors)
    }
    # What nothing else reads comes when the operator runs, which is when its result goes.
    together = [n for n in need if (n in from_outside and len(graph.consumers[n]) == 1) or n == op.output]
    for names in dict.fromkeys((tuple(together), *((name,) for name in need))):
        what = f"operator {op.name}: what one element of its result takes of {' and '.join(names)} needs"
        size = sum(need[name] for name in names)
        yield _Need(machine.levels.exchange, what, size, "split the operator in the model, use a narrower precision")


def _bytes(graph: Graph, level: Level, name: str, box: Box) -> int:
    return round_up(volume(box) * DTYPES[graph.tensor[name].dtype], level.alignment)
