"""A plan as text: what is decided for each segment, and the order of the steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..ir.plan import Plan, QueueOrder, Segment, SharedBuffer, Split, Tile, Transfer, WeightStream
from .units import numbers, plural, printable


def plan_text(plan: Plan) -> str:
    """One line for each decision; addresses of buffers are in the JSON of a plan alone."""
    rings = _rings(plan)
    lines = [str(plan), f"steps: {_steps(plan)}{', each slot after the end of the one before' if plan.barrier else ''}"]
    for number, segment in enumerate(plan.segments):
        lines.append(f"  {number}: {_segment(segment, plan.cell_cores[number])}")
        lines += [f"    {_tile(tile)}" for tile in segment.tiles]
        if segment.aliased:
            lines.append(f"    in place of their concatenation: {', '.join(map(printable, segment.aliased))}")
        lines += [f"    {_transfer(t)}" for t in plan.transfers if t.segment == number]
        lines += [f"    {_weights(w)}" for w in plan.weight_streams if w.segment == number]
        lines += [f"    {_ring(ring)}" for ring in rings.get(number, ())]
    if plan.order:
        lines.append(f"queues in another order than that of steps, operators and tiles: {_orders(plan.order)}")
    return "\n".join(lines)


def _steps(plan: Plan) -> str:
    """Segments in the order in which their instances run: ``0 (8), 1 (2)`` are eight of the first, two of the next."""
    runs = [(segment, len(list(steps))) for segment, steps in groupby(step.segment for step in plan.steps)]
    return ", ".join(f"{segment} ({count})" if count > 1 else str(segment) for segment, count in runs)


def _orders(orders: Sequence[QueueOrder]) -> str:
    """Of each queue, in how many runs it issues its instructions; one would be their own order."""
    return ", ".join(
        f"{order.queue} ({plural(len(order.places), 'instruction')} in {len(order.runs):,} runs)" for order in orders
    )


def _segment(segment: Segment, cores: Sequence[int]) -> str:
    first, last = printable(segment.ops[0]), printable(segment.ops[-1])
    cut = f"instances {_splits(segment.instances)}, cores {_splits(segment.cores)}"
    return f"{first} .. {last} ({len(segment.ops)}), {cut}{f' on {numbers(cores)}' if cores else ', on the host'}"


def _splits(splits: Sequence[Split]) -> str:
    return "x".join(f"{split.parts}@{split.dim}" for split in splits) or "1"


def _tile(tile: Tile) -> str:
    reduced = f", {_extents(tile.reduce)} of the reduction" if tile.reduce else ""
    degrees = f", buffers {tile.depth} times, weights {tile.weight_depth}" if tile.engine == "matrix" else ""
    loops = " ".join(map(str, tile.order)) or "none"
    where = f"on the {tile.engine} engine, loops {loops}{degrees}"
    return f"{printable(tile.op)}: tiles of {_extents(tile.sizes)}{reduced} {where}"


def _transfer(transfer: Transfer) -> str:
    name, portion = printable(transfer.tensor), f"in portions of {_extents(transfer.portion)}"
    if not transfer.issuers:
        return f"{name}: store {portion}"
    return f"{name}: load {portion}, broadcast by receivers {numbers(transfer.issuers)}"


def _weights(stream: WeightStream) -> str:
    way = f"{printable(stream.op)}: weights to versions {numbers(stream.versions)}"
    if not stream.issuers:
        return f"{way}, from local memory"
    return f"{way}, {stream.prefetch} prefetched, broadcast by receivers {numbers(stream.issuers)}"


def _rings(plan: Plan) -> dict[int, list[list[SharedBuffer]]]:
    """By segment: the buffers of each circular buffer, in the first instance that has it."""
    rings: dict[tuple[int, str], list[SharedBuffer]] = {}
    first: dict[tuple[int, str], int] = {}
    for buffer in plan.shared:
        if buffer.ring_position or buffer.ring_lead:
            step, _ = plan.slots[buffer.live[0]]
            key = plan.steps[step].segment, buffer.tensor
            if first.setdefault(key, buffer.live[0]) == buffer.live[0]:
                rings.setdefault(key, []).append(buffer)
    by_segment: dict[int, list[list[SharedBuffer]]] = {}
    for (segment, _), ring in rings.items():
        by_segment.setdefault(segment, []).append(ring)
    return by_segment


def _ring(ring: Sequence[SharedBuffer]) -> str:
    leads = sorted({buffer.ring_lead for buffer in ring})
    positions = 1 + max(buffer.ring_position for buffer in ring)
    return f"{printable(ring[0].tensor)}: circular buffer of {positions} positions, fetched {numbers(leads)} ahead"


def _extents(values: Sequence[int]) -> str:
    return "x".join(map(str, values)) or "1"
