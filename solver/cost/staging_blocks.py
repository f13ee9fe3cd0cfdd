"""Into which blocks an instruction is cut whose operands are staged, and what is copied for them.

As :mod:`girih.lowering.emission.staging` does it, from the shape of an instruction alone: blocks whose operands fit
half of each staging memory, or all of it; what the block before has staged stays there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from ...ir.isa.timing import matrix_blocks, matrix_traffic
from ...ir.machine import Engine, Staging
from ...ir.semantics.staging.staging_rooms import RoomLayout, layout, ways_to_stage
from .instruction_shape import InstructionShape, ShapedOperand
from .staged_run import StagedCopy, StagedRun


@dataclass(frozen=True)
class StagedOperand:
    """An operand of an instruction that is staged; ``item``: bytes of an element, ``writes``: it is the result.

    ``shared``: how many engines have each a part of what is copied.
    """

    operand: ShapedOperand
    staging: Staging
    item: int
    writes: bool
    shared: int = 1

    def bytes(self, sizes: Mapping[str, int], *, first: bool = False) -> int:
        """What is staged for a block, somewhere within or the ``first``."""
        return -(-self.operand.packed(self.item, sizes, first=first).bytes // self.shared)

    def copied_in(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is brought there: not what is written as a whole."""
        return not self.writes or self.operand.added or not self.operand.packed(self.item, sizes).exact


def in_blocks(
    engine: Engine, shape: InstructionShape, operands: Sequence[StagedOperand], sums: float | None = None
) -> StagedRun:
    """The blocks of equal instructions on an engine; ``sums``: of products, the cycles of writing what they make."""
    cut, apart = _cut(shape, operands)
    laid_out = _rooms(operands, shape.sizes | cut, first=False, apart=apart)
    rooms = tuple((name, room.bytes, room.alignment) for name, room in laid_out.items())
    counts = {name: -(-shape.sizes[name] // size) for name, size in cut.items()}
    each = prod(counts.values())
    copies: list[StagedCopy] = []
    for memory in dict.fromkeys(o.staging.memory.name for o in operands):
        inside = [o for o in operands if o.staging.memory.name == memory]
        times = each if any(o.writes for o in inside) else _changes(shape, inside, counts)
        for o in inside:
            size = sum(often * o.bytes(sizes) for often, sizes in _kinds(shape, cut, counts)) / each
            ways = [(False, o.staging.into)] if o.copied_in(shape.sizes | cut) else []
            if o.writes and o.staging.out is not None:
                ways.append((True, o.staging.out))
            for back, mover in ways:
                cycles = times * (mover.issue + size / mover.bytes_per_cycle)
                copies.append(
                    StagedCopy(
                        o.operand.tensor, memory, mover.name, shape.count * times, shape.count * cycles,
                        mover.latency, back,
                    )
                )  # fmt: skip
    body = float(shape.busy - shape.count * engine.issue)
    if sums is not None and each > 1:
        body = _body(engine, shape, list(_kinds(shape, cut, counts)), body, sums)
    return StagedRun(shape.count * each, shape.count * each * engine.issue + body, tuple(copies), rooms)


def _body(
    engine: Engine, shape: InstructionShape, kinds: Sequence[tuple[int, Mapping[str, int]]], body: float, sums: float
) -> float:
    """Cycles of all blocks of products, issue left out, if they take ``body`` as a whole, and writing sums ``sums``.

    Blocks may fill the array less well, and all but the first of a reduction add to the sums that are there.
    """
    whole = _product(shape.sizes)
    steps = sum(often * prod(matrix_blocks(engine, *_product(sizes))) for often, sizes in kinds)
    written = sum(often * matrix_traffic(engine, *_product(sizes))[0] for often, sizes in kinds)
    first = sum(often for often, _ in kinds) / prod(-(-shape.sizes[n] // kinds[0][1][n]) for n in shape.reduced)
    twice = 2.0 if shape.operands[0].added else 2.0 - first / sum(often for often, _ in kinds)
    return max(
        body * steps / prod(matrix_blocks(engine, *whole)),
        sums * twice * written / matrix_traffic(engine, *whole)[0],
    )


def _product(sizes: Mapping[str, int]) -> tuple[int, int, int]:
    """m, n and k of a matrix instruction."""
    names = (("m", "oh", "ow"), ("n",), ("k", "kh", "kw", "ci"))
    m, n, k = (prod(sizes.get(name, 1) for name in group) for group in names)
    return m, n, k


def _changes(shape: InstructionShape, inside: Sequence[StagedOperand], counts: Mapping[str, int]) -> int:
    """How often, in the order of the blocks of one instruction, there is something else to stage."""
    moving = {name for o in inside for name in o.operand.moving}
    names = list(counts)[::-1]
    order = [*(n for n in names if n in shape.reduced), *(n for n in names if n not in shape.reduced)]
    last = max((place for place, name in enumerate(order) if counts[name] > 1 and name in moving), default=-1)
    return prod(counts[name] for name in order[: last + 1])


def _kinds(
    shape: InstructionShape, cut: Mapping[str, int], counts: Mapping[str, int]
) -> Iterator[tuple[int, dict[str, int]]]:
    """The different sizes of blocks, and how often there is each."""
    ways: list[list[tuple[int, int]]] = []
    for name, size in cut.items():
        rest = shape.sizes[name] - (counts[name] - 1) * size
        ways.append([(counts[name], size)] if rest == size else [(counts[name] - 1, size), (1, rest)])
    for choice in product(*ways):
        often = prod(count for count, _ in choice)
        if often:
            yield often, shape.sizes | {name: size for name, (_, size) in zip(cut, choice, strict=True)}


def _cut(shape: InstructionShape, operands: Sequence[StagedOperand]) -> tuple[dict[str, int], bool]:
    """Sizes of blocks, of which the first fits, and whether their operands lie apart.

    What does not fit as the smallest block is left as that: the lowering refuses it.
    """
    sizes: dict[str, int] = {}
    for apart, share in ways_to_stage(windows=shape.windows):
        sizes = {name: shape.sizes[name] for name in shape.units}
        while full := _full(operands, shape.sizes | sizes, share, apart=apart):
            touching = {n for o in operands if o.staging.memory.name in full for n in o.operand.extents}
            able = [n for n in sizes if n in touching and sizes[n] > 1]
            if not able:
                break
            longest = max(able, key=lambda n: sizes[n] / shape.units[n])
            unit, half = shape.units[longest], -(-sizes[longest] // 2)
            whole = -(-half // unit) * unit
            sizes[longest] = whole if whole < sizes[longest] else half
        else:
            return sizes, apart
    return sizes, False


def _full(operands: Sequence[StagedOperand], sizes: Mapping[str, int], share: int, *, apart: bool) -> list[str]:
    """The memories of which so many rooms of the first block do not fit."""
    capacity = {o.staging.memory.name: o.staging.memory.capacity for o in operands}
    rooms = _rooms(operands, sizes, first=True, apart=apart)
    return [name for name, room in rooms.items() if not room.fits(capacity[name], share)]


def _rooms(
    operands: Sequence[StagedOperand], sizes: Mapping[str, int], *, first: bool, apart: bool
) -> dict[str, RoomLayout]:
    """The rooms of a block, somewhere within or the ``first``: at a border that may be smaller.

    As in an instruction, the result comes first, and what a window is walked over before its factor.
    """
    inside: dict[str, list[StagedOperand]] = {}
    for o in sorted(operands, key=lambda o: (not o.writes, not o.operand.walked)):
        inside.setdefault(o.staging.memory.name, []).append(o)
    return {
        name: layout([o.bytes(sizes, first=first) for o in staged], staged[0].staging.memory, apart=apart)
        for name, staged in inside.items()
    }
