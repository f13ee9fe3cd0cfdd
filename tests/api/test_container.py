"""The .girih file: complete, deterministic, and strict about damage."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest

from girih.api import container
from girih.api.compile import Compiled, load
from girih.api.container import Package
from girih.ir.errors import UsageError

from .packages import small


def test_reads_back_equal(tmp_path: Path) -> None:
    package = small()
    package.save(tmp_path / "net.girih")
    again = load(tmp_path / "net.girih")
    assert isinstance(again, Compiled)
    assert again == package
    assert again.graph.data.keys() == package.graph.data.keys()
    for name, array in package.graph.data.items():
        np.testing.assert_array_equal(again.graph.data[name], array, strict=True)


def test_same_contents_same_bytes(tmp_path: Path) -> None:
    small().save(tmp_path / "a.girih")
    small().save(tmp_path / "b.girih")
    assert (tmp_path / "a.girih").read_bytes() == (tmp_path / "b.girih").read_bytes()


def test_digests_are_of_the_entries(tmp_path: Path) -> None:
    package = small()
    package.save(tmp_path / "net.girih")
    with zipfile.ZipFile(tmp_path / "net.girih") as archive:
        assert package.plan_sha256 == hashlib.sha256(archive.read("plan.json")).hexdigest()
        assert package.program_sha256 == hashlib.sha256(archive.read("program.bin")).hexdigest()


def test_partial_read_leaves_the_data_out(tmp_path: Path) -> None:
    small().save(tmp_path / "net.girih")
    nouns = container.read(tmp_path / "net.girih", Package, data=False)
    assert nouns.program == small().program
    assert not nouns.graph.data
    assert not nouns.model


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        load(tmp_path / "net.girih")


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "net.girih"
    small().save(path)
    whole = path.read_bytes()
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(UsageError, match=r"cannot read .*net\.girih"):
            load(path)


def test_damaged_bytes_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "net.girih"
    small().save(path)
    whole = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(whole), 40):
        damaged = whole.copy()
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        try:
            # Bytes that mean nothing (time stamps, permissions) may change.
            assert load(path) == small()
        except UsageError as error:
            assert "net.girih" in str(error)


def test_an_exchanged_entry_is_named(tmp_path: Path) -> None:
    path, other = tmp_path / "net.girih", tmp_path / "other.girih"
    small().save(path)
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            target.writestr(name, data.replace(b'"cycles_predicted":9000', b'"cycles_predicted":1'))
    with pytest.raises(UsageError, match=r"SHA-256 of plan\.json"):
        load(other)


def test_a_missing_entry_is_named(tmp_path: Path) -> None:
    path, other = tmp_path / "net.girih", tmp_path / "other.girih"
    small().save(path)
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            if name != "program.bin":
                target.writestr(name, source.read(name))
    with pytest.raises(UsageError, match=r"no entry program\.bin"):
        load(other)


def test_another_zip_is_not_a_package(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "net.girih", "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(UsageError, match=r"no entry meta\.json"):
        load(tmp_path / "net.girih")


def test_an_interrupt_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.girih"
    path.write_bytes(b"old")

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(container, "_npy", interrupt)
    with pytest.raises(KeyboardInterrupt):
        small().save(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
