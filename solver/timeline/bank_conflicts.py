"""Conflicts on banks of the memories that engines compute in, in the predicted timeline.

An instruction puts the bytes of each operand on the banks that hold it, evenly over its body, and goes at the pace of
the slowest one. Where operands of one instruction, or those of the matrix and of the vector engine at one time, ask
more of a bank than it serves, all are slowed in proportion (``docs/timing.md``, rule 15): by what each asks at the pace
that it would have alone on the machine, so that who asks for many times what a bank serves leaves little to the other.
What is known of an operand is its buffer: its bytes are taken to be spread evenly over it, while a tile may be in one
bank of several. Loads and stores, which ask for less, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.machine import Machine, Memory
from ...ir.plan import Plan
from ..cost.tile_walk import TileWalk, Work

BufferPlace = tuple[str, int, int]
"""Where a buffer is: memory, first address, bytes."""
Bank = tuple[str, int]
"""A memory, and the number of one of its banks."""
BankShares = Sequence[Mapping[Bank, float]]
"""Of each tensor of an operator: the banks that hold it, each with its part of it."""


@dataclass(frozen=True, eq=False)
class BankDemand:
    """What one engine asks of banks in a cycle of its work, in bytes, on average over an operator.

    That is at the pace at which it works where banks serve all that is asked of them.
    """

    rates: dict[Bank, float]


@dataclass(frozen=True, eq=False)
class OperatorBanks:
    """Of an operator at its addresses: how much longer its parts take for its own operands, and what it asks of banks.

    By the version of its buffers: ``matrix[v]`` and ``vector[v]`` are the demands of the engines, and
    ``slower[v][timing]`` by what part of them products and vector stages take longer than alone.
    """

    matrix: tuple[BankDemand, ...]
    vector: tuple[BankDemand, ...]
    slower: tuple[tuple[tuple[float, float], ...], ...]


class BankConflicts:
    """Conflicts on the banks of one machine; what was found is remembered."""

    def __init__(self, machine: Machine) -> None:
        self._memories = {m.name: m for m in machine.memories}
        self._shares: dict[BufferPlace, dict[Bank, float]] = {}
        self._lost: dict[tuple[int, int], tuple[BankDemand, BankDemand, tuple[float, float]]] = {}

    def operator(self, walk: TileWalk, places: Sequence[Sequence[BufferPlace]]) -> OperatorBanks:
        """``places``: of each of the operator's tensors, where the versions of its buffer are; empty if not known."""
        versions = max(map(len, places), default=1)
        usual = walk.timings[max(range(len(walk.timings)), key=walk.timing.count)]
        matrix: list[BankDemand] = []
        vector: list[BankDemand] = []
        slower: list[tuple[tuple[float, float], ...]] = []
        for version in range(max(1, versions)):
            shares = [self._share(p[version % len(p)]) if p else {} for p in places]
            matrix.append(self._demand(usual.products, shares))
            vector.append(self._demand(usual.stages, shares))
            slower.append(
                tuple((self._longer(t.products, shares), self._longer(t.stages, shares)) for t in walk.timings)
            )
        return OperatorBanks(tuple(matrix), tuple(vector), tuple(slower))

    def lost(self, one: BankDemand, other: BankDemand) -> tuple[float, float]:
        """The parts of their rates that two engines lose while both work, of what each has while it works alone."""
        key = (id(one), id(other))
        if key not in self._lost:
            lost = (1.0 - self._kept(one, other) / self._kept(one), 1.0 - self._kept(other, one) / self._kept(other))
            self._lost[key] = one, other, lost
        return self._lost[key][2]

    def _kept(self, one: BankDemand, other: BankDemand | None = None) -> float:
        """The part of its pace that banks leave an engine, alone or beside another one."""
        kept = 1.0
        for bank, rate in one.rates.items():
            served = self._memories[bank[0]].bytes_per_cycle
            wanted = rate + (other.rates.get(bank, 0.0) if other is not None else 0.0)
            kept = min(kept, served / max(served, wanted))
        return kept

    def _longer(self, runs: Sequence[Work], shares: BankShares) -> float:
        """By what part of the busy cycles runs take longer, since operands of each meet on banks."""
        busy = sum(run.busy for run in runs)
        if not busy:
            return 0.0
        extra = 0.0
        for run in runs:
            cycles = (load / self._memories[bank[0]].bytes_per_cycle for bank, load in _loads(run, shares).items())
            extra += max(0.0, max(cycles, default=0.0) - run.busy)
        return extra / busy

    def _demand(self, runs: Sequence[Work], shares: BankShares) -> BankDemand:
        rates: dict[Bank, float] = {}
        busy = max(1, sum(run.unlimited for run in runs))
        for run in runs:
            for bank, load in _loads(run, shares).items():
                rates[bank] = rates.get(bank, 0.0) + load / busy
        return BankDemand(rates)

    def _share(self, place: BufferPlace) -> dict[Bank, float]:
        """The banks that hold a buffer, each with its part of it."""
        if place not in self._shares:
            name, address, size = place
            self._shares[place] = bank_parts(self._memories[name], address, size)
        return self._shares[place]


def _loads(run: Work, shares: BankShares) -> dict[Bank, float]:
    """Bytes that a run puts on each bank; operands of which the place is not known are left out."""
    loads: dict[Bank, float] = {}
    for operand, served in run.traffic:
        for bank, part in shares[operand].items():
            loads[bank] = loads.get(bank, 0.0) + served * part
    return loads


def bank_parts(memory: Memory, address: int, size: int) -> dict[Bank, float]:
    """The part of these bytes in each bank of a memory."""
    return {(memory.name, bank): part for bank, part in _parts(memory, address, max(1, size)).items()}


def _parts(memory: Memory, address: int, size: int) -> dict[int, float]:
    """The part of these bytes in each bank."""
    block = memory.interleave or memory.capacity // memory.banks
    if size >= 2 * block * memory.banks:
        return dict.fromkeys(range(memory.banks), 1 / memory.banks)
    parts: dict[int, float] = {}
    for number in range(address // block, (address + size - 1) // block + 1):
        held = min(address + size, (number + 1) * block) - max(address, number * block)
        parts[number % memory.banks] = parts.get(number % memory.banks, 0.0) + held / size
    return parts


def buffer_places(machine: Machine, plan: Plan) -> dict[tuple[int, str, str], tuple[BufferPlace, ...]]:
    """By segment, operator (empty for data of the segment) and tensor: the versions of the buffers of a core.

    Weights in a memory of their own meet nothing but their loads (:mod:`.streams.weight_buffer`).
    """
    places: dict[tuple[int, str, str], tuple[BufferPlace, ...]] = {}
    levels = machine.levels
    data_memories = {level.name for level in (levels.activations, levels.sums)}
    for b in plan.local:
        if b.use != levels.weights.use or b.memory in data_memories:
            size = b.bytes // b.depth
            versions = tuple((b.memory, b.address + v * size, size) for v in range(b.depth))
            places[b.segment, "" if b.use == levels.activations.use else b.op, b.name] = versions
    return places
