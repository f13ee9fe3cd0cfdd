"""How long instructions take, in cycles, when nothing else runs: for prediction and for simulation alike.

An engine is busy for ``issue + body`` cycles; then it takes the next instruction of its queue, while the result
becomes visible to other queues ``latency`` cycles later (to later instructions of its own queue at once: engines
forward). What running together does to it (shared links, bank
conflicts) is the simulator's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, prod

from ..errors import EngineTypeError
from ..machine import Engine, Link, Machine, Memory
from .footprint import Strided, footprint
from .table import DTYPE_NAMES, Instruction, field


@dataclass(frozen=True)
class Cost:
    """What one instruction takes of the machine.

    ``payload``: bytes moved by a copy or a kernel, 0 for arithmetic. ``links``: for each link (index in the
    machine's) the bytes that cross it, whole bursts. ``traffic``: for each operand, in the row's order, the bytes
    that its memory serves during the body. ``computing``: cycles of the body that a kernel computes at least, however
    fast its data comes.
    """

    issue: int
    body: int
    latency: int
    payload: int = 0
    links: tuple[tuple[int, int], ...] = ()
    traffic: tuple[int, ...] = ()
    computing: int = 0

    @property
    def busy(self) -> int:
        return self.issue + self.body


@dataclass(frozen=True)
class KernelWork:
    """What a kernel of the host or of a scalar engine does: bytes that it reads and writes, and its operations.

    ``operations`` are those of a scalar engine in the worst case, ``special`` of them special functions; 0: unknown.
    """

    read: int
    written: int
    operations: int = 0
    special: int = 0

    @property
    def moved(self) -> int:
        return self.read + self.written


def vector_body(engine: Engine, shape: Sequence[int], dtype: str, special: bool = False) -> int:
    """Cycles for one vector instruction over ``shape`` (last dimension along the lanes).

    ``dtype`` is of the destination; for reductions (also vdot) and windows it is of the source.
    """
    lanes = (engine.lanes or {}).get(dtype)
    if not lanes:
        advice = _advice(engine, "lanes", dtype)
        raise EngineTypeError(f"{engine.name} has no lanes for {dtype}; {advice}", engine.name, "lanes")
    *rows, last = shape
    return prod(rows) * -(-last // lanes) * (engine.special if special else 1)


def matrix_body(engine: Engine, m: int, n: int, k: int, dtype: str) -> int:
    """Cycles for ``m x n`` sums of ``k`` products of ``dtype`` operands; a convolution has m=oh*ow, k=kh*kw*ci."""
    rate = engine.rate_of(dtype)
    if not rate:
        advice = _advice(engine, "rate", dtype)
        raise EngineTypeError(f"{engine.name} does not multiply {dtype}; {advice}", engine.name, "rate")
    blocks, steps = matrix_blocks(engine, m, n, k)
    return ceil(blocks * steps / rate) + matrix_fill(engine, m, n, k)


def matrix_blocks(engine: Engine, m: int, n: int, k: int) -> tuple[int, int]:
    """How often the array is filled with what stays in it, and the steps in which the rest streams through then."""
    rows, deep, columns = engine.rows, engine.depth, engine.columns
    if engine.dataflow == "output":
        return -(-m // rows) * -(-n // columns), -(-k // deep)
    across, streamed = (n, m) if engine.dataflow == "weight" else (m, n)
    return -(-k // (rows * deep)) * -(-across // columns), streamed


def matrix_fill(engine: Engine, m: int, n: int, k: int) -> int:
    """Of these cycles, those in which the array is filled and drained: for each of its blocks."""
    return matrix_blocks(engine, m, n, k)[0] * engine.fill if m and n and k else 0


def _advice(engine: Engine, key: str, dtype: str) -> str:
    return f"add {dtype} to {key} of {engine.name} in the machine file, or compute in another precision"


def matrix_traffic(engine: Engine, m: int, n: int, k: int) -> tuple[int, int, int, int]:
    """Elements of the result, the left and the right operand and the bias that their memories serve.

    Operands are read again for every block of rows or columns of the array; what stays in it is read once, and sums
    that do not are written for every block of the reduction.
    """
    if engine.dataflow == "output":
        across, down = -(-n // engine.columns), -(-m // engine.rows)
        return m * n, m * k * across, n * k * down, n * down
    deep = -(-k // (engine.rows * engine.depth))
    if engine.dataflow == "weight":
        return m * n * deep, m * k * -(-n // engine.columns), n * k, n
    return m * n * deep, m * k, n * k * -(-m // engine.columns), n


def divisions(extents: Sequence[int], engines: int) -> Iterator[tuple[int, ...]]:
    """Numbers of parts, one for each extent, that together make no more than so many ``engines``: the whole first.

    One extent is cut as often as it can be, or two are; not every division is among them.
    """
    whole = [1] * len(extents)
    known = {tuple(whole)}
    yield tuple(whole)
    for outer, extent in enumerate(extents):
        for inner, other in enumerate(extents):
            counts = list(whole)
            counts[outer] = max(1, min(engines, extent))
            if inner != outer:
                counts[inner] = max(1, min(engines // counts[outer], other))
            if tuple(counts) not in known:
                known.add(tuple(counts))
                yield tuple(counts)


def write_apart(extents: Sequence[int], strides: Sequence[int], inside: Collection[int]) -> bool:
    """Whether instructions over the loops ``inside`` write apart, from the first element of each to the last.

    ``strides``: by how much each loop moves what is written. Where rows of several instructions take turns in memory,
    these are not told apart.
    """
    reach = sum((extents[a] - 1) * abs(strides[a]) for a in inside)
    for stride, extent in sorted((abs(strides[a]), e) for a, e in enumerate(extents) if a not in inside and e > 1):
        if stride <= reach:
            return False
        reach += (extent - 1) * stride
    return True


def divided(
    engine: Engine, instructions: int, extents: Sequence[int], body: Callable[[Sequence[int]], int], *, apart: bool
) -> tuple[int, int]:
    """(instructions, cycles) of the busiest of the engines, ``engine.count``, that share equal instructions.

    Each has a part of every instruction: ``extents`` are those that can be cut, and ``body`` gives the cycles of a part
    by its own. Instructions that write ``apart`` may be dealt out whole instead.
    """
    if engine.count == 1:
        return instructions, instructions * (engine.issue + body(extents))
    parts = ([-(-e // n) for e, n in zip(extents, counts, strict=True)] for counts in divisions(extents, engine.count))
    ways = [(instructions * (engine.issue + min(map(body, parts))), instructions)]
    if apart:
        dealt = -(-instructions // engine.count)
        ways.append((dealt * (engine.issue + body(extents)), dealt))
    cycles, issued = min(ways, key=lambda way: way[0])
    return issued, cycles


def bank_cycles(demands: Iterable[tuple[Memory, float, int]]) -> float:
    """An estimate of the cycles that the busiest bank takes for what operands put on their memories.

    It is no bound in either direction. Left out are where the operands really lie (two can share a bank, or one can
    straddle two), that a strided walk may hit few of the banks that it covers, and what other engines and transfers ask
    of the same banks meanwhile.

    A demand is the memory, the bytes that it serves, and the bytes that the operand covers there. What fits in one bank
    is taken to be in one, and operands of one memory to be in different ones, as far as there are as many. Parts of a
    memory, each for one kind of operand, are told apart as objects: they have banks of their own.
    """
    alone = 0.0
    together: dict[int, float] = {}
    for memory, served, covered in demands:
        bank = memory.interleave or memory.capacity // memory.banks
        cycles = served / memory.bytes_per_cycle
        alone = max(alone, cycles * max(1 / memory.banks, min(1.0, bank / max(1, covered))))
        part = id(memory)
        together[part] = together.get(part, 0.0) + cycles / memory.banks
    return max([alone, *together.values()])


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


def link_bytes(machine: Machine, sides: Sequence[tuple[Strided, tuple[int, int]]]) -> tuple[tuple[int, int], ...]:
    """(link, bytes) for each link that a transfer crosses, in the machine's order.

    ``sides`` are the arrays that it reads or writes, each with its contiguous runs.
    """
    transfers: list[tuple[int, int]] = []
    for number, link in enumerate(machine.links):
        crossed = 0
        for at, runs in sides:
            direction = "write" if at.writes else "read"
            if machine.memories[at.memory].name in link.memories and link.direction in (direction, "both"):
                crossed += burst_bytes(link, *runs)
        if crossed:
            transfers.append((number, crossed))
    return tuple(transfers)


def copy_body(machine: Machine, engine: Engine, payload: int, links: Sequence[tuple[int, int]]) -> int:
    """Cycles for a transfer that has every link to itself: the slowest of the engine and the links."""
    return ceil(max([payload / engine.bytes_per_cycle, *(b / machine.links[i].bytes_per_cycle for i, b in links)]))


def instruction_cost(
    machine: Machine, engine: Engine, instruction: Instruction, kernels: Sequence[KernelWork] = ()
) -> Cost:
    """The cost of an instruction on an engine that runs its class; ``kernels``: the work of each kernel.

    Raises :class:`UnsupportedError` where the engine has no rate for the dtype.
    """
    row = instruction.row
    rule = row.latency
    if rule == "sync":
        return Cost(0, 0, 0)
    if rule == "kernel":
        return kernel_cost(machine, engine, row.kind, kernels[int(field(instruction, "kernel"))])
    operands = footprint(instruction)
    if rule == "copy":
        return _copy_cost(machine, engine, [_runs(o) for o in operands], operands)
    if rule == "fill":
        return _copy_cost(machine, engine, [_runs(operands[0])], operands)
    if rule == "gather":
        return _gather_cost(machine, engine, instruction, operands)
    if rule == "matrix":
        return _matrix_cost(engine, instruction, operands)
    shape = vector_shape(instruction)
    dtype = DTYPE_NAMES[operands[0 if rule == "vector" else 1].dtype]
    traffic = tuple(
        (o.itemsize * prod(shape) if spec.picked or (rule == "window" and not o.writes) else o.bytes)
        * (1 + (o.reads and o.writes))
        for o, spec in zip(operands, row.operands, strict=True)
    )
    return Cost(engine.issue, vector_body(engine, shape, dtype, row.special), engine.latency, traffic=traffic)


def kernel_cost(machine: Machine, engine: Engine, kind: str, work: KernelWork) -> Cost:
    """The cost of a kernel on the host or a scalar engine (``kind``).

    The host takes the time that its data takes; what it computes meanwhile is not counted. A scalar engine shares the
    links of the main memory with all other transfers, reads and writes each byte of its operands once, as if its own
    memory held the rest, and takes the longer of that and of its operations.
    """
    if kind == "host":
        return Cost(engine.issue, -(-work.moved // engine.bytes_per_cycle), engine.latency, work.moved)
    main = machine.levels.home.name
    links: list[tuple[int, int]] = []
    for number, link in enumerate(machine.links):
        pieces = {"read": (work.read,), "write": (work.written,), "both": (work.read, work.written)}[link.direction]
        crossed = sum(burst_bytes(link, 1, piece) for piece in pieces if piece)
        if main in link.memories and crossed:
            links.append((number, crossed))
    assert engine.operations_per_cycle is not None
    computing = ceil((work.operations + work.special * (engine.special - 1)) / engine.operations_per_cycle)
    latency = engine.latency + sum(machine.links[i].latency for i, _ in links)
    body = max(computing, copy_body(machine, engine, work.moved, links))
    return Cost(engine.issue, body, latency, work.moved, tuple(links), computing=computing)


def _runs(at: Strided) -> tuple[int, int]:
    return contiguous_runs(at.extents, at.strides, at.itemsize)


def _copy_cost(machine: Machine, engine: Engine, runs: Sequence[tuple[int, int]], operands: Sequence[Strided]) -> Cost:
    """Of a transfer that moves the elements of its destination; ``runs`` and ``operands`` start with it."""
    payload = prod(operands[0].extents) * operands[0].itemsize
    links = link_bytes(machine, list(zip(operands, runs, strict=True)))
    latency = engine.latency + sum(machine.links[i].latency for i, _ in links)
    body = copy_body(machine, engine, payload, links)
    return Cost(engine.issue, body, latency, payload, links, (payload,) * len(operands))


def _gather_cost(machine: Machine, engine: Engine, instruction: Instruction, operands: Sequence[Strided]) -> Cost:
    """Every entry is a piece of its own on the side that is picked from; the indices are moved, too."""
    n0, n1, n2 = (int(v) for v in instruction.values[:3])
    runs: list[tuple[int, int]] = []
    traffic: list[int] = []
    for at, spec in zip(operands, instruction.row.operands, strict=True):
        pieces, run = contiguous_runs((n2,), at.strides[2:], at.itemsize) if spec.picked else _runs(at)
        runs.append((n0 * n1 * pieces if spec.picked else pieces, run))
        traffic.append(runs[-1][0] * run)
    payload = traffic[-1] + (traffic[0] if not instruction.row.operands[0].picked else traffic[1])
    links = link_bytes(machine, list(zip(operands, runs, strict=True)))
    latency = engine.latency + sum(machine.links[i].latency for i, _ in links)
    return Cost(engine.issue, copy_body(machine, engine, payload, links), latency, payload, links, tuple(traffic))


def _matrix_cost(engine: Engine, instruction: Instruction, operands: Sequence[Strided]) -> Cost:
    m, n, k = matrix_shape(instruction)
    dst, a, b, *bias = operands
    body = matrix_body(engine, m, n, k, DTYPE_NAMES[a.dtype])
    sums, left, right, start = matrix_traffic(engine, m, n, k)
    written = dst.bytes * (sums // (m * n) if m and n else 1)
    traffic = [written * (1 + dst.reads), left * a.itemsize, right * b.itemsize]
    return Cost(engine.issue, body, engine.latency, traffic=(*traffic, *(start * c.itemsize for c in bias)))


def vector_shape(instruction: Instruction) -> tuple[int, int, int]:
    """The element operations of a vector instruction: rows (two dimensions), and what lies along the lanes."""
    if instruction.row.latency == "window":
        oh, ow, n, kh, kw, p = (int(v) for v in instruction.values[:6])
        return oh * ow, kh * kw, p * n
    # What follows them may be an immediate, which can be infinite.
    n0, n1, n2 = (int(v) for v in instruction.values[:3])
    return n0, n1, n2


def matrix_shape(instruction: Instruction) -> tuple[int, int, int]:
    """(m, n, k) of a matrix instruction: ``m * n * k`` is its number of multiply-accumulates."""
    values = [int(v) for v in instruction.values[:6]]
    if instruction.row.func == "matmul":
        return values[0], values[1], values[2]
    oh, ow, n, kh, kw, ci = values
    return oh * ow, n, kh * kw * ci
