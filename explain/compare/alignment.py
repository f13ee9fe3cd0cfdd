"""Which operators of two networks correspond: by name, and else by the ONNX nodes that they were made from."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ...ir.graph import Graph
from ...ir.plan import Plan

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Aligned:
    """Operators of A and of B that compute the same; either may be empty."""

    a: tuple[str, ...]
    b: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of both, or those of A, or else those of B."""
        names = self.a or self.b
        return names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}"

    @property
    def pair(self) -> tuple[str, str] | None:
        """The operator in A and in B, if there is exactly one of each."""
        return (self.a[0], self.b[0]) if len(self.a) == len(self.b) == 1 else None


def align(graph_a: Graph, plan_a: Plan, graph_b: Graph, plan_b: Plan) -> tuple[Aligned, ...]:
    """All operators of both plans, each in one row, in the order of A, then those that only B has."""
    order_a = [op for segment in plan_a.segments for op in segment.ops]
    order_b = [op for segment in plan_b.segments for op in segment.ops]
    links = [(op, op) for op in order_a if op in graph_b.op]
    links += _by_origin((op for op in order_a if op not in graph_b.op), graph_a, graph_b, order_b)
    links += [(a, b) for b, a in _by_origin((op for op in order_b if op not in graph_a.op), graph_b, graph_a, order_a)]
    groups = components(
        [*(("a", op) for op in order_a), *(("b", op) for op in order_b)], [(("a", a), ("b", b)) for a, b in links]
    )
    return tuple(
        Aligned(tuple(op for side, op in group if side == "a"), tuple(op for side, op in group if side == "b"))
        for group in groups
    )


def _by_origin(ops: Iterable[str], graph: Graph, other: Graph, others: Iterable[str]) -> list[tuple[str, str]]:
    """(operator, operator of the other network) that share an ONNX node."""
    partners_of_node: dict[str, list[str]] = {}
    for name in others:
        for node in other.op[name].origin:
            partners_of_node.setdefault(node, []).append(name)
    return [(op, partner) for op in ops for node in graph.op[op].origin for partner in partners_of_node.get(node, ())]


def components(items: Iterable[T], links: Iterable[tuple[T, T]]) -> tuple[tuple[T, ...], ...]:
    """The connected components, by their first item; items of one in the order given."""
    parent: dict[T, T] = {item: item for item in items}

    def root(item: T) -> T:
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    for first, second in links:
        parent[root(second)] = root(first)
    members: dict[T, list[T]] = {}
    for item in parent:
        members.setdefault(root(item), []).append(item)
    return tuple(tuple(group) for group in members.values())


def rounded(values: Mapping[T, float], total: int) -> dict[T, int]:
    """Whole numbers that add up to ``total``, which the values do but for rounding: largest remainders go up.

    What values lack of the total, or exceed it by, beyond rounding is not distributed.
    """
    whole = {key: int(value // 1) for key, value in values.items()}
    missing = total - sum(whole.values())
    ranked = sorted(values, key=lambda key: whole[key] - values[key])
    for key in ranked[: max(0, missing)]:
        whole[key] += 1
    return whole
