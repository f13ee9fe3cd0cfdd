"""``girih compile``: from an ONNX file to a ``.girih`` file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...explain.units import plural
from ...ir.errors import UsageError
from ..check import nan_counts
from ..options import DEFAULT_TARGET, PRECISIONS, STRATEGIES, CompileOptions, Precision, number_of_jobs
from .completion.machine_words import complete_goal, complete_target
from .output import JSON_OPTION, PLUGINS, Written, emit, reserved_stdout

if TYPE_CHECKING:
    from ...solver.options import Strategy
    from ..compile import Compiled


def parse_assignments(words: tuple[str, ...], option: str) -> dict[str, int]:
    """``NAME=N`` words as a dictionary; switches may be written as true or false."""
    values: dict[str, int] = {}
    for word in words:
        name, _, value = word.rpartition("=")
        if not name:
            raise UsageError(f"{option} {word}: write it as NAME=N")
        if name in values:
            raise UsageError(f"{option} {word}: {name!r} is given twice")
        try:
            values[name] = value.lower() == "true" if value.lower() in ("true", "false") else int(value)
        except ValueError as error:
            raise UsageError(f"{option} {word}: {value!r} is not a whole number") from error
    return values


@click.command("compile")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=Written(), help="The .girih file to write.")
@click.option(
    "--target", default=DEFAULT_TARGET, show_default=True, metavar="NAME|FILE.toml", shell_complete=complete_target,
    help="A machine: see `girih targets`.",
)  # fmt: skip
@click.option(
    "--solver-timeout", "--timeout", "solver_timeout", type=float, default=60.0, show_default=True, metavar="SECONDS",
    help="For all constraint models together.",
)  # fmt: skip
@click.option(
    "--strategy", type=click.Choice(STRATEGIES), default="solver", show_default=True,
    help="To compare with: graphturbo follows published heuristics; layerwise runs one layer after the other.",
)  # fmt: skip
@click.option(
    "--precision", type=click.Choice(PRECISIONS), default="as-is", show_default=True, help="What to compute in."
)
@click.option("--batch", type=int, metavar="N", help="Size of a batch that the network leaves open.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=N", help="Size of another open dimension; repeatable.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Same seed, same plan.")
@click.option(
    "--minimise", default="cycles", show_default=True, metavar="cycles|peak:MEMORY", shell_complete=complete_goal,
    help="What the plan has least of; peak:LLB: bytes of LLB, and cycles after that.",
)  # fmt: skip
@click.option(
    "--jobs",
    type=int,
    metavar="N",
    help="Processes that solve what is independent; by default GIRIH_JOBS, or one for each core. The result is the "
    "same with any.",
)
@click.option(
    "--cache", type=click.Path(path_type=Path), metavar="DIR",
    help="Where plans and programs are kept; see `girih cache`.",
)  # fmt: skip
@PLUGINS
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache.")
@JSON_OPTION
def compile_command(
    model: Path,
    output: Path,
    target: str,
    solver_timeout: float,
    strategy: Strategy,
    precision: Precision,
    batch: int | None,
    dims: tuple[str, ...],
    seed: int,
    minimise: str,
    jobs: int | None,
    cache: Path | None,
    plugins: tuple[Path, ...],
    no_cache: bool,
    as_json: bool,
) -> None:
    """Compile the ONNX network MODEL for a machine.

    Progress is live on standard error. Ctrl-C (or SIGTERM) while the solver works keeps the best plan so far and goes
    on, and so does one while OUTPUT is written; a second one gives up. OUTPUT is written whole or not at all. The same
    compilation again takes plan and program from the cache.

    \b
    Examples:
      girih compile resnet50.onnx -o resnet50.girih --precision fp16 --batch 32
      girih compile bert.onnx -o bert.girih --dim seq=128 --batch 8 --solver-timeout 120
      girih compile tiny.onnx -o tiny.girih --target tiny --batch 1 --json
      girih compile net.onnx -o net.girih --target my-machine.toml --strategy layerwise
      girih compile net.onnx -o net.girih --plugin my_ops.py
      girih compile net.onnx -o net.girih --minimise peak:LLB

    \b
    Keys of the JSON object:
      status              ok; else usage_error, unsupported, infeasible, ... with the key error
      cycles_predicted, lower_bound_cycles, lower_bound_reason
      cycles_simulated    of a plan that the search had simulated, else null
      warnings            sentences: what of the machine stays unused, and what to change
      models              for each constraint model: status, objective, bound, gap, unit, runs, seconds
      cached              plan, lower: whether it is from the cache; models and their seconds are then those
                          of the compilation that wrote it
      solver_status       what ended the search: optimal, exhausted, budget, fixed, timeout or interrupted
                          (with the last two, the plan is the best so far)
      search              reason (solver_status as a sentence), gap (of cycles_simulated, or else cycles_predicted,
                          to the lower bound, as a share), more_time_helps
      peak                with --minimise peak:MEMORY, else null: memory, bytes (with fewer no plan was found),
                          bound (fewer are proven to be too few), proven (whether bytes is the least)
      clusters_used       on how many clusters the batch is spread
      plan_sha256, program_sha256
      seconds             wall time of import, plan, lower, save and total
      segments, steps, operators, host_operators, instructions
      nan_weights         for each weight that holds NaN: how many of its elements are
      model, output, output_bytes, and the options: target, strategy, precision, batch, dims, seed, ...
    """
    from ...ir.files import check_places
    from ...ir.load_machine import load_machine, telling_lines
    from ..cache import open_cache
    from ..held_interrupts import finishing
    from ..plugins.load_plugin import loaded
    from .progress import live_progress

    started = time.perf_counter()
    sizes = parse_assignments(dims, "--dim")
    options = CompileOptions(target, solver_timeout, strategy, precision, batch, sizes, seed, minimise)
    machine = load_machine(target)
    if no_cache and cache is not None:
        raise UsageError(f"--no-cache and --cache {cache} contradict each other; leave out one")
    store = open_cache(cache or not no_cache)
    check_places([output], [model, target if target.endswith(".toml") else None, *plugins])
    with (
        reserved_stdout(as_json),
        loaded(plugins),
        telling_lines(target),
        live_progress(solver_timeout) as progress,
    ):
        from ..compile import compile_for

        compiled = compile_for(model, machine, options, progress, store, number_of_jobs(jobs))
    # Once OUTPUT is there, nothing may say that it is not.
    with finishing():
        saving = time.perf_counter()
        compiled.save(output)
        seconds = {**compiled.seconds, "save": time.perf_counter() - saving, "total": time.perf_counter() - started}
        emit(as_json, summary(compiled, model, output, seconds), _text(compiled, output, seconds))


def summary(compiled: Compiled, model: Path, output: Path, seconds: dict[str, float]) -> dict[str, object]:
    """The JSON object of ``girih compile``."""
    from ...explain.model_answers import gap, model_rows

    graph, plan, program = compiled.graph, compiled.plan, compiled.program
    models = {
        row.model: {
            "status": row.status, "objective": row.objective, "bound": row.bound, "gap": row.gap, "unit": row.unit,
            "runs": row.runs, "seconds": row.seconds,
        }
        for row in model_rows(plan, compiled.log)
    }  # fmt: skip
    options = compiled.options
    return {
        "status": "ok",
        "cycles_predicted": plan.cycles_predicted,
        "cycles_simulated": plan.cycles_simulated,
        "lower_bound_cycles": plan.lower_bound_cycles,
        "lower_bound_reason": plan.lower_bound_reason,
        "warnings": compiled.warnings,
        "models": models,
        "cached": compiled.cached,
        "solver_status": compiled.log.status,
        "search": {
            "reason": compiled.log.reason,
            "gap": gap(plan.cycles, plan.lower_bound_cycles),
            "more_time_helps": compiled.log.more_time_helps,
        },
        "peak": peak(compiled),
        "plan_sha256": compiled.plan_sha256,
        "program_sha256": compiled.program_sha256,
        "seconds": seconds,
        "segments": len(plan.segments),
        "steps": len(plan.steps),
        "operators": len(graph.ops),
        "host_operators": sum(1 for op in program.ops if op.host),
        "instructions": program.instructions,
        "clusters_used": graph.replicas,
        "nan_weights": nan_counts(graph.data),
        "model": str(model),
        "output": str(output),
        "output_bytes": output.stat().st_size,
        "target": compiled.machine.name,
        "strategy": options.strategy,
        "precision": options.precision,
        "batch": graph.batch,
        "dims": options.dims,
        "seed": options.seed,
        "minimise": options.minimise,
        "solver_timeout": options.solver_timeout,
    }


def peak(compiled: Compiled) -> dict[str, object] | None:
    """What a compilation for the least bytes of a memory found out about them; ``None`` for another goal."""
    answer = next((s for s in compiled.plan.solved if s.model == compiled.options.minimise), None)
    if answer is None or answer.objective is None or answer.bound is None:
        return None
    memory = compiled.options.minimise.partition(":")[2]
    least, bound = round(answer.objective), round(answer.bound)
    return {"memory": memory, "bytes": least, "bound": bound, "proven": least <= bound}


def _peak_lines(compiled: Compiled) -> list[str]:
    usage = peak(compiled)
    if usage is None:
        return []
    proof = "no plan takes fewer" if usage["proven"] else f"fewer than {usage['bound']:,} are proven to be too few"
    return [f"peak: {usage['bytes']:,} bytes of {usage['memory']}; {proof}"]


def _text(compiled: Compiled, output: Path, seconds: dict[str, float]) -> str:
    from ...explain.model_answers import gained

    plan = compiled.plan
    gain = gained(plan, compiled.log)
    ratio = plan.cycles / plan.lower_bound_cycles if plan.lower_bound_cycles else 0.0
    stages = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items() if name != "total")
    hosts = sum(1 for op in compiled.program.ops if op.host)
    kept = " (from the cache)" if compiled.cached.get("plan") else ""
    lines = [
        *(
            f"weights: {count:,} elements of {name!r} are NaN"
            for name, count in nan_counts(compiled.graph.data).items()
        ),
        f"{plural(len(compiled.graph.ops), 'operator')} ({hosts} on the host), "
        f"{plural(len(plan.segments), 'segment')}, {plural(compiled.program.instructions, 'instruction')}",
        f"lower bound: {plan.lower_bound_cycles:,} cycles, {plan.lower_bound_reason}",
        f"search: {compiled.log.status}{kept}, {compiled.log.reason}",
        *_peak_lines(compiled),
        *([f"gained: {gain}"] if gain else []),
        f"seconds: {stages}",
        *(f"warning: {warning}" for warning in compiled.warnings),
        f"{output}: {plan.cycles_text} on {compiled.machine.name}, "
        f"{ratio:.2f} x the lower bound, compiled in {seconds['total']:.1f} s",
    ]
    return "\n".join(lines)
