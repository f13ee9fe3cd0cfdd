"""Ways to cut a segment: which dimensions of its root's result over the cores, and which into instances.

A cut has up to two dimensions for the cores and two for the instances, or three where local memory holds little of a
result: of an image, some rows and columns, and of these some of the channels. Cores are all used where the extents
allow, and a half, a quarter … of them where a result is small.
Instances come in about powers of two: enough to find the knee between memory, reloads and overlap, for any extent. Of
what there are few (three images of a batch, twelve heads), also in three times these where parts are equal.
Since the largest part counts, a cut never has more parts than its largest part allows (56 rows in about 32 parts are 28
of 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from math import prod

from ...ir.plan import Split

Splits = tuple[Split, ...]

MOST_FINE_SPLITS = 3
"""Dimensions that :func:`fine_splits` cuts into instances at one time. Chosen, not measured."""
MOST_INSTANCES = 32
"""Instances considered at first; more where nothing fits, or only with many. Chosen, not measured."""
MOST_INSTANCES_IN_TWO = 8
"""Instances considered at first when two dimensions are cut. Chosen, not measured."""
MOST_IN_THIRDS = 32
"""Extents that are also cut into three times a power of two. Chosen; measured: with 768 features among them, four
layers of ViT-B/16 at batch 32 take 1.1 % more cycles, and three of BERT at 512 positions as many as without."""
LEAST_CORE_USE = 0.75
"""A cut that leaves more of the cores idle is only considered if none uses more. Chosen, not measured."""
SMALL_PART = 512
"""Fewer of the cores are considered while the part of each is at most so many elements of the result: what they load
and wait for each other may take longer than what they compute. Measured on `ascend910`: with 2048, DLRM takes 2.2 %
more cycles, MobileNet-V2 1.5 % more than with none, and tiny-transformer as many."""


@dataclass(frozen=True)
class SegmentSplit:
    """How a segment is cut."""

    instances: Splits
    cores: Splits

    @cached_property
    def instance_count(self) -> int:
        return prod(s.parts for s in self.instances)

    @cached_property
    def core_count(self) -> int:
        return prod(s.parts for s in self.cores)

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether there are such dimensions, and no part is empty."""
        parts = [1] * len(shape)
        for split in (*self.instances, *self.cores):
            if split.dim >= len(shape):
                return False
            parts[split.dim] *= split.parts
        return all(p <= extent for p, extent in zip(parts, shape, strict=True))


def core_splits(shape: tuple[int, ...], cores: int) -> list[Splits]:
    """Cuts over the cores in one or two dimensions, that use as many cores as possible or nearly so."""
    choices: list[Splits] = [()]
    for dim, extent in enumerate(shape):
        if extent > 1:
            choices.append((Split(dim, min(extent, cores)),))
    for a, b in combinations(range(len(shape)), 2):
        for parts in range(2, min(shape[a], cores // 2) + 1):
            other = min(shape[b], cores // parts)
            if other >= 2 and (cores % parts == 0 or parts == shape[a]):
                choices.append((Split(a, parts), Split(b, other)))
    most = max(prod(s.parts for s in splits) for splits in choices)
    return [splits for splits in choices if prod(s.parts for s in splits) >= LEAST_CORE_USE * most]


def core_counts(shape: tuple[int, ...], cores: int) -> list[int]:
    """How many cores may share a result: all, and ever half as many while the parts are small."""
    counts = [cores]
    while counts[-1] > 1 and prod(shape) <= SMALL_PART * (counts[-1] // 2):
        counts.append(counts[-1] // 2)
    return counts


def columns_first(split: SegmentSplit, rank: int) -> int:
    """Parts of the last dimension if it is the outermost of several that are cut into instances, else 1.

    Then all instances with the same columns follow one another, so that weights are fetched once if those of these
    columns have room.
    """
    return split.instances[0].parts if len(split.instances) > 1 and split.instances[0].dim == rank - 1 else 1


def instance_splits(
    shape: tuple[int, ...], most: int, most_in_two: int, *, three: bool = False, thirds: bool = True,
    columns: bool = False,
) -> list[Splits]:  # fmt: skip
    """No cut, numbers of parts (see :func:`_counts`) in one dimension up to ``most``, and in two up to ``most_in_two``
    together; with ``three`` also in two and the last, up to ``most`` together; with ``columns`` also with the last
    dimension outside of the others, up to ``most`` together."""
    choices: list[Splits] = [()]
    counts = {dim: _counts(extent, most, thirds=thirds) for dim, extent in enumerate(shape)}
    choices += [(Split(dim, p),) for dim in counts for p in counts[dim]]
    for a, b in combinations(range(len(shape)), 2):
        choices += [(Split(a, p), Split(b, q)) for p in counts[a] for q in counts[b] if p * q <= most_in_two]
    last = len(shape) - 1
    for a in range(last if columns else 0):
        choices += [(Split(last, q), Split(a, p)) for p in counts[a] for q in counts[last] if p * q <= most]
    for a, b in combinations(range(last if three else 0), 2):
        for p, q, r in product(counts[a], counts[b], counts[last]):
            if p * q * r <= most:
                rows = Split(a, p), Split(b, q)
                choices += [(*rows, Split(last, r)), *([(Split(last, r), *rows)] if columns else [])]
    return choices


def _counts(extent: int, most: int, *, thirds: bool) -> list[int]:
    """Numbers of parts up to ``most``, ascending: near the powers of two from 2 on, with the same largest part and none
    to spare; with ``thirds`` also three times a power of two, where an extent up to :data:`MOST_IN_THIRDS` has such
    equal parts."""
    counts: set[int] = set()
    parts = 2
    while parts <= min(extent, most):
        largest = -(-extent // parts)
        counts.add(-(-extent // largest))
        parts *= 2
    parts = 3
    while thirds and extent <= MOST_IN_THIRDS and parts <= min(extent, most):
        if extent % parts == 0:
            counts.add(parts)
        parts *= 2
    return sorted(counts)


def segment_splits(
    shape: tuple[int, ...],
    cores: int,
    most: int = MOST_INSTANCES,
    most_in_two: int = MOST_INSTANCES_IN_TWO,
    *,
    three: bool = False,
    thirds: bool = True,
    columns: bool = False,
    fewer_cores: bool = True,
) -> tuple[SegmentSplit, ...]:
    """All cuts of a result of ``shape`` that leave no cell empty, coarsest first; see :func:`instance_splits`.

    ``fewer_cores``: also those of :func:`core_counts`.
    """
    segment_splits: list[SegmentSplit] = []
    counts = core_counts(shape, cores) if fewer_cores else [cores]
    for over_cores in dict.fromkeys(splits for number in counts for splits in core_splits(shape, number)):
        for instances in instance_splits(shape, most, most_in_two, three=three, thirds=thirds, columns=columns):
            split = SegmentSplit(instances, over_cores)
            if split.fits(shape):
                segment_splits.append(split)
    return tuple(sorted(segment_splits, key=lambda c: c.instance_count))


def fine_splits(shape: tuple[int, ...], cores: int) -> list[SegmentSplit]:
    """What is left to try if none of :func:`segment_splits` fits, the fewest instances first.

    Instances also come in divisors of the extents, because what lies in one dimension may be several (the heads of an
    attention, one after the other), of which equal parts contain whole ones or lie in one; in up to three dimensions;
    and on one core, which needs the least at a time.
    """
    counts = [sorted({*_counts(extent, extent, thirds=False), *_divisors(extent)}) for extent in shape]
    cut = [d for d, extent in enumerate(shape) if extent > 1]
    instances: list[Splits] = [
        tuple(map(Split, dims, parts))
        for number in range(min(len(cut), MOST_FINE_SPLITS) + 1)
        for dims in combinations(cut, number)
        for parts in product(*(counts[d] for d in dims))
    ]
    choices = dict.fromkeys((*core_splits(shape, cores), ()))
    splits = (SegmentSplit(i, c) for i in instances for c in choices)
    return sorted((split for split in splits if split.fits(shape)), key=lambda c: (c.instance_count, -c.core_count))


def _divisors(extent: int) -> list[int]:
    return [parts for parts in range(2, extent + 1) if extent % parts == 0]


def single_elements(shape: tuple[int, ...]) -> SegmentSplit:
    """Each element of the result by itself, on one core: no split needs less memory at a time."""
    return SegmentSplit(tuple(Split(d, extent) for d, extent in enumerate(shape) if extent > 1), ())
