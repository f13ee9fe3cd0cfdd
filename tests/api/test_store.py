"""The folder of entries: whole or absent, whoever writes at the same time and whenever a writer dies."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from girih.api.store import Cleared, Store


def name(number: int, kind: str = "plan") -> str:
    return f"{number:064x}.{kind}"


def content(number: int, size: int = 1000) -> bytes:
    """Bytes that do not compress."""
    return np.random.default_rng(number).bytes(size)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


@settings(max_examples=30)
@given(st.binary(max_size=2000))
def test_what_is_put_is_got(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "a" / "b")
        store.put(name(1), data)
        assert store.get(name(1)) == data
        assert store.get(name(2)) is None
        assert [(e.path.name, e.kind) for e in store.entries()] == [(name(1), "plan")]


def test_what_is_missing_is_no_trouble(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    assert store.get(name(1)) is None
    assert (store.entries(), store.clear()) == ((), Cleared((), ()))
    assert not caplog.records
    assert not store.folder.exists()


def test_every_flip_and_every_truncation_is_a_miss(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.put(name(1), b"the plan " * 9)
    place = store.folder / name(1)
    whole = place.read_bytes()
    flipped = [whole[:i] + bytes([whole[i] ^ 1 << b]) + whole[i + 1 :] for i in range(len(whole)) for b in (0, 7)]
    cut = [whole[:size] for size in range(len(whole))]
    for damaged in (*flipped, *cut, whole + b"\0"):
        place.write_bytes(damaged)
        caplog.clear()
        assert store.get(name(1)) is None
        assert ["is ignored" in r.getMessage() for r in caplog.records] == [True]
    store.put(name(1), b"another")
    assert store.get(name(1)) == b"another"


def test_an_entry_under_another_name_is_a_miss(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.put(name(1), b"one")
    shutil.copy(store.folder / name(1), store.folder / name(2))
    shutil.copy(store.folder / name(1), store.folder / name(1, "program"))
    assert store.get(name(2)) is None
    assert store.get(name(1, "program")) is None
    assert len(caplog.records) == 2
    assert store.get(name(1)) == b"one"


def test_the_longest_unused_go_first(tmp_path: Path) -> None:
    store = Store(tmp_path, limit=4500)
    for number in range(4):
        store.put(name(number), content(number))
        os.utime(tmp_path / name(number), (number, number))
    assert store.get(name(0)) is not None
    store.put(name(4), content(4))
    assert [e.path.name for e in store.entries()] == [name(n) for n in (2, 3, 0, 4)]
    assert sum(e.bytes for e in store.entries()) <= store.limit


def test_an_entry_that_never_fits_leaves_room_for_others(tmp_path: Path) -> None:
    store = Store(tmp_path, limit=1500)
    store.put(name(1), content(1))
    store.put(name(2), content(2, 2000))
    assert store.entries() == ()
    store.put(name(1), content(1))
    assert store.get(name(1)) == content(1)


def test_only_our_files_are_deleted(tmp_path: Path) -> None:
    store = Store(tmp_path, limit=0)
    (tmp_path / "thesis.txt").write_text("years of work")
    (tmp_path / ".thesis.part").write_text("more of it")
    Store(tmp_path).put(name(1), b"one")
    (tmp_path / f".{name(1)}.abc.part").write_text("half of it")
    assert [e.path.name for e in store.clear().deleted] == [name(1)]
    assert sorted(p.name for p in tmp_path.iterdir()) == [".thesis.part", "thesis.txt"]
    store.put(name(2), b"two")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".thesis.part", "thesis.txt"]


def test_what_dead_writers_left_goes_after_a_while(store: Store) -> None:
    store.put(name(1), b"one")
    old, young = (store.folder / f".{name(2)}.{word}.part" for word in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    store.put(name(3), b"three")
    assert not old.exists()
    assert young.exists()


@contextmanager
def unprivileged() -> Generator[None]:
    """Permissions mean nothing to root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_read_only_folder_can_be_read(caplog: pytest.LogCaptureFixture) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        store.put(name(1), b"one")
        os.chmod(store.folder / name(1), 0o444)
        os.chmod(folder, 0o555)
        with unprivileged():
            assert store.get(name(1)) == b"one"
            assert not caplog.records
            store.put(name(2), b"two")
            assert "nothing is kept" in caplog.records[0].getMessage()
            cleared = store.clear()
            assert (cleared.deleted, [e.path.name for e in cleared.kept]) == ((), [name(1)])
        os.chmod(folder, 0o755)
        assert [e.path.name for e in store.entries()] == [name(1)]


def test_an_unreadable_entry_is_a_miss(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    (store.folder / name(1)).mkdir(parents=True)
    assert store.get(name(1)) is None
    store.put(name(1), b"one")
    assert [r.levelno for r in caplog.records] == [logging.WARNING] * 2


@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_in_place_of_an_entry_is_a_miss(store: Store, caplog: pytest.LogCaptureFixture, *, linked: bool) -> None:
    store.folder.mkdir()
    pipe = store.folder / "pipe" if linked else store.folder / name(1)
    os.mkfifo(pipe)
    if linked:
        (store.folder / name(1)).symlink_to(pipe)
    with at_most(5):
        assert store.get(name(1)) is None
        store.put(name(1), b"one")
    assert ["no regular file" in r.getMessage() for r in caplog.records] == [True] * 2
    assert (store.entries(), store.clear()) == ((), Cleared((), ()))


@contextmanager
def at_most(seconds: int) -> Generator[None]:
    """What waits longer fails, and does not wait for good."""

    def fail(*_: object) -> None:
        raise AssertionError(f"it waits for more than {seconds} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def script(text: str, *words: object) -> list[str]:
    head = "import os, sys, time\nfrom pathlib import Path\nimport numpy as np\nfrom girih.api.store import Store\n"
    return [sys.executable, "-c", head + text, *map(str, words)]


WRITE_AND_READ = """
store, worker, until = Store(Path(sys.argv[1]), limit=60000), int(sys.argv[2]), time.monotonic() + 2
rng, found = np.random.default_rng(worker), 0
while time.monotonic() < until:
    number = int(rng.integers(12))
    name, content = f"{number:064x}.plan", np.random.default_rng(number).bytes(10000)
    if rng.random() < 0.5:
        store.put(name, content)
    else:
        got = store.get(name)
        assert got in (None, content)
        found += got is not None
    if rng.random() < 0.01:
        store.clear()
print(found)
"""


def test_many_writers_readers_and_evictions_at_once(tmp_path: Path) -> None:
    children = [
        subprocess.Popen(script(WRITE_AND_READ, tmp_path, n), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for n in range(4)
    ]
    for child in children:
        out, err = child.communicate(timeout=60)
        assert child.returncode == 0, err
        assert int(out) > 0
        # To clear takes what others are writing; nothing else may go wrong.
        assert all("nothing is kept" in line for line in err.splitlines()), err
    store = Store(tmp_path, limit=60000)
    assert sum(e.bytes for e in store.entries()) <= store.limit
    assert all(store.get(e.path.name) is not None for e in store.entries())


DIE = """
import builtins, io, signal, tempfile
from girih.ir import files

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

moment, store = sys.argv[2], Store(Path(sys.argv[1]))
if moment == "half written":
    make = tempfile.NamedTemporaryFile
    def patched(**options):
        file = make(**options)
        write = file.write
        def half(data):
            write(data[: len(data) // 2])
            file.flush()
            die()
        file.write = half
        return file
    tempfile.NamedTemporaryFile = patched
elif moment == "written":
    os.fsync = die
elif moment == "before the renaming":
    os.replace = die
elif moment == "after the renaming":
    rename = os.replace
    def replace(*places):
        rename(*places)
        die()
    os.replace = replace
elif moment == "while evicting":
    Store.entries = die
store.put(f"{1:064x}.plan", b"new" * 1000)
"""


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("half written", b"old"),
        ("written", b"old"),
        ("before the renaming", b"old"),
        ("after the renaming", b"new" * 1000),
        ("while evicting", b"new" * 1000),
    ],
)
def test_a_writer_may_be_killed_at_any_moment(
    store: Store, caplog: pytest.LogCaptureFixture, moment: str, expected: bytes
) -> None:
    store.put(name(1), b"old")
    done = subprocess.run(script(DIE, store.folder, moment), check=False)
    assert done.returncode == -signal.SIGKILL
    assert store.get(name(1)) == expected
    left = [p for p in store.folder.iterdir() if p.name != name(1)]
    assert len(left) == (expected == b"old")
    store.put(name(1), b"newer")
    assert store.get(name(1)) == b"newer"
    assert not caplog.records
    store.clear()
    assert list(store.folder.iterdir()) == []


def test_writers_killed_at_random_leave_whole_entries(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rng, seen = np.random.default_rng(0), 0
    for number in range(8):
        words = script('print("begun", flush=True)\n' + WRITE_AND_READ, tmp_path, number)
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
            # However long a busy machine takes to start it, it is killed while it writes and reads.
            assert child.stdout is not None and child.stdout.readline() == "begun\n"
            time.sleep(0.3 * rng.random())
            child.kill()
        store = Store(tmp_path)
        for entry in store.entries():
            assert store.get(entry.path.name) == content(int(entry.path.stem, 16), 10000)
            seen += 1
    assert seen
    assert not caplog.records
