"""Rematerialisation: operators that a plan runs a second time, where their result is read, so that it need not be kept.

    a → t → b .. c        t is stored, or fills the shared memory, until c reads it

    a → t → b .. a' → t' → c        a' does what a does, in the segment of c, and t' never leaves the core

A plan with rematerialised operators is one of the graph with these operators: for everything that follows it, a' is
an operator like any other. It computes the same function; as any operator, it has a tile of its own, after which sums
of products are rounded. Reference: Checkmate (Jain et al., MLSys 2020).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from ..errors import CheckError
from ..graph import Graph, Op
from ..plan import Plan, Rematerialisation


def planned_graph(graph: Graph, plan: Plan) -> Graph:
    """The graph whose operators ``plan``, a plan for ``graph``, runs; raises as :func:`with_reruns` does."""
    return with_reruns(graph, plan.rematerialised)


def with_reruns(graph: Graph, rematerialised: Sequence[Rematerialisation]) -> Graph:
    """The graph in which, one after the other, operators run once more; the same graph if there are none.

    Where ``a`` is run again it is called ``a.rerun1``, as are its result and its private buffers, or ``a.rerun2``,
    where something is called so. It stands before the first of its readers, and can be a reader of a later one.

    Raises :class:`CheckError` if an operator or a reader does not exist or runs on the host, if it makes nothing that
    its readers read, or if nobody needs the first run any more.
    """
    graphs = [graph, *(rerun for _, rerun in reruns(graph, rematerialised))]
    return graphs[-1]


def reruns(graph: Graph, rematerialised: Sequence[Rematerialisation]) -> Iterator[tuple[Op, Graph]]:
    """Each second run, and the graph that has it and those before; raises as :func:`with_reruns` does."""
    for request in rematerialised:
        original = _original(graph, request)
        taken = {t.name for t in graph.tensors} | {n for op in graph.ops for n in (op.name, *_private(op))}
        written = (original.output, *_private(original))
        names = (original.name, *written)
        suffix = next(s for s in map(".rerun{}".format, count(1)) if taken.isdisjoint(f"{n}{s}" for n in names))
        rerun = original.renamed(f"{original.name}{suffix}", {n: f"{n}{suffix}" for n in written})
        readers = frozenset(request.readers)
        ops = [op.renamed(op.name, {original.output: rerun.output}) if op.name in readers else op for op in graph.ops]
        ops.insert(next(i for i, op in enumerate(ops) if op.name in readers), rerun)
        if original.output not in graph.output_tensors and not any(original.output in op.inputs for op in ops):
            raise _wrong(
                request, f"all readers of {original.output} are to have the second run; leave one to the first"
            )
        tensors = (*graph.tensors, replace(graph.tensor[original.output], name=rerun.output))
        graph = replace(graph, ops=tuple(ops), tensors=tensors)
        yield rerun, graph


def _private(op: Op) -> tuple[str, ...]:
    return tuple(b.name for b in op.buffers)


def _original(graph: Graph, request: Rematerialisation) -> Op:
    """The operator that is to run again, if that makes sense."""
    if not request.readers or len(set(request.readers)) < len(request.readers):
        raise _wrong(request, "name at least one reader, and each of them once")
    for name in (request.op, *request.readers):
        if name not in graph.op:
            raise _wrong(request, f"there is no operator {name}")
        if graph.op[name].host is not None:
            raise _wrong(request, f"{name} runs on the host")
    original = graph.op[request.op]
    for name in request.readers:
        if original.output not in graph.op[name].inputs:
            raise _wrong(request, f"{name} does not read {original.output}")
    return original


def _wrong(request: Rematerialisation, why: str) -> CheckError:
    return CheckError(f"invalid plan: {request.op} is to run again for {', '.join(request.readers) or 'nobody'}: {why}")
