"""The five verbs on one screen: import, plan and lower make a :class:`Compiled`, which can be run and explained."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from ..explain import explain
from ..explain.compare.compare import compare as compare_compilations
from ..explain.compare.comparison import Comparison
from ..explain.compilation import Compilation
from ..explain.details.alternatives import Alternative
from ..explain.details.details import Details, Subjects, build_details, resolved
from ..explain.report import Report
from ..explain.warnings import compilation_warnings
from ..ir.checks.check_machine import check_machine
from ..ir.errors import InfeasibleError, UsageError, wrong_type
from ..ir.files import as_path
from ..ir.load_machine import load_machine, telling_lines
from ..ir.machine import Machine
from ..ir.machines.as_planned import as_planned
from ..ir.notebook.fragments import html_table, paragraph
from ..ir.trace import Trace
from ..solver.options import Listener, Planned, Progress, Strategy
from . import arguments, container
from .cache import Cache, open_cache
from .goals.graph_for import graph_for
from .held_interrupts import load_solver, whole_imports
from .options import DEFAULT_TARGET, CompileOptions, Precision, number_of_jobs
from .plugins.compiled_with import with_places
from .plugins.load_plugin import load_installed
from .provenance import provenance
from .run import Arrays, Result, run
from .turns import TVM, in_turns

if TYPE_CHECKING:
    import onnx

    from ..solver.model_alternatives import ModelAlternatives


@dataclass(frozen=True)
class Compiled(container.Package):
    """A compiled network: the nouns of its compilation, to be run, explained or saved.

    ``seconds`` is the wall time of each stage, and ``cached`` whether its result is from the cache; both are empty
    after reading a file.
    """

    seconds: dict[str, float] = field(default_factory=dict[str, float], compare=False)
    cached: dict[str, bool] = field(default_factory=dict[str, bool], compare=False)

    def _repr_html_(self) -> str:
        plan, program = self.plan, self.program
        rows = [
            ("operators", len(self.graph.ops)),
            ("segments", len(plan.segments)),
            ("instructions", program.instructions),
            ("cycles, predicted", plan.cycles_predicted),
            ("cycles, at least", plan.lower_bound_cycles),
        ]
        return paragraph(str(self)) + html_table(("what", "number"), rows)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about what of the machine stays unused, and what to change: dtypes, keys of the machine file."""
        return compilation_warnings(self.graph, self.program, self.machine, self.described or self.machine)

    def run(
        self,
        inputs: Arrays | None = None,
        *,
        check: bool | Literal["exact"] = False,
        seed: int = 0,
        trace: str | Path | None = None,
    ) -> Result:
        """Simulate; without ``inputs`` on seeded random ones. ``trace`` is a file for Chrome's viewer or Perfetto.

        ``check`` compares with the network in float32, and raises :class:`CheckError` if the outputs are too far away
        or the simulator found a violation; ``"exact"`` compares every element with the graph, rounded where graph and
        plan say, and allows no difference.
        """
        if not isinstance(check, bool) and not (isinstance(check, str) and check == "exact"):  # pyright: ignore
            raise wrong_type("check", check, 'True, False or "exact"')
        if arguments.whole("seed", seed) < 0:
            raise UsageError(f"seed {seed} is negative; give 0 or more")
        place = None if trace is None else as_path("trace", trace)
        result = run(self, inputs, check=check, seed=seed)
        if place is not None:
            result.save_trace(place)
        if check:
            result.verify()
        return result

    def explain(self, trace: Trace | None = None) -> Report:
        """Why the schedule looks as it does, and where the cycles of a run go: by default of one in time alone.

        ``trace`` is ``Result.trace`` of a run of this program; :class:`UsageError` for one of another.
        """
        return explain(self.compilation(self._traced(trace)), self.model)

    def details(
        self,
        *,
        operators: Sequence[str] = (),
        tensors: Sequence[str] = (),
        segments: Sequence[int | str] = (),
        memories: Sequence[str] = (),
        models: Sequence[str] = (),
        trace: Trace | None = None,
    ) -> Details:
        """All about what is named, as the options of ``girih explain`` name it; ``trace`` as in :meth:`explain`.

        Raises :class:`UsageError` for unknown names, and says which are near.
        """
        subjects = Subjects(
            arguments.names("operators", operators),
            arguments.names("tensors", tensors),
            arguments.names("segments", segments, numbers=True),
            arguments.names("memories", memories),
            arguments.names("models", models),
        )
        subjects = resolved(subjects, self.graph, self.plan, self.machine, self.log)
        return build_details(self.compilation(self._traced(trace)), subjects, self.alternatives)

    def _traced(self, trace: Trace | None) -> Trace:
        """A run of the program in time alone, or the one that is given, if it can be of this program."""
        if trace is None:
            return run(self, None, check=False, seed=0, data=False).trace
        if not isinstance(cast("object", trace), Trace):
            raise wrong_type("trace", trace, "Result.trace of a run of this program")
        streams = self.program.streams
        counts, begun, ended = (tuple(len(row) for row in rows) for rows in (streams, trace.start, trace.end))
        if not counts == begun == ended:
            raise UsageError(
                f"the trace is of another program: it has {sum(begun):,} instructions in {len(begun)} queues, this "
                f"program {sum(counts):,} in {len(counts)}; pass Result.trace of a run of this program"
            )
        if trace.summary.machine != self.machine.name:
            raise UsageError(
                f"the trace is of a run on {trace.summary.machine}, and this program is for {self.machine.name}; pass "
                "Result.trace of a run of this program"
            )
        return trace

    # The models of one object keep what they have computed: threads that read it meanwhile met half of it.
    @in_turns
    def alternatives(self, operator: str) -> tuple[Alternative, ...]:
        """What the models could have decided for an operator, with their costs; ``KeyError`` for an unknown name."""
        if operator not in self.graph.op:
            raise KeyError(operator)
        return tuple(Alternative(**vars(row)) for row in self._models.for_operator(operator))

    @cached_property
    def _models(self) -> ModelAlternatives:
        with whole_imports():
            # Imported here because OR-Tools takes seconds to load.
            from ..solver.model_alternatives import ModelAlternatives

        return ModelAlternatives(self.graph, self.machine, self.plan, self.options.for_solver)

    def diff(self, other: Compiled, *, names: tuple[str, str] = ("A", "B")) -> Comparison:
        """What differs from this schedule (A) to the ``other`` (B), and what it costs in runs in time alone."""
        if not isinstance(cast("object", other), Compiled):
            raise wrong_type("other", other, "what girih.compile or girih.load returns")
        sides = arguments.names("names", names)
        if len(sides) != 2:
            raise wrong_type("names", names, "two names, such as ('A', 'B')")
        runs = [run(side, None, check=False, seed=0, data=False).trace for side in (self, other)]
        return compare_compilations(self.compilation(runs[0]), other.compilation(runs[1]), (sides[0], sides[1]))

    def compilation(self, trace: Trace) -> Compilation:
        """What reports are drawn from, with a run of the program."""
        return Compilation(
            self.graph,
            self.plan,
            self.program,
            self.machine,
            self.log,
            trace,
            provenance(self.graph.name, self.options, self.versions),
            self.described,
        )

    def save(self, place: str | Path) -> None:
        """Write a ``.girih`` file."""
        container.save(self, as_path("the file", place))


def compile(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    target: str | Path | Machine = DEFAULT_TARGET,
    solver_timeout: float = 60.0,
    strategy: Strategy = "solver",
    precision: Precision = "as-is",
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    minimise: str = "cycles",
    cache: str | os.PathLike[str] | bool = True,
    progress: Listener | None = None,
    jobs: int | None = None,
) -> Compiled:
    """Compile an ONNX network for a machine (a built-in name, a TOML file, or a :class:`Machine`).

    See :class:`CompileOptions` for what the options mean. ``cache`` is the folder where plans and programs are kept, so
    that a repeated compilation neither solves nor lowers: ``True`` is the user's own or what ``GIRIH_CACHE`` says,
    ``False`` is none. ``jobs``: how many processes solve what is independent, by default what ``GIRIH_JOBS`` says,
    or one for each core; the result is the same with any number. ``progress`` is called for every stage and model.
    Ctrl-C while the solver works keeps the best plan so far and goes on; a second one raises ``KeyboardInterrupt``.
    """
    name = target.name if isinstance(target, Machine) else str(as_path("target", target))
    sizes = cast("dict[str, int]", {} if dims is None else dims)
    options = CompileOptions(name, solver_timeout, strategy, precision, batch, sizes, seed, minimise)
    progress = arguments.listener("progress", progress)
    if isinstance(target, Machine):
        check_machine(target)
    machine = target if isinstance(target, Machine) else load_machine(target)
    with nullcontext() if isinstance(target, Machine) else telling_lines(target):
        return compile_for(model, machine, options, progress or _silent, open_cache(cache), number_of_jobs(jobs))


COLLECTION_THRESHOLDS = (100_000, 20, 100)
"""Of Python's garbage collector during a compilation, see :func:`gc.set_threshold`."""


@contextmanager
def rarely_collected() -> Generator[None]:
    """Nearly all objects of a compilation or a report live to its end; the default collection cost a quarter."""
    thresholds = gc.get_threshold()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


@rarely_collected()
def compile_for(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    machine: Machine,
    options: CompileOptions,
    progress: Listener,
    cache: Cache,
    jobs: int = 1,
) -> Compiled:
    """The compiler as one function, one line a verb; running and explaining are methods of what it returns."""
    with TVM:
        with whole_imports():
            # Imported here because TVM takes seconds to load.
            from ..frontend import import_onnx
            from ..frontend.reference.run import model_bytes
            from ..lowering import Lowerer
            from ..solver import plan
            from .judge import judge
        load_installed()
    described, machine = machine, as_planned(machine)
    stages = _Stages(progress)
    with stages("import"), TVM:
        # ONNX → operators: loop nests with affine accesses, weights folded and converted.
        graph = import_onnx(
            model,
            batch=options.batch,
            dims=options.dims,
            precision=options.precision,
            clusters=machine.clusters,
            listener=stages.importing,
        )
        graph = graph_for(graph, machine, options.for_solver)
        # The network itself, for a later `run --check`.
        network = model_bytes(model)
    with stages("plan"):
        # Every decision: what runs where and when, and at which address its data is.
        lowerer = Lowerer(graph, machine, cache.kernels(machine))

        def solve() -> Planned:
            load_solver()
            judged, tasks = in_turns(judge(lowerer)), in_turns(lowerer.tasks)
            return plan(graph, machine, options.for_solver, stages.solving, judged, tasks, jobs)

        try:
            planned, stages.cached["plan"] = cache.planned(graph, machine, options.for_solver, solve)
        except InfeasibleError as error:
            raise with_places(error, graph, model) from error
    with stages("lower"):
        # Instructions that follow the plan, and nothing but the plan.
        program, stages.cached["lower"] = cache.lowered(
            graph, planned.plan, machine, in_turns(lambda: lowerer.program(planned.plan))
        )
    log, seconds, cached = planned.log, stages.seconds, stages.cached
    return Compiled(
        graph, planned.plan, program, machine, log, options, network, seconds, cached, described=described
    )  # fmt: skip


def compare(a: Compiled, b: Compiled) -> Comparison:
    """What differs from the schedule ``a`` to ``b``, and what each difference costs; see :meth:`Compiled.diff`."""
    for name, side in (("a", a), ("b", b)):
        if not isinstance(side, Compiled):  # pyright: ignore
            raise wrong_type(name, side, "what girih.compile or girih.load returns")
    return a.diff(b)


def load(place: str | Path) -> Compiled:
    """Read a ``.girih`` file; raises :class:`UsageError` if it is not one, or damaged."""
    return container.read(as_path("the file", place), Compiled)


class _Stages:
    """Times the verbs, and reports the begin and end of each to the listener."""

    def __init__(self, progress: Listener) -> None:
        self._progress = progress
        self._started = time.perf_counter()
        self.seconds: dict[str, float] = {}
        self.cached: dict[str, bool] = {}

    @contextmanager
    def __call__(self, name: str) -> Generator[None]:
        began = time.perf_counter()
        self._progress(Progress(name, "running", None, None, began - self._started))
        yield
        ended = time.perf_counter()
        self.seconds[name] = ended - began
        message = "from the cache" if self.cached.get(name) else ""
        self._progress(Progress(name, "done", None, None, ended - self._started, message))

    def solving(self, news: Progress) -> None:
        """Pass on what the solver tells, by the clock of the whole compilation."""
        self._progress(replace(news, seconds=time.perf_counter() - self._started))

    def importing(self, name: str, done: int, total: int) -> None:
        """Report what the import does, and how many nodes it has done."""
        seconds = time.perf_counter() - self._started
        self._progress(Progress("import", "running", None, None, seconds, f"{name}: {done:,} of {total:,} nodes"))


def _silent(news: Progress) -> None:
    """The listener of a compilation without one."""
