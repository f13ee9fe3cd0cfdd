"""Between which operators an activation lives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from girih.ir.graph import Graph
from girih.solver.segmentation.inter_segment import activations
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
