"""A kernel: the instructions of one class of tiles, on buffers that have no addresses yet."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir.machine import Machine
from ..loops.perfect_nest import Load, PerfectNest
from ..loops.tile_nests import TileNests, without_turn
from ..schedule.stage_spec import WEIGHTS_SCOPE
from .matrix import contraction
from .reduction import reduction
from .vector import Array, Emitted, StationaryFetch, elementwise, fetch, fill

STATIONARY = "stationary"
"""The name of the buffer that holds the current tile of the stationary operand."""


@dataclass(frozen=True)
class EmittedKernel:
    """``steps`` in order; their buffers are those of the nests, but for :data:`STATIONARY`."""

    steps: tuple[Emitted | StationaryFetch, ...]


def compile_kernel(tile: TileNests, machine: Machine) -> EmittedKernel:
    """The instructions of one class of tiles; deterministic.

    Raises :class:`~girih.ir.errors.UnsupportedError` for a nest that no instruction of the machine could become.
    """
    vector = machine.shared_engine("vector")
    buffers = {b.name: Array(b.shape or (1,), b.strides or (1,), b.dtype) for b in tile.buffers}
    staged = {b.name: b.shape for b in tile.buffers if b.scope == WEIGHTS_SCOPE}
    products = {nest.buffer for nest in tile.nests if nest.combine is not None and _reads(nest, staged)}
    steps: list[Emitted | StationaryFetch | None] = []
    pending: dict[str, tuple[int, int]] = {}
    started: set[str] = set()
    starts: dict[str, PerfectNest] = {}

    def drop_fill(buffer: str) -> None:
        if buffer in pending:
            first, last = pending.pop(buffer)
            steps[first:last] = [None] * (last - first)

    for nest in tile.nests:
        if nest.buffer in staged:
            steps.append(fetch(nest, staged[nest.buffer]))
        elif nest.combine is None and nest.func == "copy" and not isinstance(nest.operands[0], Load):
            start = len(steps)
            steps += fill(nest, nest.operands[0], buffers, vector)
            pending[nest.buffer] = (start, len(steps))
            started.discard(nest.buffer)
        elif nest.combine is None:
            first = len(steps)
            steps += elementwise(nest, buffers, vector)
            if nest.buffer in products:
                # A product that starts from a bias: its instruction may have room for that.
                pending[nest.buffer] = (first, len(steps))
                starts[nest.buffer] = nest
            else:
                started.add(nest.buffer)
        else:
            if _reads(nest, staged):
                matrix, staging = machine.shared_engine("matrix"), bool(machine.staging_memories)
                emitted, overwrites = contraction(
                    nest, buffers, matrix, nest.buffer in started, starts.get(nest.buffer), staged=staging
                )
            else:
                emitted, overwrites = reduction(nest, buffers, vector, nest.buffer in started)
            if emitted:
                started.add(nest.buffer)
            if overwrites:
                drop_fill(nest.buffer)
            steps += emitted
    return EmittedKernel(tuple(_named(s, staged) for s in steps if s is not None))


def _reads(nest: PerfectNest, staged: dict[str, tuple[int, ...]]) -> bool:
    return any(isinstance(o, Load) and o.buffer in staged for o in nest.operands)


def _named(step: Emitted | StationaryFetch, staged: dict[str, tuple[int, ...]]) -> Emitted | StationaryFetch:
    """The step with the operator's names of buffers, and :data:`STATIONARY` for the copy of the stationary operand."""
    if isinstance(step, StationaryFetch):
        return step
    refs = tuple(replace(r, buffer=STATIONARY if r.buffer in staged else without_turn(r.buffer)) for r in step.refs)
    return Emitted(step.mnemonic, step.fields, refs)


class KernelCache:
    """Compiled kernels by their nests: equal tiles are compiled once, whatever operator they belong to."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._known: dict[TileNests, EmittedKernel] = {}

    def get(self, tile: TileNests) -> EmittedKernel:
        if tile not in self._known:
            self._known[tile] = compile_kernel(tile, self.machine)
        return self._known[tile]
