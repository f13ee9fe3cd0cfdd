"""``girih pareto``: what bytes of a memory buy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ....explain.file_formats import CURVE_FORMATS
from ...options import DEFAULT_POINTS, DEFAULT_TARGET, PRECISIONS, STRATEGIES, CompileOptions, Precision
from ..compile_command import parse_assignments
from ..compiled_file import FORMAT_JSON, OUTPUT, chosen_format, format_option
from ..completion.machine_words import complete_memory, complete_target
from ..output import PLUGINS, encodable, reserved_stdout

if TYPE_CHECKING:
    from ....solver.options import Strategy


@click.command("pareto", short_help="Say what bytes of a memory buy: the curve of cycles against them.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--memory", metavar="NAME", help="A memory of the machine.  [default: the one that all cores share]",
    shell_complete=complete_memory,
)  # fmt: skip
@click.option(
    "--points", type=int, default=DEFAULT_POINTS, show_default=True, metavar="N", help="At most so many, 2 to 64."
)
@click.option(
    "--target", default=DEFAULT_TARGET, show_default=True, metavar="NAME|FILE.toml", shell_complete=complete_target,
    help="A machine: see `girih targets`.",
)  # fmt: skip
@click.option(
    "--solver-timeout", "--timeout", "solver_timeout", type=float, default=60.0, show_default=True, metavar="SECONDS",
    help="For all points together.",
)  # fmt: skip
@click.option("--strategy", type=click.Choice(STRATEGIES), default="solver", show_default=True, help="As for compile.")
@click.option(
    "--precision", type=click.Choice(PRECISIONS), default="as-is", show_default=True, help="What to compute in."
)
@click.option("--batch", type=int, metavar="N", help="Size of a batch that the network leaves open.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=N", help="Size of another open dimension; repeatable.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Same seed, same curve.")
@PLUGINS
@format_option(CURVE_FORMATS, "text, json, html or csv. Default: by the suffix of -o FILE, else text.")
@OUTPUT
@FORMAT_JSON
def pareto_command(
    model: Path,
    memory: str | None,
    points: int,
    target: str,
    solver_timeout: float,
    strategy: Strategy,
    precision: Precision,
    batch: int | None,
    dims: tuple[str, ...],
    seed: int,
    plugins: tuple[Path, ...],
    kind: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Plan the ONNX network MODEL with less and less of a memory, and say what each KiB of it buys.

    The first row has the least bytes with which a plan was found, the last one all that a plan makes use of; none of
    the plans between is beaten by another. Each is a plan of the whole machine; its cycles are simulated. Progress is
    live on standard error. Ctrl-C keeps the points so far, which are simulated then; a second one gives up.

    \b
    Examples:
      girih pareto net.onnx --target tiny --memory LLB --points 6
      girih pareto net.onnx --batch 8 -o curve.html
      girih pareto net.onnx --memory L1 --json | jq '.points[] | [.bytes, .cycles]'
    """
    from ....ir.files import check_places
    from ....ir.load_machine import load_machine, telling_lines
    from ...goals.pareto import curve_for
    from ...plugins.load_plugin import loaded
    from ..progress import live_progress

    kind = chosen_format(output, kind, as_json, CURVE_FORMATS)
    sizes = parse_assignments(dims, "--dim")
    options = CompileOptions(target, solver_timeout, strategy, precision, batch, sizes, seed)
    machine = load_machine(target)
    check_places([output], [model, target if target.endswith(".toml") else None, *plugins])
    with (
        reserved_stdout(kind != "text"),
        loaded(plugins),
        telling_lines(target),
        live_progress(solver_timeout) as progress,
    ):
        curve = curve_for(model, machine, memory, points, options, progress)
    if output is not None:
        curve.save(output, kind)
        click.echo(f"{' '.join(curve.verdict)}\n{output}: written", err=as_json)
    else:
        click.echo(encodable(curve.in_format(kind)))
