"""Which engines can run the contraction of an operator: the matrix engine, the vector engine, or both."""

from __future__ import annotations

from ..box import volume
from ..graph import Graph, Op
from ..machine import Machine
from .region import OpBoxes


def contraction_engine(op: Op, graph: Graph, machine: Machine) -> str:
    """ "matrix" if the matrix engine has a rate for both operands of the contraction, else "vector".

    A stationary operand that a core has as data needs a way from there to the weight memory, too.
    """
    if op.contraction is None:
        return "vector"
    engine = machine.engine_for("matrix")
    right = op.stationary
    levels = machine.levels
    if not machine.moves("copy", levels.activations, levels.weights) and not _only_weights(graph, right):
        return "vector"
    private = {b.name: b.dtype for b in op.buffers}
    dtypes = [private.get(r.tensor) or graph.tensor[r.tensor].dtype for r in op.stages[op.contraction].factors]
    return "matrix" if all(map(engine.rate_of, dtypes)) else "vector"


def contraction_engines(op: Op, graph: Graph, machine: Machine) -> tuple[str, ...]:
    """All engines that can run it, that of :func:`contraction_engine` first.

    The vector engine runs what the matrix engine can if it has lanes for both factors and for their sums.
    """
    first = contraction_engine(op, graph, machine)
    if first == "vector" or op.contraction is None:
        return (first,)
    stage = op.stages[op.contraction]
    dtypes = {b.name: b.dtype for b in op.buffers}
    dtypes |= {n: graph.tensor[n].dtype for n in (*op.inputs, *op.outputs)}
    lanes = machine.engine_for("vector").lanes or {}
    computed = all(dtypes[access.tensor] in lanes for access in (stage.write, *stage.factors))
    return (first, "vector") if computed else (first,)


def least_vector_cycles(op: Op, machine: Machine, part: OpBoxes) -> int:
    """Cycles that the contraction of a part takes the vector engine at least: all of its lanes, without a pause."""
    assert op.contraction is not None
    engine = machine.shared_engine("vector")
    return volume(part.points[op.contraction]) // (engine.count * max((engine.lanes or {}).values(), default=1))


def _only_weights(graph: Graph, name: str) -> bool:
    """Whether a tensor is a constant, and nobody reads it as anything but the stationary operand of a contraction."""
    reads = [
        (op.contraction == position, number)
        for op in graph.consumers[name]
        for position, stage in enumerate(op.stages)
        for number, read in enumerate(stage.reads)
        if read.tensor == name
    ]
    return name in graph.constant_names and all(read == (True, 1) for read in reads)
