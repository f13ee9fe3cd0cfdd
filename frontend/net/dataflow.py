"""Who writes and who reads each value, as a directed graph of networkx."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import networkx as nx

from ...ir.errors import CheckError


class Operation(Protocol):
    """A step of a net or a node of an ONNX network. Empty names stand for values that are left out."""

    @property
    def inputs(self) -> Iterable[str]: ...

    @property
    def outputs(self) -> Iterable[str]: ...


OperationT = TypeVar("OperationT", bound=Operation)
_SINK = -1


class Dataflow(Generic[OperationT]):
    """The view of a list of operations that passes query and keep up to date.

    It is bipartite: an operation's node is its position in the list (an integer), a value's node is its name. Edges
    lead from a value to the operations that read it, and from an operation to the values that it writes. Answers are
    in the order of the list. A query costs as much as its answer is long.
    """

    def __init__(self, operations: Sequence[OperationT]) -> None:
        self._operations = dict(enumerate(operations))
        self._positions = {id(operation): position for position, operation in self._operations.items()}
        self._graph: nx.DiGraph[int | str] = nx.DiGraph()
        for position in self._operations:
            self._connect(position)

    @property
    def operations(self) -> list[OperationT]:
        """The operations that were not removed."""
        return list(self._operations.values())

    def readers(self, value: str) -> list[OperationT]:
        """The operations that read a value, each once."""
        if value not in self._graph:
            return []
        return [self._operations[n] for n in sorted(n for n in self._graph.successors(value) if isinstance(n, int))]

    def reader_count(self, value: str) -> int:
        """The number of operations that read a value."""
        return len(self._graph.succ[value]) if value in self._graph else 0

    def writer(self, value: str) -> OperationT | None:
        """The operation that writes a value; ``None`` for inputs and constants."""
        if value not in self._graph:
            return None
        return next((self._operations[n] for n in self._graph.predecessors(value) if isinstance(n, int)), None)

    def position(self, operation: OperationT) -> int:
        """Where the operation is in the list that the view was made of."""
        return self._positions[id(operation)]

    def contains(self, operation: OperationT) -> bool:
        """Whether an operation was not removed."""
        return id(operation) in self._positions

    def update(self, operation: OperationT) -> None:
        """Take note of what an operation reads and writes after it was changed."""
        position = self._positions[id(operation)]
        self._graph.remove_node(position)
        self._connect(position)

    def remove(self, operation: OperationT) -> None:
        """Take an operation out."""
        position = self._positions.pop(id(operation))
        self._graph.remove_node(position)
        del self._operations[position]

    def contract(self, producer: OperationT, consumer: OperationT) -> None:
        """Let ``consumer`` read what ``producer`` reads, in place of what it writes; take ``producer`` out."""
        source, target = self._positions[id(producer)], self._positions[id(consumer)]
        self._graph.add_edges_from([(value, target) for value in self._graph.predecessors(source)])
        self._graph.remove_nodes_from(list(self._graph.successors(source)))
        self.remove(producer)

    def upstream(self, values: Iterable[str]) -> list[OperationT]:
        """The operations that the values depend on."""
        self._graph.add_edges_from((value, _SINK) for value in values)
        needed = nx.ancestors(self._graph, _SINK) if _SINK in self._graph else set[int | str]()
        self._graph.remove_nodes_from([_SINK])
        return [operation for position, operation in self._operations.items() if position in needed]

    def topological_order(self) -> list[OperationT]:
        """Every operation behind those that it reads from, otherwise as in the list.

        Raises :class:`~girih.ir.errors.CheckError` naming operations of a cycle.
        """

        def priority(node: int | str) -> int:
            return node if isinstance(node, int) else -1

        try:
            nodes = list(nx.lexicographical_topological_sort(self._graph, priority))
        except nx.NetworkXUnfeasible as error:
            cycle = " → ".join(n for n, _ in nx.find_cycle(self._graph) if isinstance(n, str))
            raise CheckError(f"the net has a cycle through {cycle}") from error
        return [self._operations[node] for node in nodes if isinstance(node, int)]

    def _connect(self, position: int) -> None:
        operation = self._operations[position]
        self._graph.add_node(position)
        self._graph.add_edges_from([(value, position) for value in operation.inputs if value])
        self._graph.add_edges_from([(position, value) for value in operation.outputs if value])
