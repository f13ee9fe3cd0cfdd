"""Operators that a plan runs a second time: what they made is made again where it is read, rather than moved or kept.

    a → t → b .. c        t is stored, or fills the shared memory, until c reads it

    a → t → b .. a' → t' → c        a' does what a does, in the segment of c, and t' never leaves the core

A plan with recomputations is one of the graph with these operators: for everything that follows it, a' is an operator
like any other. It computes the same, for each value is rounded where the graph says so. Reference: Checkmate (Jain et
al., MLSys 2020), where it is called rematerialisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from .errors import CheckError
from .graph import Graph, Op
from .plan import Plan, Recomputation


def followed(graph: Graph, plan: Plan) -> Graph:
    """The graph whose operators ``plan``, a plan for ``graph``, runs; raises as :func:`recompute` does."""
    return recompute(graph, plan.recomputed)


def recompute(graph: Graph, recomputed: Sequence[Recomputation]) -> Graph:
    """The graph in which, one after the other, operators run once more; the same graph if there are none.

    Where ``a`` is run again it is called ``a.again1``, as are its result and its private buffers, or ``a.again2``,
    where something is called so. It stands before the first of its readers, and can be a reader of a later one.

    Raises :class:`CheckError` if an operator does not exist, runs on the host, or makes nothing that its readers read,
    or if nobody needs the first run any more.
    """
    if not recomputed:
        return graph
    ops = list(graph.ops)
    tensors = dict(graph.tensor)
    taken = set(tensors) | {name for op in ops for name in (op.name, *(b.name for b in op.buffers))}
    for wanted in recomputed:
        of = {op.name: op for op in ops}
        old = _known(of, wanted)
        mine = (old.output, *(b.name for b in old.buffers))
        free = (s for s in map(".again{}".format, count(1)) if taken.isdisjoint(f"{n}{s}" for n in (old.name, *mine)))
        suffix = next(free)
        names = {n: f"{n}{suffix}" for n in mine}
        taken |= {f"{old.name}{suffix}", *names.values()}
        again = old.renamed(f"{old.name}{suffix}", names)
        tensors[again.output] = replace(tensors[old.output], name=again.output)
        readers = frozenset(wanted.readers)
        first = next(i for i, op in enumerate(ops) if op.name in readers)
        ops = [op.renamed(op.name, {old.output: again.output}) if op.name in readers else op for op in ops]
        ops.insert(first, again)
        if old.output not in graph.output_tensors and not any(old.output in op.inputs for op in ops):
            raise CheckError(
                f"{old.name} is to run again for all readers of {old.output}, so that no first run is left"
            )
    return replace(graph, ops=tuple(ops), tensors=tuple(tensors.values()))


def _known(of: dict[str, Op], wanted: Recomputation) -> Op:
    """The operator that is to run again, if that makes sense."""
    strange = [name for name in (wanted.op, *wanted.readers) if name not in of]
    if strange or not wanted.readers:
        raise CheckError(f"{wanted.op} is to run again for {', '.join(wanted.readers) or 'nobody'}: no such operator")
    old = of[wanted.op]
    for reader in (of[name] for name in wanted.readers):
        if old.host or reader.host or old.output not in reader.inputs:
            raise CheckError(f"{old.name} is to run again for {reader.name}, which does not read it on a core")
    return old
