"""The five verbs on one screen: import, plan and lower make a :class:`Compiled`, which can be run and explained."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..explain.report import Report, report
from ..ir.load_machine import load_machine
from ..ir.machine import Machine
from ..ir.machine_check import check_machine
from ..ir.trace import Trace
from ..solver.options import Listener, Progress, Strategy
from . import container
from .options import DEFAULT_TARGET, CompileOptions, Precision
from .run import Arrays, Result, run

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class Compiled(container.Package):
    """A compiled network: every noun that was made on the way, and what can be done with them.

    ``seconds`` is the wall time of each stage; empty after reading a file.
    """

    seconds: dict[str, float] = field(default_factory=dict[str, float], compare=False)

    def run(
        self, inputs: Arrays | None = None, *, check: bool = False, seed: int = 0, trace: str | Path | None = None
    ) -> Result:
        """Simulate; without ``inputs`` on seeded random ones. ``trace`` is a file for Chrome's viewer or Perfetto.

        ``check`` compares with the network in float32, and raises :class:`CheckError` if the outputs are too far away
        or the simulator found a violation.
        """
        result = run(self, inputs, check=check, seed=seed)
        if trace is not None:
            result.save_trace(trace)
        if check:
            result.verify()
        return result

    def explain(self, trace: Trace | None = None) -> Report:
        """Why the schedule looks as it does, and where the cycles go: of this run, or of one in time alone."""
        if trace is None:
            trace = run(self, None, check=False, seed=0, data=False).trace
        return report(self.graph, self.plan, self.program, self.machine, self.log, trace)

    def save(self, path: str | Path) -> None:
        """Write a ``.girih`` file."""
        container.save(self, path)


def compile(
    model: str | Path | bytes | onnx.ModelProto,
    *,
    target: str | Path | Machine = DEFAULT_TARGET,
    solver_timeout: float = 60.0,
    strategy: Strategy = "solver",
    precision: Precision = "as-is",
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    progress: Listener | None = None,
) -> Compiled:
    """Compile an ONNX network for a machine (a built-in name, a TOML file, or a :class:`Machine`).

    See :class:`CompileOptions` for what the options mean. ``progress`` hears of every stage and model. Ctrl-C while
    the solver works keeps the best plan so far and goes on; a second one raises ``KeyboardInterrupt``.
    """
    name = target.name if isinstance(target, Machine) else str(target)
    options = CompileOptions(name, solver_timeout, strategy, precision, batch, dict(dims or {}), seed)
    if isinstance(target, Machine):
        check_machine(target)
    machine = target if isinstance(target, Machine) else load_machine(target)
    return compile_for(model, machine, options, progress or _silent)


def compile_for(
    model: str | Path | bytes | onnx.ModelProto, machine: Machine, options: CompileOptions, progress: Listener
) -> Compiled:
    """The compiler as one function, one line a verb; running and explaining are methods of what it returns."""
    # Imported here because TVM and OR-Tools take seconds to load.
    from ..frontend import import_onnx
    from ..frontend.reference import model_bytes
    from ..lowering import lower
    from ..solver import plan

    stages = _Stages(progress)
    with stages("import"):
        # ONNX → operators: loop nests with affine accesses, weights folded and converted.
        graph = import_onnx(
            model,
            batch=options.batch,
            dims=options.dims,
            precision=options.precision,
            clusters=machine.clusters,
        )
        # The network itself, for a later `run --check`.
        network = model_bytes(model)
    with stages("plan"):
        # Every decision: what runs where and when, and at which address its data is.
        planned = plan(graph, machine, options.for_solver, progress)
    with stages("lower"):
        # Instructions that follow the plan, and nothing but the plan.
        program = lower(graph, planned.plan, machine)
    return Compiled(graph, planned.plan, program, machine, planned.log, options, network, stages.seconds)


def load(path: str | Path) -> Compiled:
    """Read a ``.girih`` file; raises :class:`UsageError` if it is not one, or damaged."""
    return container.read(path, Compiled)


class _Stages:
    """Times the verbs, and tells the listener when each begins and ends."""

    def __init__(self, progress: Listener) -> None:
        self._progress = progress
        self._started = time.perf_counter()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Generator[None]:
        began = time.perf_counter()
        self._progress(Progress(name, "running", None, None, began - self._started))
        yield
        now = time.perf_counter()
        self.seconds[name] = now - began
        self._progress(Progress(name, "done", None, None, now - self._started))


def _silent(news: Progress) -> None:
    """Hear nothing."""
