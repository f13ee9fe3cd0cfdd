"""Between which operators an activation lives, and what it costs in a column."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from girih.ir.graph import Graph
from girih.ir.plan import Split
from girih.solver.segmentation.column_cost import Column
from girih.solver.segmentation.inter_segment import Activation, ActivationCost, activation_costs, activations
from girih.solver.segmentation.splits import SegmentSplit
from tests.support import graphs


@pytest.mark.parametrize("build", [graphs.residual, graphs.attention, graphs.dense, graphs.with_host])
def test_an_activation_lives_from_its_producer_to_its_last_reader(build: Callable[[], Graph]) -> None:
    """That of an input port from its first reader on."""
    graph = build()
    position = {op.name: i for i, op in enumerate(graph.ops)}
    found = {a.name: a for a in activations(graph)}
    assert list(found) == [t.name for t in graph.tensors if t.name not in graph.constant_names]
    for name, activation in found.items():
        readers = [position[op.name] for op in graph.ops if name in op.inputs]
        producer = graph.producer.get(name)
        assert activation.first == (min(readers) if producer is None else position[producer.name])
        assert activation.last == max(readers, default=activation.first)
        assert activation.bytes == graph.tensor[name].bytes
        assert activation.produced == (producer is not None and producer.host is None)
        hosts = [op for op in graph.ops if name in op.inputs and op.host is not None]
        assert activation.stored == (name in graph.output_tensors or bool(hosts))
        assert activation.read_on_cores == (len(readers) > len(hosts))
    assert any(a.last > a.first + 1 for a in found.values())


@pytest.mark.parametrize(
    ("first", "last", "produced", "stored", "cost"),
    [
        # An input of the graph that begins inside: resident, it is fetched once, and else by each instance.
        (1, 1, False, False, ActivationCost("a", True, 1000, 200, 1000, 4 * 128)),
        # What the segment before has made is there if it is resident.
        (0, 1, True, False, ActivationCost("a", True, 1000, 200, 0, 4 * 128)),
        # An input of the graph that the segment before has read is there, too.
        (0, 1, False, False, ActivationCost("a", True, 1000, 200, 0, 4 * 128)),
        # What is made here and read later is stored in whole bursts if it is not resident; an output always is.
        (1, 3, True, False, ActivationCost("a", True, 1000, 200, 0, 1280)),
        (1, 3, True, True, ActivationCost("a", True, 1000, 200, 1280, 1280)),
        # What does not cross the border cannot be resident while it does.
        (1, 2, True, False, ActivationCost("a", False, 200, 200, 0, 0)),
    ],
)
def test_what_an_activation_costs_in_a_column(
    first: int, last: int, produced: bool, stored: bool, cost: ActivationCost
) -> None:
    """Of 1000 bytes, each of four instances touches 100, for which 128 cross the link."""
    split = SegmentSplit((Split(0, 4),), ())
    column = Column(1, 2, split, 0, 0, 0, 0, (("a", 100, 128),), 0, ())
    activation = Activation("a", 1000, first, last, produced, stored, read_on_cores=True)
    assert activation_costs(column, [activation]) == (cost,)
