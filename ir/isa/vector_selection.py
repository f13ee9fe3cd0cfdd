"""Which loops a vector instruction takes, of those that are left when loops are merged; and the cycles of all.

Prediction and emission share this, so that what is emitted is what was counted on. An instruction has up to three
loops, the last along the lanes; those that are left over repeat it. A combination (a sum, a maximum) goes element by
element over what is not reduced, one instruction for each point of the reduced loops, or folds one reduced loop along
the lanes; what :mod:`.window_selection` finds competes with both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from math import prod

from ..errors import UnsupportedError
from ..machine import Engine
from .timing import divided, vector_body, write_apart

RANK = 3
"""The most loops of a vector instruction."""


@dataclass(frozen=True)
class VectorForm:
    """``instructions`` over ``loops`` (the last along the lanes) that take ``busy`` cycles in all.

    Of several engines that share them, both are of the one that has the most to do. ``folds``: the last loop is reduced
    within an instruction.
    """

    busy: int
    instructions: int
    folds: bool
    loops: tuple[int, ...]


def elementwise_form(
    engine: Engine,
    extents: Sequence[int],
    dtype: str,
    *,
    target: Sequence[int],
    special: bool = False,
    tied: Sequence[Collection[int]] = (),
    fields: Sequence[str] = (),
) -> VectorForm:
    """The cheapest instructions that visit every point; of equals the fewest, then the first.

    ``dtype`` is that of the destination, in which each loop moves by its stride in ``target``. Of each group in
    ``tied``, an instruction takes one loop at the most: they are bounded together. ``fields`` may say of each loop
    which field it has to be (n0, n1, n2 or outer; empty: any).
    """
    forms = [*_forms(engine, extents, range(len(extents)), None, dtype, target, special, tied, fields)]
    return min(_some(forms, extents, fields), key=lambda form: (form.busy, form.instructions))


def reduction_form(
    engine: Engine,
    extents: Sequence[int],
    reduced: Sequence[int],
    lanes: Sequence[int],
    dtypes: tuple[str, str],
    target: Sequence[int],
    tied: Sequence[Collection[int]] = (),
    fields: Sequence[str] = (),
    folds: bool | None = None,
) -> VectorForm:
    """The cheapest instructions that combine over the ``reduced`` loops, of which ``lanes`` may be folded.

    ``dtypes`` are those of the destination and of the source; the rest is as in :func:`elementwise_form`.
    ``folds``: only forms that fold a loop, or only others (``None``: all).
    """
    spatial = [a for a in range(len(extents)) if a not in reduced]
    forms = [] if folds is True else [*_forms(engine, extents, spatial, None, dtypes[0], target, False, tied, fields)]
    for lane in () if folds is False else lanes:
        forms += _forms(engine, extents, spatial, lane, dtypes[1], target, False, tied, fields)
    return min(_some(forms, extents, fields), key=lambda form: (form.busy, form.instructions, form.folds, form.loops))


def _some(forms: list[VectorForm], extents: Sequence[int], fields: Sequence[str]) -> list[VectorForm]:
    """The forms; raises :class:`UnsupportedError` if there is none."""
    if not forms:
        wanted = ", ".join(f"{f} for the loop of {e}" for f, e in zip(fields, extents, strict=False) if f)
        raise UnsupportedError(f"no vector instruction can be made so: npu.axis asks for {wanted or 'nothing'}")
    return forms


def _forms(
    engine: Engine,
    extents: Sequence[int],
    free: Sequence[int],
    lane: int | None,
    dtype: str,
    target: Sequence[int],
    special: bool,
    tied: Sequence[Collection[int]],
    fields: Sequence[str],
) -> Iterator[VectorForm]:
    """Every choice among the ``free`` loops, all behind one another or in front of the ``lane`` that is folded."""
    points = prod(extents)
    free = [a for a in free if not fields or fields[a] != "outer"]
    rank = RANK if lane is None else RANK - 1
    # Where loops are tied, fewer of them than an instruction could take may be all that it can take.
    fewest = 0 if tied else rank
    for chosen in _choices_of_ranks(len(free), rank, fewest):
        loops = tuple(free[a] for a in chosen) if lane is None else (*(free[a] for a in chosen), lane)
        if any(sum(a in group for a in loops) > 1 for group in tied):
            continue
        placed = _placed(loops, fields) if fields else loops
        if placed is None:
            continue
        loops = placed
        shape = [extents[a] for a in loops] or [1]
        folded = () if lane is None else (extents[lane],)
        apart = engine.count > 1 and write_apart(extents, target, loops)
        instructions, busy = divided(
            engine, points // prod(shape), shape[: len(shape) - len(folded)],
            lambda part, folded=folded: vector_body(engine, (*part, *folded), dtype, special), apart=apart,
        )  # fmt: skip
        yield VectorForm(busy, instructions, lane is not None, loops)


def _placed(loops: tuple[int, ...], fields: Sequence[str]) -> tuple[int, ...] | None:
    """The loops, those in front in the order that ``fields`` asks for; ``None`` if they cannot be so."""
    if any(field not in ("", "outer") for a, field in enumerate(fields) if a not in loops):
        return None
    for front in permutations(loops[:-1]):
        order = (*front, *loops[-1:])
        names = [f"n{place}" for place in range(RANK - len(order), RANK)]
        if all(fields[a] in ("", name) for a, name in zip(order, names, strict=True)):
            return order
    return None


@cache
def _choices_of_ranks(count: int, most: int, fewest: int) -> tuple[tuple[int, ...], ...]:
    """The choices of every rank from ``most`` down to ``fewest``, each once."""
    return tuple(dict.fromkeys(c for rank in range(most, fewest - 1, -1) for c in _choices_of(count, rank)))


def _choices_of(count: int, rank: int) -> Iterator[tuple[int, ...]]:
    """As :func:`choices`, but no loops at all for rank 0."""
    return choices(count, rank) if rank else iter([()])


def choices(count: int, rank: int) -> Iterator[tuple[int, ...]]:
    """Ways to give up to ``rank`` of ``count`` loops to an instruction; only which one is last matters."""
    if not count:
        yield ()
    elif count <= rank:
        for last in range(count):
            yield (*(a for a in range(count) if a != last), last)
    else:
        for front in combinations(range(count), rank - 1):
            for last in range(count):
                if last not in front:
                    yield (*front, last)
