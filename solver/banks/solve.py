"""Model 5 around its constraint model: greedy construction, then the solver, then the proof that there is no room.

The formulation is in :mod:`girih.solver.banks.model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.machine import Memory
from ...ir.plan import Solved
from ..cpsat.backend import Budget, Solution
from ..effort import NO_EFFORT, Effort
from .first_fit import cliques, neighbours, pack, peak
from .model import find, improve
from .problem import BankProblem, BufferRequest, bank_problem


@dataclass(frozen=True)
class Placement:
    """An address for each request, the bytes below the highest end, and the weight of pairs that share a bank."""

    addresses: tuple[int, ...]
    peak: int
    conflict: int
    solved: Solved
    effort: Effort = NO_EFFORT


@dataclass(frozen=True)
class PlacementOverflow:
    """No placement was found: ``need`` bytes, at least if ``proven`` and otherwise in the best packing known.

    ``names`` are requests that live at one time within ``live``: together too large if ``proven``.
    """

    need: int
    capacity: int
    names: tuple[str, ...]
    live: tuple[int, int]
    proven: bool
    solved: Solved
    effort: Effort = NO_EFFORT

    @property
    def excess(self) -> int:
        """Bytes too many."""
        return self.need - self.capacity


def place(
    requests: tuple[BufferRequest, ...],
    memory: Memory,
    *,
    conflicts: tuple[tuple[int, int, float], ...] = (),
    budget: Budget,
    seed: int = 0,
) -> Placement | PlacementOverflow:
    """Place the requests; ``conflicts`` are (i, j, weight). Addresses that the requests have are kept if they are valid
    and nothing is to be gained."""
    problem = bank_problem(requests, memory, conflicts)
    load, clique = _largest(problem)
    if load > problem.capacity:
        return _overflow(problem, load, clique, True, NO_EFFORT)
    at = _known(problem) or pack(problem.items, problem.capacity)
    solution: Solution | None = None
    effort = NO_EFFORT
    if peak(problem.items, at) > problem.capacity:
        addresses, solution = find(problem, budget, seed)
        effort += solution.effort if solution else NO_EFFORT
        if addresses is None:
            proven = solution is not None and solution.status == "infeasible"
            return _overflow(problem, peak(problem.items, at), _top(problem, at), proven, effort)
        at = addresses
    if problem.pairs:
        at = min([at, *_spread(problem)], key=problem.conflict)
        if problem.conflict(at):
            addresses, solution = improve(problem, at, budget, seed)
            effort += solution.effort if solution else NO_EFFORT
            at = min([at, addresses or at], key=problem.conflict)
    return _placement(problem, at, solution, load, effort)


def _largest(problem: BankProblem) -> tuple[int, tuple[int, ...]]:
    """The largest load of a clique in units, and the clique."""
    loads = [(sum(problem.items[i].size for i in c), c) for c in cliques(problem.items)]
    return max(loads, key=lambda lc: lc[0], default=(0, ()))


def _top(problem: BankProblem, at: Sequence[int]) -> tuple[int, ...]:
    """The clique around the item that ends highest."""
    top = max(range(len(at)), key=lambda i: at[i] + problem.items[i].size)
    return max((c for c in cliques(problem.items) if top in c), key=lambda c: sum(problem.items[i].size for i in c))


def _known(problem: BankProblem) -> list[int] | None:
    """The addresses that the requests have, in units, if they are complete and valid."""
    at = [request.at // problem.unit for request in problem.requests if request.at is not None]
    if len(at) < len(problem.requests) or any((request.at or 0) % problem.unit for request in problem.requests):
        return None
    if peak(problem.items, at) > problem.capacity:
        return None
    for i, near in enumerate(neighbours(problem.items)):
        if any(at[i] < at[j] + problem.items[j].size and at[j] < at[i] + problem.items[i].size for j in near):
            return None
    return at


def _spread(problem: BankProblem) -> list[list[int]]:
    """Greedy packings that keep pairs apart: each item at the free address that adds the least weight."""
    partners: dict[int, list[tuple[int, int]]] = {}
    for i, j, w in problem.pairs:
        partners.setdefault(i, []).append((j, w))
        partners.setdefault(j, []).append((i, w))
    near = neighbours(problem.items)
    weight = {i: sum(w for _, w in pairs) for i, pairs in partners.items()}
    orders = (
        sorted(range(len(near)), key=lambda i: (-problem.items[i].size, i)),
        sorted(range(len(near)), key=lambda i: (-weight.get(i, 0), -problem.items[i].size, i)),
    )
    packings = (_spread_in_order(problem, near, partners, order) for order in orders)
    return [packing for packing in packings if packing is not None]


def _spread_in_order(
    problem: BankProblem,
    near: Sequence[Sequence[int]],
    partners: Mapping[int, Sequence[tuple[int, int]]],
    order: Sequence[int],
) -> list[int] | None:
    at: dict[int, int] = {}
    for i in order:
        address = _quietest(problem, near[i], partners.get(i, ()), at, i)
        if address is None:
            return None
        at[i] = address
    return [at[i] for i in range(len(order))]


def _quietest(
    problem: BankProblem, near: Sequence[int], partners: Sequence[tuple[int, int]], at: Mapping[int, int], i: int
) -> int | None:
    """The free address for item ``i`` that shares banks with the least weight, lowest of equals; ``at``: the others."""
    size, bank = problem.items[i].size, problem.bank
    occupied = sorted((at[j], at[j] + problem.items[j].size) for j in near if j in at)
    starts = {0, *(stop for _, stop in occupied), *range(0, problem.capacity, bank)}

    def free(a: int) -> bool:
        return a + size <= problem.capacity and all(stop <= a or a + size <= start for start, stop in occupied)

    def weight(a: int) -> int:
        first, last = a // bank, (a + size - 1) // bank
        return sum(
            w
            for j, w in partners
            if j in at and at[j] // bank <= last and first <= (at[j] + problem.items[j].size - 1) // bank
        )

    return min((a for a in starts if free(a)), key=lambda a: (weight(a), a), default=None)


def _placement(
    problem: BankProblem, at: Sequence[int], solution: Solution | None, load: int, effort: Effort
) -> Placement:
    name = f"banks:{problem.memory.name}"
    conflict = problem.conflict(at)
    if problem.pairs:
        bound = 0.0 if conflict == 0 else (solution.bound if solution else None)
        proven = bound is not None and bound >= conflict
        solved = Solved(name, "optimal" if proven else "feasible", float(conflict), bound, "cycles in conflict")
    else:
        high = peak(problem.items, at) * problem.unit
        solved = Solved(
            name, "optimal" if high == load * problem.unit else "feasible", float(high), float(load * problem.unit),
            "bytes",
        )  # fmt: skip
    return Placement(
        tuple(a * problem.unit for a in at),
        peak(problem.items, at) * problem.unit,
        conflict,
        solved,
        effort,
    )


def _overflow(
    problem: BankProblem, need: int, clique: tuple[int, ...], proven: bool, effort: Effort
) -> PlacementOverflow:
    members = [problem.items[i] for i in clique]
    return PlacementOverflow(
        need * problem.unit,
        problem.memory.capacity,
        tuple(problem.requests[i].name for i in clique),
        (max(m.first for m in members), min(m.last for m in members)),
        proven,
        Solved(f"banks:{problem.memory.name}", "infeasible" if proven else "unknown", None, None, "bytes"),
        effort,
    )
