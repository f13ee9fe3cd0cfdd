"""A bound that no plan can beat: the busiest resource of a cluster with what is around its work, or two in a row.

What each resource has to do in every plan is in :mod:`.unavoidable_work`. Before a resource can begin with an operator,
others must have made what that needs, and after it comes what needs its result: chains of latencies
(:mod:`.latency_chains`). The bound of a resource is the largest one of any part of its work with what is around this
part in every plan (:mod:`.head_and_tail`).

The bound is the smaller one of those of two kinds of plans:

- the matrix engines alone run the contractions that they can run. The bound of these plans is the largest of those of
  the resources, that of the longest chain, and that of two phases: an engine computes, and then weights are fetched for
  which there was no room (:mod:`.two_phase`);
- the vector engines run at least one such contraction. The least that both kinds of engines take, over all
  splits of the contractions between them (:mod:`.engine_split`), stands for the matrix engines; the others, chains and
  two phases as before, but without the cycles and the memory that such a plan may save. A chain there has the engine
  that makes it shorter, for each contraction. For a price p >= 0, a contraction may also add p times the c cycles that
  the vector engines take for all of it: with V cycles of their other work, the run takes V + c at least, summed over
  what they run, so that (chain + p V) / (1 + p) is a bound; or with 2 p, where a contraction may be on the chains
  before and after some work.

The bound knows nothing of segments and tiles, and shares no code with what decides them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, inf

from ..graph import Graph, Op
from ..machine import Machine
from .demanded_elements import demanded_points
from .engine_split import Contraction, least_split
from .head_and_tail import busy_between
from .latency_chains import Around, Chains, CriticalPaths, Kinds
from .link_crossings import link_crossings
from .two_phase import TwoPhaseBound, two_phase_bound
from .unavoidable_work import (
    Needed,
    ResourceWork,
    on_matrix,
    operand_dtypes,
    running_contractions,
    vector_cycles,
    work_of,
)


def lower_bound(graph: Graph, machine: Machine) -> tuple[int, str]:
    """(cycles that one cluster needs at least, the resource or the two phases that tell so)."""
    points = graph.analysis(demanded_points)
    works, chains = work_of(graph, machine, points), Chains(graph, machine, points)
    on_matrix_alone = _on_matrix_alone(graph, machine, points, works, chains)
    others = _on_either(graph, machine, points, works, chains, on_matrix_alone[0])
    return on_matrix_alone if others is None else min(on_matrix_alone, others, key=lambda bound: bound[0])


def on_matrix_alone_bound(graph: Graph, machine: Machine) -> tuple[int, str]:
    """As :func:`lower_bound`, of plans in which the matrix engine alone runs the contractions that it can run."""
    points = graph.analysis(demanded_points)
    return _on_matrix_alone(graph, machine, points, work_of(graph, machine, points), Chains(graph, machine, points))


def _on_matrix_alone(
    graph: Graph, machine: Machine, points: Needed, works: tuple[ResourceWork, ...], chains: Chains
) -> tuple[int, str]:
    multiplied = [op for op, *_ in running_contractions(graph, machine, points)]
    by_resource = {work.resource: work.by_op for work in works[:2]}
    paths = chains.paths(_kinds(graph, machine))
    later = two_phase_bound(graph, machine, points, by_resource, multiplied)
    return _largest((_chain(paths), *_with_heads_and_tails(graph, machine, points, works, paths)), later)


def _kinds(graph: Graph, machine: Machine, movable: Mapping[str, float] | None = None, price: float = 0.0) -> Kinds:
    """What runs a stage; what is ``movable`` may run on the vector engines, at a ``price`` for each of their cycles."""
    movable = movable or {}

    def kinds(op: Op, position: int) -> dict[str, float]:
        if not on_matrix(op, position, operand_dtypes(graph, op), machine):
            return {"vector": 0.0}
        return {"matrix": 0.0} | ({"vector": price * movable[op.name]} if op.name in movable else {})

    return kinds


def _with_heads_and_tails(
    graph: Graph, machine: Machine, points: Needed, works: tuple[ResourceWork, ...], paths: CriticalPaths
) -> Iterator[_Bound]:
    """A bound of each resource."""
    crossings = {link.name: (link, crossed) for link, crossed in link_crossings(graph, machine, points)}
    for work in works:
        if work.kind == "link":
            link, crossed = crossings[work.resource]
            parts = [(c / link.bytes_per_cycle, paths.across[link.name, n]) for n, c in crossed.items() if c]
        else:
            around_op = {n: paths.by_class.get((n, work.kind), Around(0.0, 0.0)) for n in work.by_op}
            if work.kind in ("host", "scalar"):
                # What kernels take includes their issue, which comes before the body.
                issue = machine.engine_for(work.kind).issue
                around_op = {n: Around(max(0.0, a.head - issue), a.tail) for n, a in around_op.items()}
            parts = [(c, around_op[n]) for n, c in work.by_op.items() if c]
        busy = busy_between(parts)
        around = f"{busy.work:,.0f} cycles of work, {busy.head:,.0f} before them and {busy.tail:,.0f} after them; "
        if busy.cycles > work.cycles:
            label = work.resource if busy.work >= busy.head + busy.tail else f"{CHAIN_AROUND}{work.resource}"
            yield _Bound(busy.cycles, f"{label}: {around}{work.reason}")
        else:
            yield _Bound(work.cycles, f"{work.resource}: {work.reason}")


def _on_either(
    graph: Graph, machine: Machine, points: Needed, works: tuple[ResourceWork, ...], chains: Chains, bound: int
) -> tuple[int, str] | None:
    """Of plans in which the vector engines run at least one contraction that the matrix engines can run.

    ``None`` if none of these takes fewer cycles than ``bound``.
    """
    matrix, vector = works[:2]
    contractions = list(running_contractions(graph, machine, points))
    movable: dict[str, Contraction] = {}
    for op, _, stage, inside in contractions:
        on_vector = vector_cycles(stage, operand_dtypes(graph, op), inside, machine)
        if vector.cycles + on_vector < bound:
            movable[op.name] = Contraction(matrix.by_op[op.name], on_vector)
    if not movable:
        return None
    matrix_only = {name: cycles for name, cycles in matrix.by_op.items() if name not in movable}
    split = least_split(list(movable.values()), sum(matrix_only.values()), vector.cycles)
    either = f"{matrix.resource} or {vector.resource}"
    weighted = split.weighted(
        movable | {n: Contraction(cycles, inf) for n, cycles in matrix_only.items()}, vector.by_op
    )
    by_resource = {matrix.resource: matrix_only, vector.resource: vector.by_op, either: weighted}
    multiplied = [op for op, *_ in contractions]
    later = two_phase_bound(graph, machine, points, by_resource, multiplied, on_vector=True)
    macs = sum(inside.count for *_, inside in contractions)
    reason = f"{macs:,} multiply-accumulates, split between both so that they take the fewest cycles"
    bounds = [
        _Bound(split.cycles, f"{either}: {reason}"),
        *(_Bound(w.cycles, f"{w.resource}: {w.reason}") for w in works[2:]),
    ]
    vectors = {name: contraction.vector for name, contraction in movable.items()}
    for price in _PRICES:
        if max(b.cycles for b in bounds) >= bound:
            break
        paths = chains.paths(_kinds(graph, machine, vectors, price))
        around = [(price, _chain(paths))]
        around += [(2 * price, b) for b in _with_heads_and_tails(graph, machine, points, works[1:], paths)]
        bounds += [_Bound((b.cycles + weight * vector.cycles) / (1 + weight), b.reason) for weight, b in around]
    return _largest(bounds, later)


@dataclass(frozen=True)
class _Bound:
    """Cycles that no plan can beat, and where they come from."""

    cycles: float
    reason: str


_PRICES = (0.0, 0.25, 1.0)
"""Of a cycle of the vector engines on a chain: any give a bound. Chosen."""
CRITICAL_PATH = "critical path"
"""What stands for a resource where the bound is the longest chain."""
CHAIN_AROUND = "chain around "
"""In front of a resource where most of the bound is before and after its work."""


def _chain(paths: CriticalPaths) -> _Bound:
    return _Bound(paths.cycles, f"{CRITICAL_PATH}: instructions and transfers that need one another")


def _largest(bounds: Iterable[_Bound], later: TwoPhaseBound | None) -> tuple[int, str]:
    """(cycles, reason) of the largest bound, of two phases only if they take longer."""
    most = max(bounds, key=lambda bound: bound.cycles)
    if later is not None and later.cycles > most.cycles:
        most = _Bound(later.cycles, later.reason)
    return ceil(most.cycles - 1e-6), most.reason
