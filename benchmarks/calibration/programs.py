"""One layer as a program for one core: from the cluster's memory through the matrix engine and back.

The tiles are what a compiler without a solver would take: columns outside, rows inside, and the sum in as many parts
as the weight buffer needs; each buffer twice, so that the next tile is loaded while one is multiplied. Only time is
simulated, so that partial sums may stay in binary16.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.calibration.layers import Layer
from girih.ir.codec import sha256
from girih.ir.isa.table import DTYPE_NAMES, Instruction, make
from girih.ir.machine import Machine
from girih.ir.program import Program, ProgramOp, Queue

WORD = 2
"""Bytes of a binary16 number."""

_HALF = DTYPE_NAMES.index("float16")


@dataclass(frozen=True)
class Tiles:
    """Output rows, filters and channels of a tile; the last tile of each is what remains."""

    rows: int
    filters: int
    channels: int


@dataclass(frozen=True)
class Tile:
    """One tile: where it begins, and its extents."""

    row: int
    rows: int
    filter: int
    filters: int
    channel: int
    channels: int


def tiles_for(layer: Layer, machine: Machine) -> Tiles:
    """The largest tiles of which each buffer holds two; whole rows and columns of the array before others."""
    matrix = machine.engine_for("matrix")
    levels = machine.levels
    held = (levels.activations, levels.weights, levels.sums)
    local, weights, results = (level.capacity // WORD // 2 for level in held)
    window = layer.kernel**2
    channels = min(layer.channels, weights // (window * matrix.columns))
    filters = min(layer.filters, max(1, weights // (window * channels) // matrix.columns) * matrix.columns)

    def patch(rows: int) -> int:
        return ((rows - 1) * layer.stride + layer.kernel) * layer.width * channels

    fitting = [
        rows for rows in range(1, layer.rows + 1) if patch(rows) <= local and rows * layer.columns * filters <= results
    ]
    if not fitting:
        raise ValueError(f"{layer.key}: not even one row of it fits into {machine.name}")

    def blocks(rows: int) -> int:
        """Row blocks of the array for all of the layer."""
        whole, rest = divmod(layer.rows, rows)
        return whole * -(-rows * layer.columns // matrix.rows) + -(-rest * layer.columns // matrix.rows)

    return Tiles(min(fitting, key=lambda rows: (blocks(rows), -rows)), filters, channels)


def tiles(layer: Layer, size: Tiles) -> Iterator[Tile]:
    """All tiles in the order in which they run."""
    for n in range(0, layer.filters, size.filters):
        for row in range(0, layer.rows, size.rows):
            for c in range(0, layer.channels, size.channels):
                yield Tile(
                    row, min(size.rows, layer.rows - row), n, min(size.filters, layer.filters - n),
                    c, min(size.channels, layer.channels - c),
                )  # fmt: skip


class _Core:
    """The queues of one core; every instruction waits for what the caller names, once."""

    def __init__(self, machine: Machine) -> None:
        self._names = ("MTI", "MME", "MTO")
        self._memory = {memory.name: number for number, memory in enumerate(machine.memories)}
        self.streams: dict[str, list[Instruction]] = {name: [] for name in self._names}

    def emit(self, queue: str, instruction: Instruction, after: dict[str, int]) -> int:
        """Append to ``queue``, behind ``after`` (queue: instructions retired); returns how many it then has."""
        stream = self.streams[queue]
        for name, count in after.items():
            if name != queue and count:
                stream.append(make("wait", 0, {"queue": self._names.index(name), "count": count}))
        stream.append(instruction)
        return len(stream)

    def operand(self, name: str, memory: str, base: int, *strides: int) -> dict[str, int]:
        fields = {f"{name}.mem": self._memory[memory], f"{name}.dtype": _HALF, f"{name}.base": base}
        return fields | {f"{name}.s{i}": stride for i, stride in enumerate(strides)}

    def copy(self, source: tuple[str, int], target: tuple[str, int], box: tuple[int, ...], pitch: int) -> Instruction:
        """Move ``box`` (blocks, rows, elements): rows are ``pitch`` bytes apart in LLB, and dense in the core."""
        blocks, rows, elements = box
        dense = (0, rows * elements * WORD, elements * WORD, WORD)
        wide = (0, rows * pitch, pitch, WORD)
        fields = {"n0": 1, "n1": blocks, "n2": rows, "n3": elements}
        for name, (memory, base) in (("src", source), ("dst", target)):
            fields |= self.operand(name, memory, base, *(wide if memory == "LLB" else dense))
        return make("mcopy", 0, fields)


def layer_program(layer: Layer, machine: Machine, *, streamed: bool) -> Program:
    """The layer on core 0; unless ``streamed``, its operands are in the core's buffers and its results stay there."""
    size = tiles_for(layer, machine)
    core = _Core(machine)
    half = {m: machine.memory[m].capacity // 2 for m in ("L1", "L1W", "IM")}
    loaded: dict[str, tuple[object, int, int]] = {}  # of each buffer: what it holds, in which half, since when
    # Of each half: the instruction that last read it, of MME or, for IM, of MTO.
    users = {(buffer, side): 0 for buffer in half for side in (0, 1)}

    def load(buffer: str, tile: object, instruction: Instruction) -> tuple[int, int]:
        """Bring ``what`` into the half of ``buffer`` that is not in use, unless it is there."""
        known, side, since = loaded.get(buffer, (None, 1, 0))
        if known != tile:
            side = 1 - side
            since = core.emit("MTI", _moved(instruction, half[buffer] * side), {"MME": users[buffer, side]})
            loaded[buffer] = tile, side, since
        return side, since

    inputs = 0
    kernels = inputs + layer.height * layer.width * layer.channels * WORD
    outputs = kernels + layer.k * layer.filters * WORD
    out_side = 1
    for tile in tiles(layer, size):
        first, last = tile.channel == 0, tile.channel + tile.channels == layer.channels
        out_side = 1 - out_side if first else out_side
        depth = (tile.rows - 1) * layer.stride + layer.kernel
        after: dict[str, int] = {}
        at = {"L1": 0, "L1W": 0}
        if streamed:
            pitch = layer.channels * WORD
            start = inputs + (tile.row * layer.stride * layer.width * layer.channels + tile.channel) * WORD
            patch = core.copy(("LLB", start), ("L1", 0), (depth, layer.width, tile.channels), pitch)
            side, since = load("L1", (tile.row, tile.channel), patch)
            at["L1"], after["MTI"] = side, since
            window = layer.kernel**2
            # Weights lie as channels x window x filters: then the channels of a tile are together.
            start = kernels + (tile.channel * window * layer.filters + tile.filter) * WORD
            box = (tile.channels, window, tile.filters)
            weights = core.copy(("LLB", start), ("L1W", 0), box, layer.filters * WORD)
            side, since = load("L1W", (tile.filter, tile.channel), weights)
            at["L1W"], after["MTI"] = side, max(since, after["MTI"])
            if first:
                after["MTO"] = users["IM", out_side]
        done = core.emit("MME", _multiply(core, layer, tile, half, {**at, "IM": out_side}, not first), after)
        users["L1", at["L1"]] = users["L1W", at["L1W"]] = done
        if streamed and last:
            start = outputs + (tile.row * layer.columns * layer.filters + tile.filter) * WORD
            box = (1, tile.rows * layer.columns, tile.filters)
            result = core.copy(("IM", half["IM"] * out_side), ("LLB", start), box, layer.filters * WORD)
            users["IM", out_side] = core.emit("MTO", result, {"MME": done})
    return Program(
        machine=machine.name, machine_sha256=sha256(machine), graph_sha256="", plan_sha256="", replicas=1,
        queues=tuple(Queue(name, 0) for name in core.streams), streams=tuple(map(tuple, core.streams.values())),
        ops=(ProgramOp(layer.key, macs=layer.macs),), constants=(), inputs=(), outputs=(),
    )  # fmt: skip


def _moved(copy: Instruction, offset: int) -> Instruction:
    """The copy with ``offset`` added to the address that it writes."""
    position = copy.row.position["dst.base"]
    values = list(copy.values)
    values[position] += offset
    return Instruction(copy.mnemonic, copy.op, tuple(values))


def _multiply(
    core: _Core, layer: Layer, tile: Tile, half: dict[str, int], side: dict[str, int], accumulate: bool
) -> Instruction:
    """The convolution of one tile, from and to these halves of the buffers."""
    base = {name: half[name] * side[name] for name in half}
    depth = (tile.rows - 1) * layer.stride + layer.kernel
    pixel, line = tile.channels * WORD, layer.width * tile.channels * WORD
    fields = {"oh": tile.rows, "ow": layer.columns, "n": tile.filters, "kh": layer.kernel, "kw": layer.kernel}
    fields |= {"ci": tile.channels, "sh": layer.stride, "sw": layer.stride, "dh": 1, "dw": 1}
    fields |= {"H": depth, "W": layer.width, "acc": int(accumulate)}
    fields |= core.operand("dst", "IM", base["IM"], layer.columns * tile.filters * WORD, tile.filters * WORD, WORD)
    fields |= core.operand("a", "L1", base["L1"], line, pixel, WORD)
    step = tile.filters * WORD
    kernel = (layer.kernel * step, step, layer.kernel**2 * step, WORD)
    return make("mconv", 0, fields | core.operand("b", "L1W", base["L1W"], *kernel))
