"""The .girih file: complete, deterministic, and strict about damage."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import threading
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from girih.api import container
from girih.api.compile import Compiled, load
from girih.api.container import Package
from girih.ir.errors import UsageError
from tests.support.compiled import compiled_residual


def test_reads_back_equal(tmp_path: Path) -> None:
    package = compiled_residual()
    package.save(tmp_path / "net.girih")
    again = load(tmp_path / "net.girih")
    assert isinstance(again, Compiled)
    assert again == package
    assert again.graph.data.keys() == package.graph.data.keys()
    for name, array in package.graph.data.items():
        np.testing.assert_array_equal(again.graph.data[name], array, strict=True)


def test_same_contents_same_bytes(tmp_path: Path) -> None:
    compiled_residual().save(tmp_path / "a.girih")
    compiled_residual().save(tmp_path / "b.girih")
    assert (tmp_path / "a.girih").read_bytes() == (tmp_path / "b.girih").read_bytes()


def test_digests_are_of_the_entries(tmp_path: Path) -> None:
    package = compiled_residual()
    package.save(tmp_path / "net.girih")
    with zipfile.ZipFile(tmp_path / "net.girih") as archive:
        assert package.plan_sha256 == hashlib.sha256(archive.read("plan.json")).hexdigest()
        assert package.program_sha256 == hashlib.sha256(archive.read("program.bin")).hexdigest()


def test_partial_read_leaves_the_data_out(tmp_path: Path) -> None:
    compiled_residual().save(tmp_path / "net.girih")
    nouns = container.read(tmp_path / "net.girih", Package, data=False)
    assert nouns.program == compiled_residual().program
    assert not nouns.graph.data
    assert not nouns.model


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        load(tmp_path / "net.girih")


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "net.girih"
    compiled_residual().save(path)
    whole = path.read_bytes()
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(UsageError, match=r"cannot read .*net\.girih"):
            load(path)


def test_a_constant_that_is_not_that_of_the_graph_is_refused(tmp_path: Path) -> None:
    """Although every digest in meta.json is that of its entry."""
    package, path = compiled_residual(), tmp_path / "net.girih"
    name = package.graph.constants[0].tensor
    data = {**package.graph.data, name: package.graph.data[name] + np.ones((), package.graph.data[name].dtype)}
    replace(package, graph=replace(package.graph, data=data)).save(path)
    with pytest.raises(UsageError, match=r"lowered from another constants/0000\.npy"):
        load(path)


def test_a_header_of_an_array_that_does_not_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, whole = tmp_path / "net.girih", container._npy  # pyright: ignore[reportPrivateUsage]

    def without_end(array: np.ndarray) -> bytes:
        return whole(array).replace(b"}", b" ", 1)

    monkeypatch.setattr(container, "_npy", without_end)
    compiled_residual().save(path)
    with pytest.raises(UsageError, match=r"cannot read .*net\.girih"):
        load(path)


def header_places(path: Path) -> list[int]:
    """The places of all bytes that are no entry's data: the headers, the directory, and the comment."""
    whole = path.read_bytes()
    data: set[int] = set()
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            start = info.header_offset + 30 + sum(struct.unpack_from("<HH", whole, info.header_offset + 26))
            data |= set(range(start, start + info.compress_size))
    return [place for place in range(len(whole)) if place not in data]


def test_flipped_bits_of_headers_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "net.girih"
    compiled_residual().save(path)
    whole = path.read_bytes()
    places = np.random.default_rng(0).choice(header_places(path), 60, replace=False)
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (int(place) % 8)
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match=r"net\.girih"):
            container.read(path, Package, data=False)


def test_flipped_bits_anywhere_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "net.girih"
    compiled_residual().save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place, bit in zip(rng.integers(0, len(whole), 60), rng.integers(0, 8, 60), strict=True):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match=r"net\.girih"):
            load(path)
        # A partial read leaves out the data, but not the check.
        with pytest.raises(UsageError, match=r"net\.girih"):
            container.read(path, Package, data=False)


def test_what_is_appended_or_packed_again_is_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "net.girih", tmp_path / "other.girih"
    compiled_residual().save(path)
    for more in (b"\0", path.read_bytes()[-64:]):
        other.write_bytes(path.read_bytes() + more)
        with pytest.raises(UsageError, match=r"other\.girih"):
            load(other)
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
        target.comment = source.comment
    with pytest.raises(UsageError, match="packed again"):
        load(other)


def test_how_long_it_took_is_no_part_of_the_file(tmp_path: Path) -> None:
    compiled_residual().save(tmp_path / "a.girih")
    replace(compiled_residual(), seconds={"plan": 7.0}).save(tmp_path / "b.girih")
    assert (tmp_path / "a.girih").read_bytes() == (tmp_path / "b.girih").read_bytes()


def test_a_pipe_gets_a_whole_file_too(tmp_path: Path) -> None:
    compiled_residual().save(tmp_path / "net.girih")
    os.mkfifo(tmp_path / "pipe")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    compiled_residual().save(tmp_path / "pipe")
    reader.join()
    assert found == [(tmp_path / "net.girih").read_bytes()]


def test_an_exchanged_entry_is_named(tmp_path: Path) -> None:
    path, other = tmp_path / "net.girih", tmp_path / "other.girih"
    compiled_residual().save(path)
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            target.writestr(name, data.replace(b'"cycles_predicted":9000', b'"cycles_predicted":1'))
    with pytest.raises(UsageError, match=r"SHA-256 of plan\.json"):
        load(other)


def test_a_program_of_another_plan_or_machine_is_named(tmp_path: Path) -> None:
    package = compiled_residual()
    other = replace(package.plan, cycles_predicted=1)
    replace(package, plan=other).save(tmp_path / "plan.girih")
    with pytest.raises(UsageError, match=r"another plan\.json \(SHA-256 [0-9a-f]{12}\) than it contains"):
        load(tmp_path / "plan.girih")
    replace(package, machine=replace(package.machine, frequency=2e9)).save(tmp_path / "machine.girih")
    with pytest.raises(UsageError, match=r"another machine\.json"):
        load(tmp_path / "machine.girih")


def test_a_missing_entry_is_named(tmp_path: Path) -> None:
    path, other = tmp_path / "net.girih", tmp_path / "other.girih"
    compiled_residual().save(path)
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
        compiled_residual().save(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_wall_time_of_the_solver_is_no_part_of_the_file(tmp_path: Path) -> None:
    package = compiled_residual()
    slower = replace(package.log, seconds=99.0, runs=tuple(replace(run, seconds=9.0) for run in package.log.runs))
    package.save(tmp_path / "a.girih")
    replace(package, log=slower).save(tmp_path / "b.girih")
    assert (tmp_path / "a.girih").read_bytes() == (tmp_path / "b.girih").read_bytes()
    assert load(tmp_path / "a.girih").log.seconds is None


def test_a_zip_bomb_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path, size = tmp_path / "net.girih", 200_000_000
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("meta.json", "w", force_zip64=True) as entry,
    ):
        for _ in range(size // 1_000_000):
            entry.write(b"0" * 1_000_000)
    tracemalloc.start()
    with pytest.raises(UsageError, match=r"of meta\.json claim to become 200,000,000"):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_what_becomes_far_smaller_is_not_compressed(tmp_path: Path) -> None:
    """So that no file that is written is refused."""
    package = compiled_residual()
    graph = replace(package.graph, name="a" * 1_000_000)
    replace(package, graph=graph).save(tmp_path / "net.girih")
    assert load(tmp_path / "net.girih").graph.name == graph.name


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_deflated_entries_are_inflated(tmp_path: Path, method: int) -> None:
    """Other methods have no bound on what a few bytes become; the sizes that the entry claims may be wrong."""
    path = tmp_path / "net.girih"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("meta.json", b"0" * 10_000_000)
        archive.filelist[0].file_size = 100
    with pytest.raises(UsageError, match=r"meta\.json has the compression method (12|14), but"):
        load(path)


@pytest.mark.parametrize("size", range(2000, 4000, 40))
def test_what_is_written_is_within_the_bound(tmp_path: Path, size: int) -> None:
    with zipfile.ZipFile(tmp_path / "net.girih", "w") as archive:
        container._Writer(archive).add("x", b"a" * size)  # pyright: ignore[reportPrivateUsage]
        info = archive.getinfo("x")
    assert info.file_size <= container.INFLATION * info.compress_size


def test_a_file_of_another_version_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(container, "FORMAT", 6)
        compiled_residual().save(tmp_path / "net.girih")
    with pytest.raises(UsageError, match="its format is 6, this is version 12; compile the model again"):
        load(tmp_path / "net.girih")


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"format": 99}, "its format is 99, made by a newer Girih, and this one reads 12: use that, or compile again"),
        ({"format": 99, "versions": 1, "options": "others"}, "made by a newer Girih"),
        ({"format": "x"}, r"its meta\.json does not say as a number which format it has; compile the model again"),
        ({"format": True}, "does not say as a number"),
        ({"format": container.FORMAT, "options": 1}, r"its meta\.json was changed or is damaged; compile the model"),
        ([], "does not say as a number"),
        (None, r"its meta\.json is not JSON; compile the model again"),
    ],
)
def test_what_meta_says_is_explained_without_internals(tmp_path: Path, meta: object, message: str) -> None:
    path = tmp_path / "net.girih"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.json", b"\xff{" if meta is None else json.dumps(meta))
    with pytest.raises(UsageError, match=message) as raised:
        load(path)
    assert "Meta" not in str(raised.value)
