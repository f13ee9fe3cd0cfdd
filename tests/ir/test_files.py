"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from zipfile import ZipFile

import pytest

from girih.ir.errors import UsageError
from girih.ir.files import check_places, check_writable, write_text, written_whole


def test_writes_and_replaces(tmp_path: Path) -> None:
    for text in ("first", "second"):
        write_text(tmp_path / "a.txt", text)
        assert (tmp_path / "a.txt").read_text() == text
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), written_whole(tmp_path / "a.txt") as file:
        file.write(b"half")
        raise error
    assert not list(tmp_path.iterdir())


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_a_device_is_written_and_not_replaced() -> None:
    write_text(os.devnull, "gone")
    assert not Path(os.devnull).is_file()


def test_a_device_takes_an_archive() -> None:
    with written_whole(os.devnull) as file, ZipFile(file, "w") as archive:
        archive.writestr("entry", "gone")


def test_a_pipe_is_written_by_the_name_of_its_descriptor() -> None:
    reading, writing = os.pipe()
    try:
        place = f"/dev/fd/{writing}"
        check_places([place])
        write_text(place, "all of it")
        assert os.read(reading, 100) == b"all of it"
    finally:
        os.close(reading)
        os.close(writing)


def test_no_output_replaces_an_input(tmp_path: Path) -> None:
    source, link = tmp_path / "a.girih", tmp_path / "link.girih"
    source.write_text("kept")
    link.symlink_to(source)
    for place in (source, link):
        with pytest.raises(UsageError, match=r"would replace .*a.girih, which is read"):
            check_places((None, place), (source,))


def test_no_output_replaces_another(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is written as well"):
        check_places((tmp_path / "a.json", tmp_path / "b.json", tmp_path / "a.json"))
    check_places((os.devnull, os.devnull))


def test_permissions_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o640)
    write_text(path, "new")
    assert path.stat().st_mode & 0o777 == 0o640


def test_check_finds_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        check_writable(tmp_path / "no" / "a.txt")


def test_check_finds_a_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="directory"):
        check_writable(tmp_path)


def test_check_finds_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        check_writable(tmp_path / "file" / "a.txt")


def test_check_leaves_no_trace(tmp_path: Path) -> None:
    check_writable(tmp_path / "a.txt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_a_file_that_another_process_writes_meanwhile_is_replaced_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """What is not there at one look, and there at the next, is no device."""
    place, look, misses = tmp_path / "file", Path.stat, 0

    def racing(path: Path, **options: bool) -> os.stat_result:
        nonlocal misses
        try:
            return look(path, **options)
        except FileNotFoundError:
            misses += path == place
            if path == place and misses == moment:
                with open(place, "wb") as file:
                    file.write(b"of another process")
            raise

    monkeypatch.setattr(Path, "stat", racing)
    monkeypatch.setattr(Path, "write_bytes", None)
    with written_whole(place) as file:
        file.write(b"ours")
    assert place.read_bytes() == b"ours"
