"""The command that explains: ``girih explain``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click

from ...explain.export.formats import EXPORT_FORMATS
from ...explain.file_formats import DETAILS_FORMATS, FORMATS, SUFFIXES
from ...ir.errors import UsageError
from .compiled_file import FILE, FORMAT_JSON, OUTPUT, chosen_format, complete_name, format_option, load_nouns
from .output import PLUGINS, columns, encodable, show

_F = TypeVar("_F", bound=Callable[..., object])


def _names(option: str, parameter: str, metavar: str, help_text: str) -> Callable[[_F], _F]:
    """A repeatable option for names in the file, which the shell completes."""
    return click.option(
        f"--{option}", parameter, multiple=True, metavar=metavar, help=help_text, shell_complete=complete_name
    )


@click.command("explain")
@FILE
@format_option(
    FORMATS,
    "text, json, html, or for other tools: perfetto, onnx (Netron), model-explorer, csv, parquet. Default: by the "
    "suffix of -o FILE, else text.",
)
@OUTPUT
@FORMAT_JSON
@click.option(
    "--tables", is_flag=True, help="Text with all tables behind the first screen; other formats and files have them."
)
@_names("operator", "operators", "NAME", "All about an operator or ONNX node.")
@click.option("--tir", is_flag=True, help="With --operator: its TIR, scheduled and lowered, and its instructions.")
@PLUGINS
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
    tir: bool,
    plugins: tuple[Path, ...],
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
      girih explain tiny.girih --operator conv1 --tir | less
      girih explain resnet50.girih --tensor fc.weight --model residency
      girih explain resnet50.girih --format json | jq .segments
      girih explain resnet50.girih --json | jq '.breakdown.operators | sort_by(.work - .cycles)[:10]'
    """
    from ...ir.files import check_places, written_whole
    from ..compile import load, rarely_collected

    check_places([output], [compiled])
    kind = chosen_format(output, kind, as_json, FORMATS)
    names = {
        "operator": operators, "tensor": tensors, "segment": segments, "memory": memories, "model": models,
    }  # fmt: skip
    name_options = [f"--{option}" for option, values in names.items() if values]
    _check_agreement(kind, output, name_options, tables)
    if tir:
        _show_tir(compiled, operators, name_options, kind, output, plugins)
        return
    click.get_current_context().with_resource(rarely_collected())
    if name_options:
        details = load_nouns(compiled).details(
            operators=operators, tensors=tensors, segments=segments, memories=memories, models=models
        )
        if output is not None:
            details.save(output, kind)
            click.echo(f"{output}: written", err=as_json)
        else:
            click.echo(details.to_json().decode() if kind == "json" else encodable(details.text(columns())))
        return
    export = EXPORT_FORMATS.get(kind)
    package = load(compiled) if export and export.network else load_nouns(compiled)
    report = package.explain()
    if output is not None:
        files = report.files(output, kind)
        check_places(files, [compiled])
        if export is None:
            click.echo(report.summary.line, err=as_json)
        for place, data in files.items():
            with written_whole(place) as file:
                file.write(data)
            click.echo(f"{place}: written", err=as_json)
    elif kind == "json":
        click.echo(report.to_json().decode())
    else:
        show(report.tables if tables else report.screen(columns()), f"girih explain {compiled} -o FILE")


def _show_tir(
    compiled: Path,
    operators: Sequence[str],
    name_options: list[str],
    kind: str,
    output: Path | None,
    plugins: Sequence[Path],
) -> None:
    """Print or write the TIR of operators, named by themselves or by ONNX nodes."""
    from ...explain.details.names import find_operators
    from ...ir.files import write_text
    from ...lowering.tir_text import operator_tir
    from ..plugins.load_plugin import loaded

    if name_options != ["--operator"] or kind != "text":
        raise UsageError("--tir is text of operators: give --operator NAME, and nothing else that is to be explained")
    package = load_nouns(compiled)
    names = [op for name in operators for op in find_operators(package.graph, name)]
    with loaded(plugins):
        entries = operator_tir(package.graph, package.plan, package.machine, names)
    if not entries:
        raise UsageError(f"{', '.join(names)}: the host or scalar engine runs it, without tiles")
    text = "\n".join(
        f"== {entry.op}: {title} ==\n{part}"
        for entry in entries
        for title, part in (
            ("scheduled TIR", entry.scheduled), ("lowered TIR", entry.lowered), ("instructions", entry.kernels),
        )
    )  # fmt: skip
    if output is not None:
        write_text(output, text)
        click.echo(f"{output}: written")
    else:
        click.echo(encodable(text))


def _check_agreement(kind: str, output: Path | None, name_options: Sequence[str], tables: bool) -> None:
    """Raise :class:`UsageError` for options that a format has no use for, and say which to leave out."""
    if name_options and kind not in DETAILS_FORMATS:
        raise UsageError(
            f"{kind} has all of the network: names cannot be given with it; leave out {', '.join(name_options)}"
        )
    if name_options and tables:
        raise UsageError(f"--tables is for the whole report; leave it out, or {', '.join(name_options)}")
    if tables and kind != "text":
        raise UsageError(f"--tables is for text, and {kind} has all tables anyhow; leave it out")
    if output is None and kind not in DETAILS_FORMATS:
        raise UsageError(f"{kind} goes to a file: girih explain FILE.girih --format {kind} -o out{SUFFIXES[kind][0]}")
