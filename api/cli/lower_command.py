"""The command that lowers again: ``girih lower``."""

from __future__ import annotations

import re
from pathlib import Path

import click

from ...explain.units import plural
from .compiled_file import FILE, load_nouns
from .output import PLUGINS


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
