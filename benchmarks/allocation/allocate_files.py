"""Allocate the buffers of static allocation problems: MiniMalloc's inputs, or any like them.

    make bench-allocation INPUTS=DIR OUT=DIR
    python -m benchmarks.allocation.allocate_files INPUTS OUT
    python -m benchmarks.allocation.allocate_files INPUTS OUT --minimise --limit 20 --only A.1048576.csv

Every CSV file in INPUTS has the columns id, lower, upper and size: buffer ``id`` needs ``size`` bytes while
``lower <= t < upper``. OUT gets a file of the same name with a column ``offset`` added; a line for each tells seconds,
status, peak, bound and whose answer it is, and what :mod:`benchmarks.allocation.check` says of the file written.

Without --minimise a file is done as soon as its buffers lie within --capacity, and only then written. With it, the peak
is lowered until it is proven lowest or --limit is over, and the file is written even if it ends above the capacity.
Statuses are those of :class:`benchmarks.allocation.static_allocation.Allocation`. An interrupt (Ctrl-C) ends the work
and keeps what is done. The exit code is 1 if a file is not within the capacity, 2 for bad input, and 130 after an
interrupt.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.allocation.check import violations
from benchmarks.allocation.static_allocation import Allocation, Buffer, allocate
from girih.ir.errors import UsageError
from girih.solver.cpsat.backend import Budget

COLUMNS = ("id", "lower", "upper", "size")
LARGEST = 2**40
"""Bytes, and times, beyond which a file is taken to be wrong."""
CAPACITY = 1 << 20
LIMIT = 55.0
"""Seconds for a file; loading the last model may come on top."""


def read(path: Path) -> list[Buffer]:
    """The buffers of a file; raises :class:`UsageError` with file and line if it is not as it should be."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as UTF-8 text: {error}") from None
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    buffers: dict[str, Buffer] = {}
    order: list[int] = []
    try:
        for row in rows:
            where = f"{path}:{rows.line_num}"
            if not order:
                order = _columns(row, where)
            elif row:
                buffer = _buffer(row, order, where)
                if buffer.name in buffers:
                    raise UsageError(f"{where}: buffer {buffer.name!r} was there before; give each its own id")
                buffers[buffer.name] = buffer
    except csv.Error as error:
        raise UsageError(f"{path}:{rows.line_num}: is not CSV: {error}") from None
    if not order:
        raise UsageError(f"{path}:1: is empty; it needs the header {','.join(COLUMNS)}")
    return list(buffers.values())


def _columns(row: Sequence[str], where: str) -> list[int]:
    names = [name.strip() for name in row]
    if sorted(names) != sorted(COLUMNS):
        raise UsageError(f"{where}: the header is {','.join(row)!r}; it must name the columns {','.join(COLUMNS)}")
    return [names.index(name) for name in COLUMNS]


def _buffer(row: Sequence[str], order: Sequence[int], where: str) -> Buffer:
    if len(row) != len(order):
        raise UsageError(f"{where}: has {len(row)} fields; the header has {len(order)}")
    name, *numbers = (row[i].strip() for i in order)
    values: list[int] = []
    for column, text in zip(COLUMNS[1:], numbers, strict=True):
        if not (text.isascii() and text.isdigit()) or len(text) > 15 or int(text) > LARGEST:
            raise UsageError(f"{where}: {column} is {text!r}; it must be a whole number from 0 to {LARGEST}")
        values.append(int(text))
    lower, upper, size = values
    if lower >= upper:
        raise UsageError(f"{where}: lower {lower} is not below upper {upper}")
    if size == 0:
        raise UsageError(f"{where}: size is 0; leave the buffer out")
    return Buffer(name, lower, upper, size)


def write(path: Path, buffers: Sequence[Buffer], offsets: Sequence[int]) -> None:
    """All of it or nothing: an interrupt leaves no half a file."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow((*COLUMNS, "offset"))
        for b, offset in zip(buffers, offsets, strict=True):
            out.writerow((b.name, b.lower, b.upper, b.size, offset))
    partial.replace(path)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("inputs", type=Path, help="directory of CSV files")
    parser.add_argument("out", type=Path, help="directory for the same files with offsets")
    parser.add_argument("--capacity", type=int, default=CAPACITY, help="bytes (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for a file (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minimise", action="store_true", help="go on below the capacity")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of the files in INPUTS")
    parsed = parser.parse_args(arguments)
    if parsed.capacity <= 0 or not 0 < parsed.limit < float("inf") or parsed.seed < 0:
        parser.error("--capacity and --limit must be above 0, and --seed must not be negative")
    return parsed


def files(inputs: Path, only: Sequence[str] | None) -> list[Path]:
    if not inputs.is_dir():
        raise UsageError(f"{inputs}: is not a directory; name the one with the CSV files")
    tables = sorted(path for path in inputs.glob("*.csv") if path.is_file())
    missing = sorted(set(only or ()) - {path.name for path in tables})
    if missing:
        raise UsageError(f"{inputs}: has no file {missing[0]}; it has {', '.join(p.name for p in tables) or 'no CSV'}")
    if not tables:
        raise UsageError(f"{inputs}: has no file that ends in .csv")
    return [path for path in tables if not only or path.name in only]


def row(name: str, answer: Allocation, verdict: str) -> str:
    source = f"{answer.source}, hinted" if answer.hinted else answer.source
    seconds = answer.effort.seconds
    return f"{name:20} {seconds:7.2f} {answer.status:10} {answer.peak:12} {answer.bound:12}  {source:16} {verdict}"


def run(args: argparse.Namespace) -> int:
    problems = [(path, read(path)) for path in files(args.inputs, args.only)]
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{args.out}: cannot be made a directory: {error.strerror}") from None
    if args.out.resolve() == args.inputs.resolve():
        raise UsageError(f"{args.out}: is where the inputs are; name another directory for the answers")
    print(f"{'file':20} {'seconds':>7} {'status':10} {'peak':>12} {'bound':>12}  {'source':16} check", flush=True)
    code = 0
    for path, buffers in problems:
        answer = allocate(
            buffers,
            args.capacity,
            budget=Budget(args.limit),
            seed=args.seed,
            minimise=args.minimise,
        )
        verdict = "not written"
        if answer.peak <= args.capacity or args.minimise:
            target = args.out / path.name
            write(target, buffers, answer.offsets)
            wrong = violations(path, target, max(args.capacity, answer.peak))
            verdict = f"WRONG: {wrong[0]}" if wrong else "right"
        print(row(path.name, answer, verdict), flush=True)
        if answer.peak > args.capacity or verdict.startswith("WRONG"):
            code = 1
        if answer.interrupted:
            return 130
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        return run(options(arguments))
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
