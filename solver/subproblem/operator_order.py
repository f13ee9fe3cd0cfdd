"""An order of a segment's operators in which the matrix engine has work while the vector engine has.

Queues run in order, so in

    q = x·Q; k = x·K; v = x·V; s = q·k; p = softmax(s); c = p·v

the matrix engine waits for the whole of p, having made v before. With v right after p it makes v meanwhile, as far as
there is room for results that the vector engine has yet to fetch; it costs that x has to be there for longer.
"""

from __future__ import annotations

from ...ir.graph import Graph


def interleaved(graph: Graph, ops: tuple[str, ...]) -> tuple[str, ...]:
    """The operators with products moved behind vector operators that wait for the product before them.

    Only a product that nothing needs until after that operator is moved: the last one of them.
    """
    order = list(ops)
    for vector in ops:
        moved = _movable(graph, order, order.index(vector))
        if moved is not None:
            order.insert(order.index(vector), order.pop(moved))
    return tuple(order)


def _movable(graph: Graph, ops: list[str], position: int) -> int | None:
    """Where the product is that can be made while the operator at ``position`` waits and works."""
    vector, before = graph.op[ops[position]], graph.op[ops[max(0, position - 1)]]
    if vector.contraction is not None or before.contraction is None or before.output not in vector.inputs:
        return None
    later = set(ops[position + 1 :])
    for number in range(position - 2, -1, -1):
        op = graph.op[ops[number]]
        readers = {c.name for c in graph.consumers[op.output]} & set(ops)
        if op.contraction is not None and readers and readers <= later:
            return number
    return None
