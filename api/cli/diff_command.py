"""The command that compares: ``girih diff``."""

from __future__ import annotations

from pathlib import Path

import click

from ...explain.file_formats import COMPARISON_FORMATS
from .compiled_file import FORMAT_JSON, OUTPUT, chosen_format, format_option, load_nouns
from .output import columns, show


@click.command("diff", short_help="Say what differs between two schedules, and what it costs.")
@click.argument("first", metavar="A.girih", type=click.Path(path_type=Path))
@click.argument("second", metavar="B.girih", type=click.Path(path_type=Path))
@format_option(COMPARISON_FORMATS, "text, json or html. Default: by the suffix of -o FILE, else text.")
@OUTPUT
@FORMAT_JSON
@click.option("--exit-code", "exit_code", is_flag=True, help="Exit with 1 if a decision or the machine differs.")
@click.pass_context
def diff_command(
    context: click.Context,
    first: Path,
    second: Path,
    kind: str | None,
    output: Path | None,
    as_json: bool,
    exit_code: bool,
) -> None:
    """Say what differs between the schedules of A.girih and B.girih, usually of the same network.

    One screen: which is faster, by how much and mainly why; the difference in simulated cycles by cause and by
    operator, each of which adds up to the cycle; bounds, predictions, traffic and memory peaks. Then tables of what is
    decided otherwise: machine, options, segments, tiles, residency, order, movement and addresses.

    \b
    Examples:
      girih diff before.girih after.girih
      girih diff before.girih after.girih -o diff.html
      girih diff before.girih after.girih --json | jq '.operators | sort_by(.b - .a)[:10]'
      girih diff before.girih after.girih --exit-code && echo the same schedule
    """
    from ...ir.files import check_places

    check_places([output], [first, second])
    kind = chosen_format(output, kind, as_json, COMPARISON_FORMATS)
    comparison = load_nouns(first).diff(load_nouns(second), names=(str(first), str(second)))
    if output is not None:
        comparison.save(output, kind)
        click.echo(f"{' '.join(comparison.verdict)}\n{output}: written", err=as_json)
    elif kind == "json":
        click.echo(comparison.to_json().decode())
    elif kind == "html":
        click.echo(comparison.html)
    else:
        show(comparison.text(columns()), f"girih diff {first} {second} -o FILE")
    if exit_code and not comparison.same:
        context.exit(1)
