"""Steps become operators: each contraction or reduction with the element-wise work around it.

1. The steps of one library kernel (the four of a softmax) belong together.
2. An element-wise step joins the producer whose only consumer it is: bias, activation, residual sum go with the
   matrix product, and chains of element-wise steps become one.
3. What is left of element-wise steps in front of a reduction joins that.
   Quantised numbers become real ones where they are read: that step joins what follows, whatever it follows.
4. A statistic joins the step that applies it to the rows that it was taken of: normalisations written out by hand.

An operator holds at most one matrix product and writes one tensor. Reductions of long rows stay on their own, because
an operator that applies them needs whole rows in a core's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..net.cluster import Cluster
from ..net.dataflow import Dataflow
from ..net.net import Net, Ref
from .simplify import drop_copies, drop_unit_dimensions, share_equal_loops

Rule: TypeAlias = Callable[[Net, Cluster, Cluster], bool]
"""Whether a producer may join its consumer."""


def fuse_operators(net: Net) -> None:
    """Merge steps into operators by the four rules above, one after the other.

    Before: axes are merged, and constants laid out. After: a step is an operator with at most one matrix product; the
    results of all but its last loop are private, without unit dimensions, copies, or loops that compute the same.

        s = sum x · W
        t = s + b                   becomes      one step {s = sum x · W; t = s + b; y = max(t, 0)}
        y = max(t, 0)                            with s and t private
    """
    flow = Dataflow([Cluster(step) for step in net.steps])
    outputs = frozenset(net.outputs)
    for rule in (_same_unit, _epilogue, _prologue, _row_by_row):
        for cluster in reversed(flow.operations):
            if not cluster.is_opaque:
                _grow(net, outputs, flow, cluster, rule)
    net.steps = [cluster.step(net.tensors) for cluster in flow.operations]
    net.drop_dead()
    for step in (s for s in net.steps if not s.is_opaque):
        drop_unit_dimensions(step)
        drop_copies(step, net)
        share_equal_loops(step)


def _grow(net: Net, outputs: frozenset[str], flow: Dataflow[Cluster], cluster: Cluster, rule: Rule) -> None:
    """Let producers join a cluster, the latest first, until the rule allows none."""
    if not flow.contains(cluster):
        return
    feeds_product: dict[int, bool] = {}
    while True:
        partners = [
            producer
            for producer in map(flow.writer, cluster.inputs)
            if producer is not None
            and not producer.is_opaque
            and producer.output not in outputs
            and flow.reader_count(producer.output) == 1
            and producer.matrix_loops + cluster.matrix_loops <= 1
            and rule(net, producer, cluster)
            and (
                producer.dequantises
                or not (cluster.matrix_loops and _has_own_product(net, flow, producer, rule, feeds_product))
            )
        ]
        if not partners:
            return
        producer = max(partners, key=lambda p: (p.matrix_loops, flow.position(p)))
        flow.contract(producer, cluster)
        cluster.absorb(producer)


def _has_own_product(net: Net, flow: Dataflow[Cluster], cluster: Cluster, rule: Rule, known: dict[int, bool]) -> bool:
    """Whether a cluster can join a matrix product that it follows, by itself or with what is between.

    ``known`` keeps answers by position, for as long as nothing in front of the clusters changes.
    """
    start = flow.position(cluster)
    pending, visited = [cluster], [start]
    while pending and start not in known:
        consumer = pending.pop()
        for name in consumer.inputs:
            producer = flow.writer(name)
            if producer is None or producer.is_opaque or flow.reader_count(producer.output) != 1:
                continue
            if not rule(net, producer, consumer):
                continue
            position = flow.position(producer)
            if producer.matrix_loops or known.get(position, False):
                known[start] = True
            elif position not in known:
                visited.append(position)
                pending.append(producer)
    if start not in known:
        known.update(dict.fromkeys(visited, False))
    return known[start]


def _same_unit(net: Net, producer: Cluster, consumer: Cluster) -> bool:
    if any(loop.is_matrix for loop, _ in consumer.reads(producer.output)):
        return False  # Such as a copy in another layout: the matrix engine reads what memory holds.
    return producer.unit == consumer.unit and not producer.has_long_rows and not producer.is_partial


def _epilogue(net: Net, producer: Cluster, consumer: Cluster) -> bool:
    """An element-wise consumer of the same shape."""
    if consumer.combines_output or (consumer.combines and producer.combines):
        return False
    if consumer.dequantises and consumer.output not in net.outputs:
        return False
    elements = net.tensors[producer.output].elements
    if elements != net.tensors[consumer.output].elements or consumer.is_partial or producer.is_partial:
        return False
    return consumer.reads_pointwise(producer.output, elements)


def _prologue(net: Net, producer: Cluster, consumer: Cluster) -> bool:
    """An element-wise producer of a reduction over whole rows."""
    if producer.combines or producer.is_movement or producer.is_partial or consumer.matrix_loops:
        return False
    reads = consumer.reads(producer.output)
    return any(loop.combine for loop, _ in reads) and all(_is_plain(ref) for _, ref in reads)


def _is_plain(ref: Ref) -> bool:
    """Whether each dimension is indexed by one axis, without a guard."""
    return ref.fill is None and all(len(index.terms) <= 1 for index in ref.index)


def _row_by_row(net: Net, producer: Cluster, consumer: Cluster) -> bool:
    return _statistic(net, producer, consumer) or _prologue(net, producer, consumer)


def _statistic(net: Net, producer: Cluster, consumer: Cluster) -> bool:
    """A reduction of rows that the consumer reads as well, and which it applies to them."""
    if producer.matrix_loops or consumer.matrix_loops or producer.has_long_rows or consumer.is_partial:
        return False
    elements = net.tensors[consumer.output].elements
    if not producer.combines or net.tensors[producer.output].elements >= elements:
        return False
    shared = producer.shared_inputs(consumer)
    return any(net.tensors[name].elements >= elements for name in shared) and all(
        _is_plain(ref)
        for cluster in (producer, consumer)
        for name in (producer.output, *shared)
        for _, ref in cluster.reads(name)
    )
