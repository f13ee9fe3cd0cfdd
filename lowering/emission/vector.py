"""Element-wise nests become vector instructions; :mod:`girih.ir.isa.vector_selection` chooses their loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ...ir.box import Affine, Span
from ...ir.errors import GirihError, UnsupportedError
from ...ir.graph import DTYPES
from ...ir.isa.loop_bounds import Dimension
from ...ir.isa.scalar_functions import ELEMENTS
from ...ir.isa.vector_selection import elementwise_form
from ...ir.machine import Engine
from ..loops.axes import ByteAccess, ByteNest, Piece, merged, pieces, tied, tighten
from ..loops.perfect_nest import Load, PerfectNest
from ..schedule.cell_spec import byte_strides


@dataclass(frozen=True)
class Array:
    """A buffer as nests see it: byte strides of its dimensions, extents, dtype."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


def dense(shape: tuple[int, ...], dtype: str) -> Array:
    return Array(shape, byte_strides(shape, DTYPES[dtype]), dtype)


@dataclass(frozen=True)
class OperandRef:
    """An operand: the operand's name in the instruction, a kernel buffer, byte offset and byte strides."""

    operand: str
    buffer: str
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Emitted:
    """An instruction whose buffers have no addresses yet."""

    mnemonic: str
    fields: tuple[tuple[str, int | float], ...]
    refs: tuple[OperandRef, ...]


@dataclass(frozen=True)
class StationaryFetch:
    """Bring ``box`` of the stationary operand ``buffer`` (in its own coordinates) into the weight memory.

    There it lies row-major in an array of ``shape``, which the last tile of an axis does not fill.
    """

    buffer: str
    box: tuple[Span, ...]
    shape: tuple[int, ...]


Buffers = Mapping[str, Array]


def _walk(buffer: str, index: tuple[Affine, ...], buffers: Buffers, loops: int) -> ByteAccess:
    strides = buffers[buffer].strides
    base = sum(i.const * s for i, s in zip(index, strides, strict=True))
    return ByteAccess(
        buffer, base, tuple(sum(i.coeffs[a] * s for i, s in zip(index, strides, strict=True)) for a in range(loops))
    )


def byte_nest(nest: PerfectNest, buffers: Buffers) -> ByteNest:
    """The byte accesses of the destination and of each load, in order, under the nest's and the loads' conditions."""
    loops = len(nest.extents)
    loads = [o for o in nest.operands if isinstance(o, Load)]
    accesses = (
        _walk(nest.buffer, nest.index, buffers, loops),
        *(_walk(load.buffer, load.index, buffers, loops) for load in loads),
    )
    conditions = (*nest.conditions, *(c for load in loads for c in load.conditions))
    return ByteNest(nest.extents, accesses, conditions, nest.axes)


def dimensions(load: Load, buffers: Buffers) -> tuple[Dimension, ...]:
    """All dimensions of what is loaded, over the nest's loops; pitches in bytes."""
    array = buffers[load.buffer]
    return tuple(
        Dimension(i.coeffs, i.const, bound, pitch)
        for i, bound, pitch in zip(load.index, array.shape, array.strides, strict=True)
    )


def refs(names: tuple[str, ...], nest: ByteNest, piece: Piece, ranks: tuple[int, ...]) -> tuple[OperandRef, ...]:
    return tuple(
        OperandRef(name, walk.buffer, base, strides[:rank])
        for name, walk, base, strides, rank in zip(names, nest.accesses, piece.bases, piece.strides, ranks, strict=True)
    )


def fill(nest: PerfectNest, value: float, buffers: Buffers, engine: Engine) -> list[Emitted]:
    """The whole destination of a nest set to ``value``."""
    whole = replace(nest, operands=(value,), func="copy", combine=None, instruction="", axes=())
    return elementwise(whole, buffers, engine)


def elementwise(nest: PerfectNest, buffers: Buffers, engine: Engine) -> list[Emitted]:
    """One function of corresponding elements; a guarded copy becomes a fill and a copy of what is inside."""
    guarded = [o for o in nest.operands if isinstance(o, Load) and o.conditions]
    if guarded:
        if nest.func != "copy" or guarded[0].fill is None:
            raise UnsupportedError(f"{nest.func} reads outside of {guarded[0].buffer}; only copies may")
        first = fill(nest, guarded[0].fill, buffers, engine)
        return [*first, *_plain(nest, buffers, engine)]
    return _plain(nest, buffers, engine)


def _plain(nest: PerfectNest, buffers: Buffers, engine: Engine) -> list[Emitted]:
    tight = tighten(byte_nest(nest, buffers))
    if tight is None:
        return []
    flat = merged(tight)
    numbers = [o for o in nest.operands if not isinstance(o, Load)]
    immediates = tuple((f"imm{i}", float(n)) for i, n in enumerate(numbers))
    if nest.func == "copy" and numbers:
        mnemonic, names, special = "vfill.s", ("dst",), False
    else:
        form = "".join("v" if isinstance(o, Load) else "s" for o in nest.operands)
        element = ELEMENTS[nest.func]
        mnemonic, special = f"v{nest.func}.{form}", element.special
        names = ("dst", *(n for n, f in zip("abc", form, strict=False) if f == "v"))
    require_family(nest, mnemonic)
    dtype = buffers[nest.buffer].dtype
    form = elementwise_form(
        engine, flat.extents, dtype, target=flat.accesses[0].strides, special=special, tied=tied(flat),
        fields=flat.fields,
    )  # fmt: skip
    return [
        Emitted(mnemonic, (*lanes(piece), *immediates), refs(names, flat, piece, (3,) * len(names)))
        for piece in pieces(flat, form.loops, 3)
    ]


def require_family(nest: PerfectNest, *possible: str) -> None:
    """Raise :class:`UnsupportedError` if the user asks for instructions that are of none of these families."""
    families = tuple(dict.fromkeys(mnemonic.partition(".")[0] for mnemonic in possible))
    if nest.instruction and nest.instruction not in families:
        raise UnsupportedError(f"npu.instruction asks for {nest.instruction}, and it can be {' or '.join(families)}")


def lanes(piece: Piece) -> tuple[tuple[str, int], ...]:
    return tuple((f"n{i}", e) for i, e in enumerate(piece.extents))


def copies(extents: tuple[int, ...], target: ByteAccess, source: ByteAccess, rank: int = 4) -> Iterator[Piece]:
    """A strided copy as pieces of at most ``rank`` dimensions, the densest loop innermost."""
    flat = merged(ByteNest(extents, (target, source), ()))
    order = sorted(
        range(len(flat.extents)), key=lambda a: (-abs(flat.accesses[1].strides[a]), -abs(flat.accesses[0].strides[a]))
    )
    axes = tuple(order[-rank:])
    yield from pieces(flat, axes, rank)


def fetch(nest: PerfectNest, shape: tuple[int, ...]) -> StationaryFetch:
    """The copy block of the stationary operand, as the box of it that is copied to the corner of an array."""
    load = nest.operands[0]
    assert isinstance(load, Load)
    points = [Span(0, extent) for extent in nest.extents]
    straight = all(set(i.coeffs) <= {0, 1} and sum(i.coeffs) <= 1 for i in load.index)
    for condition in nest.conditions:
        used = [a for a, c in enumerate(condition.coeffs) if c]
        straight &= len(used) == 1 and abs(condition.coeffs[used[0]]) == 1
        lo, hi = points[used[0]]
        if condition.coeffs[used[0]] > 0:
            points[used[0]] = Span(max(lo, -condition.const), hi)
        else:
            points[used[0]] = Span(lo, min(hi, condition.const + 1))
    corner = all(i.over(tuple(points)).lo == 0 for i in nest.index)
    if not straight or not corner or any(a.coeffs != b.coeffs for a, b in zip(nest.index, load.index, strict=True)):
        raise GirihError("the copy of a stationary operand is not a box")
    return StationaryFetch(load.buffer, tuple(i.over(tuple(points)) for i in load.index), shape)
