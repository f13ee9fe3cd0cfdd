"""Homes: the places of whole tensors in main memory, and when each of them is needed.

Where all homes fit side by side, each has its bytes for the whole run: sharing them would make writes wait for reads
that have nothing to do with them. Where they do not, a result has its home from the first slot that writes it to the
last that reads it, and homes whose lives do not meet share addresses. They are placed as buffers of any other memory
are, by model 5 (:mod:`girih.solver.banks.model`).

Inputs and outputs of the graph and constants keep their homes for the whole run in any case: the user writes them
before it and reads them after it, as often as he likes, and constants are written once for many runs. They lie below
all others, which loses nothing: what lives all the time divides the addresses, and its order does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...ir.box import full
from ...ir.graph import Graph
from ...ir.machine import Machine, Memory
from ...ir.plan import Segment, SharedBuffer, Solved, Step
from ...ir.semantics.cell import leaving
from ..banks.problem import BufferRequest
from ..banks.solve import Placement, PlacementOverflow
from ..cost.local_buffers import is_streamed, lifetimes, round_up
from ..effort import NO_EFFORT, Effort, InfeasibleSearchError

AddressFinder = Callable[[tuple[BufferRequest, ...], Memory], Placement | PlacementOverflow]
"""Finds an address for each request."""


@dataclass(frozen=True)
class Homes:
    """A buffer for each whole tensor; what was ``solved`` for those that share addresses, if any do, and the effort."""

    buffers: tuple[SharedBuffer, ...]
    solved: Solved | None = None
    effort: Effort = NO_EFFORT


class HomesOverflowError(InfeasibleSearchError):
    """Results that live in ``slot`` have no room in main memory: ``need`` bytes, or as many in the best packing known.

    ``slot`` is ``None`` if it is not for them: what is there for the whole run has no room by itself.
    """

    def __init__(self, message: str, effort: Effort, need: int, slot: int | None) -> None:
        super().__init__(message, effort)
        self.need = need
        self.slot = slot


@dataclass
class HomeAccesses:
    """The first and the last slot in which each tensor is written or read in main memory."""

    spans: dict[str, tuple[int, int]]

    def note(self, tensor: str, slot: int) -> None:
        """One more access."""
        first, last = self.spans.get(tensor, (slot, slot))
        self.spans[tensor] = min(first, slot), max(last, slot)


def place_homes(
    graph: Graph, machine: Machine, names: Iterable[str], spans: Mapping[str, tuple[int, int]], ops: Sequence[str],
    place: AddressFinder,
) -> Homes:  # fmt: skip
    """Homes of the named tensors, in the order of the graph's tensors.

    Constants have theirs in the memory for constants, if there is one. ``spans``: first and last slot of the accesses
    to a tensor there; ``ops``: the operator of each slot.

    Raises :class:`HomesOverflowError` if a memory is too small.
    """
    chosen = frozenset(names)
    levels = machine.levels
    end = dict.fromkeys((levels.constants.name, levels.home.name), 0)
    buffers: list[SharedBuffer] = []
    for tensor in graph.tensors:
        if tensor.name in chosen:
            home = levels.home_of(constant=tensor.name in graph.constant_names)
            size = round_up(max(1, tensor.bytes), home.alignment)
            place_of_all = (home.name, end[home.name], size, (0, len(ops)))
            buffers.append(SharedBuffer(tensor.name, full(tensor.shape), *place_of_all))
            end[home.name] += size
    if end[levels.constants.name] > levels.constants.capacity and levels.has_constants:
        raise _refusal(machine, levels.constants.memory, buffers, end[levels.constants.name])
    if end[levels.home.name] <= levels.home.capacity:
        return Homes(tuple(buffers))
    return _sharing(graph, machine, buffers, spans, ops, place)


def _sharing(
    graph: Graph, machine: Machine, buffers: Sequence[SharedBuffer], spans: Mapping[str, tuple[int, int]],
    ops: Sequence[str], place: AddressFinder,
) -> Homes:  # fmt: skip
    """The homes in main memory by their lives."""
    memory = machine.levels.home.memory
    kept = graph.constant_names | graph.input_tensors | graph.output_tensors
    base = 0
    addressed: dict[str, SharedBuffer] = {}
    lived: list[SharedBuffer] = []
    for buffer in buffers:
        if buffer.memory == memory.name and buffer.tensor in spans and buffer.tensor not in kept:
            first, last = spans[buffer.tensor]
            lived.append(replace(buffer, live=(first, last + 1)))
        elif buffer.memory == memory.name:
            addressed[buffer.tensor] = replace(buffer, address=base)
            base += buffer.bytes
        else:
            addressed[buffer.tensor] = buffer
    if base > memory.capacity:
        raise _refusal(machine, memory, buffers, base)
    requests = tuple(BufferRequest(b.tensor, b.bytes, b.live) for b in lived)
    # No home is kept apart from another one's bank.
    answer = place(requests, replace(memory, capacity=memory.capacity - base, banks=1, interleave=0))
    if isinstance(answer, PlacementOverflow):
        names = frozenset(answer.names)
        involved = [b for b in buffers if b.tensor in names or (b.tensor in addressed and b.memory == memory.name)]
        raise _refusal(machine, memory, involved, base + answer.need, ops[answer.live[0]], answer)
    for buffer, address in zip(lived, answer.addresses, strict=True):
        addressed[buffer.tensor] = replace(buffer, address=base + address)
    return Homes(tuple(addressed[b.tensor] for b in buffers), answer.solved, answer.effort)


def _refusal(
    machine: Machine, memory: Memory, buffers: Sequence[SharedBuffer], need: int, op: str = "",
    overflow: PlacementOverflow | None = None,
) -> HomesOverflowError:  # fmt: skip
    """``need`` bytes of a memory are too many for these buffers, if there is an overflow while ``op`` runs."""
    levels = machine.levels
    largest = max((b for b in buffers if b.memory == memory.name), key=lambda b: b.bytes)
    kind, what = "main memory", "inputs, outputs and stored results need"
    if not levels.has_constants:
        what = f"constants, {what}"
    elif memory == levels.constants.memory:
        kind, what = "read-only memory" if memory.read_only else "main memory", "constants need"
    at, how = "", ""
    if overflow is not None:
        at, how = f"operator {op}: ", " at once" if overflow.proven else " in the best packing that was found"
    message = (
        f"{at}the {kind} {memory.name} of {machine.name} holds {memory.capacity:,} bytes, and {what} "
        f"{need:,}{how}, {need - memory.capacity:,} too many; the largest is "
        f"{largest.tensor} with {largest.bytes:,}: take a smaller batch, a lower precision or another target"
    )
    if overflow is None:
        return HomesOverflowError(message, NO_EFFORT, need, None)
    return HomesOverflowError(message, overflow.effort, need, overflow.live[0])


def homes_without_exchange(
    graph: Graph, machine: Machine, segments: Sequence[Segment], steps: Sequence[Step], place: AddressFinder
) -> Homes:
    """Homes where cores load from main memory: of each port and each tensor that crosses segments.

    Raises :class:`HomesOverflowError` if main memory is too small.
    """
    names = {*graph.input_tensors, *graph.output_tensors}
    accesses = HomeAccesses({})
    # By segment: its tensors in main memory, each with the positions of its accesses.
    touched = [tuple(_touched(graph, segment)) for segment in segments]
    ops: list[str] = []
    for step in steps:
        for name, position in touched[step.segment]:
            names.add(name)
            accesses.note(name, len(ops) + position)
        ops += segments[step.segment].ops
    return place_homes(graph, machine, names, accesses.spans, ops, place)


def _touched(graph: Graph, segment: Segment) -> Iterable[tuple[str, int]]:
    """The tensors in main memory that a segment reads and writes, and at which of its positions."""
    ops = tuple(graph.op[name] for name in segment.ops)
    if ops[0].host is not None:
        yield from ((name, 0) for name in (*ops[0].inputs, *ops[0].outputs))
        return
    results = {op.output for op in ops}
    for name, life in lifetimes(graph, segment).items():
        if name not in results:
            # Weights are streamed while their operators run, but they are constants.
            yield name, life.last if is_streamed(graph, segment, name) else life.first
    out = {op.name for op in leaving(graph, ops)}
    yield from ((op.output, position) for position, op in enumerate(ops) if op.name in out)
