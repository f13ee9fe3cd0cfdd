"""``girih explain --format``: files for other tools, and what is said where there are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import girih


def test_the_suffix_tells_the_format(capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path) -> None:
    code, out, _ = girih(capfd, "explain", compiled, "-o", tmp_path / "operators.csv")
    assert code == 0 and f"{tmp_path / 'operators.csv'}: written" in out
    assert (tmp_path / "operators.csv").read_text().startswith("operator,")


def test_a_page_goes_to_a_file(capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path) -> None:
    code, out, _ = girih(capfd, "explain", compiled, "-o", tmp_path / "report.html")
    assert code == 0 and f"{tmp_path / 'report.html'}: written" in out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and page.rstrip().endswith("</html>")
    code, _, err = girih(capfd, "explain", compiled, "--format", "html")
    assert code == 2 and "--format html -o out.html" in err
    code, _, err = girih(capfd, "explain", compiled, "-o", tmp_path / "one.html", "--memory", "LLB")
    assert code == 2 and "names cannot be given with it; leave out --memory" in err


def test_perfetto(capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path) -> None:
    code, _, _ = girih(capfd, "explain", compiled, "--format", "perfetto", "-o", tmp_path / "trace.json")
    assert code == 0 and json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_node_data_lie_beside_the_graph(capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path) -> None:
    code, out, _ = girih(capfd, "explain", compiled, "--format", "model-explorer", "-o", tmp_path / "g.json")
    names = ("g.json", "g.cycles.json", "g.lost.json", "g.segment.json")
    assert code == 0 and out.splitlines() == [f"{tmp_path / name}: written" for name in names]
    assert all(json.loads((tmp_path / name).read_text()) for name in names)


def test_a_near_miss_is_suggested(capfd: pytest.CaptureFixture[str], compiled: Path) -> None:
    code, _, err = girih(capfd, "explain", compiled, "--format", "perfeto")
    assert code == 2 and "did you mean perfetto?" in err


def test_other_tools_need_a_file_and_all_of_the_network(capfd: pytest.CaptureFixture[str], compiled: Path) -> None:
    code, _, err = girih(capfd, "explain", compiled, "--format", "csv")
    assert code == 2 and "-o out.csv" in err
    code, _, err = girih(capfd, "explain", compiled, "--format", "csv", "-o", "x.csv", "--memory", "LLB")
    assert code == 2 and "all of the network" in err


def test_what_is_read_is_not_replaced(capfd: pytest.CaptureFixture[str], compiled: Path) -> None:
    code, _, err = girih(capfd, "explain", compiled, "--format", "csv", "-o", compiled)
    assert code == 2 and "which is read" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--json", "-o", "x.html"), "x.html is no name for json: end it in .json, or ask for html"),
        (("--format", "html", "-o", "x.csv"), "x.csv is no name for html: end it in .html, or ask for csv"),
        (("--format", "text", "-o", "x.weird"), "x.weird is no name for text: end it in .txt or .md"),
        (("--format", "csv", "--json"), "--json and --format csv contradict each other; leave one of them out"),
        (("-o", "x.weird"), "end the name in .txt, .md, .json, .html, .onnx, .csv or .parquet"),
        (("--tables", "--json"), "--tables is for text, and json has all tables anyhow; leave it out"),
        (("--tables", "-o", "x.html"), "--tables is for text"),
        (("--tables", "--memory", "LLB"), "leave it out, or --memory"),
        (("--operator", "a", "--segment", "0", "-o", "x.html"), "leave out --operator, --segment"),
    ],
)
def test_contradictions_are_refused_before_anything_is_written(
    capfd: pytest.CaptureFixture[str], compiled: Path, words: tuple[str, ...], message: str
) -> None:
    places = [str(compiled.parent / word) if word.startswith("x.") else word for word in words]
    code, out, err = girih(capfd, "explain", compiled, *places)
    assert code == 2 and message in err
    assert not out or json.loads(out)["status"] == "usage_error"
    assert list(compiled.parent.iterdir()) == [compiled]


def test_a_name_without_a_suffix_says_nothing(
    capfd: pytest.CaptureFixture[str], compiled: Path, tmp_path: Path
) -> None:
    for words, begin in (((), "residual on "), (("--format", "json"), "{"), (("--tables",), "residual on ")):
        code, _, _ = girih(capfd, "explain", compiled, *words, "-o", tmp_path / "plain")
        assert code == 0 and (tmp_path / "plain").read_text().startswith(begin)
