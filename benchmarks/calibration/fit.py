"""Fit what nobody published of stcp920 to what was published of its runs, by least squares; half of it is held out.

    python -m benchmarks.calibration.fit --json fit.json --programs build/fit      # or: make bench-fit JSON=fit.json

The figures are those of Zhao et al. (OSDI 2023): how busy vector and matrix engines were (figures 16 and 17, read off
the printed page), and how long the runs took (tables 1 and 2 with figure 14). Each run is compiled once, by the
`graphturbo` strategy, whose decisions depend on sizes and not on times; only its simulation is repeated while
parameters vary, on time alone. What is minimised is the sum of the squared logarithms of ours over published, over the
figures that are not held out; parameters vary in their logarithms, within bounds, by damped Gauss-Newton steps
(Levenberg, 1944; Marquardt, 1963). They are whole numbers in a machine file, so that derivatives are differences over a
step of a fifth. Utilisation of the vector engines is shown and not fitted. A fit begins with SCALE-Sim's rule for the
fill, and with the guesses of the machine file for the rest.

docs/calibration.md says what is fitted, what is predicted and what cannot be told.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from math import log, sqrt
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import girih
from benchmarks.networks import columns
from girih.ir.load_machine import load_machine
from girih.ir.machine import Engine, Machine
from girih.ir.program import Program
from girih.ir.trace import Trace
from girih.models import build
from girih.simulator import simulate

STEP = 0.2
"""Of the logarithm of a parameter, for derivatives: a whole number of cycles must change."""
STAGES = 4
"""Of a ResNet."""


@dataclass(frozen=True)
class Configuration:
    """A run: ``items`` in one cluster."""

    network: str
    precision: str
    items: int
    held_out: bool

    @property
    def key(self) -> str:
        return f"{self.network}-{self.precision}-{self.items}"


@dataclass(frozen=True)
class Figure:
    """A published figure of a run: ``what`` is "vector", "matrix" (parts of the time), "milliseconds", or one of the
    former two followed by the number of a stage."""

    run: str
    what: str
    published: float
    held_out: bool

    @property
    def key(self) -> str:
        return f"{self.run} {self.what}"


def _runs() -> tuple[tuple[Configuration, tuple[float, ...]], ...]:
    """Each run, with vector and matrix utilisation in percent and, where it is known, its milliseconds."""

    def run(network: str, items: int, held_out: bool, *values: float) -> tuple[Configuration, tuple[float, ...]]:
        return Configuration(network, "fp16", items, held_out), values

    return (
        run("resnet50", 1, False, 25, 19),
        run("resnet50", 2, True, 28, 29),
        run("resnet50", 4, False, 45, 52),
        run("resnet50", 8, True, 59, 78),
        run("resnet50", 16, False, 59, 79, 64 / (7.97 * 1064) * 1e3),
        run("bert-base", 4, True, 62, 91),
        run("bert-base", 8, False, 76, 90, 7.67),
        run("bert-base", 16, True, 51, 82, 23.58),
    )


RUNS = tuple(run for run, _ in _runs())
BY_STAGE = ("resnet50-fp16-16", (65, 70, 52, 40), (84, 84, 79, 63))
"""Figure 17, without its batch; taken to be that of table 2. Its second and fourth stage are held out."""


def figures() -> tuple[Figure, ...]:
    """All published figures."""
    collected: list[Figure] = []
    for run, values in _runs():
        collected += [
            Figure(run.key, what, v / 100, run.held_out) for what, v in zip(("vector", "matrix"), values, strict=False)
        ]
        collected += [Figure(run.key, "milliseconds", ms, run.held_out) for ms in values[2:]]
    key, vector, matrix = BY_STAGE
    for stage in range(STAGES):
        collected += [Figure(key, f"vector {stage + 1}", vector[stage] / 100, stage % 2 == 1)]
        collected += [Figure(key, f"matrix {stage + 1}", matrix[stage] / 100, stage % 2 == 1)]
    return tuple(collected)


@dataclass(frozen=True)
class Parameter:
    """A guess of the machine file: keys of the engines of some ``classes``, and the physically plausible range.

    ``start``: where a fit begins; ``None``: with what the machine file says.
    """

    name: str
    classes: tuple[str, ...]
    key: str
    low: int
    high: int
    start: int | None = None

    def value_in(self, machine: Machine) -> int:
        return next(int(getattr(e, self.key)) for e in machine.engines if self._has(e))

    def set(self, machine: Machine, value: int) -> Machine:
        engines = (replace(e, **{self.key: value}) if self._has(e) else e for e in machine.engines)
        return replace(machine, engines=tuple(engines))

    def _has(self, engine: Engine) -> bool:
        return not set(self.classes).isdisjoint(engine.classes)


PARAMETERS = (
    Parameter("fill of the array", ("matrix",), "fill", 1, 190, 94),
    Parameter("issue, matrix", ("matrix",), "issue", 1, 128),
    Parameter("issue, vector", ("vector",), "issue", 1, 128),
    Parameter("special functions", ("vector",), "special", 1, 16),
    Parameter("issue, copies", ("copy",), "issue", 1, 128),
    Parameter("latency, matrix", ("matrix",), "latency", 4, 256),
    Parameter("latency, vector", ("vector",), "latency", 4, 256),
    Parameter("latency, copies", ("copy",), "latency", 4, 256),
)
"""What could be fitted. The fill goes up to twice that of SCALE-Sim's rule, as if weights were shifted in as well."""
FITTED = ("fill of the array",)
"""What the figures can tell; of the others, twice the value moves them by less than they differ from ours anyway."""
RATES = (27, 34)
"""Bytes a cycle of main memory: by the manual, and as the paper prints them."""


def with_main_memory(machine: Machine, rate: int) -> Machine:
    """The machine with main memory of so many bytes a cycle."""
    main = machine.levels.home.name
    memories = (replace(m, bytes_per_cycle=rate) if m.name == main else m for m in machine.memories)
    links = (replace(x, bytes_per_cycle=float(rate)) if main in x.memories else x for x in machine.links)
    return replace(machine, memories=tuple(memories), links=tuple(links))


def measured(program: Program, machine: Machine, stages: bool) -> dict[str, float]:
    """Of a program's run: milliseconds, utilisation of both engines, and that by stage."""
    trace = simulate(replace(program, machine_sha256=""), machine, {}, {}, data=False)
    if trace.violations:
        raise RuntimeError(str(trace.violations[0]))
    summary = trace.summary
    names = {what: machine.engine_for(what).name for what in ("vector", "matrix")}
    total = summary.cycles * machine.cores
    values = {what: summary.busy.get(name, 0) / total for what, name in names.items()}
    values["milliseconds"] = summary.cycles / machine.frequency * 1e3
    return values | (_by_stage(program, machine, trace) if stages else {})


def _by_stage(program: Program, machine: Machine, trace: Trace) -> dict[str, float]:
    """Utilisation by stage: the cycles between two ends of vector or matrix instructions of a core are the later's."""
    names = {machine.engine_for(what).name: what for what in ("vector", "matrix")}
    of_op = [_stage(op.name) for op in program.ops]
    time = np.zeros(STAGES + 1)
    busy = {what: np.zeros(STAGES + 1) for what in names.values()}
    for core in range(machine.cores):
        ends: list[np.ndarray] = []
        stages: list[np.ndarray] = []
        for queue, stream, start, end in zip(program.queues, program.streams, trace.start, trace.end, strict=True):
            if queue.core != core or queue.engine not in names:
                continue
            works = np.array([i.row.kind != "sync" for i in stream], dtype=np.bool_)
            stage = np.array([of_op[i.op] for i in stream], dtype=np.int64)[works]
            np.add.at(busy[names[queue.engine]], stage, (end - start)[works])
            ends.append(end[works])
            stages.append(stage)
        moments, owners = np.concatenate(ends), np.concatenate(stages)
        order = np.argsort(moments, kind="stable")
        np.add.at(time, owners[order], np.diff(moments[order], prepend=0))
    return {f"{what} {s}": float(cycles[s] / time[s]) for what, cycles in busy.items() for s in range(1, STAGES + 1)}


def _stage(name: str) -> int:
    """The number of the stage that an operator of ResNet-50 belongs to; 0 for the others."""
    return int(name[5]) if name.startswith("layer") else 0


class Runs:
    """Compiled programs, simulated side by side on one machine after the other."""

    def __init__(self, programs: Mapping[str, Program], workers: int) -> None:
        self._programs = programs
        self._known: dict[str, dict[str, dict[str, float]]] = {}
        _HELD.update(programs)
        self._pool = ProcessPoolExecutor(workers, get_context("fork"))

    def values(self, machine: Machine, keys: Sequence[str]) -> dict[str, dict[str, float]]:
        """What the runs with these keys take on the machine."""
        known = self._known.setdefault(repr(machine), {})
        missing = [key for key in keys if key not in known]
        known |= zip(missing, self._pool.map(_measured, missing, [machine] * len(missing)), strict=True)
        return {key: known[key] for key in keys}


_HELD: dict[str, Program] = {}
"""The programs, for the processes that are forked from this one."""


def _measured(key: str, machine: Machine) -> dict[str, float]:
    return measured(_HELD[key], machine, key == BY_STAGE[0])


def errors(published: Sequence[Figure], values: Mapping[str, Mapping[str, float]]) -> np.ndarray:
    """The logarithm of ours over published for each figure."""
    return np.array([log(max(values[f.run][f.what], 1e-9) / f.published) for f in published])


def rms(values: np.ndarray) -> float:
    return sqrt(float(np.mean(values**2)))


def jacobian(residuals: Callable[[np.ndarray], np.ndarray], at: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Differences over :data:`STEP`, to the side where there is room."""
    here = residuals(at)
    steps = np.where(at + STEP <= high, STEP, -STEP)
    return np.stack([(residuals(at + s * unit) - here) / s for s, unit in zip(steps, np.eye(len(at)), strict=True)], 1)


def fit(machine: Machine, chosen: Sequence[Parameter], runs: Runs, published: Sequence[Figure], steps: int) -> Machine:
    """The machine with the parameters that fit the ``published`` figures best, after up to so many steps."""
    keys = list(dict.fromkeys(f.run for f in published))

    def applied(x: np.ndarray) -> Machine:
        changed = machine
        for parameter, value in zip(chosen, x, strict=True):
            changed = parameter.set(changed, round(float(np.exp(value))))
        return changed

    def residuals(x: np.ndarray) -> np.ndarray:
        return errors(published, runs.values(applied(x), keys))

    low, high = (np.log([float(getattr(p, side)) for p in chosen]) for side in ("low", "high"))
    at = np.clip(np.log([max(1.0, float(p.start or p.value_in(machine))) for p in chosen]), low, high)
    before, damping = residuals(at), 1e-2
    for _ in range(steps):
        slope = jacobian(residuals, at, high)
        # A parameter at a bound, or without effect, stays where it is.
        step = np.linalg.solve(slope.T @ slope + damping * np.eye(len(at)), -slope.T @ before)
        trial = np.clip(at + np.clip(step, -1.0, 1.0), low, high)
        after = residuals(trial)
        if rms(after) < rms(before):
            converged = rms(before) - rms(after) < 1e-3
            at, before, damping = trial, after, damping / 4
            if converged:
                break
        else:
            damping *= 16
    return applied(at)


def sensitivity(machine: Machine, runs: Runs, published: Sequence[Figure]) -> dict[str, float]:
    """By parameter: how far the figures move, as an RMS of logarithms, if it is doubled."""
    keys = list(dict.fromkeys(f.run for f in published))
    before = errors(published, runs.values(machine, keys))
    moved = {p.name: p.set(machine, min(p.high, 2 * max(1, p.value_in(machine)))) for p in PARAMETERS}
    return {name: rms(errors(published, runs.values(m, keys)) - before) for name, m in moved.items()}


def programs(folder: Path, console: Console) -> dict[str, Program]:
    """The compiled runs, from ``folder`` where they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    compiled: dict[str, Program] = {}
    for run in RUNS:
        path = folder / f"{run.key}.girih"
        if not path.exists():
            console.print(f"compiling {run.key}", highlight=False)
            model = folder / f"{run.network}.onnx"
            if not model.exists():
                model.write_bytes(build(run.network).SerializeToString())
            batch = run.items * load_machine("stcp920").clusters
            girih.compile(
                str(model), target="stcp920", precision=run.precision, batch=batch, strategy="graphturbo"
            ).save(str(path))
        compiled[run.key] = replace(girih.load(str(path)).program, constants=())
    return compiled


def table(published: Sequence[Figure], states: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Table:
    """Published figures beside ours on each machine."""
    shown = columns("figure|held out|published|" + "|".join(states), left_aligned=("figure", "held out"))
    for f in published:
        unit = "{:.2f}" if f.what == "milliseconds" else "{:.0%}"
        cells = [unit.format(values[f.run][f.what]) for values in states.values()]
        shown.add_row(f.key, "yes" if f.held_out else "", unit.format(f.published), *cells)
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write parameters, figures and errors here")
    parser.add_argument("--programs", type=Path, default=Path("build/fit"), metavar="DIR", help="keep programs here")
    parser.add_argument("--machine", default="stcp920", metavar="FILE", help="begin with this machine file")
    parser.add_argument("--fit", nargs="*", metavar="NAME", default=FITTED, help="these parameters")
    parser.add_argument("--steps", type=int, default=8, help="of the fit, for each rate of main memory")
    parser.add_argument("--workers", type=int, default=2, help="simulations side by side")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    guessed = load_machine(arguments.machine)
    published = figures()
    # The chip's vector engines are busy several times as long as ours: no parameter of a machine explains that.
    counted = [f for f in published if not f.what.startswith("vector")]
    fitted = [f for f in counted if not f.held_out]
    chosen = [p for p in PARAMETERS if p.name in arguments.fit]
    runs = Runs(programs(arguments.programs, console), arguments.workers)
    fill = PARAMETERS[0]
    machines = {"before": fill.set(guessed, 0), "SCALE-Sim's fill": fill.set(guessed, fill.start or 0)}
    machines |= {
        f"fitted, {rate} B/cycle": fit(with_main_memory(guessed, rate), chosen, runs, fitted, arguments.steps)
        for rate in RATES
    }
    states = {name: runs.values(machine, [run.key for run in RUNS]) for name, machine in machines.items()}
    console.print(table(published, states))
    rows: dict[str, dict[str, Any]] = {}
    for name, machine in machines.items():
        parts = {"fitted": fitted, "held out": [f for f in counted if f.held_out]}
        error = {part: rms(errors(part_figures, states[name])) for part, part_figures in parts.items()}
        parameters = {p.name: p.value_in(machine) for p in PARAMETERS}
        rows[name] = {"parameters": parameters, "rms": error, "values": states[name]}
        console.print(f"{name}: RMS of ln(ours / published) {error['fitted']:.3f}, held out {error['held out']:.3f}")
        console.print("  " + ", ".join(f"{p}: {value}" for p, value in parameters.items()))
    best = min(list(machines)[2:], key=lambda name: rows[name]["rms"]["fitted"])
    moved = sensitivity(machines[best], runs, fitted)
    console.print(f"{best}: how far the fitted figures move if a parameter is doubled")
    console.print("  " + ", ".join(f"{p}: {value:.3f}" for p, value in moved.items()))
    if arguments.json:
        data = {"machines": rows, "best": best, "sensitivity": moved, "figures": [asdict(f) for f in published]}
        arguments.json.write_text(json.dumps(data, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
