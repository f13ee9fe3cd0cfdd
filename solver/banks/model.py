"""Model 5: an address for every buffer of one memory.

Sets and data: requests r with size z_r (bytes, whole alignments) and life [f_r, l_r) (slots or positions; what the next
instance loads early lives at the last positions as well); capacity C, banks of C / B bytes each, one after the other
(memories that interleave banks finely have no bank to choose); pairs (i, j) that engines are predicted to use at the
same time, with a weight w_ij (cycles lost if they share a bank).

Variables: a_r, the address; for the requests of weighted pairs the first and last bank p_r <= q_r that r touches; s_ij,
whether i and j share a bank.

Constraints:
 (1) capacity: 0 <= a_r <= C - z_r.
 (2) no overlap: for each maximal set of requests that live at one time, their address ranges are disjoint.
 (3) banks: p_r = a_r div (C / B), q_r = (a_r + z_r - 1) div (C / B).
 (4) sharing: s_ij, or q_i < p_j, or q_j < p_i.
 (5) order: of two requests of equal size and life, the earlier in the list lies lower; only while any packing will do.

Objective: minimise the sum of w_ij s_ij. Without weighted pairs any feasible answer will do, and none better than the
largest load of a clique exists.

Relaxations: the largest clique load, proof of a shortfall when it exceeds C. Only the heaviest pairs are modelled. To
find any packing, sizes are first rounded up to a coarse unit. With too many requests, the greedy answer stays.

Reference: MiniMalloc (Moffitt, ASPLOS 2023) for "lowest offset first" and for one constraint per clique.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..cpsat.backend import Budget, Model, Solution, Var, solve, weighted
from ..effort import NO_EFFORT
from .first_fit import Item, cliques, neighbours
from .problem import BankProblem

UNITS = (1024, 4096)
"""How many units a memory is divided into for the guided searches; chosen."""
GUIDED = 0.1
"""Deterministic seconds for one guided search: chosen, since it finds an answer soon or not at all."""
MODELLED = 700
"""Requests in one model at most, while any packing will do; larger packings are left to first fit. Chosen."""
EXACT = 40
"""Requests in one model at most, in exact units: for a proof that there is no packing. Chosen."""
PAIRED = 150
"""Requests in one model at most, to minimise conflicts; chosen."""


def no_overlap(problem: BankProblem, model: Model, address: Sequence[Var]) -> None:
    """(2)"""
    intervals = [
        model.interval(var, item.size, f"range[{request.name}]")
        for var, item, request in zip(address, problem.items, problem.requests, strict=True)
    ]
    with model.group("no overlap"):
        for clique in cliques(problem.items):
            model.no_overlap([intervals[i] for i in clique])


def ordered(problem: BankProblem, model: Model, address: Sequence[Var]) -> None:
    """(5)"""
    last: dict[Item, int] = {}
    for i in range(len(address)):
        before = last.get(problem.items[i])
        if before is not None:
            model.add(address[before] + problem.items[i].size <= address[i])
        last[problem.items[i]] = i


def _sharing(problem: BankProblem, model: Model, address: Sequence[Var]) -> Var:
    """(3) and (4); returns the weight of the pairs that share a bank."""
    banks = -(-problem.capacity // problem.bank)
    first: dict[int, Var] = {}
    last: dict[int, Var] = {}
    for i in sorted({i for pair in problem.pairs for i in pair[:2]}):
        name, size = problem.requests[i].name, problem.items[i].size
        first[i] = model.int(0, banks - 1, f"first bank[{name}]")
        last[i] = model.int(0, banks - 1, f"last bank[{name}]")
        start = address[i]
        model.add(problem.bank * first[i] <= start)
        model.add(start <= problem.bank * first[i] + problem.bank - 1)
        model.add(problem.bank * last[i] <= start + size - 1)
        model.add(start + size - 1 <= problem.bank * last[i] + problem.bank - 1)
    shared: list[Var] = []
    for i, j, _ in problem.pairs:
        name = f"{problem.requests[i].name}, {problem.requests[j].name}"
        together, below, above = (model.bool(f"{what}[{name}]") for what in ("share", "below", "above"))
        model.exactly_one([together, below, above])
        model.add(last[i] + 1 <= first[j], when=below)
        model.add(last[j] + 1 <= first[i], when=above)
        shared.append(together)
    weights = [w for _, _, w in problem.pairs]
    cost = model.int(0, sum(weights), "conflict")
    model.add(cost == weighted(shared, weights))
    return cost


def find(problem: BankProblem, budget: Budget, seed: int) -> tuple[list[int] | None, Solution | None]:
    """Any packing: in coarse units and guided by several orders, then by the solver's own search.

    In fine units the bounds of addresses creep up by one unit at a time, and not even the clock stops that. Only the
    last search, of few requests in exact units, can prove that there is none. The solution is that of the last search,
    with the effort of all.
    """
    if len(problem.items) > MODELLED or not budget.searches:
        return None, None
    effort = NO_EFFORT
    last: Solution | None = None
    near = neighbours(problem.items)
    orders = (
        sorted(range(len(near)), key=lambda i: (-problem.items[i].size * len(near[i]), i)),
        sorted(range(len(near)), key=lambda i: (-problem.items[i].size, -problem.items[i].area, i)),
        sorted(range(len(near)), key=lambda i: (-problem.items[i].area, i)),
    )
    limit = min(GUIDED, budget.limit / 8)
    for units in UNITS:
        step = problem.capacity // units
        coarse = _coarser(problem, step)
        if step <= 1 or coarse is None:
            continue
        for order in orders:
            packing, last = _search(coarse, Budget(budget.seconds / 8, limit), seed, order)
            effort += last.effort
            if packing is not None:
                return [a * step for a in packing], replace(last, effort=effort)
    if len(near) <= EXACT:
        for order in (orders[0], None):
            packing, last = _search(problem, Budget(budget.seconds / 8, budget.limit / 8), seed, order)
            effort += last.effort
            if packing is not None or last.status == "infeasible":
                return packing, replace(last, effort=effort)
    return None, replace(last, status="unknown", effort=effort) if last is not None else None


def improve(
    problem: BankProblem, at: Sequence[int], budget: Budget, seed: int
) -> tuple[list[int] | None, Solution | None]:
    """A packing with less conflict than ``at``, if there are few enough requests to look for one."""
    if len(problem.items) > PAIRED or not budget.searches:
        return None, None
    model = Model(f"banks of {problem.memory.name}")
    address = addresses(problem, model)
    no_overlap(problem, model, address)
    model.minimize(_sharing(problem, model, address))
    for var, value in zip(address, at, strict=True):
        model.hint(var, value)
    solution = solve(model, budget=budget, seed=seed)
    return [solution.value(var) for var in address] if solution.has_solution else None, solution


def _coarser(problem: BankProblem, step: int) -> BankProblem | None:
    """The problem with sizes rounded up to ``step`` units; ``None`` if they are too much together then."""
    items = tuple(Item(-(-i.size // max(1, step)), i.first, i.last, i.again) for i in problem.items)
    capacity = problem.capacity // max(1, step)
    if any(sum(items[i].size for i in clique) > capacity for clique in cliques(items)):
        return None
    return replace(problem, items=items, capacity=capacity)


def _search(
    problem: BankProblem, budget: Budget, seed: int, order: Sequence[int] | None
) -> tuple[list[int] | None, Solution]:
    model = Model(f"banks of {problem.memory.name}")
    address = addresses(problem, model)
    no_overlap(problem, model, address)
    ordered(problem, model, address)
    if order is not None:
        model.lowest_first(address[i] for i in order)
    solution = solve(model, budget=budget, seed=seed)
    return [solution.value(var) for var in address] if solution.has_solution else None, solution


def addresses(problem: BankProblem, model: Model) -> list[Var]:
    """(1)"""
    return [
        model.int(0, problem.capacity - item.size, f"address[{request.name}]")
        for item, request in zip(problem.items, problem.requests, strict=True)
    ]
