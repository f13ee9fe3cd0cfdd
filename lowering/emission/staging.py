"""Operands that an engine cannot take from where they lie, staged: copied beside it, and results copied back.

    mmatmul L0C, L1, L1      becomes      mcopy L0A, L1 . mcopy L0B, L1 . mmatmul L0C, L0A, L0B

The instruction is cut into blocks whose operands fit half of each staging memory (or all of it, where half is too
little), so that while one block is computed the next one is copied. Rooms follow one another, and operands of windows
lie in banks of their own where half of the memory has so many (:mod:`girih.ir.semantics.staging.staging_rooms`). What
the block before has staged stays there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from ...ir.errors import InfeasibleError
from ...ir.isa.footprint import WINDOW, Strided, footprint, taps
from ...ir.isa.row import Operand, Row
from ...ir.isa.table import ROWS, make
from ...ir.machine import Engine, Machine, Side, Staging
from ...ir.machines.engine import side_of
from ...ir.semantics.staging.packing import PackedArray, pack
from ...ir.semantics.staging.staging_rooms import RoomLayout, layout, ways_to_stage
from ..loops.axes import ByteAccess
from .blocks import EngineStep, Places, cuttable, part_of, placed_fields
from .vector import Emitted, OperandRef, copies


@dataclass(frozen=True)
class RoomStep:
    """The steps behind it find a room of ``bytes`` in a staging memory under the name ``buffer``."""

    buffer: str
    memory: int
    bytes: int
    alignment: int


@dataclass(frozen=True)
class _Staged:
    """An operand of a block that is staged."""

    operand: Operand
    staging: Staging
    ref: OperandRef
    at: Strided
    packed: PackedArray
    read: bool
    written: bool

    @property
    def source(self) -> tuple[object, ...]:
        """What equals only that of an operand with the same bytes in the same place."""
        return self.ref.buffer, self.ref.offset + self.at.low, self.packed


def staged(
    step: Emitted, places: Places, machine: Machine, engine: Engine
) -> tuple[list[RoomStep | EngineStep], Places]:
    """The step on an ``engine`` with what it stages, and the places of all buffers that its steps name.

    Raises :class:`InfeasibleError` if the operands of the smallest block do not fit a staging memory.
    """
    row = ROWS[step.mnemonic]
    ways = {
        operand.name: way
        for operand in row.operands
        for ref in step.refs
        if ref.operand == operand.name
        for way in [machine.staging(engine, _side(row, operand), machine.memories[places[ref.buffer][0]].name)]
        if way is not None
    }
    if not ways:
        return [EngineStep(step, engine.name)], places
    known = dict(places)
    steps: list[RoomStep | EngineStep] = []
    held: dict[str, tuple[tuple[object, ...], str]] = {}
    sizes, apart = _cut(step, row, ways, places, machine, engine)
    for number, block in enumerate(_blocks(step, row, sizes)):
        steps += _block(block, ways, known, machine, engine, number, held, apart=apart)
    return steps, known


def room_of(buffer: str) -> str:
    """The room that a buffer of a staged step is in, or the buffer itself."""
    return buffer.partition(":")[0]


def _side(row: Row, operand: Operand) -> Side:
    if "w" in operand.access:
        return "writes"
    return side_of(stationary=row.kind == "matrix" and operand.name == "b")


def _operands(step: Emitted, ways: Mapping[str, Staging], places: Places) -> list[_Staged]:
    """The operands of a block that are staged and not empty."""
    row = ROWS[step.mnemonic]
    ref = {r.operand: r for r in step.refs}
    instruction = make(step.mnemonic, 0, placed_fields(step, places))
    staged_operands: list[_Staged] = []
    for operand, at in zip(row.operands, footprint(instruction), strict=True):
        if operand.name not in ways or at.low == at.high:
            continue
        extents, strides = at.extents, ref[operand.name].strides
        if operand.window:
            # All rows and columns between those that are visited, at the pitch of the operand.
            pairs = zip(at.extents, at.strides, strides, strict=True)
            extents = tuple((e - 1) * (s // pitch) + 1 if e > 1 and pitch else e for e, s, pitch in pairs)
        packed = pack(at.itemsize, extents, strides)
        partly = at.writes and not (packed.exact and not operand.picked)
        staging, reads = ways[operand.name], at.reads or partly
        staged_operands.append(_Staged(operand, staging, ref[operand.name], at, packed, reads, at.writes))
    return staged_operands


def _rooms(operands: list[_Staged], *, apart: bool) -> dict[str, RoomLayout]:
    """The room of those that are staged in each memory."""
    sizes: dict[str, list[int]] = {}
    memories = {o.staging.memory.name: o.staging.memory for o in operands}
    for o in operands:
        sizes.setdefault(o.staging.memory.name, []).append(o.packed.bytes)
    return {name: layout(operand_bytes, memories[name], apart=apart) for name, operand_bytes in sizes.items()}


# Blocks.


def _blocks(step: Emitted, row: Row, cut: Mapping[str, int]) -> Iterator[Emitted]:
    """The step in blocks of these sizes."""
    sizes = _sizes(step, row)
    # What the stationary operand is chosen by changes least: reductions outside, then the last dimensions.
    names = list(cut)[::-1]
    reduced = [n for n in names if n not in row.operands[0].dims]
    order = [*reduced, *(n for n in names if n not in reduced)]
    counts = [-(-sizes[n] // cut[n]) for n in order]
    for at in product(*map(range, counts)):
        bounds = {n: (i * cut[n], min(cut[n], sizes[n] - i * cut[n])) for n, i in zip(order, at, strict=True)}
        yield part_of(step, row, bounds, first=not any(bounds[n][0] for n in reduced))


def _sizes(step: Emitted, row: Row) -> dict[str, int]:
    return {name: int(value) for name, value in step.fields if name in cuttable(step, row)}


def _cut(
    step: Emitted, row: Row, ways: Mapping[str, Staging], places: Places, machine: Machine, engine: Engine
) -> tuple[dict[str, int], bool]:
    """Sizes of blocks of which two have room at once or, failing that, one has; and whether operands lie apart.

    Raises :class:`InfeasibleError` if there are none.
    """
    for apart, share in ways_to_stage(windows=any(operand.window for operand in row.operands)):
        cut = _sizes_that_fit(step, row, ways, places, share, engine, apart=apart)
        if cut is not None:
            return cut, apart
    smallest = part_of(step, row, dict.fromkeys(_sizes(step, row), (0, 1)), first=True)
    needs = {name: room.bytes for name, room in _rooms(_operands(smallest, ways, places), apart=False).items()}
    name = max(needs, key=lambda n: needs[n] - machine.memory[n].capacity)
    capacity = machine.memory[name].capacity
    raise InfeasibleError(
        f"{engine.name} stages {needs[name]:,} bytes in {name} for the smallest part of an instruction, "
        f"{needs[name] - capacity:,} more than the {capacity:,} there are; use a machine with more {name}"
    )


def _sizes_that_fit(
    step: Emitted, row: Row, ways: Mapping[str, Staging], places: Places, share: int, engine: Engine, *, apart: bool
) -> dict[str, int] | None:
    """Sizes of blocks of which so many rooms fit each staging memory.

    The extent that fills the array of a matrix engine most often is halved first.
    """
    sizes = _sizes(step, row)
    units = {"m": engine.rows, "ow": engine.rows, "n": engine.columns, "k": engine.depth, "ci": engine.depth}

    def unit(name: str) -> int:
        return units[name] if row.kind == "matrix" and name in units else 1

    while True:
        operands = _operands(part_of(step, row, {n: (0, s) for n, s in sizes.items()}, first=True), ways, places)
        capacity = {o.staging.memory.name: o.staging.memory.capacity for o in operands}
        rooms = _rooms(operands, apart=apart)
        full = [name for name, room in rooms.items() if not room.fits(capacity[name], share)]
        if not full:
            return sizes
        touching = {n for o in operands if o.staging.memory.name in full for n in _extents_of(o.operand)}
        longest = max(
            (n for n in sizes if n in touching and sizes[n] > 1), key=lambda n: sizes[n] / unit(n), default=None
        )
        if longest is None:
            return None
        half = -(-sizes[longest] // 2)
        whole = -(-half // unit(longest)) * unit(longest)
        sizes[longest] = whole if whole < sizes[longest] else half


def _extents_of(operand: Operand) -> tuple[str, ...]:
    """The extents that an operand gets smaller with."""
    window = {"H": ("oh", "kh"), "W": ("ow", "kw")}
    return tuple(name for dim in operand.dims for name in (window.get(dim, (dim,)) if operand.window else (dim,)))


# Copies.


def _block(
    block: Emitted,
    ways: Mapping[str, Staging],
    places: dict[str, tuple[int, int]],
    machine: Machine,
    engine: Engine,
    number: int,
    held: dict[str, tuple[tuple[object, ...], str]],
    *,
    apart: bool,
) -> Iterator[RoomStep | EngineStep]:
    """Rooms, copies, the instruction on what is staged, and copies back; ``held``: what each memory has by now."""
    operands = _operands(block, ways, places)
    codes = {m.name: i for i, m in enumerate(machine.memories)}
    staged_refs: dict[str, OperandRef] = {}
    fields = dict(block.fields)
    rooms = _rooms(operands, apart=apart)
    for name in dict.fromkeys(ways[o].memory.name for o in ways):
        inside = [o for o in operands if o.staging.memory.name == name]
        buffer = f"{name}#{number}"
        content = tuple(o.source for o in inside)
        same = name in held and held[name][0] == content and not any(o.written for o in inside)
        if same:
            buffer = held[name][1]
        elif inside:
            held[name] = content, buffer
            yield RoomStep(buffer, codes[name], rooms[name].bytes, rooms[name].alignment)
        for o, offset in zip(inside, rooms[name].offsets if inside else (), strict=True):
            dtype = places[o.ref.buffer][1]
            typed = f"{buffer}:{o.operand.name}"
            places[typed] = codes[name], dtype
            if o.read and not same:
                yield from _moved(o, typed, offset, o.staging.into, into=True)
            base = offset + o.packed.first
            staged_refs[o.operand.name] = OperandRef(o.operand.name, typed, base, o.packed.strides)
            if o.operand.window:
                _shift(fields)
    for operand, way in ways.items():
        if operand in staged_refs or all(r.operand != operand for r in block.refs):
            continue
        # Nothing of it is touched; still, its memory must be one that the engine reaches.
        (ref,) = (r for r in block.refs if r.operand == operand)
        typed = f"{way.memory.name}:{operand}"
        places[typed] = codes[way.memory.name], places[ref.buffer][1]
        held.pop(way.memory.name, None)
        yield RoomStep(room_of(typed), codes[way.memory.name], way.memory.alignment, way.memory.alignment)
        staged_refs[operand] = OperandRef(operand, typed, 0, ref.strides)
    refs = tuple(staged_refs.get(r.operand, r) for r in block.refs)
    yield EngineStep(Emitted(block.mnemonic, tuple(fields.items()), refs), engine.name)
    for o in operands:
        if o.written and o.staging.out is not None:
            ref = staged_refs[o.operand.name]
            yield from _moved(o, ref.buffer, ref.offset - o.packed.first, o.staging.out, into=False)


def _shift(fields: dict[str, int | float]) -> None:
    """Count the rows and columns of a window from the first that is visited, up to the last."""
    for names in WINDOW:
        lattice = taps(*(int(fields[name]) for name in names))
        first, last = (lattice.origin + lattice.step * at for at in (lattice.first, lattice.last - 1))
        origin, bound = names[4:]
        fields[origin] = int(fields[origin]) - first
        fields[bound] = last + 1 - first


def _moved(o: _Staged, buffer: str, offset: int, engine: Engine, *, into: bool) -> Iterator[EngineStep]:
    """The copies of an operand between where it lies and where it is staged."""
    item = o.at.itemsize
    extents = (*(count for _, count in reversed(o.packed.rows)), o.packed.run // item)
    lies = (*(stride for stride, _ in reversed(o.packed.rows)), item)
    dense: list[int] = []
    step = o.packed.bytes
    for extent in extents:
        step //= extent
        dense.append(step)
    ends = {
        "lies": (o.ref.buffer, o.ref.offset + o.at.low, lies),
        "staged": (buffer, offset, tuple(dense)),
    }
    source, target = ("lies", "staged") if into else ("staged", "lies")
    for piece in copies(extents, ByteAccess("dst", 0, ends[target][2]), ByteAccess("src", 0, ends[source][2])):
        refs = tuple(
            OperandRef(name, ends[end][0], ends[end][1] + base, strides)
            for name, end, base, strides in zip(
                ("dst", "src"), (target, source), piece.bases, piece.strides, strict=True
            )
        )
        sizes = tuple((f"n{i}", e) for i, e in enumerate(piece.extents))
        yield EngineStep(Emitted("mcopy", sizes, refs), engine.name)
