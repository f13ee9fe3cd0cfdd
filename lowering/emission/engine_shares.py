"""Instructions divided among the engines of a core that run them: each engine has a part of every instruction.

    vadd Y[0:64]      becomes      vadd Y[0:16] . vadd Y[16:32] . vadd Y[32:48] . vadd Y[48:64]

Instructions that write apart from one another and are enough for all engines are dealt out whole, if that is sooner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, pairwise, product

from ...ir.isa.footprint import Strided, footprint
from ...ir.isa.row import Row
from ...ir.isa.table import ROWS, Instruction, make
from ...ir.isa.timing import divisions, instruction_cost
from ...ir.machine import Engine, Machine
from .blocks import EngineStep, Places, cuttable, part_of, placed_fields
from .vector import Emitted, StationaryFetch


def divided(
    steps: Sequence[Emitted | StationaryFetch], places: Places, machine: Machine
) -> Iterator[EngineStep | StationaryFetch]:
    """The steps of a kernel, each on an engine; ``places``: memory and dtype of each buffer, by their codes."""
    writers = _Writers(places)
    for _, together in groupby(steps, _alike):
        group = list(together)
        first = group[0]
        if isinstance(first, StationaryFetch):
            yield from (step for step in group if isinstance(step, StationaryFetch))
            continue
        run = [step for step in group if isinstance(step, Emitted)]
        team = machine.team(ROWS[first.mnemonic].kind)
        if len(team) == 1:
            yield from (EngineStep(step, team[0].name) for step in run)
            continue
        yield from _dealt(run, machine, team, writers) or [
            each for step in run for each in _cut(step, machine, team, writers)
        ]


def _alike(step: Emitted | StationaryFetch) -> tuple[str, ...]:
    """What consecutive instructions of one kind on the same buffers have in common."""
    return ("",) if isinstance(step, StationaryFetch) else (step.mnemonic, *(ref.buffer for ref in step.refs))


class _Writers:
    """Which engine has written the bytes of each buffer last."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._last: dict[str, list[tuple[int, int, str]]] = {}

    def instruction(self, step: Emitted) -> Instruction:
        return make(step.mnemonic, 0, placed_fields(step, self.places))

    def touched(self, step: Emitted) -> Iterator[tuple[str, int, int, Strided]]:
        """Buffer, first and last byte of each operand that is not empty."""
        offsets = {ref.operand: (ref.buffer, ref.offset) for ref in step.refs}
        for operand, at in zip(ROWS[step.mnemonic].operands, footprint(self.instruction(step)), strict=True):
            if at.low < at.high:
                buffer, offset = offsets[operand.name]
                yield buffer, offset + at.low, offset + at.high, at

    def waits(self, step: Emitted, engine: str) -> bool:
        """Whether a step reads what another engine has written."""
        return any(
            writer != engine and low < end and begin < high
            for buffer, low, high, at in self.touched(step)
            if at.reads
            for begin, end, writer in self._last.get(buffer, ())
        )

    def write(self, step: Emitted, engine: str) -> None:
        for buffer, low, high, at in self.touched(step):
            if at.writes:
                known = self._last.setdefault(buffer, [])
                known[:] = [old for old in known if not (low <= old[0] and old[1] <= high)]
                known.append((low, high, engine))


def _dealt(run: Sequence[Emitted], machine: Machine, team: Sequence[Engine], writers: _Writers) -> list[EngineStep]:
    """Whole instructions, as many for each engine; none if they write what others do, or cut ones are done sooner."""
    if len(run) == 1:
        return []
    shares = -(-len(run) // len(team))
    whole = [_cycles(step, machine, team[0], writers) for step in run]
    cut = sum(min(cycles for cycles, _ in _divisions(step, machine, team, writers)) for step in run)
    if cut <= max(sum(whole[i : i + shares]) for i in range(0, len(run), shares)):
        return []
    written = sorted((low, high) for step in run for _, low, high, at in writers.touched(step) if at.writes)
    if any(before[1] > behind[0] for before, behind in pairwise(written)):
        return []
    steps = [EngineStep(step, team[number // shares].name) for number, step in enumerate(run)]
    for step in steps:
        writers.write(step.emitted, step.engine)
    return steps


def _cycles(step: Emitted, machine: Machine, engine: Engine, writers: _Writers) -> int:
    cost = instruction_cost(machine, engine, writers.instruction(step))
    return cost.issue + cost.body


def _cut(step: Emitted, machine: Machine, team: Sequence[Engine], writers: _Writers) -> list[EngineStep]:
    """The division that is done first, what its parts wait for other engines counted; of equal ones, in fewer parts."""
    row = ROWS[step.mnemonic]
    best: tuple[int, list[EngineStep]] | None = None
    for cycles, bounds in sorted(_divisions(step, machine, team, writers), key=lambda division: division[0]):
        if best is not None and cycles >= best[0]:
            break
        spans = (dict(zip(bounds, part, strict=True)) for part in product(*bounds.values()))
        parts = [
            EngineStep(part_of(step, row, part, first=True), engine.name)
            for part, engine in zip(spans, team, strict=False)
        ]
        if any(writers.waits(part.emitted, part.engine) for part in parts):
            cycles += team[0].latency
        if best is None or cycles < best[0]:
            best = cycles, parts
    assert best is not None
    for part in best[1]:
        writers.write(part.emitted, part.engine)
    return best[1]


_Bounds = dict[str, list[tuple[int, int]]]
"""Of each extent that is cut, the first and the number of each part."""


def _divisions(
    step: Emitted, machine: Machine, team: Sequence[Engine], writers: _Writers
) -> Iterator[tuple[int, _Bounds]]:
    """Ways to cut an instruction, each with the cycles of its largest part."""
    row = ROWS[step.mnemonic]
    extents = _extents(step, row)
    for counts in divisions(tuple(extents.values()), len(team)):
        bounds = {name: _bounds(extents[name], count) for name, count in zip(extents, counts, strict=True)}
        largest = part_of(step, row, {name: spans[0] for name, spans in bounds.items()}, first=True)
        yield _cycles(largest, machine, team[0], writers), bounds


def _extents(step: Emitted, row: Row) -> dict[str, int]:
    """The extents of the result in which an instruction can be cut, each with its size."""
    result = row.operands[0]
    strides = next(ref.strides for ref in step.refs if ref.operand == result.name)
    moving = {name for name, stride in zip(result.dims, strides, strict=True) if stride}
    return {n: int(v) for n, v in step.fields if n in moving and n in cuttable(step, row)}


def _bounds(extent: int, count: int) -> list[tuple[int, int]]:
    """(first, size) of so many parts, the larger ones first."""
    sizes = [extent // count + (i < extent % count) for i in range(count)]
    return list(zip(accumulate(sizes, initial=0), sizes, strict=False))
