"""What the digest of a graph follows from: all that is computed, and nothing else."""

from __future__ import annotations

from dataclasses import fields, replace

from girih.ir.graph import Graph
from tests.support.graphs import residual


def test_neither_the_name_nor_the_data_counts() -> None:
    graph = residual()
    assert replace(graph, name="other", data={}).digest == graph.digest


def test_every_other_field_counts() -> None:
    graph = residual()
    changed = {
        "tensors": graph.tensors[1:], "ops": graph.ops[1:], "inputs": (), "outputs": (),
        "constants": (replace(graph.constants[0], sha256="0" * 64), *graph.constants[1:]),
        "replicas": graph.replicas + 1, "batch": 77,
    }  # fmt: skip
    assert changed.keys() == {f.name for f in fields(Graph)} - {"name", "data"}
    digests = {replace(graph, **{name: value}).digest for name, value in changed.items()}
    assert len(digests | {graph.digest}) == len(changed) + 1
