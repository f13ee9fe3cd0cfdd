"""Steps become operators: each contraction or reduction with the element-wise work around it.

1. The steps of one library kernel (the four of a softmax) belong together.
2. An element-wise step joins the producer whose only consumer it is: bias, activation, residual sum go with the
   matrix product, and chains of element-wise steps become one.
3. What is left of element-wise steps in front of a reduction joins that.
4. A statistic joins the step that applies it to the rows that it was taken of: normalisations written out by hand.

An operator holds at most one matrix product and writes one tensor. Reductions of long rows stay on their own, because
an operator that applies them needs whole rows in a core's memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import TypeAlias

from ..net.linear import Linear, NotAffine, Retry
from ..net.net import Info, Loop, Net, Ref, Step, renamed
from .fold_movement import contiguous, write_through

Rule: TypeAlias = Callable[[Net, Step, Step], bool]
"""Whether a producer may join its consumer."""


def fuse(net: Net) -> None:
    """Merge steps in place."""
    for rule in (_same_unit, _epilogue, _prologue, _row_by_row):
        _merge_all(net, rule)
    net.drop_dead()
    for step in net.steps:
        drop_unit_dimensions(step)
        drop_copies(step, net)
        share_equal_loops(step)


def drop_unit_dimensions(step: Step) -> None:
    """Private buffers have no dimensions of extent one."""
    kept = {name: [d for d, n in enumerate(info.shape) if n > 1] for name, info in step.temps.items()}

    def change(ref: Ref) -> Ref:
        return replace(ref, index=tuple(ref.index[d] for d in kept[ref.tensor])) if ref.tensor in kept else ref

    for name, info in step.temps.items():
        step.temps[name] = Info(tuple(info.shape[d] for d in kept[name]), info.dtype)
    step.loops = [loop.map_refs(change) for loop in step.loops]


TRUTHS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "not", "and", "or"})
"""Functions whose results, 0 and 1, are the same in every dtype."""


def drop_copies(step: Step, net: Net) -> None:
    """What is only copied on is written to its destination in the first place."""
    for copy in [loop for loop in step.loops if loop.is_movement and loop.reads]:
        source, target = copy.reads[0], copy.write
        writers = [loop for loop in step.loops if loop.write.tensor == source.tensor]
        readers = [loop for loop in step.loops for r in loop.reads if r.tensor == source.tensor]
        if source.tensor not in step.temps or len(writers) != 1 or len(readers) != 1 or source.fill is not None:
            continue
        infos = {**step.temps, step.output: net.tensors[step.output]}
        if copy.points != infos[source.tensor].elements:
            continue  # The rest would have nowhere to go.
        converts = infos[target.tensor].dtype != infos[source.tensor].dtype
        if converts and (target.tensor in step.temps or writers[0].func not in TRUTHS):
            continue
        try:
            direct = write_through(writers[0], source, copy)
        except (NotAffine, Retry):
            continue
        step.loops = [direct if loop is writers[0] else loop for loop in step.loops if loop is not copy]
        del step.temps[source.tensor]


def share_equal_loops(step: Step) -> None:
    """Two loops that compute the same temporary become one."""
    writers = Counter(loop.write.tensor for loop in step.loops)
    seen: dict[object, str] = {}
    same: dict[str, str] = {}
    loops: list[Loop] = []
    for loop in step.loops:
        loop = renamed(loop, same)
        name = loop.write.tensor
        if name in step.temps and writers[name] == 1:
            key = (_canonical(loop), step.temps[name])
            if key in seen:
                same[name] = seen[key]
                del step.temps[name]
                continue
            seen[key] = name
        loops.append(loop)
    step.loops = loops


def _canonical(loop: Loop) -> object:
    """The loop without the names of its axes and of its target."""
    used = [*loop.write.axes, *(a for r in loop.reads for a in r.axes), *loop.axes]
    names = {a: f"{n:03}" for n, a in enumerate(dict.fromkeys(used))}
    values = {a: Linear.axis(n) for a, n in names.items()}
    axes = tuple((n, loop.axes[a]) for a, n in names.items())
    operands = tuple(o.substitute(values) if isinstance(o, Ref) else o for o in loop.operands)
    return axes, loop.write.substitute(values).index, loop.func, operands, loop.combine


class _Links:
    """Who writes and who reads each tensor, kept up to date while steps are merged."""

    def __init__(self, net: Net) -> None:
        self.producer = net.producer()
        self.consumers = net.consumers()
        self.order = {id(s): i for i, s in enumerate(net.steps)}

    def merge(self, producer: Step, consumer: Step) -> None:
        for name in producer.inputs:
            users = [consumer if s is producer else s for s in self.consumers[name]]
            self.consumers[name] = list({id(s): s for s in users}.values())
        del self.producer[producer.output], self.consumers[producer.output]


def _merge_all(net: Net, rule: Rule) -> None:
    links = _Links(net)
    merged: set[int] = set()
    for step in reversed(net.steps):
        while id(step) not in merged:
            partner = _partner(net, links, step, rule)
            if partner is None:
                break
            links.merge(partner, step)
            _merge(net, partner, step)
            merged.add(id(partner))
    net.steps = [s for s in net.steps if id(s) not in merged]


def _partner(net: Net, links: _Links, step: Step, rule: Rule) -> Step | None:
    """The latest producer that may join ``step``."""
    if step.host:
        return None
    found: list[Step] = []
    for name in step.inputs:
        other = links.producer.get(name)
        if other is None or other.host or name in net.outputs or len(links.consumers[name]) != 1:
            continue
        if other.matrix_loops + step.matrix_loops > 1 or not rule(net, other, step):
            continue
        if step.matrix_loops and _has_own_product(net, links, other, rule):
            continue
        found.append(other)
    return max(found, key=lambda s: (s.matrix_loops, links.order[id(s)]), default=None)


def _has_own_product(net: Net, links: _Links, step: Step, rule: Rule) -> bool:
    """Whether a step can join a matrix product that it follows, by itself or with what is between."""
    return any(
        other.matrix_loops or _has_own_product(net, links, other, rule)
        for other in (links.producer.get(n) for n in step.inputs)
        if other and not other.host and len(links.consumers[other.output]) == 1 and rule(net, other, step)
    )


def _merge(net: Net, producer: Step, consumer: Step) -> None:
    """``producer`` joins ``consumer``, in its place."""
    consumer.temps = {**producer.temps, producer.output: net.tensors[producer.output], **consumer.temps}
    consumer.loops = [*producer.loops, *consumer.loops]
    consumer.origin = tuple(dict.fromkeys((*producer.origin, *consumer.origin)))
    if _weight(producer.loops) > _weight(consumer.loops[len(producer.loops) :]):
        consumer.name = producer.name
        consumer.unit = producer.unit


def _weight(loops: list[Loop]) -> tuple[bool, bool, int]:
    """What an operator is named after: its matrix product, else its reduction, else its last step."""
    return (
        any(loop.is_matrix for loop in loops),
        any(loop.combine for loop in loops),
        max((loop.points for loop in loops if loop.combine), default=0),
    )


def _same_unit(net: Net, producer: Step, consumer: Step) -> bool:
    if producer.is_movement and consumer.matrix_loops:
        return False  # A copy in another layout: the matrix engine reads what memory holds.
    return producer.unit == consumer.unit and not _has_long_rows(producer)


LONG_ROW = 1 << 15
"""Elements of a row that is reduced in one operator with its use."""


def _has_long_rows(step: Step) -> bool:
    return any(
        loop.combine and not loop.is_matrix and prod(loop.axes[a].size for a in loop.reduced) > LONG_ROW
        for loop in step.loops
    )


def _pointwise(net: Net, producer: Step, consumer: Step) -> bool:
    """Whether the consumer reads each element of the producer once, in the order in which it writes its own."""
    sizes = {producer.output: net.tensors[producer.output].elements}
    for loop in consumer.loops:
        for ref in loop.reads:
            if ref.tensor not in sizes:
                continue
            once = not loop.combine and ref.fill is None and loop.points == sizes[ref.tensor]
            if not once or contiguous(_narrow(ref)) != contiguous(_narrow(loop.write)):
                return False
            sizes[loop.write.tensor] = loop.points
    return True


def _narrow(ref: Ref) -> Ref:
    """The access without the dimensions of extent one."""
    return replace(ref, index=tuple(i for i in ref.index if i.terms))


def _epilogue(net: Net, producer: Step, consumer: Step) -> bool:
    """An element-wise consumer of the same shape."""
    if not consumer.loops or any(loop.combine for loop in consumer.loops if loop.write.tensor == consumer.output):
        return False
    if any(loop.combine for loop in consumer.loops) and any(loop.combine for loop in producer.loops):
        return False
    same = net.tensors[producer.output].elements == net.tensors[consumer.output].elements
    return same and not _partial(consumer) and not _partial(producer) and _pointwise(net, producer, consumer)


def _partial(step: Step) -> bool:
    """Whether several loops write parts of the output (a concatenation)."""
    return sum(loop.write.tensor == step.output for loop in step.loops) > 1


def _prologue(net: Net, producer: Step, consumer: Step) -> bool:
    """An element-wise producer of a reduction over whole rows."""
    if not producer.is_elementwise or producer.is_movement or _partial(producer):
        return False
    reads = [(loop, r) for loop in consumer.loops for r in loop.reads if r.tensor == producer.output]
    plain = all(r.fill is None and all(len(i.terms) <= 1 for i in r.index) for _, r in reads)
    return plain and any(loop.combine for loop, _ in reads) and consumer.matrix_loops == 0


def _row_by_row(net: Net, producer: Step, consumer: Step) -> bool:
    return _statistic(net, producer, consumer) or _prologue(net, producer, consumer)


def _statistic(net: Net, producer: Step, consumer: Step) -> bool:
    """A reduction of rows that the consumer reads as well, and which it applies to them."""
    if producer.matrix_loops or consumer.matrix_loops or _has_long_rows(producer) or _partial(consumer):
        return False
    shared = set(producer.inputs) & set(consumer.inputs)
    smaller = net.tensors[producer.output].elements < net.tensors[consumer.output].elements
    plain = all(
        r.fill is None and all(len(i.terms) <= 1 for i in r.index)
        for loop in (*producer.loops, *consumer.loops)
        for r in loop.reads
        if r.tensor == producer.output or r.tensor in shared
    )
    whole = any(net.tensors[n].elements >= net.tensors[consumer.output].elements for n in shared)
    return smaller and plain and whole and any(loop.combine for loop in producer.loops)
