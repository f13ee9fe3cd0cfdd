"""A kernel: the instructions of one tile, on buffers that have no addresses yet.

``compile_kernel`` goes the whole way: spec → TIR → schedule → loops → nests → instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.graph import DTYPES
from ...ir.machine import Machine
from ..loops.perfect_nest import BufferAllocation, Load, PerfectNest, nests
from ..loops.schedule import loops
from ..loops.tile_spec import Spec
from ..loops.tir_function import SCOPES, view_name
from .matrix import contraction
from .reduction import reduction
from .vector import Array, Emitted, Fetch, dense, elementwise, fetch, fill

WEIGHTS = "weights"
"""The name of the buffer that holds the current tile of the stationary operand."""


@dataclass(frozen=True)
class EmittedKernel:
    """``steps`` in order; their buffers are ``b<i>`` (view i of the spec) and :data:`WEIGHTS`."""

    steps: tuple[Emitted | Fetch, ...]


def compile_kernel(spec: Spec, machine: Machine) -> EmittedKernel:
    """Schedule, lower and emit one tile; deterministic."""
    if not spec.stages:
        return EmittedKernel(())
    vector = machine.engine_for("vector")
    buffers: dict[str, Array] = {
        view_name(i): Array(v.shape or (1,), v.strides or (DTYPES[v.dtype],), v.dtype) for i, v in enumerate(spec.views)
    }
    staged: dict[str, tuple[int, ...]] = {}
    on_matrix = view_name(spec.stages[spec.contraction].write) if spec.contraction is not None else None
    steps: list[Emitted | Fetch | None] = []
    pending: dict[str, tuple[int, int]] = {}
    started: set[str] = set()
    starts: dict[str, PerfectNest] = {}

    def drop_fill(buffer: str) -> None:
        if buffer in pending:
            first, last = pending.pop(buffer)
            steps[first:last] = [None] * (last - first)

    for item in nests(loops(spec)):
        if isinstance(item, BufferAllocation):
            if item.scope == SCOPES["weights"]:
                staged[item.buffer] = item.shape
                buffers[item.buffer] = dense(item.shape, item.dtype)
            continue
        if item.buffer in staged:
            steps.append(fetch(item, staged[item.buffer]))
        elif item.combine is None and item.func == "copy" and not isinstance(item.operands[0], Load):
            start = len(steps)
            steps += fill(item, item.operands[0], buffers, vector)
            pending[item.buffer] = (start, len(steps))
            started.discard(item.buffer)
        elif item.combine is None:
            first = len(steps)
            steps += elementwise(item, buffers, vector)
            if item.buffer == on_matrix:
                # A product that starts from a bias: its instruction may have room for that.
                pending[item.buffer] = (first, len(steps))
                starts[item.buffer] = item
            else:
                started.add(item.buffer)
        else:
            if item.buffer == on_matrix and _reads(item, staged):
                emitted, overwrites = contraction(
                    item, buffers, machine.engine_for("matrix"), item.buffer in started, starts.get(item.buffer)
                )
            else:
                emitted, overwrites = reduction(item, buffers, vector, item.buffer in started)
            if emitted:
                started.add(item.buffer)
            if overwrites:
                drop_fill(item.buffer)
            steps += emitted
    return EmittedKernel(tuple(_named(s, staged) for s in steps if s is not None))


def _reads(nest: PerfectNest, staged: dict[str, tuple[int, ...]]) -> bool:
    return any(isinstance(o, Load) and o.buffer in staged for o in nest.operands)


def _named(step: Emitted | Fetch, staged: dict[str, tuple[int, ...]]) -> Emitted | Fetch:
    """The step with the schedule's name of the staged operand replaced by :data:`WEIGHTS`."""
    if isinstance(step, Fetch):
        return step
    refs = tuple(type(r)(r.operand, WEIGHTS, r.offset, r.strides) if r.buffer in staged else r for r in step.refs)
    return Emitted(step.mnemonic, step.fields, refs)


class KernelCache:
    """Compiled kernels by spec: equal tiles are compiled once."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._known: dict[Spec, EmittedKernel] = {}

    def get(self, spec: Spec) -> EmittedKernel:
        if spec not in self._known:
            self._known[spec] = compile_kernel(spec, self.machine)
        return self._known[spec]
