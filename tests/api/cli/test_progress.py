"""Progress: plain lines are few, the table holds the latest of each model."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from girih.api.cli.progress import Board, PlainProgress, describe
from girih.solver.options import Progress

NEWS = Progress("tiling", "feasible", 1200.0, 1000.0, 3.0, "a cut")


def test_describe_tells_what_is_known() -> None:
    assert describe(NEWS) == "feasible, incumbent 1,200, bound 1,000, gap 16.7%, a cut"
    assert (
        describe(Progress("plan", "feasible", 9.0, None, 1.0, "a\nb", "cycles"))
        == r"feasible, incumbent 9 cycles, a\nb"
    )
    assert describe(Progress("import", "running", None, None, 0.0)) == "running"


def test_plain_lines_are_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    listen = PlainProgress()
    listen(NEWS)
    listen(NEWS)
    listen(Progress("tiling", "feasible", 1100.0, 1000.0, 3.1))
    listen(Progress("tiling", "optimal", 1000.0, 1000.0, 3.2))
    out, err = capsys.readouterr()
    assert not out
    assert [line.split("tiling: ")[1] for line in err.splitlines()] == [
        "feasible, incumbent 1,200, bound 1,000, gap 16.7%, a cut",
        "optimal, incumbent 1,000, bound 1,000, gap 0.0%",
    ]


def test_the_board_shows_the_latest() -> None:
    board = Board()
    board(NEWS)
    board(Progress("tiling", "optimal", 1000.0, 1000.0, 3.2))
    console = Console(file=StringIO(), width=100, record=True)
    console.print(board.table())
    text = console.export_text()
    assert "optimal" in text
    assert "feasible" not in text
