"""Progress: plain lines are few, a terminal shows the latest of each model."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from girih.api.cli.progress import Board, PlainProgress, describe
from girih.models import build
from girih.solver.options import Progress
from tests.support.terminal import Session, run_on_terminal

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


def board(*news: Progress, budget: float = 60.0) -> Board:
    shown = Board(budget)
    for each in news:
        shown(each)
    return shown


def test_the_board_shows_the_latest() -> None:
    lines = board(NEWS, Progress("tiling", "optimal", 1000.0, 1000.0, 3.2)).lines(100)
    assert len(lines) == 2
    assert lines[1].split() == ["tiling", "1,000", "1,000", "0.0%", "optimal"]


def test_columns_are_aligned_and_lines_are_cut_not_broken() -> None:
    shown = board(
        NEWS,
        Progress("banks:L1W", "feasible", 123456789.0, 1.0, 3.0, "a very long message\n" * 9, "bytes"),
        Progress("import", "done", None, None, 1.0),
    )
    for width in (20, 40, 60, 80, 200):
        lines = shown.lines(width)
        assert len(lines) == 4 and all(len(line) <= width for line in lines), width
    lines = shown.lines(80)
    end = lines[0].index("incumbent") + len("incumbent")
    assert [line[:end].split()[-1] for line in lines[1:3]] == ["1,200", "123,456,789"]
    assert lines[2].endswith("…") and "bound" in lines[0] and "bound" not in shown.lines(40)[0]


def test_time_left_counts_down_and_is_never_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("girih.api.cli.progress.time.monotonic", lambda: now)
    shown = board(Progress("import", "running", None, None, 0.5), budget=10.0)
    assert shown.seconds_left is None and "s left" not in shown.lines(80)[0]
    shown(Progress("plan", "running", None, None, 2.0))
    left: list[float] = []
    for _ in range(4):
        left.append(shown.seconds_left or 0.0)
        now += 4.0
        # A model's own clock may lag behind: that of the compilation never goes back.
        shown(Progress("tiling", "running", 5.0, 1.0, 2.5))
    assert left == [10.0, 6.0, 2.0, 0.0]
    shown(Progress("plan", "done", None, None, 20.0))
    assert shown.seconds_left is None and shown.seconds == 20.0


def test_the_best_plan_stays_when_planning_ends() -> None:
    shown = board(
        Progress("plan", "running", None, None, 1.0),
        Progress("plan", "feasible", 120.0, 100.0, 2.0, "iteration 1", "cycles"),
        Progress("plan", "done", None, None, 3.0, "from the cache"),
    )
    assert shown.lines(90)[1].split() == ["plan", "120", "100", "16.7%", "cycles,", "done,", "from", "the", "cache"]


def test_a_running_search_says_little_in_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    listen = PlainProgress()
    for i in range(100):
        listen(Progress("residency", "running", 1000.0 - i, 1.0, 3.0 + i / 4))
    assert len(capsys.readouterr().err.splitlines()) == 3


def compiled_on_terminal(tmp_path: Path, columns: int, interrupt_at: str | None = None, **environment: str) -> Session:
    network = tmp_path / "net.onnx"
    network.write_bytes(build("tiny-transformer").SerializeToString(deterministic=True))
    words = [
        sys.executable, "-c", "from girih.api.cli.console import console; console()", "compile", str(network),
        "-o", str(tmp_path / "net.girih"), "--target", "tiny", "--batch", "1", "--timeout", "2", "--no-cache",
    ]  # fmt: skip
    return run_on_terminal(words, columns=columns, environment=environment, interrupt_at=interrupt_at)


def live(session: Session) -> list[list[str]]:
    """The lines of the screens that show models."""
    return [shown.splitlines() for shown in session.shown if shown.startswith("model ")]


@pytest.mark.parametrize("columns", [80, 40])
def test_on_a_terminal_each_model_has_one_live_line(tmp_path: Path, columns: int) -> None:
    session = compiled_on_terminal(tmp_path, columns)
    assert session.exit_code == 0 and session.cursor_visible
    screens = live(session)
    assert len(screens) > 5
    left: list[int] = []
    for lines in screens:
        models = [line.split()[0] for line in lines[1:]]
        assert len(models) == len(set(models))
        assert all(len(line) <= columns for line in lines)
        if found := re.search(r"(-?\d+) s left", lines[0]):
            left.append(int(found.group(1)))
    assert {"plan", "segmentation", "tiling", "residency"} <= {line.split()[0] for line in screens[-1][1:]}
    assert left == sorted(left, reverse=True) and min(left) >= 0
    # The live lines are gone at the end; what was gained is said.
    assert "gained: " in session.shown[-1] and not session.shown[-1].startswith("model ")


def test_ctrl_c_keeps_the_best_plan_and_leaves_the_terminal_sane(tmp_path: Path) -> None:
    session = compiled_on_terminal(tmp_path, 80, interrupt_at="iteration 0")
    assert session.exit_code == 0 and session.cursor_visible
    assert "search: interrupted" in session.shown[-1] and (tmp_path / "net.girih").exists()


def test_a_terminal_that_cannot_go_back_gets_plain_lines(tmp_path: Path) -> None:
    session = compiled_on_terminal(tmp_path, 80, TERM="dumb")
    assert session.exit_code == 0
    assert "\x1b" not in session.output and " s] plan: feasible, incumbent" in session.output


def test_no_colours(tmp_path: Path) -> None:
    session = compiled_on_terminal(tmp_path, 80, NO_COLOR="1")
    assert session.exit_code == 0 and live(session)
    assert not re.search(r"\x1b\[[0-9;]*m", session.output)


@pytest.mark.parametrize("closed", [True, False])
def test_standard_error_that_is_closed_or_a_pipe(tmp_path: Path, closed: bool) -> None:
    network = tmp_path / "net.onnx"
    network.write_bytes(build("tiny-cnn").SerializeToString(deterministic=True))
    command = f"{sys.executable} -c 'from girih.api.cli.console import console; console()' compile {network}"
    command += f" -o {tmp_path}/net.girih --target tiny --batch 1 --timeout 1 --no-cache {'2>&-' if closed else ''}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "gained: " in done.stdout and "\x1b" not in done.stdout + done.stderr
    assert closed or " s] plan: done" in done.stderr
