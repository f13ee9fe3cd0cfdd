"""Weights that are loaded before what their segment waits for.

A copy queue works in order: behind an input that another core still computes, the weights of the first product wait as
well, and are all that is missing once the input is there. Where operators without weights come first, the life of the
weights may begin with these:

    loads     | waits for all cores | input | weights |              | weights | waits    | input |
    vector                                  | relu    |                                           | relu |
    matrix                                            | product |                                        | product |

The weights' part of their memory (:class:`girih.ir.machine.Level`) is free then: the operators in between have none.
Shared memory must hold the weights by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan


def with_early_weights(graph: Graph, machine: Machine, plan: Plan, wanted: Callable[[int], bool]) -> Plan:
    """``plan`` with weights of the ``wanted`` segments loaded as early as they can be, all versions of their buffers;
    its predictions are not made anew.

    As in all plans of the subproblem, each version of a buffer has to come once in its stream.
    """
    begins = {(segment, op): first for segment, op, first in _movable(graph, machine, plan) if wanted(segment)}
    use = machine.levels.weights.use
    return replace(
        plan,
        local=tuple(
            replace(b, live=(begins.get((b.segment, b.op), b.live[0]), b.live[1])) if b.use == use else b
            for b in plan.local
        ),
        weight_streams=tuple(
            replace(s, prefetch=len(s.versions)) if (s.segment, s.op) in begins else s for s in plan.weight_streams
        ),
    )


def cycles_of_segments(plan: Plan) -> list[int]:
    """By how much each segment's steps moved the end of the program so far, as predicted."""
    cycles, end = [0] * len(plan.segments), 0
    for prediction in plan.predictions:
        segment = plan.steps[prediction.step].segment
        cycles[segment] += max(0, prediction.stop - end)
        end = max(end, prediction.stop)
    return cycles


def _movable(graph: Graph, machine: Machine, plan: Plan) -> Iterator[tuple[int, str, int]]:
    """Segment and operator of the weights that can be loaded earlier, and the position in the segment from which on."""
    use = machine.levels.weights.use
    buffer_of = {(b.segment, b.op): b for b in plan.local if b.use == use}
    first_slots = _first_slots(plan)
    shared: dict[str, list[tuple[int, int]]] = {}
    for buffer in plan.shared:
        shared.setdefault(buffer.tensor, []).append(buffer.live)
    for number, segment in enumerate(plan.segments):
        free = 0
        for position, op in enumerate(segment.ops):
            buffer = buffer_of.get((number, op))
            if buffer is None:
                continue
            stream = plan.weight_stream[number, op]
            # What has no issuers comes from the core's own memory.
            streamed = bool(stream.issuers) and buffer.name in graph.constant_names
            if free < position and streamed:
                slots = [(first + free, first + position) for first in first_slots.get(number, ())]
                lives = shared.get(buffer.name, ())
                if all(a <= early for early, slot in slots for a, b in lives if a <= slot < b):
                    yield number, op, free
            free = position + 1


def _first_slots(plan: Plan) -> dict[int, list[int]]:
    """By segment, the first slot of each of its steps."""
    slots: dict[int, list[int]] = {}
    slot = 0
    for step in plan.steps:
        slots.setdefault(step.segment, []).append(slot)
        slot += len(plan.segments[step.segment].ops)
    return slots
