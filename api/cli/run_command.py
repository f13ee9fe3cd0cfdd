"""``girih run``: simulate a compiled network, and check what comes out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...explain.units import printable
from ..check import nan_counts
from .output import JSON_OPTION, PLUGINS, Written, emit, is_given, reserved_stdout

if TYPE_CHECKING:
    from ..compile import Compiled
    from ..run import Result

_VIOLATIONS_SHOWN = 5


@click.command("run", short_help="Simulate FILE.girih, and check what comes out.")
@click.argument("compiled", metavar="FILE.girih", type=click.Path(path_type=Path))
@click.option("--inputs", type=click.Path(path_type=Path), metavar="X.npz", help="Arrays by the names of the inputs.")
@click.option("--outputs", type=Written(), metavar="Y.npz", help="Where to write the outputs.")
@click.option("--check", is_flag=True, help="Compare with the network in float32, computed on the host.")
@click.option("--exact", is_flag=True, help="Compare every element with the graph, rounded as the plan says; in numpy.")
@click.option("--trace", type=Written(), metavar="T.json", help="What ran when, for Perfetto.")
@click.option("--counters", type=Written(), metavar="C.json|C.csv", help="What every core counted, with units.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Of random inputs.")
@click.option("--sanitize/--no-sanitize", default=True, help="Look for races and for reads of memory nothing wrote.")
@click.option("--timing-only", is_flag=True, help="Time the instructions without computing anything: much faster.")
@PLUGINS
@JSON_OPTION
@click.pass_context
def run_command(
    ctx: click.Context, compiled: Path, inputs: Path | None, outputs: Path | None, check: bool, exact: bool,
    trace: Path | None, counters: Path | None, seed: int, sanitize: bool, timing_only: bool,
    plugins: tuple[Path, ...], as_json: bool,
) -> None:  # fmt: skip
    """Simulate the compiled network FILE.girih, on random inputs unless there are --inputs.

    \b
    Examples:
      girih run resnet50.girih --check
      girih run resnet50.girih --exact                         # to the last bit, of what graph and plan say
      girih run resnet50.girih --inputs images.npz --outputs scores.npz
      girih run resnet50.girih --trace trace.json --json       # open trace.json in ui.perfetto.dev
      girih run resnet50.girih --timing-only                   # the same cycles, but no outputs and no check

    \b
    Keys of the JSON object:
      status              ok, or check_failed (exit code 5, with the key error)
      cycles, cycles_predicted, lower_bound_cycles
      seconds_at_clock, items_per_second
      npu_fraction        macs, elements: shares that engines of the machine executed, not the host
      violations          how many the simulator found; violation_list has the first
      check               network (--check), exact (--exact) or null: what the outputs were compared with
      rel_err             |y - reference| / |reference|, Euclidean, of the worst output;
                          it must not exceed tolerance: what rounding errors of the network on
                          these inputs explain; with --exact 0, or what the order of
                          sums explains that the program rounds in several parts
      max_abs_err, max_rel_err   largest errors of a single element
      counters, busy      summed over the cores of one cluster, in cycles, instructions and bytes;
                          --counters writes them for each core, with their meaning
      samples_checked     how many items of the batch were compared; null for a network without an open batch
      target, batch, instructions
      outputs             for each: name, dtype, shape, how many elements are NaN, its own errors; how many are
                          different, and the index of the first
      seconds             wall time of load, simulate, check and total
    """
    from ...ir.errors import CheckError, UsageError
    from ...ir.files import check_places, known_suffix
    from ..plugins.load_plugin import loaded

    if seed < 0:
        raise UsageError(f"seed {seed} is negative; give 0 or more")
    if check and exact:
        raise UsageError("--check and --exact compare with different things; give one of them")
    data_options = {"--inputs": inputs, "--outputs": outputs, "--check": check, "--exact": exact}
    data_options |= {"--seed": is_given(ctx, "seed"), "--sanitize": sanitize and is_given(ctx, "sanitize")}
    if timing_only and any(data_options.values()):
        names = " and ".join(name for name, value in data_options.items() if value)
        raise UsageError(f"--timing-only computes nothing, which {names} would need; leave out one or the other")
    if counters is not None:
        known_suffix(counters, (".json", ".csv"))
    check_places([outputs, trace, counters], [compiled, inputs])
    started = time.perf_counter()
    with reserved_stdout(as_json), loaded(plugins):
        from ..compile import Compiled
        from ..container import read
        from ..inputs import load_inputs
        from ..run import run

        arrays = load_inputs(inputs) if inputs is not None else None
        package = read(compiled, Compiled, data=not timing_only)
        loading = time.perf_counter() - started
        result = run(
            package, arrays, check="exact" if exact else check, seed=seed, sanitize=sanitize, data=not timing_only
        )
        if outputs is not None:
            result.save_outputs(outputs)
        if trace is not None:
            result.save_trace(trace)
        if counters is not None:
            result.save_counters(counters)
    seconds = {"load": loading, **result.seconds, "total": time.perf_counter() - started}
    data = summary(package, result, seconds)
    try:
        result.verify()
    except CheckError as error:
        emit(as_json, {**data, "error": str(error)}, _text(package, result, seconds))
        click.echo(printable(f"girih: check failed: {error}"), err=True)
        ctx.exit(error.exit_code)
    emit(as_json, data, _text(package, result, seconds))


def summary(compiled: Compiled, result: Result, seconds: dict[str, float]) -> dict[str, object]:
    """The JSON object of ``girih run``; a check that was not made is null."""
    run, check, graph = result.trace.summary, result.check, compiled.graph
    errors = {o.name: o for o in check.outputs} if check else {}
    nans = nan_counts(result.outputs)
    outputs: list[dict[str, object]] = []
    for port in graph.outputs:
        row: dict[str, object] = {"name": port.name, "dtype": port.dtype, "shape": port.shape}
        row["nan"] = nans.get(port.name, 0)
        if port.name in errors:
            error = errors[port.name]
            row |= {"rel_err": error.rel_err, "max_abs_err": error.max_abs_err, "max_rel_err": error.max_rel_err}
            row["tolerance"] = error.tolerance
            row |= {"different": error.different, "first_different": error.first if error.different else None}
        outputs.append(row)
    return {
        "status": "ok" if result.passed else "check_failed",
        "cycles": run.cycles,
        "cycles_predicted": compiled.plan.cycles_predicted,
        "lower_bound_cycles": run.lower_bound_cycles,
        "seconds_at_clock": run.seconds,
        "items_per_second": run.items_per_second,
        "npu_fraction": {"macs": run.npu.macs, "elements": run.npu.elements},
        "violations": run.violation_count,
        "violation_list": [str(v) for v in run.violations],
        "check": ("exact" if check.exact else "network") if check else None,
        "rel_err": check.rel_err if check else None,
        "max_abs_err": check.max_abs_err if check else None,
        "max_rel_err": check.max_rel_err if check else None,
        "tolerance": check.tolerance if check else None,
        "samples_checked": (graph.batch if check.samples is None else check.samples) if check else None,
        "instructions": run.instructions,
        "counters": run.counters.total,
        "busy": run.busy,
        "outputs": outputs,
        "target": compiled.machine.name,
        "batch": graph.batch,
        "seconds": seconds,
    }


def _text(compiled: Compiled, result: Result, seconds: dict[str, float]) -> str:
    run, check = result.trace.summary, result.check
    share = run.npu
    lines = [f"engines ran {share.macs:.1%} of MACs and {share.elements:.1%} of element operations"]
    lines += [printable(f"violation: {v}") for v in run.violations[:_VIOLATIONS_SHOWN]]
    for name, count in nan_counts(result.outputs).items():
        lines.append(f"output {name!r}: {count:,} of {result.outputs[name].size:,} elements are NaN")
    if check:
        if check.exact:
            lines += [f"output {o.name!r}: {o.different:,} of {o.elements:,} elements differ" for o in check.outputs]
        else:
            lines += [f"output {o.name!r}: error {o.rel_err:.2e}, at most {o.tolerance:.2e}" for o in check.outputs]
    ratio = f", {run.cycles / run.lower_bound_cycles:.2f} x the lower bound" if run.lower_bound_cycles else ""
    rate = f", {run.items_per_second:,.1f} items/s" if run.items_per_second else ""
    verdict = "" if check is None and result.passed else " passed;" if result.passed else " FAILED;"
    lines.append(
        f"{printable(compiled.graph.name)} on {run.machine}:{verdict} {run.cycles:,} cycles{ratio}, "
        f"{run.seconds * 1e3:.3f} ms{rate}, {run.violation_count} violations, simulated in {seconds['total']:.1f} s"
    )
    return "\n".join(lines)
