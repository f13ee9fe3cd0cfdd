"""The memories of a core: every local buffer is there, large enough, in place, and alone there while it lives."""

from __future__ import annotations

from typing import NoReturn

from ..box import volume
from ..errors import CheckError
from ..graph import DTYPES, Op
from ..machine import Machine, Memory
from ..plan import LocalBuffer, Segment, Tile
from ..semantics.cell import Cell
from ..semantics.concat_aliasing import concat_aliases, parent_buffers, possible_aliases
from ..semantics.in_place import replaced
from ..semantics.row_stream import is_ring, row_stream
from .plan_facts import Facts


def _fail(message: str) -> NoReturn:
    raise CheckError(f"invalid plan: {message}")


def check_local(facts: Facts) -> None:
    """All local buffers of all segments."""
    by_segment: dict[int, list[LocalBuffer]] = {}
    for buffer in facts.plan.local:
        if not 0 <= buffer.segment < len(facts.plan.segments):
            _fail(f"the local buffer of {buffer.name} is of segment {buffer.segment}, which does not exist")
        by_segment.setdefault(buffer.segment, []).append(buffer)
    for index, segment in enumerate(facts.plan.segments):
        buffers = by_segment.get(index, [])
        for buffer in buffers:
            _check_place(facts, segment, buffer)
        _check_alone(facts, segment, buffers)
        if facts.is_host(segment):
            if buffers:
                _fail(f"segment {index} runs on the host and has a local buffer of {buffers[0].name}")
            continue
        _check_needs(facts, index, segment, buffers)


def _places(machine: Machine) -> dict[str, str]:
    """The memory in which buffers of each use lie."""
    levels = machine.levels
    return {"data": levels.activations.name, "scratch": levels.sums.name, "weights": levels.weights.name}


def _check_place(facts: Facts, segment: Segment, buffer: LocalBuffer) -> None:
    """In the right memory, aligned, inside of it, in whole versions, in the life of the segment."""
    where = f"the {buffer.use} buffer of {buffer.name} in segment {buffer.segment}"
    places = _places(facts.machine)
    if buffer.use not in places:
        _fail(f"{where} has no known use")
    memory: Memory | None = facts.machine.memory.get(buffer.memory)
    if memory is None or memory.name != places[buffer.use]:
        _fail(f"{where} lies in {buffer.memory}, which does not hold {buffer.use}")
    if buffer.op not in segment.ops and not (buffer.use == "data" and not buffer.op):
        _fail(f"{where} belongs to {buffer.op}, which is not in the segment")
    if buffer.bytes < 0 or buffer.depth < 1 or buffer.bytes % (buffer.depth * memory.alignment):
        _fail(f"{where} has {buffer.bytes} bytes, not {buffer.depth} versions of whole {memory.alignment} bytes")
    if buffer.address < 0 or buffer.address % memory.alignment:
        _fail(f"{where} is at address {buffer.address}, and {memory.name} is aligned to {memory.alignment}")
    if buffer.address + buffer.bytes > memory.capacity:
        over = buffer.address + buffer.bytes - memory.capacity
        _fail(f"{where} ends {over} bytes beyond the {memory.capacity} of {memory.name}")
    if not 0 <= buffer.live[0] < buffer.live[1] <= len(segment.ops):
        _fail(f"{where} lives in {buffer.live}, and the segment has {len(segment.ops)} operators")


def _check_alone(facts: Facts, segment: Segment, buffers: list[LocalBuffer]) -> None:
    """No two share a byte at one time, but for a result that takes the place of an input, and private buffers of one
    operator that stages use in turn."""
    # In the order of their lives, the first buffer that begins after another ends is the last to compare that with.
    ordered = sorted(buffers, key=lambda buffer: (buffer.memory, buffer.live[0]))
    for i, a in enumerate(ordered):
        for b in ordered[i + 1 :]:
            if b.memory != a.memory or b.live[0] >= a.live[1]:
                break
            shared = min(a.address + a.bytes, b.address + b.bytes) - max(a.address, b.address)
            if shared > 0 and not _may_share(facts, segment, a, b):
                _fail(f"in segment {a.segment}, {a.name} and {b.name} share {shared} bytes of {a.memory}")


def _may_share(facts: Facts, segment: Segment, a: LocalBuffer, b: LocalBuffer) -> bool:
    return _take_turns(facts, a, b) or _replaces(facts, segment, a, b) or _replaces(facts, segment, b, a)


def _take_turns(facts: Facts, a: LocalBuffer, b: LocalBuffer) -> bool:
    """Whether two private buffers are one room, and all stages that touch the one come before those of the other."""
    if not (a.use == b.use == "scratch" and a.op == b.op):
        return False
    if (a.address, a.bytes, a.depth) != (b.address, b.bytes, b.depth):
        return False
    spans = facts.geometry.stage_spans(facts.graph.op[a.op])
    if a.name not in spans or b.name not in spans:
        return False
    first, second = sorted((spans[a.name], spans[b.name]))
    return first[1] < second[0]


def _replaces(facts: Facts, segment: Segment, old: LocalBuffer, new: LocalBuffer) -> bool:
    """Whether ``new`` is the result of an operator that overwrites its input ``old`` element by element."""
    return (
        old.use == new.use == "data"
        and old.address == new.address
        and old.live[1] == new.live[0] + 1
        and replaced(facts.graph, facts.ops(segment), concat_aliases(facts.graph, segment)).get(new.name) == old.name
    )


def _check_needs(facts: Facts, index: int, segment: Segment, buffers: list[LocalBuffer]) -> None:
    """Each tensor, private buffer and weight tile has its buffer, and nothing else has one."""
    known: dict[tuple[str, str, str], LocalBuffer] = {}
    for buffer in buffers:
        key = ("" if buffer.use == "data" else buffer.op, buffer.use, buffer.name)
        if key in known:
            _fail(f"segment {index} has two {buffer.use} buffers of {buffer.name}")
        known[key] = buffer
    cells = facts.all_cells(segment)
    places = possible_aliases(facts.graph, facts.ops(segment))
    for name in segment.aliased:
        if name not in places:
            _fail(f"segment {index} says that {name} lies inside another tensor, and it has no such place")
    _check_data(facts, index, segment, cells, known)
    for position, op in enumerate(facts.ops(segment)):
        tile = segment.tile[op.name]
        boxes = list(dict.fromkeys(c.ops[op.name].tensors[op.output] for c in cells if op.name in c.ops))
        for private, size in zip(op.buffers, facts.geometry.scratch(op, tile, boxes), strict=True):
            if size:
                buffer = _required(known, (op.name, "scratch", private.name), index)
                # What the vector engine alone uses, in order, needs no second version.
                once = buffer.depth == 1 and not _for_matrix(op, tile, private.name)
                _check_versions(buffer, size, 1 if once else tile.depth, (position, position + 1))
        right = facts.stationary(segment, op)
        if right is not None and boxes:
            most = facts.geometry.weights(op, tile, boxes)
            buffer = _required(known, (op.name, "weights", right), index)
            size = most * DTYPES[facts.graph.tensor[right].dtype]
            _check_versions(buffer, size, tile.weight_depth, (position, position + 1))
    whole = parent_buffers(facts.graph, segment)
    for (_, use, name), buffer in known.items():
        if use == "data" and name in whole:
            _fail(f"segment {index} has a data buffer of {name}, which lies in that of {whole[name]}")
        if use == "data" and not any(name in cell.tensors or name in cell.extents for cell in cells):
            _fail(f"segment {index} has a data buffer of {buffer.name}, which it does not touch")


def _for_matrix(op: Op, tile: Tile, name: str) -> bool:
    """Whether the matrix engine reads or writes a private buffer."""
    if tile.engine != "matrix" or op.contraction is None:
        return False
    anchor = op.stages[op.contraction]
    return name in (anchor.write.tensor, *(r.tensor for r in anchor.reads))


def _required(known: dict[tuple[str, str, str], LocalBuffer], key: tuple[str, str, str], index: int) -> LocalBuffer:
    if key not in known:
        op, use, name = key
        _fail(f"segment {index} has no {use} buffer of {name}" + (f" for {op}" if op else ""))
    return known[key]


def _check_versions(buffer: LocalBuffer, size: int, depth: int, live: tuple[int, int]) -> None:
    where = f"the {buffer.use} buffer of {buffer.name} in segment {buffer.segment}"
    if buffer.depth != depth:
        _fail(f"{where} has {buffer.depth} versions, and its tile wants {depth}")
    if buffer.bytes // buffer.depth < size:
        _fail(f"{where} has {buffer.bytes // buffer.depth} bytes a version, and a tile needs {size}")
    if buffer.live[0] > live[0] or buffer.live[1] < live[1]:
        _fail(f"{where} lives in {buffer.live}, and is needed in {live}")


def _check_data(
    facts: Facts, index: int, segment: Segment, cells: list[Cell], known: dict[tuple[str, str, str], LocalBuffer]
) -> None:
    ops = facts.ops(segment)
    whole = parent_buffers(facts.graph, segment)
    names = dict.fromkeys(whole.get(name, name) for cell in cells for name in cell.tensors)
    for name in names:
        if facts.streamed(segment, name):
            if ("", "data", name) in known:
                _fail(f"segment {index} has a data buffer of {name}, which goes straight to weight memory")
            continue
        buffer = _required(known, ("", "data", name), index)
        members = {name} | {part for part, outer in whole.items() if outer == name}
        need = max(volume(c.allocated(part)) for c in cells for part in members if part in c.tensors)
        need *= DTYPES[facts.graph.tensor[name].dtype]
        depth = 1
        by_rows = [op for op in ops if row_stream(facts.graph, op) == name and facts.stationary(segment, op)]
        if is_ring(buffer) and by_rows:
            need, depth = facts.row_tile(segment, by_rows[0], cells), buffer.depth
        touched = [p for p, op in enumerate(ops) if op.output in members or not members.isdisjoint(op.inputs)]
        _check_versions(buffer, need, depth, (touched[0], touched[-1] + 1))
        if touched and name in (op.output for op in ops) and buffer.live[0] != touched[0]:
            _fail(f"the data buffer of {name} in segment {index} lives before its producer runs")
