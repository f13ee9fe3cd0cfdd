"""Commands that look: plan, disasm, lower, targets, models and ops."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from ...explain.units import plural, printable, size
from ...ir.errors import UsageError
from ...ir.schemas.shipped import SCHEMA_NAMES, SchemaName, schema_path, with_schema
from .compile_command import parse_assignments
from .compiled_file import FILE, OUTPUT, load_nouns
from .output import JSON_OPTION, PLUGINS, Written, emit, is_given, reserved_stdout, table


@click.command("plan")
@FILE
@OUTPUT
@JSON_OPTION
def plan_command(compiled: Path, output: Path | None, as_json: bool) -> None:
    """Print the decisions that FILE.girih was lowered from, segment by segment.

    The order of the steps; how each segment is cut and on which cores it runs; the tiles of each operator; in which
    portions each tensor is loaded or stored, and which of the cores that receive it issue a broadcast; which versions
    tiles of weights are brought to, and how far ahead circular buffers are fetched. With --json all of the plan, with
    the address of every buffer.

    \b
    Examples:
      girih plan tiny.girih
      girih plan resnet50.girih --json | jq '.weight_streams[] | select(.prefetch > 0)'
    """
    from ...explain.plan_text import plan_text
    from ...ir.codec import to_json
    from ...ir.files import check_places, write_text

    check_places([output], [compiled])
    plan = load_nouns(compiled).plan
    text = to_json(plan).decode() if as_json else plan_text(plan)
    if output is None:
        click.echo(text)
        return
    write_text(output, f"{text}\n")
    click.echo(f"{output}: {plural(len(plan.segments), 'segment')}, {plural(len(plan.steps), 'step')}", err=as_json)


@click.command("disasm")
@FILE
@click.option("--queue", metavar="NAME", help="Only this queue, such as MME0.")
@OUTPUT
def disasm_command(compiled: Path, queue: str | None, output: Path | None) -> None:
    """Print the instructions of FILE.girih, queue by queue.

    \b
    Examples:
      girih disasm tiny.girih
      girih disasm resnet50.girih --queue DMR
      girih disasm resnet50.girih -o resnet50.s
    """
    from dataclasses import replace

    from ...ir.files import check_places, write_text
    from ...ir.program import disassemble

    check_places([output], [compiled])
    package = load_nouns(compiled)
    program = package.program
    if queue is not None:
        chosen = [i for i, q in enumerate(program.queues) if str(q) == queue]
        if not chosen:
            known = ", ".join(map(str, program.queues))
            raise UsageError(f"there is no queue {queue!r}; the queues are {known}")
        queues, streams = program.queues, program.streams
        program = replace(program, queues=tuple(queues[i] for i in chosen), streams=tuple(streams[i] for i in chosen))
    # Names of operators are the network's: one with a line break would look like an instruction.
    program = replace(program, ops=tuple(replace(op, name=printable(op.name)) for op in program.ops))
    text = disassemble(program, tuple(m.name for m in package.machine.memories))
    queues = plural(len(program.queues), "queue")
    summary = f"{plural(program.instructions, 'instruction')} in {queues} for {program.machine}"
    if output is None:
        click.echo(f"{text}\n{summary}")
        return
    write_text(output, f"{text}\n{summary}\n")
    click.echo(f"{output}: {summary}")


@click.command("lower")
@FILE
@click.option(
    "--dump-tir", "folder", type=click.Path(path_type=Path), help="Write TIR and instructions to this folder."
)
@PLUGINS
def lower_command(compiled: Path, folder: Path | None, plugins: tuple[Path, ...]) -> None:
    """Lower the plan of FILE.girih again, and say whether the program is the same.

    With --dump-tir, three files for each operator and shape of cell: NAME.scheduled.py, its TIR with the plan applied
    by TVM's schedule; NAME.lowered.py, that as loops; NAME.s, the loop nests of each class of tiles and their
    instructions. TVM parses the TIR back (tvm.script.from_source), which gives the same instructions.

    \b
    Examples:
      girih lower resnet50.girih
      girih lower resnet50.girih --dump-tir tir && less tir/000-conv1.s
    """
    from ...ir.codec import sha256
    from ...ir.errors import CheckError
    from ...ir.files import write_text
    from ...lowering import lower
    from ...lowering.tir_text import operator_tir
    from ..plugins.load_plugin import loaded

    click.get_current_context().with_resource(loaded(plugins))
    package = load_nouns(compiled)
    program = lower(package.graph, package.plan, package.machine)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        entries = operator_tir(package.graph, package.plan, package.machine)
        for number, entry in enumerate(entries):
            stem = f"{number:03}-{re.sub('[^A-Za-z0-9_.-]', '_', entry.op)[:80]}"
            for suffix, text in (
                ("scheduled.py", entry.scheduled),
                ("lowered.py", entry.lowered),
                ("s", entry.kernels),
            ):
                write_text(folder / f"{stem}.{suffix}", text)
        operators = len({entry.op for entry in entries})
        click.echo(f"{folder}: {plural(operators, 'operator')} in {plural(len(entries), 'shape')} of cells")
    same = sha256(program) == sha256(package.program)
    click.echo(f"{compiled}: {plural(program.instructions, 'instruction')}, {'the same' if same else 'other'} program")
    if not same:
        raise CheckError("this version lowers the plan to another program than the file has; compile the model again")


@click.command("targets", short_help="List, describe or check machines.")
@click.argument("name", required=False)
@click.option("--toml", is_flag=True, help="Print the machine file of NAME: what to begin one of your own with.")
@click.option(
    "--svg", is_flag=True, help="Print a picture of NAME: its memories, engines and links, and what joins them."
)
@JSON_OPTION
def targets_command(name: str | None, toml: bool, svg: bool, as_json: bool) -> None:
    """List the built-in machines, or describe NAME (which can be a TOML file: then it is checked as well).

    What of a machine has no effect on what is compiled for it is told in warnings.

    \b
    Examples:
      girih targets
      girih targets stcp920
      girih targets stcp920 --toml > my-machine.toml
      girih targets my-machine.toml --svg > my-machine.svg
      girih targets my-machine.toml --json
    """
    from ...explain.machine.machine_picture import machine_picture
    from ...ir.checks.machine_effects import without_effect
    from ...ir.codec import to_json
    from ...ir.load_machine import load_machine, machine_names, machine_text

    for option, chosen in (("--toml", toml), ("--svg", svg)):
        if chosen and (name is None or toml + svg + as_json > 1):
            raise UsageError(f"say which machine, and nothing else: girih targets NAME {option}")
    if toml and name is not None:
        click.echo(with_schema(machine_text(name)), nl=False)
        return
    if svg and name is not None:
        click.echo(machine_picture(load_machine(name)), nl=False)
        return
    if name is not None:
        machine = load_machine(name)
        warnings = without_effect(machine)
        data = {**json.loads(to_json(machine)), "warnings": warnings}
        emit(as_json, data, "\n".join([str(machine), machine.description, *(f"warning: {w}" for w in warnings)]))
        return
    machines = {n: load_machine(n) for n in machine_names()}
    data = {n: {"description": m.description, "clusters": m.clusters, "cores": m.cores} for n, m in machines.items()}
    emit(as_json, {"targets": data}, table([(n, m.description) for n, m in machines.items()]))


@click.command("schema", short_help="Print the JSON Schema of machine files, plans, reports and their like.")
@click.argument("name", type=click.Choice(SCHEMA_NAMES))
@click.option("--path", "as_path", is_flag=True, help="Where the installed schema is, instead of the schema.")
def schema_command(name: SchemaName, as_path: bool) -> None:
    """Print the JSON Schema of NAME: machine files, or what girih targets NAME, plan, explain, diff and pareto print
    with --json.

    target is what girih targets prints with a name, details are what girih explain prints with names.

    Editors complete and check machine files by it, if their first line names it: see girih targets NAME --toml.

    \b
    Examples:
      girih schema report
      girih schema machine --path
      check-jsonschema --schemafile "$(girih schema machine --path)" my-machine.toml
    """
    path = schema_path(name)
    click.echo(path if as_path else path.read_text(encoding="utf-8"), nl=as_path)


def _complete_model(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from ...models import names

    return [CompletionItem(n) for n in names() if n.startswith(incomplete)]


def _complete_parameter(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Parameters of the network that the words before name, with their defaults."""
    from ...models import MODELS

    # While an option has no value yet, click has sorted nothing into parameters.
    before = [str(ctx.params.get("name") or ""), *ctx.args]
    model = next((MODELS[word] for word in before if word in MODELS), None)
    words = [f"{key}={str(value).lower()}" for key, value in model.params.items()] if model else []
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


@click.command("models", short_help="List, describe or build example networks.")
@click.argument("name", required=False, shell_complete=_complete_model)
@click.option("-o", "--output", type=Written(), metavar="FILE.onnx", help="Build the network.")
@click.option(
    "--param", "params", multiple=True, metavar="KEY=VALUE", help="A parameter of the network; repeatable.",
    shell_complete=_complete_parameter,
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Of the random weights.")
@JSON_OPTION
@click.pass_context
def models_command(
    ctx: click.Context, name: str | None, output: Path | None, params: tuple[str, ...], seed: int, as_json: bool
) -> None:
    """List the networks that can be built, describe NAME, or write it to FILE.onnx with -o.

    \b
    Examples:
      girih models
      girih models bert-base
      girih models bert-base -o bert.onnx --param seq=128 --param embeddings=true
    """
    from ...ir.files import check_places, written_whole
    from ...models import MODELS, build, names

    # Of the network that is built, and without effect where none is.
    building = [option for option, parameter in (("--param", "params"), ("--seed", "seed")) if is_given(ctx, parameter)]
    if name is None:
        if output is not None or building:
            raise UsageError("say which network: girih models NAME -o FILE.onnx")
        data = {m.name: {"description": m.description, "params": dict(m.params)} for m in MODELS.values()}
        emit(as_json, {"models": data}, table([(m.name, m.description) for m in MODELS.values()]))
        return
    values = parse_assignments(params, "--param")
    if output is None:
        if building:
            leave = " and ".join(building)
            raise UsageError(f"say where to write the network, with -o FILE.onnx, or leave out {leave}")
        if name not in MODELS:
            raise UsageError(f"unknown model {name!r}; choose one of {', '.join(names())}")
        model = MODELS[name]
        defaults = " ".join(f"{k}={v}" for k, v in model.params.items())
        text = f"{model.name}: {model.description}\n  {model.paper}\n  parameters: {defaults}"
        data = {"name": name, "description": model.description, "paper": model.paper, "params": dict(model.params)}
        emit(as_json, data, text)
        return
    check_places([output])
    network = build(name, seed=seed, **values)
    with written_whole(output) as file:
        file.write(network.SerializeToString(deterministic=True))
    written = output.stat().st_size
    inputs = [v.name for v in network.graph.input]
    data = {"status": "ok", "name": name, "output": str(output), "output_bytes": written, "inputs": inputs}
    emit(as_json, data, f"{output}: {name}, {plural(len(network.graph.node), 'node')}, {size(written)}")


@click.command("ops")
@click.option("--coverage", is_flag=True, help="Also those that are not supported, and how many are.")
@PLUGINS
@JSON_OPTION
def ops_command(coverage: bool, plugins: tuple[Path, ...], as_json: bool) -> None:
    """List the ONNX operators that can be compiled, those that ship with Girih, and those of plugins.

    \b
    Examples:
      girih ops
      girih ops --coverage
      girih ops --plugin my_ops.py
    """
    from ...ir import custom_operators
    from ..plugins.load_plugin import loaded

    with reserved_stdout(as_json), loaded(plugins):
        from .operators import operators

        rows, custom = operators(), custom_operators.operators()
        shipped = custom_operators.shipped_operators()
    supported = [row for row in rows if row.how]
    shown = rows if coverage else supported
    data = {
        "supported": len(supported),
        "all": len(rows),
        "operators": {row.name: {"since": row.since, "how": row.how, "reason": row.reason} for row in shown},
        "custom": {o.key: {"height": o.height, "template": o.template is not None, "file": o.file, "line": o.line}
                   for o in custom},
        "shipped": [o.key for o in shipped],
    }  # fmt: skip
    words = [(o.key, o.height, "for a scalar engine, ships with Girih") for o in shipped]
    words += [(o.key, o.height, "with a template, " * (o.template is not None) + o.place) for o in custom]
    lines = table([*((row.name, f"since {row.since}", str(row)) for row in shown), *words])
    emit(as_json, data, f"{lines}\n{len(supported)} of {len(rows)} ONNX operators are supported")
