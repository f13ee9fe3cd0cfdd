"""What two plans, machines and compilations decide or say otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import zip_longest
from typing import Any, cast

from ...ir.machine import Machine
from ...ir.plan import Plan, Tile
from ..compilation import Compilation
from ..memory_use import TrafficRow
from .alignment import Aligned
from .rows import Change, ResidencyChange, TileChange

_TILE = ("engine", "sizes", "order", "reduce", "depth", "weight_depth")


def machine_changes(a: Machine, b: Machine) -> tuple[Change, ...]:
    """Each figure of the machine that differs; memories, engines and links are found by their names."""
    before, after = dict(_figures("", a)), dict(_figures("", b))
    return mapping_changes(before, after)


def _figures(prefix: str, value: object) -> Iterable[tuple[str, str]]:
    if is_dataclass(value) and not isinstance(value, type):
        for f in fields(value):
            yield from _figures(f"{prefix}.{f.name}" if prefix else f.name, getattr(value, f.name))
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[str, object]", value).items():
            yield from _figures(f"{prefix}.{key}", item)
    elif isinstance(value, tuple) and any(is_dataclass(item) for item in cast("tuple[Any, ...]", value)):
        for item in cast("tuple[Any, ...]", value):
            yield from _figures(f"{prefix}.{item.name}", item)
    elif isinstance(value, tuple):
        yield prefix, ", ".join(map(str, cast("tuple[Any, ...]", value)))
    elif isinstance(value, float):
        yield prefix, f"{value:.12g}"
    else:
        yield prefix, "" if value is None else str(value)


def mapping_changes(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[Change, ...]:
    """Each key whose value differs, or that only one of the two has."""
    keys = dict.fromkeys((*a, *b))
    return tuple(Change(key, a.get(key, ""), b.get(key, "")) for key in keys if a.get(key, "") != b.get(key, ""))


def tile_changes(aligned: Sequence[Aligned], a: Plan, b: Plan) -> tuple[TileChange, ...]:
    """Each decision about the tile of an operator that is taken otherwise."""
    tiles_a = {tile.op: tile for segment in a.segments for tile in segment.tiles}
    tiles_b = {tile.op: tile for segment in b.segments for tile in segment.tiles}
    changes: list[TileChange] = []
    for row in aligned:
        if row.pair and row.pair[0] in tiles_a and row.pair[1] in tiles_b:
            old, new = tiles_a[row.pair[0]], tiles_b[row.pair[1]]
            changes += [
                TileChange(row.name, what, _decision(old, what), _decision(new, what))
                for what in _TILE
                if getattr(old, what) != getattr(new, what)
            ]
    return tuple(changes)


def _decision(tile: Tile, what: str) -> str:
    value = getattr(tile, what)
    separator = " " if what == "order" else "x"
    return separator.join(map(str, cast("tuple[int, ...]", value))) if isinstance(value, tuple) else str(value)


def residency_changes(
    a: Iterable[TrafficRow], b: Iterable[TrafficRow], known: tuple[set[str], set[str]]
) -> tuple[ResidencyChange, ...]:
    """Each tensor that is moved to or from main memory otherwise, most bytes first.

    ``known``: the tensors of each network.
    """
    rows_a, rows_b = ({row.tensor: row for row in rows} for rows in (a, b))
    changes: list[ResidencyChange] = []
    for name in dict.fromkeys((*rows_a, *rows_b)):
        old, new = rows_a.get(name), rows_b.get(name)
        moved = [(row.fetched, row.stored) if row else (0, 0) for row in (old, new)]
        if moved[0] == moved[1]:
            continue
        row = new or old
        assert row is not None
        (fetched_a, stored_a), (fetched_b, stored_b) = moved
        absent = "B" if name not in known[1] else "A" if name not in known[0] else ""
        text = f"{absent} has no such tensor" if absent else _moved(row, moved[0], moved[1])
        changes.append(ResidencyChange(name, row.kind, row.bytes, fetched_a, fetched_b, stored_a, stored_b, text))
    return tuple(sorted(changes, key=lambda change: (-abs(change.change), change.tensor)))


def _moved(row: TrafficRow, a: tuple[int, int], b: tuple[int, int]) -> str:
    """What B does with a tensor, against what A does."""
    (fetched_a, stored_a), (fetched_b, stored_b) = a, b
    if row.kind == "activation":
        if not any(b):
            return "B keeps it on chip, A spills it"
        if not any(a):
            return "B spills it, A keeps it on chip"
        if stored_a != stored_b:
            return f"B spills {'less' if stored_b < stored_a else 'more'} of it"
    if fetched_a == fetched_b:
        return f"B stores {'less' if stored_b < stored_a else 'more'} of it"
    return f"A fetches {_times(fetched_a, row.bytes)}, B {_times(fetched_b, row.bytes)}"


def _times(moved: int, whole: int) -> str:
    """How often a tensor is moved."""
    if not moved:
        return "none of it"
    times = moved / whole if whole else 0.0
    return "it once" if times == 1 else f"{times:.3g} times its bytes"


def order_changes(aligned: Sequence[Aligned], a: Plan, b: Plan) -> tuple[Change, ...]:
    """How many slots there are, and the first at which another operator runs."""
    changes: list[Change] = []
    if len(a.slots) != len(b.slots):
        changes.append(Change("slots", f"{len(a.slots):,}", f"{len(b.slots):,}"))
    names_a = {op: row.name for row in aligned for op in row.a}
    names_b = {op: row.name for row in aligned for op in row.b}
    slots = zip_longest((names_a[op] for _, op in a.slots), (names_b[op] for _, op in b.slots), fillvalue="the end")
    for number, (old, new) in enumerate(slots):
        if old != new:
            changes.append(Change(f"first slot with another operator: {number:,}", old, new))
            break
    if a.barrier != b.barrier:
        changes.append(Change("barrier after each slot", _yes(a.barrier), _yes(b.barrier)))
    if not changes and a.steps != b.steps:
        changes.append(Change("order of steps", "", "another"))
    if a.order != b.order:
        orders = ({order.queue: order for order in plan.order} for plan in (a, b))
        old, new = (", ".join(queues) or "none" for queues in orders)
        changes.append(Change("queues in another order than that of operators and tiles", old, new))
    return tuple(changes)


def movement_changes(a: Compilation, b: Compilation) -> tuple[Change, ...]:
    """How many transfers, portions, broadcasts and weight streams are decided otherwise; and where cells run."""
    changes: list[Change] = []
    for what, before, after in (
        (
            "portions of transfers",
            {(t.tensor, a.plan.segments[t.segment].ops[-1]): t.portion for t in a.plan.transfers},
            {(t.tensor, b.plan.segments[t.segment].ops[-1]): t.portion for t in b.plan.transfers},
        ),
        (
            "issuers of broadcasts",
            {(t.tensor, a.plan.segments[t.segment].ops[-1]): t.issuers for t in a.plan.transfers},
            {(t.tensor, b.plan.segments[t.segment].ops[-1]): t.issuers for t in b.plan.transfers},
        ),
        (
            "versions and prefetches of weight streams",
            {(w.op, ""): (w.versions, w.prefetch) for w in a.plan.weight_streams},
            {(w.op, ""): (w.versions, w.prefetch) for w in b.plan.weight_streams},
        ),
    ):
        shared = before.keys() & after.keys()
        other = sum(before[key] != after[key] for key in shared)
        if other or before.keys() != after.keys():
            only = f"{len(before) - len(shared):,} only in A", f"{len(after) - len(shared):,} only in B"
            changes.append(Change(what, only[0], f"{other:,} of {len(shared):,} otherwise, {only[1]}"))
    return tuple(changes)


def address_changes(a: Plan, b: Plan) -> int:
    """Buffers that both plans have, and that lie at another address in B."""
    before, after = _places(a), _places(b)
    return sum(
        sum((Counter(addresses) - Counter(after[key])).values())
        for key, addresses in before.items()
        if key in after and len(after[key]) == len(addresses)
    )


def _places(plan: Plan) -> dict[tuple[object, ...], list[int]]:
    """The addresses of buffers, by all that says which buffer it is."""
    places: dict[tuple[object, ...], list[int]] = {}
    for local in plan.local:
        places.setdefault((local.memory, local.op, local.name, local.use), []).append(local.address)
    for shared in plan.shared:
        places.setdefault((shared.memory, shared.tensor, shared.box), []).append(shared.address)
    return places


def _yes(value: bool) -> str:
    return "yes" if value else "no"
