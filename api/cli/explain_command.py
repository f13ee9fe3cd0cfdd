"""The command that explains: ``girih explain``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
from click.shell_completion import CompletionItem

from ...explain.export.formats import EXPORT_FORMATS, FORMATS, ExportFormat, companion, format_of, unknown_format
from ...ir.errors import UsageError
from .compiled_file import FILE, OUTPUT, complete_name, load_nouns
from .output import columns, encodable, show

_F = TypeVar("_F", bound=Callable[..., object])


class _Format(click.ParamType):
    """One of the formats, or an error that says which was probably meant."""

    name = "format"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in FORMATS:
            self.fail(unknown_format(value), param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in FORMATS if name.startswith(incomplete)]


def _names(option: str, parameter: str, metavar: str, help_text: str) -> Callable[[_F], _F]:
    """A repeatable option for names in the file, which the shell completes."""
    return click.option(
        f"--{option}", parameter, multiple=True, metavar=metavar, help=help_text, shell_complete=complete_name
    )


@click.command("explain")
@FILE
@click.option(
    "--format",
    "kind",
    type=_Format(),
    help="text, json, html, or for other tools: perfetto, onnx (Netron), model-explorer, csv, parquet. Default: by the "
    "suffix of -o FILE, else text.",
)
@OUTPUT
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--tables", is_flag=True, help="All tables behind the first screen; a file of text always has them.")
@_names("operator", "operators", "NAME", "All about an operator or ONNX node.")
@_names("tensor", "tensors", "NAME", "The life of a tensor over memories and time.")
@_names("segment", "segments", "N", "All about a segment.")
@_names("memory", "memories", "NAME", "What fills a memory, and when.")
@_names("model", "models", "NAME", "How a constraint model decided.")
def explain_command(
    compiled: Path,
    kind: str | None,
    output: Path | None,
    as_json: bool,
    tables: bool,
    operators: tuple[str, ...],
    tensors: tuple[str, ...],
    segments: tuple[str, ...],
    memories: tuple[str, ...],
    models: tuple[str, ...],
) -> None:
    """Say why the schedule of FILE.girih looks as it does.

    One screen: the verdict, the way from the lower bound to the cycles of a run in time alone, cause by cause, the
    operators that lose most, which engines idle and why, and what to look at next. With --tables also the cycle
    breakdown of each engine and link, segment and operator, answer and bound of each constraint model, the segments and
    what limits them, how full each memory gets, which tensors are moved to and from main memory and why, how each
    operator is tiled, and what the host runs.

    --operator, --tensor, --segment, --memory and --model tell all about what they name instead; each can be repeated,
    and the shell completes the names (see `girih completion`).

    With -o FILE.html, a page with pictures, which any browser opens without a network. Other formats are for other
    tools: --format perfetto (a trace of a run in time alone), onnx (the network with metadata, for Netron), csv and
    parquet (the operators), model-explorer (a graph, and node data beside it: FILE.cycles.json, FILE.lost.json and
    FILE.segment.json).

    \b
    Examples:
      girih explain resnet50.girih
      girih explain resnet50.girih --tables | less
      girih explain resnet50.girih -o report.html
      girih explain resnet50.girih -o report.txt
      girih explain resnet50.girih -o annotated.onnx
      girih explain resnet50.girih --format model-explorer -o graph.json
      girih explain resnet50.girih --operator layer4.0.conv2 --memory LLB
      girih explain resnet50.girih --tensor fc.weight --model residency
      girih explain resnet50.girih --format json | jq .segments
      girih explain resnet50.girih --json | jq '.breakdown.operators | sort_by(.work - .cycles)[:10]'
    """
    from ...explain.details.details import Subjects
    from ...ir.files import check_places, write_text
    from ..compile import rarely_collected

    check_places([output], [compiled])
    kind = "json" if as_json else kind or format_of(output)
    subjects = Subjects(operators, tensors, segments, memories, models)
    if kind == "html" and (subjects or output is None):
        raise UsageError("a page has all of the report and goes to a file: girih explain FILE.girih -o report.html")
    click.get_current_context().with_resource(rarely_collected())
    if export := EXPORT_FORMATS.get(kind):
        _export(export, compiled, output, bool(subjects))
        return
    if subjects:
        details = load_nouns(compiled).details(subjects)
        if output is not None:
            write_text(output, f"{details.to_json().decode() if kind == 'json' else details}\n")
            click.echo(f"{output}: written", err=as_json)
        else:
            click.echo(details.to_json().decode() if kind == "json" else encodable(details.text(columns())))
        return
    report = load_nouns(compiled).explain()
    if kind == "json":
        text = report.to_json().decode()
    elif kind == "html":
        text = report.to_html()
    else:
        text = report.tables if tables or output else report.screen(min(80, columns()))
    if output is not None:
        write_text(output, f"{text}\n")
        click.echo(f"{report.summary.line}\n{output}: written", err=as_json)
    elif kind == "json":
        click.echo(text)
    else:
        show(text, f"girih explain {compiled} -o FILE")


def _export(export: ExportFormat, compiled: Path, output: Path | None, details: bool) -> None:
    """Write the files of a format for another tool."""
    from ...ir.files import check_places, written_whole
    from ..compile import load

    if details or output is None:
        raise UsageError(
            f"{export.name} has all of the network and goes to a file: "
            f"girih explain FILE.girih --format {export.name} -o out{export.suffix}"
        )
    package = load(compiled) if export.network else load_nouns(compiled)
    report = package.explain()
    files = {companion(output, what): data for what, data in export.write(report, package.model).items()}
    check_places(files, [compiled])
    for place, data in files.items():
        with written_whole(place) as file:
            file.write(data)
        click.echo(f"{place}: written")
