"""Operators that a plan runs a second time: what they made is made again where it is read, rather than moved or kept.

    a → t → b .. c        t is stored, or fills the shared memory, until c reads it

    a → t → b .. a' → t' → c        a' does what a does, in the segment of c, and t' never leaves the core

A plan with recomputations is one of the graph with these operators: for everything that follows it, a' is an operator
like any other. It computes the same function; as any operator, it has a tile of its own, after which sums of products
are rounded. Reference: Checkmate (Jain et al., MLSys 2020), where it is called rematerialisation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from ..errors import CheckError
from ..graph import Graph, Op
from ..plan import Plan, Recomputation


def followed(graph: Graph, plan: Plan) -> Graph:
    """The graph whose operators ``plan``, a plan for ``graph``, runs; raises as :func:`recompute` does."""
    return recompute(graph, plan.recomputed)


def recompute(graph: Graph, recomputed: Sequence[Recomputation]) -> Graph:
    """The graph in which, one after the other, operators run once more; the same graph if there are none.

    Where ``a`` is run again it is called ``a.again1``, as are its result and its private buffers, or ``a.again2``,
    where something is called so. It stands before the first of its readers, and can be a reader of a later one.

    Raises :class:`CheckError` if an operator or a reader does not exist or runs on the host, if it makes nothing that
    its readers read, or if nobody needs the first run any more.
    """
    graphs = [graph, *(made for _, made in steps(graph, recomputed))]
    return graphs[-1]


def steps(graph: Graph, recomputed: Sequence[Recomputation]) -> Iterator[tuple[Op, Graph]]:
    """Each second run, and the graph that has it and those before; raises as :func:`recompute` does."""
    for wanted in recomputed:
        old = _known(graph, wanted)
        taken = {t.name for t in graph.tensors} | {n for op in graph.ops for n in (op.name, *_own(op))}
        mine = (old.output, *_own(old))
        free = (s for s in map(".again{}".format, count(1)) if taken.isdisjoint(f"{n}{s}" for n in (old.name, *mine)))
        suffix = next(free)
        again = old.renamed(f"{old.name}{suffix}", {n: f"{n}{suffix}" for n in mine})
        readers = frozenset(wanted.readers)
        ops = [op.renamed(op.name, {old.output: again.output}) if op.name in readers else op for op in graph.ops]
        ops.insert(next(i for i, op in enumerate(ops) if op.name in readers), again)
        if old.output not in graph.output_tensors and not any(old.output in op.inputs for op in ops):
            raise _wrong(wanted, f"all readers of {old.output} are to have the second run; leave one to the first")
        tensors = (*graph.tensors, replace(graph.tensor[old.output], name=again.output))
        graph = replace(graph, ops=tuple(ops), tensors=tensors)
        yield again, graph


def _own(op: Op) -> tuple[str, ...]:
    return tuple(b.name for b in op.buffers)


def _known(graph: Graph, wanted: Recomputation) -> Op:
    """The operator that is to run again, if that makes sense."""
    if not wanted.readers or len(set(wanted.readers)) < len(wanted.readers):
        raise _wrong(wanted, "name at least one reader, and each of them once")
    for name in (wanted.op, *wanted.readers):
        if name not in graph.op:
            raise _wrong(wanted, f"there is no operator {name}")
        if graph.op[name].host is not None:
            raise _wrong(wanted, f"{name} runs on the host")
    old = graph.op[wanted.op]
    for name in wanted.readers:
        if old.output not in graph.op[name].inputs:
            raise _wrong(wanted, f"{name} does not read {old.output}")
    return old


def _wrong(wanted: Recomputation, why: str) -> CheckError:
    return CheckError(f"invalid plan: {wanted.op} is to run again for {', '.join(wanted.readers) or 'nobody'}: {why}")
