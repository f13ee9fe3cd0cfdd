"""From residency's decisions to buffers: those that the bank model has to place, and those in main memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...ir.box import Box
from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Machine, Memory
from ...ir.plan import SharedBuffer, Solved
from ..banks.problem import BufferRequest
from ..banks.solve import Placement, PlacementOverflow, place
from ..cpsat.backend import Budget
from ..effort import NO_EFFORT, Effort, InfeasibleSearchError, SearchPoint, thinned
from .decisions import Decisions, NoFetch, ResidencyTiming, Source
from .evaluation import evaluate_decisions
from .homes import AddressFinder, HomeAccesses, Homes, place_homes
from .neighbourhood import ResidencyIncumbent
from .problem import ResidencyProblem
from .repair import MovableRequest, repair

Region = tuple[str, int, int, int]
"""A region of a circular buffer: operand, slot, part, turn."""


@dataclass(frozen=True)
class PlannedBuffer:
    """A buffer of the shared memory without an address.

    ``live``: first slot, and the one after the last. ``use``: the slot that it is there for, which a fetch may come as
    late as. ``source``: the item and the use that it is fetched for. ``region``: of a circular buffer, where the chunk
    takes its turn.
    """

    tensor: str
    box: Box
    bytes: int
    live: tuple[int, int]
    use: int
    fetch: bool = False
    store: bool = False
    ring_position: int = 0
    source: tuple[int, int] | None = None
    region: Region | None = None

    def at(self, memory: str, address: int) -> SharedBuffer:
        """The buffer at an address."""
        # Two regions take turns: the next position can be fetched while tiles need the one before it.
        lead = min(1, self.ring_position)
        return SharedBuffer(
            self.tensor, self.box, memory, address, self.bytes, self.live, self.fetch, self.store, self.ring_position,
            lead,
        )  # fmt: skip


@dataclass(frozen=True)
class Residency:
    """``planned`` buffers of the shared ``memory`` in the order of the program, and ``homes`` in main memory.

    ``requests`` ask for places in the memory, ``request_of`` says which of them each buffer takes: chunks of a circular
    buffer take turns in one. ``timing``: what the model expects.
    """

    memory: str
    planned: tuple[PlannedBuffer, ...]
    homes: Homes
    requests: tuple[BufferRequest, ...]
    request_of: tuple[int, ...]
    solved: Solved
    timing: ResidencyTiming
    effort: Effort = NO_EFFORT

    @property
    def is_packed(self) -> bool:
        """Whether addresses for all requests are known."""
        return all(request.at is not None for request in self.requests)

    def placed(self, addresses: Sequence[int]) -> tuple[SharedBuffer, ...]:
        """All buffers, those of the shared memory at the ``addresses`` of the requests."""
        shared = (p.at(self.memory, addresses[r]) for p, r in zip(self.planned, self.request_of, strict=True))
        return (*shared, *self.homes.buffers)


def residency(
    graph: Graph, machine: Machine, problem: ResidencyProblem, answer: ResidencyIncumbent, *, budget: Budget, seed: int
) -> Residency:
    """The buffers that follow from the decisions; fetches are delayed where first fit finds no addresses.

    Raises :class:`InfeasibleSearchError` if main memory is too small.
    """
    memory = machine.levels.exchange.memory
    planned = list(planned_buffers(problem, answer.decisions))
    movable, request_of = requests(planned)

    def cost(repaired: Sequence[BufferRequest]) -> float:
        moved = [replace(p, live=repaired[r].live) for p, r in zip(planned, request_of, strict=True)]
        return evaluate_decisions(problem, _delayed(answer.decisions, moved)).objective

    repair_answer = repair(movable, memory, cost=cost, budget=budget, seed=seed)
    repaired, effort = repair_answer.requests, answer.effort + repair_answer.effort
    decisions, placed = answer.decisions, tuple(m.request for m in movable)
    if repaired is not None:
        placed = repaired
        planned = [replace(p, live=repaired[r].live) for p, r in zip(planned, request_of, strict=True)]
        decisions = _delayed(decisions, planned)
    timing = evaluate_decisions(problem, decisions)
    delayed = timing.objective > answer.timing.objective
    if delayed and effort.points:
        last = SearchPoint(effort.deterministic_seconds, float(timing.objective), answer.bound)
        effort = replace(effort, points=thinned((*effort.points, last)))
    status = "feasible" if delayed and answer.status == "optimal" else answer.status
    order = program_order(planned)

    def placed_homes(wanted: tuple[BufferRequest, ...], level: Memory) -> Placement | PlacementOverflow:
        return place(wanted, level, budget=budget, seed=seed)

    try:
        homes = main_buffers(graph, machine, problem, decisions, planned, placed_homes)
    except InfeasibleError as error:
        searched = error.effort if isinstance(error, InfeasibleSearchError) else NO_EFFORT
        raise InfeasibleSearchError(str(error), effort + searched) from None
    return Residency(
        memory.name,
        tuple(planned[i] for i in order),
        homes,
        placed,
        tuple(request_of[i] for i in order),
        Solved("residency", status, float(timing.objective), answer.bound, "cycles, weighted"),
        timing,
        effort,
    )


def program_order(planned: Sequence[PlannedBuffer]) -> list[int]:
    """The buffers in the order in which they begin; of several in one slot, in the order of their use."""
    return sorted(range(len(planned)), key=lambda i: (planned[i].live[0], planned[i].use, i))


def main_buffers(
    graph: Graph, machine: Machine, problem: ResidencyProblem, decisions: Decisions, planned: Sequence[PlannedBuffer],
    place: AddressFinder,
) -> Homes:  # fmt: skip
    """The buffers in main memory, that of each spilled intermediate included.

    ``planned``: what the decisions put into the shared memory, in the slots that it was moved to.
    """
    tensors = zip(problem.intermediates, decisions.resident, strict=True)
    spilled = (tensor.block.tensor for tensor, resident in tensors if not resident)
    accesses = HomeAccesses(dict(problem.host_slots))
    for buffer in planned:
        # What is stored is written in its first slot alone.
        if buffer.fetch or buffer.store:
            accesses.note(buffer.tensor, buffer.live[0])
    return place_homes(graph, machine, (*problem.main_tensors, *spilled), accesses.spans, problem.slot_ops, place)


def planned_buffers(problem: ResidencyProblem, decisions: Decisions) -> Iterator[PlannedBuffer]:
    """What the decisions put into the shared memory."""
    for tensor, resident in zip(problem.intermediates, decisions.resident, strict=True):
        if resident:
            block = tensor.block
            yield PlannedBuffer(block.tensor, block.box, block.bytes, tensor.live, tensor.live[0], store=tensor.stored)
        else:
            for slot, block in tensor.writes:
                yield PlannedBuffer(block.tensor, block.box, block.bytes, (slot, slot + 1), slot, store=True)
    for i, (item, row) in enumerate(zip(problem.items, decisions.source, strict=True)):
        for k, first, last in _lifetimes(row):
            live, use = (first, item.uses[last].slot + 1), item.uses[k].slot
            for block in item.blocks:
                yield PlannedBuffer(block.tensor, block.box, block.bytes, live, use, fetch=True, source=(i, k))
    for (tensor, slot), option in decisions.circular.items():
        for chunk in problem.circular[tensor, slot][option].chunks:
            region = (tensor, slot, chunk.part, chunk.ring_position % 2)
            live = (slot, slot + 1)
            yield PlannedBuffer(
                tensor, chunk.box, chunk.bytes, live, slot, fetch=True, ring_position=chunk.ring_position, region=region
            )


def _lifetimes(row: Sequence[Source]) -> Iterator[tuple[int, int, int]]:
    """(use, slot of its fetch, last use that it is retained for) of each fetch of an item."""
    for k, source in enumerate(row):
        if not isinstance(source, NoFetch):
            last = k
            while last + 1 < len(row) and row[last + 1] is NoFetch.RETAINED:
                last += 1
            yield k, source, last


def requests(planned: Sequence[PlannedBuffer]) -> tuple[list[MovableRequest], list[int]]:
    """What to place, and which of it each buffer takes."""
    movable: list[MovableRequest] = []
    request_of: list[int] = []
    regions: dict[Region, int] = {}
    for p in planned:
        if p.region is not None and p.region in regions:
            number = regions[p.region]
            request = movable[number].request
            request = replace(request, bytes=max(request.bytes, p.bytes))
            movable[number] = replace(movable[number], request=request)
        else:
            number = len(movable)
            name = p.tensor if p.region is None else f"{p.tensor} (region {p.region[3]})"
            movable.append(MovableRequest(BufferRequest(name, p.bytes, p.live), p.use))
            if p.region is not None:
                regions[p.region] = number
        request_of.append(number)
    return movable, request_of


def _delayed(decisions: Decisions, planned: Sequence[PlannedBuffer]) -> Decisions:
    """The decisions with fetches in the slots that they were moved to."""
    source = [list(row) for row in decisions.source]
    latest: dict[tuple[int, int], int] = {}
    for p in planned:
        if p.source is not None:
            latest[p.source] = max(latest.get(p.source, 0), p.live[0])
    for (i, k), slot in latest.items():
        source[i][k] = slot
    return Decisions(decisions.resident, tuple(tuple(row) for row in source), decisions.circular)
