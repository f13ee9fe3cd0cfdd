"""Hostile command lines: random and conflicting options and arguments of all commands.

Each ends with a documented exit code, without a traceback, with one JSON object if one was asked for; and a file that
it was to write is there as a whole or not at all.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import click
import numpy as np
import onnx

from benchmarks.hostile import girih_files
from benchmarks.hostile.case import Case, WrongResultError
from girih.api.cli.app import cli, main
from girih.api.compile import load
from girih.ir.errors import UsageError
from girih.models import build

_DOCUMENTED = (0, 2, 3, 4, 5)
"""Exit codes that are no internal error."""

_WORDS = (
    "", " ", "-", "--", "-1", "0", "1", "2", "3.5", "nan", "inf", "-inf", "1e400", "99999999999999999999", "true",
    "x=1", "N=2", "N=", "=3", "N=x", "N=-1", "é", "名", "a\nb", "x" * 300, "tiny", "stcp920", "nothing", ".",
    "/dev/null/x", "net.onnx", "net.girih", "broken.onnx", "broken.girih", "tiny.toml", "in.npz", "out.girih",
    "out.txt", "out.json", "out.csv", "out.npz", "folder", "folder/out.girih", "missing/out.girih", "tiny-cnn", "text",
    "json", "fp16", "bf16", "as-is", "solver", "layerwise", "graphturbo", "info", "clear", "bash", "size=8",
    "size=-8", "MME0",
)  # fmt: skip
_LIKELY = {
    "model": ("net.onnx", "net.onnx", "broken.onnx", "net.girih"),
    "compiled": ("net.girih", "net.girih", "broken.girih", "net.onnx"),
    "output": ("out.girih", "out.json", "out.txt", "net.onnx", "net.girih", "folder", "missing/out.girih"),
    "target": ("tiny", "tiny", "tiny.toml", "nothing"),
    "name": ("tiny-cnn", "tiny", "stcp920", "tiny.toml"),
    "inputs": ("in.npz", "net.girih"),
    "outputs": ("out.npz", "out.txt"),
    "trace": ("out.json", "out.txt"),
    "counters": ("out.json", "out.csv"),
    "batch": ("1", "2", "2", "0", "-1"),
    "solver_timeout": ("0", "0.1", "-1"),
    "cache": ("cache", "net.onnx"),
    "folder": ("cache", "net.onnx"),
}
"""Values that get far, by the name of the parameter."""


def cases(seed: int) -> Iterator[Case]:
    """Command lines without end; the arguments are the data of a case, as JSON."""
    for number in count():
        random = Random(f"{seed} {number}")
        name = random.choice(sorted(cli.commands))
        words = [name, *_arguments(random, cli.commands[name])]
        if random.random() < 0.1:
            words.insert(random.randrange(len(words) + 1), random.choice(_WORDS))
        if "compile" in words or "pareto" in words:
            # The default is a minute.
            words += ["--solver-timeout", random.choice(("0", "0.2"))]
        yield Case(
            "cli", name, f"line {number} of seed {seed}: {' '.join(map(repr, words))}", json.dumps(words).encode()
        )


def _arguments(random: Random, command: click.Command) -> list[str]:
    groups: list[list[str]] = []
    for parameter in command.params:
        if parameter.name == "help":
            continue
        likely = random.random() < 0.85
        value = random.choice(_LIKELY.get(parameter.name or "", _WORDS) if likely else _WORDS)
        if isinstance(parameter.type, click.Choice) and likely:
            value = str(random.choice(list(parameter.type.choices)))
        if isinstance(parameter, click.Argument):
            if random.random() < (0.95 if parameter.required else 0.7):
                groups.append([value])
        elif parameter.required or random.random() < 0.25:
            for _ in range(random.choice((1, 1, 1, 2)) if random.random() < 0.95 else 0):
                flag = random.choice([*parameter.opts, *parameter.secondary_opts])
                groups.append([flag] if isinstance(parameter, click.Option) and parameter.is_flag else [flag, value])
    random.shuffle(groups)
    return [word for group in groups for word in group]


@cache
def _files() -> dict[str, bytes]:
    """What lies in the folder in which a command runs."""
    right = girih_files.package("tiny-cnn")
    array = io.BytesIO()
    np.savez(array, x=np.zeros((2, 3, 8, 8), np.float32))
    machine = Path(__file__).parents[2] / "ir" / "machines" / "tiny.toml"
    network = build("tiny-cnn").SerializeToString(deterministic=True)
    return {
        "net.onnx": network, "broken.onnx": network[:200], "net.girih": right, "broken.girih": right[:-9],
        "tiny.toml": machine.read_bytes(), "in.npz": array.getvalue(),
    }  # fmt: skip


def attempt(case: Case) -> None:
    """Run the command in a folder of its own, through the entry point of the process."""
    words: list[str] = json.loads(case.data)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, content in _files().items():
            (folder / name).write_bytes(content)
        (folder / "folder").mkdir()
        with contextlib.chdir(folder):
            code, output, errors = _run(words)
        if code not in _DOCUMENTED or "Traceback" in output + errors:
            raise RuntimeError(f"exit code {code}: {errors[-300:] or output[-300:]}")
        command = next((word for word in words if word in cli.commands), "")
        _check_files(folder, command, code)
    if code:
        if not errors.strip() and not output.strip():
            raise RuntimeError(f"exit code {code} without a message")
        raise UsageError(f"exit code {code}: {errors.strip()[-200:]}")
    if "--json" in words and "--help" not in words and output.strip():
        _parse(output)


def _run(words: list[str]) -> tuple[object, str, str]:
    output, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace") for _ in range(2))
    previous = os.environ.get("GIRIH_CACHE")
    os.environ["GIRIH_CACHE"] = "off"
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    code: object = None
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            try:
                main(words)
            except SystemExit as done:
                code = 0 if done.code is None else done.code
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.environ.pop("GIRIH_CACHE")
        if previous is not None:
            os.environ["GIRIH_CACHE"] = previous
    texts: list[str] = []
    for stream in (output, errors):
        stream.flush()
        stream.seek(0)
        texts.append(stream.read())
    return code, texts[0], texts[1]


def _parse(output: str) -> Any:
    try:
        return json.loads(output)
    except ValueError as error:
        raise WrongResultError(f"--json prints what is no JSON object: {error}: {output[:100]!r}") from error


def _check_files(folder: Path, command: str, code: object) -> None:
    """Raise :class:`WrongResultError` for a file that is half-written, damaged or left behind."""
    names = {p.name for p in folder.iterdir()}
    for name, content in _files().items():
        if name not in names or (code != 0 and (folder / name).read_bytes() != content):
            raise WrongResultError(f"{name} was there before the command, and is gone or changed (exit code {code})")
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name in _files() or "cache" in path.relative_to(folder).parts:
            continue
        if code in (2, 3, 4):
            raise WrongResultError(f"{path.name} was written, although the exit code is {code}")
        try:
            if command == "compile":
                load(path)
            elif command == "models":
                onnx.ModelProto.FromString(path.read_bytes())
            elif zipfile.is_zipfile(path):
                with np.load(path) as arrays:
                    dict(arrays)
            elif command == "run" and path.suffix == ".json":
                json.loads(path.read_bytes())
        except Exception as error:
            raise WrongResultError(f"{path.name} is no whole file: {error}") from error
