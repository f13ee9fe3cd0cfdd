"""The allocation benchmark: what it writes, what its checker catches, and what it says of wrong files."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.allocation import allocate_files as allocation
from benchmarks.allocation.check import violations

# MiniMalloc's worked example: 12 bytes are enough.
EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"


def example(folder: Path, text: str = EXAMPLE, name: str = "x.csv") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("more", [(), ("--minimise",)])
def test_answers_are_written_and_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    inputs, out = example(tmp_path / "in"), tmp_path / "out"
    assert allocation.main([str(inputs), str(out), "--capacity", "12", *more]) == 0
    lines = (out / "x.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "id,lower,upper,size,offset" and len(lines) == 6
    assert violations(inputs / "x.csv", out / "x.csv", 12) == []
    fields = capsys.readouterr().out.splitlines()[1].split()
    assert fields[0] == "x.csv" and fields[2:5] == ["optimal", "12", "12"] and fields[-1] == "right"


def test_too_small_a_capacity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs, out = example(tmp_path / "in"), tmp_path / "out"
    assert allocation.main([str(inputs), str(out), "--capacity", "11"]) == 1
    assert "infeasible" in capsys.readouterr().out and not (out / "x.csv").exists()
    assert allocation.main([str(inputs), str(out), "--capacity", "11", "--minimise"]) == 1
    assert violations(inputs / "x.csv", out / "x.csv", 12) == []


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ("id,lower,upper,size,offset\na,0,2,4,0\nb,1,3,4,4\n", ""),
        ("id,lower,upper,size,offset\nb,1,3,4,0\na,0,2,4,4\n", ""),
        ("id,lower,upper,size,offset\na,0,2,4,0\nb,1,3,4,3\n", "share bytes from 3"),
        ("id,lower,upper,size,offset\na,0,2,4,0\nb,1,3,4,5\n", "not within 0 to 8"),
        ("id,lower,upper,size,offset\na,0,2,4,-1\nb,1,3,4,4\n", "not within 0 to 8"),
        ("id,lower,upper,size,offset\na,0,2,4,0\n", "are not those of"),
        ("id,lower,upper,size,offset\na,0,2,3,0\nb,1,3,4,4\n", "are not those of"),
    ],
)  # fmt: skip
def test_the_checker(tmp_path: Path, answer: str, word: str) -> None:
    question = example(tmp_path, "id,lower,upper,size\na,0,2,4\nb,1,3,4\n", "question.csv") / "question.csv"
    given = example(tmp_path, answer, "answer.csv") / "answer.csv"
    found = "\n".join(violations(question, given, 8))
    assert word in found and bool(found) == bool(word)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "x.csv:1: is empty"),
        ("id,lower,upper\na,0,2\n", "x.csv:1: the header"),
        ("id,lower,upper,size\na,0,2,4\nb,0,2\n", "x.csv:3: has 3 fields"),
        ("id,lower,upper,size\na,0,2,4\nb,0,two,4\n", "x.csv:3: upper is 'two'"),
        ("id,lower,upper,size\na,0,2,-4\n", "x.csv:2: size is '-4'"),
        ("id,lower,upper,size\na,0,2,4e3\n", "x.csv:2: size is '4e3'"),
        ("id,lower,upper,size\na,0,2,99999999999999999999\n", "x.csv:2: size is"),
        ("id,lower,upper,size\na,0,2,0\n", "x.csv:2: size is 0"),
        ("id,lower,upper,size\na,2,2,4\n", "x.csv:2: lower 2 is not below upper 2"),
        ("id,lower,upper,size\na,0,2,4\na,0,2,4\n", "x.csv:3: buffer 'a' was there before"),
        ('id,lower,upper,size\n"a,0,2,4\n', "x.csv:"),
    ],
)  # fmt: skip
def test_wrong_files_are_named_with_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    inputs = example(tmp_path / "in", text)
    assert allocation.main([str(inputs), str(tmp_path / "out")]) == 2
    assert words in capsys.readouterr().err


def test_wrong_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert allocation.main([str(tmp_path / "none"), str(tmp_path / "out")]) == 2
    assert allocation.main([str(tmp_path), str(tmp_path / "out")]) == 2
    inputs = example(tmp_path / "in")
    assert allocation.main([str(inputs), str(inputs)]) == 2
    assert allocation.main([str(inputs), str(tmp_path / "out"), "--only", "y.csv"]) == 2
    assert "has no file y.csv" in capsys.readouterr().err
