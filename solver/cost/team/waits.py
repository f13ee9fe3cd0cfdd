"""Waits among the engines that share vector instructions, for what another of them has made.

Each takes a part of every instruction (:mod:`girih.lowering.emission.engine_shares`); where the parts of two
instructions do not meet, the second waits until the results of the first are visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, product
from math import ceil, prod

from ....ir.equivalence import tensor_names
from ....ir.graph import Op
from ....ir.isa.timing import divisions
from ....ir.machine import Engine
from ..instruction_shape import InstructionShape, ShapedOperand

Hulls = list[tuple[int, int]]
"""Of each engine, the first element that it touches of a tensor, and the one behind the last."""


@dataclass(frozen=True)
class TeamShares:
    """What the engines write of a tile's result at last, and what they read of its inputs at first.

    Counted from the corner of what the tile has of each. ``read`` is by the position of an input among the operator's
    :func:`~girih.ir.equivalence.tensor_names`. ``None``, or missing: not known.
    """

    written: Hulls | None
    read: Mapping[int, Hulls | None]

    def waits_for(self, operand: int, producer: TeamShares) -> bool | None:
        """Whether an engine first reads of an operand what another of the ``producer`` wrote; ``None``: not known."""
        read = self.read.get(operand)
        return None if read is None or producer.written is None else meet(read, producer.written)


_Parts = tuple[dict[str, tuple[int, int]], ...]
"""Of each engine, the first and the number of each extent that is cut."""


@dataclass
class _Use:
    """Instructions that touch a place: when each engine was over, the bytes of each, and whether they write."""

    over: list[float]
    bytes: Hulls | None
    writes: bool


@dataclass
class TeamWaits:
    """Follows the instructions of a tile, in program order, on engines that share them.

    ``engine`` stands for all of them. ``lanes``: how many elements of a tensor's dtype an instruction takes at once;
    ``items``: bytes of one; ``rooms``: of private buffers, what shares an address has one number.
    """

    engine: Engine
    lanes: Mapping[str, int]
    items: Mapping[str, int]
    rooms: Mapping[str, int]
    _clocks: list[float] = field(init=False)
    """By engine, until when it is occupied."""
    _written: dict[str, Hulls | None] = field(default_factory=dict[str, "Hulls | None"])
    """Of each tensor, what each engine has written last; not known where instructions were dealt out."""
    _read: dict[str, Hulls | None] = field(default_factory=dict[str, "Hulls | None"])
    """What each has read of tensors before anything had written to them."""
    _uses: dict[int | str, list[_Use]] = field(default_factory=dict[int | str, list[_Use]])
    """By room, or tensor, the last instructions that others may have to wait for."""

    def __post_init__(self) -> None:
        self._clocks = [0.0] * self.engine.count

    def shares(self, op: Op) -> TeamShares:
        """What is known by now of a tile of this operator."""
        read = {number: self._read[name] for number, name in enumerate(tensor_names(op)) if name in self._read}
        return TeamShares(self._written.get(op.output), read)

    def run(self, shapes: Sequence[InstructionShape], busy: float) -> int:
        """By how many cycles the last engine is later for instructions that keep each ``busy`` for so many."""
        before = max(self._clocks)
        slower = busy / max(1, sum(shape.busy for shape in shapes))
        for shape in shapes:
            self._instructions(shape, slower)
        return round(max(self._clocks) - before)

    def _instructions(self, shape: InstructionShape, slower: float) -> None:
        parts, cycles = self._division(shape)
        hulls = [None if parts is None else [_hull(o, shape.sizes, part) for part in parts] for o in shape.operands]
        begins = list(self._clocks)
        for number, (operand, spans) in enumerate(zip(shape.operands, hulls, strict=True)):
            self._await(begins, operand, spans, writes=not number)
        self._clocks = [begun + shape.count * cycles * slower for begun in begins]
        for number, (operand, spans) in reversed(list(enumerate(zip(shape.operands, hulls, strict=True)))):
            name = operand.tensor
            if not number:
                self._written[name] = spans
            elif name not in self._written:
                self._read.setdefault(name, spans)
                continue
            use = _Use(self._clocks, self._bytes(name, spans), not number)
            self._uses.setdefault(self.rooms.get(name, name), []).append(use)

    def _division(self, shape: InstructionShape) -> tuple[_Parts | None, float]:
        """The part of each engine of every instruction, and its cycles; no parts where whole ones are dealt out.

        As the lowering chooses it: that which is done first, a wait for what others have made counted.
        """
        whole = shape.busy / max(1, shape.count)
        lanes = self._lanes(shape)
        if shape.count > 1 and whole - self.engine.issue >= _body(shape.sizes, lanes):
            return None, whole
        result = shape.operands[0]
        reads = [o for o in (*shape.operands[1:], *([result] if result.added else [])) if o.tensor in self._written]
        best: tuple[float, _Parts, float] | None = None
        for cycles, parts in _divisions(self.engine, shape, lanes, whole):
            if best is not None and cycles >= best[0]:
                break
            waits = any(meet([_hull(o, shape.sizes, part) for part in parts], self._written[o.tensor]) for o in reads)
            done = cycles + (self.engine.latency if waits else 0)
            if best is None or done < best[0]:
                best = done, parts, cycles
        assert best is not None
        return best[1], best[2]

    def _await(self, begins: list[float], operand: ShapedOperand, spans: Hulls | None, *, writes: bool) -> None:
        """Let each engine begin when what others did with the bytes that it touches is visible."""
        place = self.rooms.get(operand.tensor, operand.tensor)
        latency = self.engine.latency
        uses = [use for use in self._uses.get(place, ()) if max(use.over) + latency > min(begins)]
        if not uses:
            self._uses.pop(place, None)
            return
        self._uses[place] = uses
        touched = self._bytes(operand.tensor, spans)
        for use in uses:
            if not (writes or use.writes):
                continue
            if touched is None or use.bytes is None:
                if touched is not use.bytes:
                    begins[:] = [max(begun, max(use.over) + latency) for begun in begins]
                continue
            for number, (low, high) in enumerate(touched):
                for other, (begin, end) in enumerate(use.bytes):
                    if low < end and begin < high and other != number:
                        begins[number] = max(begins[number], use.over[other] + latency)

    def _bytes(self, tensor: str, spans: Hulls | None) -> Hulls | None:
        item = self.items.get(tensor, 1)
        return None if spans is None else [(low * item, high * item) for low, high in spans]

    def _lanes(self, shape: InstructionShape) -> int:
        """How many elements the lanes take at once: of the result, or of what is folded or visited by windows."""
        elementwise = next(reversed(shape.sizes), "") in shape.units and "kh" not in shape.sizes
        return self.lanes.get(shape.operands[0 if elementwise or len(shape.operands) < 2 else 1].tensor, 1)


def meet(read: Hulls | None, written: Hulls | None) -> bool:
    """Whether an engine reads what another one has written; what is dealt out goes to the same ones."""
    if read is None or written is None:
        return read is not written
    return any(
        other != number and low < end and begin < high
        for number, (low, high) in enumerate(read)
        for other, (begin, end) in enumerate(written)
    )


def _divisions(engine: Engine, shape: InstructionShape, lanes: int, whole: float) -> list[tuple[float, _Parts]]:
    """Ways to cut an instruction, by the cycles of the largest part; the least of them is ``whole``."""
    moving = shape.operands[0].moving
    names = [name for name in shape.sizes if name in shape.units and name in moving]
    bodies: list[tuple[int, _Parts]] = []
    for counts in divisions(tuple(shape.sizes[n] for n in names), engine.count):
        count = dict(zip(names, counts, strict=True))
        largest = {n: ceil(size / count.get(n, 1)) for n, size in shape.sizes.items()}
        bodies.append((_body(largest, lanes), tuple(_parts(shape.sizes, count))))
    scale = (whole - engine.issue) / max(1, min(body for body, _ in bodies))
    return sorted(((engine.issue + body * scale, parts) for body, parts in bodies), key=lambda division: division[0])


def _body(sizes: Mapping[str, int], lanes: int) -> int:
    """Steps of an instruction of these extents, of which ``n2``, or ``p`` times ``n``, lies along the lanes."""
    along = prod(size for name, size in sizes.items() if name in ("n2", "p", "n"))
    return ceil(along / lanes) * prod(size for name, size in sizes.items() if name not in ("n2", "p", "n"))


def _parts(sizes: Mapping[str, int], count: Mapping[str, int]) -> Iterator[dict[str, tuple[int, int]]]:
    """The parts of an instruction in the order of the engines, the larger ones first."""
    spans: list[list[tuple[int, int]]] = []
    for name, parts in count.items():
        each = [sizes[name] // parts + (i < sizes[name] % parts) for i in range(parts)]
        spans.append(list(zip(accumulate(each, initial=0), each, strict=False)))
    for choice in product(*spans):
        yield dict(zip(count, choice, strict=True))


def _hull(operand: ShapedOperand, sizes: Mapping[str, int], part: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """The first element of an operand that a part touches, and the one behind the last."""
    low, high = 0, 1
    for walk in operand.walks:
        first = last = walk.origin
        for name, step in walk.steps:
            at, size = part.get(name, (0, sizes[name]))
            first, last = first + at * step, last + (at + size - 1) * step
        if walk.bound is not None:
            first, last = max(0, first), min(walk.bound - 1, last)
        low, high = low + first * walk.stride, high + max(first, last) * walk.stride
    return low, high
