"""How golden files are compared: a difference fails and is shown, an update writes it, and orphans are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.golden import Golden

COMPARE, UPDATE = Golden(update=False), Golden(update=True)


def test_a_difference_fails_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    UPDATE.compare(path, "one\ntwo\nthree")
    COMPARE.compare(path, "one\ntwo\nthree")
    with pytest.raises(pytest.fail.Exception, match=r"(?s)-two\n\+2\n.*--update-golden") as failure:
        COMPARE.compare(path, "one\n2\nthree")
    assert "-three" not in str(failure.value)
    UPDATE.compare(path, "one\n2\nthree")
    COMPARE.compare(path, "one\n2\nthree")


def test_a_missing_file_fails(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"there is no a\.txt"):
        COMPARE.compare(tmp_path / "a.txt", "one")


def test_an_orphan_fails_and_an_update_deletes_it(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        UPDATE.compare(tmp_path / name, name)
    COMPARE.only(tmp_path, {"a.txt", "b.txt"})
    with pytest.raises(pytest.fail.Exception, match=r"no test compares with b\.txt"):
        COMPARE.only(tmp_path, {"a.txt"})
    UPDATE.only(tmp_path, {"a.txt"})
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
