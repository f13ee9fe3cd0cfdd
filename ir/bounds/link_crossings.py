"""What has to cross each link of the main and the shared memory: constants, inputs and outputs, once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ..graph import DTYPES, Graph
from ..machine import Link, Machine
from .demanded_elements import Points


def link_crossings(
    graph: Graph, machine: Machine, points: Mapping[str, tuple[Points, ...]]
) -> list[tuple[Link, Mapping[str, int]]]:
    """Bytes by tensor, for each link that something crosses, in the machine's order.

    Of an input or a constant, these are the elements that some of the ``points`` certainly touches. What the host reads
    or writes crosses no link. A link of both directions of the shared memory is crossed twice.
    """
    host = {n for op in graph.ops if op.host is not None for n in (*op.inputs, *op.outputs)}
    sources = {n for n in graph.constant_names | graph.input_tensors if n not in host}
    into = _accessed_bytes(graph, sources, points)
    out = {n: graph.tensor[n].bytes for n in sorted(graph.output_tensors - host)}
    crossing = {name: into.get(name, 0) + out.get(name, 0) for name in (*into, *out)}
    apart: dict[str, int] = {}
    if machine.levels.has_constants:
        apart = {n: count for n, count in into.items() if n in graph.constant_names}
        into = {n: count for n, count in into.items() if n not in apart}
        if not machine.levels.has_exchange:
            crossing = {n: count for n, count in crossing.items() if n not in apart}
    twice = {name: 2 * count for name, count in crossing.items()}
    main, shared = machine.levels.home.name, machine.levels.exchange.name
    # Without a shared memory, the entries of the main memory are those that count.
    crossed_by: dict[tuple[str, str], Mapping[str, int]] = {
        (shared, "read"): crossing, (shared, "write"): crossing, (shared, "both"): twice,
        (main, "read"): into, (main, "write"): out, (main, "both"): crossing,
        **{(machine.levels.constants.name, direction): apart for direction in ("read", "both") if apart},
    }  # fmt: skip
    crossed: list[tuple[Link, Mapping[str, int]]] = []
    for link in machine.links:
        by_tensor: dict[str, int] = defaultdict(int)
        for memory in link.memories:
            for name, count in crossed_by.get((memory, link.direction), {}).items():
                by_tensor[name] += count
        if sum(by_tensor.values()):
            crossed.append((link, by_tensor))
    return crossed


def _accessed_bytes(graph: Graph, names: set[str], points: Mapping[str, tuple[Points, ...]]) -> dict[str, int]:
    """By tensor: bytes of all elements that some access certainly touches."""
    touched = dict.fromkeys(sorted(names), 0)
    for name, count in (item for op in points.values() for stage in op for item in stage.elements.items()):
        if name in touched:
            touched[name] = max(touched[name], count)
    return {name: count * DTYPES[graph.tensor[name].dtype] for name, count in touched.items()}
