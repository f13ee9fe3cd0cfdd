"""Measure the simulator: instructions a second, and a network beside ONNX Runtime.

    python -m benchmarks.simulator_speed                           # or: make bench-simulator
    python -m benchmarks.simulator_speed --only growth --json speed.json
    python -m benchmarks.simulator_speed --compiled resnet50.girih --profile 12

1. Growth: a convolution, tile by tile on every core, again and again, from 10^3 to 10^6 instructions, timing alone.
2. Network: ResNet-50 at batch 32 on stcp920 (or what --compiled names): timing alone, with data, and with data and
   sanitizer; beside them ONNX Runtime on the same network and inputs. All run on one thread.

Every figure is the smallest of --repeat turns: wall seconds, and seconds of processor time, which other processes on
the machine disturb less. benchmarks/simulator_speed_plot.py draws the growth.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import platform
import pstats
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import girih
from benchmarks.calibration.layers import Layer
from benchmarks.calibration.programs import layer_program
from benchmarks.networks import columns
from girih.api.run import make_inputs
from girih.ir.isa.table import Instruction
from girih.ir.load_machine import load_machine
from girih.ir.program import Program, Queue
from girih.models import build
from girih.simulator import simulate

LAYER = Layer("resnet50", "3x3 64-64 @56", 58, 58, 3, 64, 64)
SIZES = tuple(10**n for n in range(3, 7))
WANTED = 100_000
"""Instructions a second, with timing alone."""
ALLOWED = 3.0
"""Times ONNX Runtime, with data."""


@dataclass(frozen=True)
class Time:
    """Wall seconds, and seconds of processor time of this process."""

    wall: float
    processor: float


@dataclass(frozen=True)
class Row:
    """What was measured; ``instructions`` is 0 where there are none."""

    name: str
    instructions: int
    time: Time

    @property
    def rate(self) -> float:
        """Instructions a second of processor time."""
        return self.instructions / self.time.processor


def measure(work: Callable[[], object], repeat: int) -> Time:
    """The smallest of ``repeat`` times."""
    walls: list[float] = []
    processors: list[float] = []
    for _ in range(repeat):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return Time(min(walls), min(processors))


def repeated(program: Program, cores: int, instructions: int) -> Program:
    """The program of one core on ``cores`` cores, one turn after the other, with about this many instructions."""
    turns = max(1, round(instructions / (cores * program.instructions)))
    lengths = [len(stream) for stream in program.streams]
    queues: list[Queue] = []
    streams: list[tuple[Instruction, ...]] = []
    for core in range(cores):
        for queue, stream in zip(program.queues, program.streams, strict=True):
            queues.append(Queue(queue.engine, core))
            streams.append(
                tuple(
                    _shifted(instruction, core * len(lengths), turn, lengths)
                    for turn in range(turns)
                    for instruction in stream
                )
            )
    return replace(program, queues=tuple(queues), streams=tuple(streams))


def _shifted(instruction: Instruction, queues: int, turn: int, lengths: list[int]) -> Instruction:
    """A wait for the same instruction of another core's queues, ``turn`` turns later."""
    if instruction.mnemonic != "wait":
        return instruction
    queue, count = (int(value) for value in instruction.values)
    return replace(instruction, values=(queues + queue, count + turn * lengths[queue]))


def growth(repeat: int) -> list[Row]:
    machine = load_machine("stcp920")
    single = layer_program(LAYER, machine, streamed=True)
    rows: list[Row] = []
    for size in SIZES:
        program = repeated(single, machine.cores, size)
        spent = measure(lambda p=program: simulate(p, machine, {}, {}, data=False), repeat)
        rows.append(Row(f"{size:,}", program.instructions, spent))
    return rows


def network(compiled: girih.Compiled, repeat: int) -> list[Row]:
    """The simulator's three modes, and ONNX Runtime."""
    import onnxruntime

    program, inputs = compiled.program, make_inputs(compiled, 0)
    used = {port.name: inputs[port.name] for port in program.inputs}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(compiled.model, options, providers=["CPUExecutionProvider"])

    def run(**mode: bool) -> Callable[[], object]:
        return lambda: simulate(program, compiled.machine, compiled.graph.data, used, **mode)

    work: dict[str, Callable[[], object]] = {
        "ONNX Runtime": lambda: session.run(None, inputs),
        "timing alone": run(data=False),
        "data": run(sanitize=False),
        "data and sanitizer": run(),
    }
    return [
        Row(name, 0 if name == "ONNX Runtime" else program.instructions, measure(act, repeat))
        for name, act in work.items()
    ]


def resnet50(folder: Path) -> girih.Compiled:
    """As the demo compiles it."""
    path = folder / "resnet50.onnx"
    path.write_bytes(build("resnet50").SerializeToString())
    return girih.compile(path, target="stcp920", precision="fp16", batch=32, solver_timeout=60)


def table(title: str, rows: list[Row]) -> Table:
    lines = columns("|instructions|wall s|processor s|instructions/s", left_aligned=("",))
    lines.title, lines.title_justify = title, "left"
    for row in rows:
        cells = (f"{row.instructions:,}", f"{row.rate:,.0f}") if row.instructions else ("", "")
        lines.add_row(row.name, cells[0], f"{row.time.wall:.3f}", f"{row.time.processor:.3f}", cells[1])
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", choices=("growth", "network"), help="one of the two")
    parser.add_argument("--compiled", type=Path, metavar="FILE.girih", help="the network; compiled anew without it")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="turns, of which the best counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    parser.add_argument("--profile", type=int, metavar="N", help="print the N functions that take most time with data")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    figures: dict[str, Any] = {
        "where": {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count()}
    }
    if arguments.only != "network":
        rows = growth(arguments.repeat)
        figures["growth"] = [asdict(row) for row in rows]
        console.print(table("Growth: timing alone", rows))
        slowest = min(row.rate for row in rows)
        console.print(f"at least {slowest:,.0f} instructions/s; wanted are {WANTED:,}\n")
    if arguments.only != "growth":
        with tempfile.TemporaryDirectory() as folder:
            compiled = girih.load(arguments.compiled) if arguments.compiled else resnet50(Path(folder))
        rows = network(compiled, arguments.repeat)
        figures["network"] = {"name": compiled.graph.name, "batch": compiled.graph.batch}
        figures["network"]["rows"] = [asdict(row) for row in rows]
        console.print(table(f"Network: {compiled.graph.name}, batch {compiled.graph.batch}, one thread", rows))
        times = {row.name: row.time for row in rows}
        ratio = times["data"].processor / times["ONNX Runtime"].processor
        console.print(f"with data {ratio:.1f} x the time of ONNX Runtime; wanted are at most {ALLOWED:g}")
        if arguments.profile:
            _profile(compiled, arguments.profile)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def _profile(compiled: girih.Compiled, count: int) -> None:
    inputs = make_inputs(compiled, 0)
    used = {port.name: inputs[port.name] for port in compiled.program.inputs}
    profile = cProfile.Profile(time.process_time)
    profile.runcall(simulate, compiled.program, compiled.machine, compiled.graph.data, used, sanitize=False)
    pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(count)


if __name__ == "__main__":
    sys.exit(main())
