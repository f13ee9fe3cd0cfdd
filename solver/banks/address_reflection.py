"""Address reflection of local memory, so that the next segment can be loaded while this one still works.

The buffers of a segment are placed by themselves, and mostly from the bottom: what the next segment loads first lies
where this one keeps what it uses last, and waits for it. Reflected, a placement is by itself as good as before:

    address → capacity - address - bytes

So each segment is reflected or not, to minimise an estimate of these waits: for two steps in a row, of segments i and
j, and each tensor x that j loads for its first operator, with l_x the cycles that the load takes and s_x those between
the last use of what lies there and the end of the first step,

    sum over x of max(0, l_x - s_x).

That is a sum over pairs of segments, with one of two values for each pair, as both are reflected (or neither) or one
is; it is reduced segment by segment until nothing is gained. Whether the plan gains, the prediction says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from ...ir.graph import Graph
from ...ir.machine import Level, Machine
from ...ir.plan import LocalBuffer, Plan
from ...ir.semantics.concat_aliasing import loaded_aliases, parent_buffers
from ..cost.operator import Rates

Costs = Mapping[tuple[int, int], tuple[float, float]]
"""By two segments: the waits if both or neither are reflected, and if one is."""


def reflected(graph: Graph, machine: Machine, plan: Plan) -> Plan:
    """``plan`` with the local memory of some segments reflected; its predictions are not made anew."""
    level = machine.levels.activations
    reflects = _reflects(len(plan.segments), _costs(graph, machine, plan))
    local = tuple(
        replace(b, address=_reflect(b, level)) if b.use == level.use and reflects[b.segment] else b for b in plan.local
    )
    return replace(plan, local=local)


def _reflect(buffer: LocalBuffer, level: Level) -> int:
    return 2 * level.base + level.capacity // level.alignment * level.alignment - buffer.address - buffer.bytes


def _reflects(segments: int, costs: Costs) -> list[bool]:
    """Which segments are reflected: from none, and from every other one, one by one as long as that gains."""
    starts = ([False] * segments, [bool(s % 2) for s in range(segments)])
    return min((_improved(start, costs) for start in starts), key=lambda reflects: _total(reflects, costs))


def _total(reflects: Sequence[bool], costs: Costs) -> float:
    return sum(pair[reflects[a] ^ reflects[b]] for (a, b), pair in costs.items())


def _improved(start: Sequence[bool], costs: Costs) -> list[bool]:
    reflects = list(start)
    beside: list[list[tuple[int, tuple[float, float]]]] = [[] for _ in reflects]
    for (a, b), pair in costs.items():
        beside[a].append((b, pair))
        beside[b].append((a, pair))
    gains = True
    while gains:
        gains = False
        for segment, pairs in enumerate(beside):
            kept, changed = (
                sum(pair[reflects[segment] ^ reflects[o] ^ change] for o, pair in pairs) for change in (False, True)
            )
            if changed < kept:
                reflects[segment] = not reflects[segment]
                gains = True
    return reflects


def _costs(graph: Graph, machine: Machine, plan: Plan) -> Costs:
    level = machine.levels.activations
    by_segment: dict[int, list[LocalBuffer]] = defaultdict(list)
    for buffer in plan.local:
        if buffer.use == level.use:
            by_segment[buffer.segment].append(buffer)
    rate = Rates.from_machine(machine).read
    first = list(accumulate((len(plan.segments[step.segment].ops) for step in plan.steps), initial=0))
    costs: dict[tuple[int, int], tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for number, (step, after) in enumerate(pairwise(plan.steps)):
        if step.segment == after.segment:
            continue
        following = plan.segments[after.segment]
        results, whole = {graph.op[name].output for name in following.ops}, parent_buffers(graph, following)
        # A concatenation is a result, but what is loaded to its place comes into its buffer.
        results -= {whole[name] for name, position in loaded_aliases(graph, following).items() if position == 0}
        loaded = [b for b in by_segment[after.segment] if b.live[0] == 0 and b.name not in results]
        before = by_segment[step.segment]
        end = plan.predictions[first[number] + len(plan.segments[step.segment].ops) - 1].stop
        spare = {id(b): end - plan.predictions[first[number] + b.live[1] - 1].stop for b in before}
        waits = [0.0, 0.0]
        for reflects in (False, True):
            for b in loaded:
                low = _reflect(b, level) if reflects else b.address
                met = [spare[id(o)] for o in before if o.address < low + b.bytes and low < o.address + o.bytes]
                if met:
                    waits[reflects] += max(0.0, b.bytes * machine.cores / rate - min(met))
        pair = step.segment, after.segment
        costs[pair] = costs[pair][0] + waits[0], costs[pair][1] + waits[1]
    return costs
