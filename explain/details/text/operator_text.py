"""One operator as text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ....ir.plan import Split
from ...units import numbers, plural, share, size
from ..alternatives import Alternative
from ..operator_details import Loop, OperatorDetails
from .tables import count, entries, extents, pairs, paragraph, table, title

_WAITS = {
    "fetch_weights": "fetch of weights",
    "fetch_data": "fetch of data",
    "load_weights": "load of weights",
    "load_data": "load of data",
    "store": "store",
    "spill": "spill",
    "engine": "engine of this core",
    "cores": "other cores",
    "host": "host or scalar engine",
}
_MOST_LOADS = 6
"""Engines and links in the text; the JSON has them all."""


def operator_text(op: OperatorDetails, width: int) -> list[str]:
    """What was chosen, what it costs and why, what to change, alternatives, loops and instructions."""
    where = f"segment {op.segment}, operator {op.position + 1} of it" if not op.host else f"segment {op.segment}"
    lines = title(f"Operator {op.name} ({where})", width)
    if op.origin and op.origin != (op.name,):
        lines += paragraph(f"from ONNX: {', '.join(op.origin)}", width, "  ")
    if op.host:
        engine = {"host": "host", "scalar": "scalar engine"}[op.kernel_engine]
        lines += paragraph(f"runs on the {engine}: {op.host}", width)
    return [
        *lines,
        *_verdict(op, width),
        *_advice(op, width),
        *_choice(op, width),
        *_operands(op, width),
        *_alternatives(op.alternatives, width),
        *_binds(op, width),
        *_loops(op.loops, op, width),
        *_instructions(op, width),
    ]


def splits(values: Sequence[Split]) -> str:
    """``4 along dim 0, 2 along dim 2``; ``1`` if nothing is split."""
    return ", ".join(f"{s.parts} along dim {s.dim}" for s in values if s.parts > 1) or "1"


def _verdict(op: OperatorDetails, width: int) -> list[str]:
    rows: list[tuple[str, str]] = []
    for engine in dict.fromkeys(i.engine for i in op.instructions if i.kind in ("matrix", "vector", "host", "scalar")):
        instructions = [i for i in op.instructions if i.engine == engine and i.kind != "sync"]
        queues = {queue for i in instructions for queue in i.queues}
        busy = sum(i.cycles for i in instructions) / len(queues)
        rows.append((engine, f"busy for {count(busy)} cycles of the run, mean of {plural(len(queues), 'queue')}"))
    if op.cycles >= 1:
        rows.append(("simulated", f"{count(op.cycles)} cycles of {op.resource}, waits included"))
        rows.append(("bound", f"{count(op.work)} cycles of {op.resource}; lost: {count(op.lost)}"))
    else:
        rows.append(("simulated", f"it takes no cycle of {op.resource}, which has the most work of all"))
    rows.append(("predicted", f"{count(op.predicted)} cycles of computation, {plural(op.steps, 'instance')}"))
    if op.losses:
        rows.append(("lost to", op.losses))
    rows.append(("in the run", f"from cycle {count(op.begin)} to {count(op.end)}, first fetch to last store"))
    return pairs(rows, width)


def _advice(op: OperatorDetails, width: int) -> list[str]:
    if not op.advice:
        return []
    lines = title("What would make it faster: the losses above 3 %, the largest first", width)
    for a in op.advice:
        lines += paragraph(f"{count(a.cycles)} cycles, {share(a.cycles, op.cycles)}: {a.text}", width, "  ")
    return lines


def _choice(op: OperatorDetails, width: int) -> list[str]:
    rows = [("result", extents(op.shape))]
    if op.tile is not None:
        tile, cores = op.tile, numbers(sorted(op.cell_cores))
        rows += [
            ("instances", f"{splits(op.instances)} of the segment's last result, one after the other"),
            ("cores", f"{splits(op.cores)} of the segment's last result, side by side on cores {cores}"),
            ("cell", f"{extents(op.cell)}: of the result, on one core in one instance"),
            ("engine", tile.engine),
            ("tile", f"{extents(tile.sizes)}, loops over dims {' '.join(map(str, tile.order)) or 'none'}"),
        ]
        if tile.reduce:
            rows.append(("reduction", f"in parts of {extents(tile.reduce)}"))
        if tile.engine == "matrix":
            rows.append(("depth", f"{tile.depth} of scratch buffers, {tile.weight_depth} of weight tiles"))
        if op.weight_stream:
            rows.append(("weights", op.weight_stream))
    rows.append(("work", f"{count(op.macs)} multiply-accumulates, {count(op.elements)} element operations"))
    return [*title("What was chosen", width), *pairs(rows, width)]


def _operands(op: OperatorDetails, width: int) -> list[str]:
    rows = [(o.access, o.tensor, o.kind, size(o.bytes), " > ".join(o.memories)) for o in op.operands]
    lines = title("Tensors: the memories that they pass, in the direction of the data", width)
    lines += table("access|tensor|kind|size|through", rows, width)
    noted = [o for o in op.operands if o.note]
    return [*lines, *(line for o in noted for line in paragraph(f"{o.tensor}: {o.note}", width, "  "))]


def _alternatives(alternatives: Sequence[Alternative], width: int) -> list[str]:
    lines: list[str] = []
    for decision, group in groupby(alternatives, key=lambda a: a.decision):
        rows = list(group)
        chosen = next((a.cycles for a in rows if a.chosen), None)
        lines += title(f"Alternatives: {decision}. Costs in {rows[0].unit}, as the model knows them", width)
        cells = [(count(a.cycles), _relative(a.cycles, chosen), _answer(a)) for a in rows]
        lines += entries("cost|to chosen|choice", cells, width)
    return lines


def _answer(alternative: Alternative) -> str:
    """The choice, and what speaks against it unless that is nothing but its cost."""
    if alternative.chosen:
        return f"{alternative.choice} (chosen)"
    against = alternative.why_not
    return f"{alternative.choice}: {against}" if not against.endswith("cycles more") else alternative.choice


def _relative(cycles: float | None, chosen: float | None) -> str:
    return f"{cycles / chosen - 1:+.1%}" if cycles is not None and chosen else "-"


def _binds(op: OperatorDetails, width: int) -> list[str]:
    lines = title("What binds: cycles that it alone would keep engines and links busy (fetches run ahead)", width)
    rows = [(row.resource, count(row.cycles), share(row.cycles, op.loads[0].cycles)) for row in op.loads[:_MOST_LOADS]]
    lines += table("resource|cycles|of the most", rows, width)
    if op.waits:
        lines += title(f"Longest waits of {op.resource} (mean of the cores), and what they wait for", width)
        waits = [(count(w.cycles), _WAITS[w.cause], w.op, w.engine) for w in op.waits if w.cycles >= 1]
        lines += table("cycles|wait for|of|on", waits, width)
    if op.rooms:
        lines += title("Memories meanwhile: bytes for this operator, in use in all, and capacity", width)
        rooms = [(r.memory, size(r.own), size(r.live), size(r.capacity), share(r.live, r.capacity)) for r in op.rooms]
        lines += table("memory|own|in use|capacity|full", rooms, width)
    return lines


def _loops(loops: Sequence[Loop], op: OperatorDetails, width: int) -> list[str]:
    if not loops:
        return []
    lines = title("Loops, the outermost first; an extent of 1 is not shown", width)
    shown = [loop for loop in loops if loop.iterations > 1]
    for depth, loop in enumerate(shown):
        lines += paragraph(f"{'  ' * depth}{_loop(loop)}", width, "  " * (depth + 1))
    body = dict.fromkeys(
        f"{i.mnemonic} on {i.engine}" for i in op.instructions if i.cycles_alone and i.engine in _compute(op)
    )
    return [*lines, *paragraph("  " * len(shown) + (", ".join(body) or "copies"), width, "  " * (len(shown) + 1))]


def _compute(op: OperatorDetails) -> set[str]:
    return {i.engine for i in op.instructions if not i.mnemonic.endswith(("copy", "bcast"))}


def _loop(loop: Loop) -> str:
    if loop.kind == "instances":
        return f"for each of {loop.iterations} instances, along dim {loop.dim}"
    if loop.kind == "cores":
        return f"on {loop.iterations} cores side by side, along dim {loop.dim}"
    kind = "tiles" if loop.kind == "tile" else "parts of the reduction"
    along = f"dim {loop.dim}" if loop.kind == "tile" else loop.dim
    return f"for each of {loop.iterations} {kind} of {loop.size} along {along}"


def _instructions(op: OperatorDetails, width: int) -> list[str]:
    lines = title("Instructions on all queues; alone: their cycles if nothing else ran; run: in the simulation", width)
    rows = [
        (i.engine, i.mnemonic, count(i.instructions), len(i.queues), count(i.cycles_alone), count(i.cycles))
        for i in op.instructions
    ]
    lines += table("engine|mnemonic|count|queues|alone|run", rows, width)
    first = [text for i in op.instructions if i.kind != "sync" for text in i.first]
    lines += title("The first ones (queue, number in it)", width)
    return [*lines, *(line for text in first for line in paragraph(text, width, "    "))]
