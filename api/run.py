"""Runs a compiled network on the simulator, and compares its outputs with the network itself."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from zipfile import ZipFile, ZipInfo

import numpy as np

from ..explain.export.perfetto import chrome_trace
from ..ir.errors import CheckError
from ..ir.files import known_suffix, write_text, written_whole
from ..ir.graph import FLOATS
from ..ir.machine import Machine
from ..ir.notebook.fragments import html_table, paragraph
from ..ir.plan import Plan
from ..ir.program import Program
from ..ir.trace import NpuShare, Trace, Violation
from .check import Check, OutputCheck, check
from .container import Package
from .held_interrupts import whole_imports
from .inputs import check_indices, check_inputs, index_limits, random_inputs
from .plugins.compiled_with import check_plugins
from .turns import TVM, in_turns

if TYPE_CHECKING:
    from ..frontend.onnx.index_uses import IndexUse
    from .exact.evaluate_graph import HostFunction

Arrays = Mapping[str, np.ndarray]
"""Arrays by the name of the input or output."""


_MOST_NAMED = 3
"""Operators that a message names at most."""


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a run, equal to itself alone.

    ``check`` is ``None`` if there was none; ``seconds`` is the wall time of each stage.
    """

    outputs: dict[str, np.ndarray] = field(repr=False)
    trace: Trace = field(repr=False)
    check: Check | None
    program: Program = field(repr=False)
    machine: Machine = field(repr=False)
    seconds: dict[str, float]
    plan: Plan | None = field(default=None, repr=False)

    def __str__(self) -> str:
        checked = "" if self.check is None else ", checked"
        verdict = "passed" if self.passed else "FAILED"
        return f"{self.cycles:,} cycles on {self.machine.name}{checked}: {verdict}"

    def _repr_html_(self) -> str:
        ports = [(name, "x".join(map(str, array.shape)), array.dtype.name) for name, array in self.outputs.items()]
        busy = [(name, cycles) for name, cycles in self.trace.summary.busy.items()]
        shown = html_table(("output", "shape", "type"), ports) if ports else ""
        return paragraph(str(self)) + html_table(("engine", "busy cycles"), busy) + shown

    @property
    def cycles(self) -> int:
        return self.trace.cycles

    @property
    def counters(self) -> dict[str, int]:
        return self.trace.counters

    @property
    def npu_fraction(self) -> NpuShare:
        """The shares of MACs and of element operations that ran on engines of the machine, not on the host."""
        return self.trace.summary.npu

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The first violations that the simulator found; ``trace.summary.violation_count`` counts all."""
        return self.trace.violations

    @property
    def passed(self) -> bool:
        """No violation, and outputs close enough to the reference if they were compared."""
        return not self.trace.summary.violation_count and (self.check is None or self.check.passed)

    def verify(self) -> None:
        """Raise :class:`CheckError` that says what is wrong, unless the run passed."""
        wrong: list[str] = []
        if count := self.trace.summary.violation_count:
            wrong.append(f"{count} violations, the first is {self.violations[0]}")
        if self.check is not None and not self.check.passed:
            failed = [output for output in self.check.outputs if not output.passed]
            wrong += [unjudged(output, self.check.exact) for output in failed if not output.judgeable]
            tell = _difference if self.check.exact else _distance
            errors = ", ".join(tell(output) for output in failed if output.judgeable)
            allowed = "" if self.check.exact else " more than rounding explains"
            if errors:
                wrong.append(f"outputs differ from the reference{allowed}: {errors}")
            if self.check.in_parts:
                ops = ", ".join(map(repr, self.check.in_parts[:_MOST_NAMED]))
                more = (
                    f" and {len(self.check.in_parts) - _MOST_NAMED} more"
                    if len(self.check.in_parts) > _MOST_NAMED
                    else ""
                )
                worst = self.check.tolerance
                wrong.append(f"{worst:.2g} is allowed, since the program rounds sums in parts, as in {ops}{more}")
        if wrong:
            raise CheckError("; ".join(wrong))

    def save_outputs(self, path: str | Path) -> None:
        """Write the outputs as an ``.npz`` file."""
        # Not by numpy.savez, to which an output named "file" would be an argument.
        with written_whole(path) as file, ZipFile(file, "w") as archive:
            for name, array in self.outputs.items():
                with archive.open(ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
                    np.save(entry, array, allow_pickle=False)

    def save_counters(self, path: str | Path) -> None:
        """Write the counters of every core as ``.json`` or ``.csv``; raises :class:`UsageError` for other names."""
        counters = self.trace.summary.counters
        write = {".json": counters.to_json, ".csv": counters.to_csv}
        write_text(path, write[known_suffix(path, write)]())

    def save_trace(self, path: str | Path) -> None:
        """Write what ran when for Chrome's trace viewer or Perfetto."""
        write_text(
            path, json.dumps(chrome_trace(self.program, self.machine, self.trace, self.plan), separators=(",", ":"))
        )


def unjudged(output: OutputCheck, exact: bool) -> str:
    """Why nothing but an equal output passes; ``exact``: it was compared with the graph already."""
    remedy = "use a wider precision" if exact else "use --exact or a wider precision"
    return (
        f"output {output.name!r} cannot be judged: rounding alone explains errors of {output.tolerance:.2g}, {remedy}"
    )


def _distance(output: OutputCheck) -> str:
    return f"{output.name!r} by {output.rel_err:.3g}, at most {output.tolerance:.2g} is allowed"


def _difference(output: OutputCheck) -> str:
    index = ", ".join(map(str, output.first))
    return (
        f"{output.name!r} in {output.different:,} of {output.elements:,} elements, "
        f"by at most {output.max_abs_err:.3g}, first at [{index}]"
    )


def run(
    package: Package,
    inputs: Arrays | None,
    *,
    check: bool | Literal["exact"],
    seed: int,
    sanitize: bool = True,
    data: bool = True,
) -> Result:
    """Simulate the program on the inputs (``None``: seeded random ones), and compare if asked to.

    ``check``: with the network in float32 if ``True``, element by element with its graph if ``"exact"``.
    Without ``sanitize`` neither races nor reads of memory that nothing wrote are looked for, which is faster. Without
    ``data`` only time passes: the cycles are the same, but there are no outputs, and nothing to compare.
    """
    from ..simulator import simulate

    graph, program = package.graph, package.program
    if not data:
        started = time.perf_counter()
        trace = simulate(program, package.machine, {}, {}, data=False)
        return Result(
            {}, trace, None, program, package.machine, {"simulate": time.perf_counter() - started}, package.plan
        )
    arrays = make_inputs(package, seed) if inputs is None else given_inputs(package, inputs)
    started = time.perf_counter()
    host = None
    if program.kernels:
        with TVM:
            with whole_imports():
                # Imports TVM, which most programs do without.
                from ..lowering.host import HostKernels

            host = in_turns(HostKernels().run)
    # The program has no port for an input that nothing reads.
    used = {port.name: arrays[port.name] for port in program.inputs}
    trace = simulate(program, package.machine, graph.data, used, sanitize=sanitize, host=host)
    seconds = {"simulate": time.perf_counter() - started}
    started = time.perf_counter()
    compare = compare_with_graph if check == "exact" else compare_with_network
    # The network itself has no result for an index that is out of range.
    comparable = not any(v.kind == "bounds" for v in trace.violations)
    verdict = in_turns(compare)(package, arrays, trace.outputs) if check and comparable else None
    if check:
        seconds["check"] = time.perf_counter() - started
    return Result(trace.outputs, trace, verdict, program, package.machine, seconds, package.plan)


def make_inputs(package: Package, seed: int) -> dict[str, np.ndarray]:
    """Seeded random inputs that are valid for the network."""
    ports = package.graph.inputs
    return random_inputs(ports, seed, index_limits(_index_uses(package)))


def given_inputs(package: Package, inputs: Arrays) -> dict[str, np.ndarray]:
    """The user's inputs in the order of the ports; raises :class:`UsageError` for what the network does not take."""
    ports = package.graph.inputs
    arrays = check_inputs(ports, inputs)
    check_indices(_index_uses(package), arrays)
    return arrays


def _index_uses(package: Package) -> list[IndexUse]:
    """What the network indexes with its inputs; only integers can be indices, and most networks have none."""
    with whole_imports():
        from ..frontend.onnx.index_uses import index_uses

    ports = package.graph.inputs
    return index_uses(package.model, ports) if any(np.dtype(p.dtype).kind in "iu" for p in ports) else []


def compare_with_network(package: Package, inputs: Arrays, outputs: Arrays) -> Check:
    """Run the ONNX network in float32 through TVM's LLVM build, and compare; rounding errors are allowed."""
    with whole_imports():
        from ..frontend.reference.run import reference_outputs

    graph = package.graph
    check_plugins(package.versions)
    batched = {p.name for p in graph.inputs if p.batch_axis == 0}
    # Constants, or functions of finite values, have made it. In a program that loses all of them, nothing tells.
    special = any(np.isnan(o).any() for o in outputs.values() if o.dtype.name in FLOATS)
    reference = reference_outputs(package.model, inputs, batched=batched, special=special)
    compared = {n: o if reference.samples is None else o[: reference.samples] for n, o in outputs.items()}
    allowed = allowed_errors(package, inputs, reference.samples)
    return check(graph, compared, reference.outputs, reference.samples, allowed)


def allowed_errors(package: Package, inputs: Arrays, samples: int | None = None) -> dict[str, float]:
    """By output, how far rounding may take a right program from the network in float32 (``None``: all samples)."""
    from .tolerance.rounding import tolerances

    return tolerances(package.graph, inputs, _host_kernels(package), samples)


def compare_with_graph(package: Package, inputs: Arrays, outputs: Arrays) -> Check:
    """Evaluate the graph in numpy, rounded where it and the plan say, and compare every element.

    Where the program rounds sums in parts, in an order that is its own, what that can change is allowed.
    """
    from .exact.evaluate_graph import evaluate_graph, reduce_cuts, sums_in_parts
    from .tolerance.sum_order import order_tolerances

    graph, cuts = package.graph, reduce_cuts(package.plan)
    host = _host_kernels(package)
    reference = evaluate_graph(graph, inputs, host, cuts)
    verdict = check(graph, outputs, reference, None)
    in_parts = () if verdict.passed else sums_in_parts(graph, package.program, cuts)
    if not in_parts:
        return verdict
    allowed = order_tolerances(graph, inputs, host, cuts, in_parts)
    return replace(check(graph, outputs, reference, None, allowed), exact=True, in_parts=in_parts)


def _host_kernels(package: Package) -> HostFunction | None:
    """What computes the outputs of host operators: the kernels of the program; ``None`` without any."""
    if not package.program.kernels:
        return None
    with whole_imports():
        from ..lowering.host import HostKernels

    names = [op.name for op in package.graph.ops if op.host]
    kernels, host = dict(zip(names, package.program.kernels, strict=True)), HostKernels()
    return lambda op, arrays: host.run(kernels[op.name], arrays)
