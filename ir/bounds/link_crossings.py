"""What has to cross each link of the memories outside of the cores: constants, inputs and outputs, once for each."""

from __future__ import annotations

from collections.abc import Mapping

from ..graph import DTYPES, Graph
from ..machine import Link, Machine
from .demanded_elements import Points


def link_crossings(
    graph: Graph, machine: Machine, points: Mapping[str, tuple[Points, ...]]
) -> list[tuple[Link, Mapping[str, int]]]:
    """Bytes by tensor, for each link that something crosses, in the machine's order.

    Of an input or a constant, these are the elements that some of the ``points`` certainly touches. What the host reads
    or writes crosses no link. A link of both directions of the shared memory is crossed twice, one of several memories
    as often as all of them.
    """
    host = {n for op in graph.ops if op.host is not None for n in (*op.inputs, *op.outputs)}
    sources = {n for n in graph.constant_names | graph.input_tensors if n not in host}
    into = _accessed_bytes(graph, sources, points)
    out = {n: graph.tensor[n].bytes for n in sorted(graph.output_tensors - host)}
    levels = machine.levels
    shared = _sum(into, out)
    twice = _sum(shared, shared)
    apart = {n: count for n, count in into.items() if n in graph.constant_names} if levels.has_constants else {}
    into = {n: count for n, count in into.items() if n not in apart}
    # Without a shared memory, the entries of the main memory are those that count.
    crossed_by: dict[tuple[str, str], Mapping[str, int]] = {
        (levels.exchange.name, "read"): shared, (levels.exchange.name, "write"): shared,
        (levels.exchange.name, "both"): twice,
        (levels.home.name, "read"): into, (levels.home.name, "write"): out, (levels.home.name, "both"): _sum(into, out),
        **{(levels.constants.name, direction): apart for direction in ("read", "both") if apart},
    }  # fmt: skip
    crossed: list[tuple[Link, Mapping[str, int]]] = []
    for link in machine.links:
        by_tensor = _sum(*(crossed_by.get((memory, link.direction), {}) for memory in link.memories))
        if sum(by_tensor.values()):
            crossed.append((link, by_tensor))
    return crossed


def _sum(*counts: Mapping[str, int]) -> dict[str, int]:
    """By name, the sum of all counts."""
    names = dict.fromkeys(name for count in counts for name in count)
    return {name: sum(count.get(name, 0) for count in counts) for name in names}


def _accessed_bytes(graph: Graph, names: set[str], points: Mapping[str, tuple[Points, ...]]) -> dict[str, int]:
    """By tensor: bytes of all elements that some access certainly touches."""
    touched = dict.fromkeys(sorted(names), 0)
    for name, count in (item for op in points.values() for stage in op for item in stage.elements.items()):
        if name in touched:
            touched[name] = max(touched[name], count)
    return {name: count * DTYPES[graph.tensor[name].dtype] for name, count in touched.items()}
