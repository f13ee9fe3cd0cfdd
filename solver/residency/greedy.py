"""Greedy construction of residency decisions: the first good answer, for the solver to improve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .decisions import Decisions, NoFetch, Source
from .evaluation import Effect, effects, held_bytes, resident_effect, source_effect, spilled_effect
from .problem import ResidencyProblem


@dataclass(frozen=True)
class SlotOverflow:
    """A slot that even the least of everything overfills, by ``bytes``; ``tensors`` are what it needs."""

    slot: int
    bytes: int
    tensors: tuple[str, ...]


class Greedy:
    """Builds decisions that fit into ``room`` (bytes by slot): spill everything, then retain.

    Everything is fetched in the slot of its use; :mod:`.fetch_slots` moves that ahead.
    """

    def __init__(self, problem: ResidencyProblem, room: NDArray[np.int64]) -> None:
        self.problem = problem
        self.room = room.copy()
        self.resident = [False] * len(problem.intermediates)
        self.source: list[list[Source]] = [[use.slot for use in item.uses] for item in problem.items]
        self.circular: dict[tuple[str, int], int] = {}

    def copy(self) -> Greedy:
        """The same decisions, to go on from."""
        other = Greedy(self.problem, self.room)
        other.resident, other.circular = self.resident.copy(), self.circular.copy()
        other.source = [row.copy() for row in self.source]
        return other

    def decisions(self) -> Decisions:
        """The decisions so far."""
        return Decisions(tuple(self.resident), tuple(tuple(row) for row in self.source), dict(self.circular))

    def spill_all(self) -> SlotOverflow | None:
        """Everything in main memory and fetched where it is used; circular buffers where that is too much."""
        problem = self.problem
        self.room -= held_bytes(len(self.room), effects(problem, self.decisions()))
        for slot in (int(s) for s in np.flatnonzero(self.room < 0)):
            options = [(tensor, buffers) for (tensor, s), buffers in problem.circular.items() if s == slot]
            for tensor, buffers in sorted(options, key=lambda o: -self._streamed_bytes(o[0], slot)):
                held = self._streamed_bytes(tensor, slot)
                smaller = [o for o, buffer in enumerate(buffers) if buffer.bytes < held]
                if self.room[slot] >= 0 or not smaller:
                    continue
                fitting = [o for o in smaller if self.room[slot] + held - buffers[o].bytes >= 0]
                option = fitting[0] if fitting else min(smaller, key=lambda o: buffers[o].bytes)
                self.room[slot] += held - buffers[option].bytes
                self._use_circular(tensor, slot, option)
            if self.room[slot] < 0:
                return SlotOverflow(slot, int(-self.room[slot]), self._tensors_used(slot))
        return None

    def retain(self, favour: float = 1.0) -> None:
        """Let intermediates stay and items last to their next use: what saves most for the memory and time it takes.

        ``favour``: how much more a cycle saved on intermediates counts: they are written late and needed soon.
        """
        problem = self.problem
        readers: dict[int, list[int]] = {}
        for i, item in enumerate(problem.items):
            if item.intermediate is not None:
                readers.setdefault(item.intermediate, []).append(i)
        ranked: list[tuple[float, int, int, int]] = []
        for p, tensor in enumerate(problem.intermediates):
            if tensor.may_be_resident:
                saved = sum(block.cycles for _, block in tensor.writes)
                saved -= tensor.block.cycles if tensor.stored else 0
                saved += sum(problem.items[i].cycles * len(problem.items[i].uses) for i in readers.get(p, []))
                ranked.append((-favour * saved / (tensor.block.bytes * (tensor.live[1] - tensor.live[0])), 0, p, 0))
        for i, item in enumerate(problem.items):
            for k, (first, second) in enumerate(zip(item.uses, item.uses[1:], strict=False)):
                if self._fetched(i, k) and self._fetched(i, k + 1):
                    room = item.bytes * (second.slot - first.slot - 1)
                    ranked.append((-item.cycles / max(1, room), 1, i, k + 1))
        for _, kind, number, k in sorted(ranked):
            if kind == 0:
                self._make_resident(number, readers.get(number, []))
            else:
                self._retain_item(number, k)

    def _make_resident(self, p: int, readers: list[int]) -> None:
        """Leave an intermediate in the memory, if there is room; its readers then need nothing of their own."""
        slots = len(self.room)
        replaced = [spilled_effect(self.problem, p), *(e for i in readers for e in self._effects(i))]
        change = held_bytes(slots, [resident_effect(self.problem, p)]) - held_bytes(slots, replaced)
        if (change <= self.room).all():
            self.room -= change
            self.resident[p] = True
            for i in readers:
                self.source[i] = [NoFetch.RESIDENT] * len(self.source[i])

    def _retain_item(self, i: int, k: int) -> None:
        """Keep what is there for use ``k - 1`` until use ``k``, if there is room."""
        item = self.problem.items[i]
        between = slice(item.uses[k - 1].slot + 1, item.uses[k].slot)
        if self._fetched(i, k) and (self.room[between] >= item.bytes).all():
            self.room[between] -= item.bytes
            self.source[i][k] = NoFetch.RETAINED

    def _fetched(self, i: int, k: int) -> bool:
        return not isinstance(self.source[i][k], NoFetch)

    def _effects(self, i: int) -> list[Effect]:
        return [source_effect(self.problem, i, k, source) for k, source in enumerate(self.source[i])]

    def _streamed_bytes(self, tensor: str, slot: int) -> int:
        return sum(
            item.bytes
            for item in self.problem.items
            if item.streamed == tensor and any(use.slot == slot for use in item.uses)
        )

    def _use_circular(self, tensor: str, slot: int, option: int) -> None:
        self.circular[tensor, slot] = option
        for i, item in enumerate(self.problem.items):
            if item.streamed == tensor:
                for k, use in enumerate(item.uses):
                    if use.slot == slot:
                        self.source[i][k] = NoFetch.CIRCULAR

    def _tensors_used(self, slot: int) -> tuple[str, ...]:
        """What a slot needs, the largest first."""
        blocks = [block for tensor in self.problem.intermediates for s, block in tensor.writes if s == slot]
        blocks += [
            block for item in self.problem.items if any(use.slot == slot for use in item.uses) for block in item.blocks
        ]
        return tuple(dict.fromkeys(b.tensor for b in sorted(blocks, key=lambda b: (-b.bytes, b.tensor))))
