"""How long instructions take, in cycles, when nothing else runs: for prediction and for simulation alike.

An engine is busy for ``issue + body`` cycles; then it takes the next instruction of its queue, while the result
becomes visible to other queues ``latency`` cycles later (to later instructions of its own queue at once: engines
forward). What running together does to it (shared links, bank
conflicts) is the simulator's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from .errors import UnsupportedError
from .isa import DTYPE_NAMES, Instruction, field
from .machine import Engine, Link, Machine
from .reach import Strided, reach


@dataclass(frozen=True)
class Cost:
    """What one instruction takes of the machine.

    ``payload``: bytes moved by a copy or a host kernel, 0 for arithmetic. ``links``: for each link (index in the
    machine's) the bytes that cross it, whole bursts. ``traffic``: for each operand, in the row's order, the bytes
    that its memory serves during the body.
    """

    issue: int
    body: int
    latency: int
    payload: int = 0
    links: tuple[tuple[int, int], ...] = ()
    traffic: tuple[int, ...] = ()

    @property
    def busy(self) -> int:
        return self.issue + self.body


def vector_body(engine: Engine, shape: Sequence[int], dtype: str, special: bool = False) -> int:
    """Cycles for one vector instruction over ``shape`` (last dimension along the lanes).

    ``dtype`` is of the destination; for reductions (also vdot) it is of the source.
    """
    lanes = (engine.lanes or {}).get(dtype)
    if not lanes:
        raise UnsupportedError(f"{engine.name} has no lanes for {dtype}")
    *rows, last = shape
    return prod(rows) * -(-last // lanes) * (engine.special if special else 1)


def matrix_body(engine: Engine, m: int, n: int, k: int, dtype: str) -> int:
    """Cycles for ``m x n`` sums of ``k`` products of ``dtype`` operands; a convolution has m=oh*ow, k=kh*kw*ci."""
    rate = (engine.rate or {}).get("int8" if dtype == "uint8" else dtype)
    if not rate:
        raise UnsupportedError(f"{engine.name} does not multiply {dtype}")
    return ceil(-(-m // engine.rows) * -(-n // engine.columns) * k / rate)


def contiguous_runs(extents: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """(number of runs, bytes of a run) of an array that is walked in row-major order."""
    run, runs = itemsize, 1
    for extent, stride in zip(reversed(extents), reversed(strides), strict=True):
        if extent == 1 or (runs == 1 and stride == run):
            run *= extent
        else:
            runs *= extent
    return runs, run


def burst_bytes(link: Link, runs: int, run_bytes: int) -> int:
    """Bytes that cross the link for ``runs`` contiguous pieces, each rounded up to whole bursts."""
    return runs * -(-run_bytes // link.burst) * link.burst


def link_bytes(machine: Machine, source: Strided, target: Strided) -> tuple[tuple[int, int], ...]:
    """(link, bytes) for each link that a copy from ``source`` to ``target`` crosses, in the machine's order."""
    found: list[tuple[int, int]] = []
    for number, link in enumerate(machine.links):
        crossed = 0
        for side, direction in ((source, "read"), (target, "write")):
            if machine.memories[side.memory].name == link.memory and link.direction in (direction, "both"):
                crossed += burst_bytes(link, *contiguous_runs(side.extents, side.strides, side.itemsize))
        if crossed:
            found.append((number, crossed))
    return tuple(found)


def copy_body(machine: Machine, engine: Engine, payload: int, links: Sequence[tuple[int, int]]) -> int:
    """Cycles for a transfer that has every link to itself: the slowest of the engine and the links."""
    return ceil(max([payload / engine.bytes_per_cycle, *(b / machine.links[i].bytes_per_cycle for i, b in links)]))


def instruction_cost(
    machine: Machine, engine: Engine, instruction: Instruction, kernel_bytes: Sequence[int] = ()
) -> Cost:
    """The cost of an instruction on an engine that runs its class; ``kernel_bytes`` are moved by each host kernel.

    Raises :class:`UnsupportedError` where the engine has no rate for the dtype.
    """
    rule = instruction.row.latency
    if rule == "wait":
        return Cost(0, 0, 0)
    if rule == "host":
        moved = kernel_bytes[int(field(instruction, "kernel"))]
        return Cost(engine.issue, -(-moved // engine.bytes_per_cycle), engine.latency, moved)
    operands = reach(instruction)
    if rule == "copy":
        return _copy_cost(machine, engine, operands)
    traffic = tuple(o.bytes * (1 + (o.reads and o.writes)) for o in operands)
    if rule == "matrix":
        return _matrix_cost(engine, instruction, operands, traffic)
    shape = [int(v) for v in instruction.values[:3]]
    dtype = DTYPE_NAMES[operands[1 if rule == "reduction" else 0].dtype]
    body = vector_body(engine, shape, dtype, instruction.row.special)
    return Cost(engine.issue, body, engine.latency, traffic=traffic)


def _copy_cost(machine: Machine, engine: Engine, operands: tuple[Strided, ...]) -> Cost:
    target, source = operands
    payload = prod(target.extents) * target.itemsize
    links = link_bytes(machine, source, target)
    latency = engine.latency + sum(machine.links[i].latency for i, _ in links)
    return Cost(engine.issue, copy_body(machine, engine, payload, links), latency, payload, links, (payload, payload))


def _matrix_cost(
    engine: Engine, instruction: Instruction, operands: tuple[Strided, ...], traffic: tuple[int, ...]
) -> Cost:
    m, n, k = matrix_shape(instruction)
    _, a, b = operands
    body = matrix_body(engine, m, n, k, DTYPE_NAMES[a.dtype])
    # Each operand is read again for every block of rows or columns of the array.
    read_a = m * k * a.itemsize * -(-n // engine.columns)
    read_b = n * k * b.itemsize * -(-m // engine.rows)
    return Cost(engine.issue, body, engine.latency, traffic=(traffic[0], read_a, read_b))


def matrix_shape(instruction: Instruction) -> tuple[int, int, int]:
    """(m, n, k) of a matrix instruction: ``m * n * k`` is its number of multiply-accumulates."""
    values = [int(v) for v in instruction.values[:6]]
    if instruction.mnemonic == "mmatmul":
        return values[0], values[1], values[2]
    oh, ow, n, kh, kw, ci = values
    return oh * ow, n, kh * kw * ci
