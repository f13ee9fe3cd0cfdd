"""Weight separation: addresses in weight memory over the whole program, so that weights can be loaded early.

Sets and data: weight buffers i with d_i versions, z_i units in all; capacity C; meetings (i, j, v): where version v of
j shares bytes with i, which is used shortly before it, loads wait for w_ijv cycles. Buffers of different operators
never live at one time, so that any addresses are valid.

Variables: a_i, the address; for each meeting s_ijv, whether they share bytes, and two more for where they lie if not.

Constraints:
 (1) capacity: 0 <= a_i <= C - z_i; buffers outside of the window that is searched stay where they are.
 (2) sharing: s_ijv, or i ends below v: a_i + z_i <= a_j + v z_j / d_j, or begins above it:
     a_j + (v + 1) z_j / d_j <= a_i.

Objective: minimise the sum of w_ijv s_ijv. 0 is a bound for the whole program.

Relaxations: waits are added, though those for two buffers can be one, and are estimated from predicted times
(:mod:`.separation_problem`); whether the plan gains, the prediction says. Windows are searched one after the other,
from addresses that were improved greedily; equal windows once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..cpsat.backend import Budget, Model, Var, solve, weighted
from ..effort import NO_EFFORT, Effort
from .separation_problem import Meeting, SeparationProblem

WINDOW = 32
"""Buffers in one model; the next window begins after half as many. Chosen."""
MOST_SEARCHES = 16
"""Searches for one program; chosen, to bound the time."""


@dataclass(frozen=True)
class _Window:
    """Buffers of a problem by new numbers: the first ``free`` of them may move."""

    problem: SeparationProblem
    free: int
    at: tuple[int, ...]
    numbers: tuple[int, ...]

    @property
    def key(self) -> tuple[object, ...]:
        return self.problem, self.free, self.at


def separate(problem: SeparationProblem, at: Sequence[int], budget: Budget, seed: int) -> tuple[list[int], Effort]:
    """Addresses with no more waits than ``at``, and the effort for them."""
    addresses = list(at)
    if not budget.searches:
        return addresses, NO_EFFORT
    known: dict[tuple[object, ...], list[int]] = {}
    effort = NO_EFFORT
    for members in _windows(len(problem.sizes)):
        window = _window(problem, addresses, members)
        if not window.problem.waits(window.at):
            continue
        if window.key not in known:
            if len(known) == MOST_SEARCHES:
                break
            known[window.key], searched = _search(window, budget, seed)
            effort += searched
        for number, address in zip(window.numbers, known[window.key], strict=True):
            addresses[number] = address
    return addresses, effort


def _windows(count: int) -> Iterator[range]:
    for first in range(0, max(1, count - WINDOW // 2), WINDOW // 2):
        yield range(first, min(count, first + WINDOW))


def _window(problem: SeparationProblem, at: Sequence[int], members: range) -> _Window:
    """The members, and the buffers that they meet, which stay where they are."""
    met = dict.fromkeys(m for i in members for m in problem.meetings_by_buffer[i])
    outside = dict.fromkeys(i for m in met for i in (m.earlier, m.later) if i not in members)
    numbers = (*members, *outside)
    place = {number: i for i, number in enumerate(numbers)}
    meetings = tuple(Meeting(place[m.earlier], place[m.later], m.version, m.cycles) for m in met)
    part = SeparationProblem(
        tuple(problem.sizes[i] for i in numbers), tuple(problem.depths[i] for i in numbers), problem.capacity, meetings
    )
    return _Window(part, len(members), tuple(at[i] for i in numbers), numbers)


def _search(window: _Window, budget: Budget, seed: int) -> tuple[list[int], Effort]:
    problem, at = window.problem, window.at
    model = Model("weight separation")
    address: list[Var] = []
    for i, size in enumerate(problem.sizes):
        # (1)
        first, last = (0, problem.capacity - size) if i < window.free else (at[i], at[i])
        address.append(model.int(first, last, f"address[{i}]"))
        model.hint(address[i], at[i])
    shared = [_shared(model, problem, meeting, address, at) for meeting in problem.meetings]
    model.minimize(weighted(shared, [m.cycles for m in problem.meetings]))
    solution = solve(model, budget=budget, seed=seed)
    candidate = [solution.value(a) for a in address] if solution.has_solution else list(at)
    return min([list(at), candidate], key=problem.waits), solution.effort


def _shared(
    model: Model, problem: SeparationProblem, meeting: Meeting, address: Sequence[Var], at: Sequence[int]
) -> Var:
    """(2)"""
    i, j, (offset, size) = meeting.earlier, meeting.later, problem.span(meeting)
    name = f"{i}, {j}, {meeting.version}"
    share, below, above = (model.bool(f"{what}[{name}]") for what in ("share", "below", "above"))
    model.exactly_one([share, below, above])
    model.add(address[i] + problem.sizes[i] <= address[j] + offset, when=below)
    model.add(address[j] + offset + size <= address[i], when=above)
    together = problem.share(meeting, at[i], at[j])
    model.hint(share, together)
    model.hint(below, not together and at[i] < at[j] + offset)
    model.hint(above, not together and at[i] >= at[j] + offset)
    return share
