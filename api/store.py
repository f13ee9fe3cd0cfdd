"""A folder of entries by name, shared by processes: an entry is whole or absent, checked, and evicted when it is full.

An entry is one file, written beside its place and renamed onto it, which the file system does at once: readers see all
of it or nothing, whoever else writes, and whenever a writer dies. There are no locks, so none can be left behind. Why
this is no database: docs/decisions/0007-the-cache-is-files.md.

    "GIRIHC1\\n", the SHA-256 of name and body (32 bytes), the body: the content, compressed by zlib
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..ir.errors import UsageError
from ..ir.files import written_whole

LIMIT = 1 << 30
"""Bytes of all entries together."""
_MAGIC = b"GIRIHC1\n"
_HEAD = len(_MAGIC) + hashlib.sha256().digest_size
_ENTRY = re.compile(r"[0-9a-f]{64}\.(plan|program|kernel)")
_PART = re.compile(rf"\.{_ENTRY.pattern}\..*\.part")
_STALE = 3600.0
"""Seconds after which a file that is still being written has no writer any more."""

logger = logging.getLogger("girih")


@dataclass(frozen=True)
class Entry:
    """A file of the store; ``used`` is when it was last read or written, in nanoseconds since 1970."""

    path: Path
    kind: str
    bytes: int
    used: int


@dataclass(frozen=True)
class Cleared:
    """Entries that are gone, and those that could not be deleted."""

    deleted: tuple[Entry, ...]
    kept: tuple[Entry, ...]


@dataclass(frozen=True)
class Store:
    """Entries in ``folder``, which need not exist, of at most ``limit`` bytes; the longest unused ones go first.

    A name is 64 hexadecimal digits and a kind: "plan", "program" or "kernel". Nothing here raises for what is wrong
    with the folder or an entry: it is logged as a warning, and the work goes on as if the entry were not there. Only
    regular files are entries: a pipe would keep its reader waiting.
    """

    folder: Path
    limit: int = LIMIT

    def get(self, name: str) -> bytes | None:
        """The content of an entry; ``None`` if it is not there, or damaged."""
        place = self.folder / name
        if _is_other(place):
            logger.warning("cache: %s is no regular file; it is ignored", place)
            return None
        try:
            data = place.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            logger.warning("cache: cannot read %s: %s; it is ignored", place, error.strerror or error)
            return None
        content = _unpacked(name, data)
        if content is None:
            self.distrust(name, "its SHA-256 is not that of its contents")
            return None
        with suppress(OSError):
            os.utime(place)
        return content

    def put(self, name: str, content: bytes) -> None:
        """Keep an entry, in place of an older one; may evict others."""
        self.put_all({name: content})

    def put_all(self, contents: Mapping[str, bytes]) -> None:
        """Keep entries by name, in place of older ones; may evict others."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for name, content in contents.items():
                place, body = self.folder / name, zlib.compress(content, 1)
                if _is_other(place):
                    raise UsageError(f"{place} is no regular file; remove it")
                with written_whole(place) as file:
                    file.write(_MAGIC + _digest(name, body) + body)
        except (OSError, UsageError) as error:
            logger.warning("cache: nothing is kept: %s", error)
            return
        self._evict()

    def distrust(self, name: str, why: str) -> None:
        """Warn of an entry that is not used."""
        logger.warning("cache: %s is ignored, and computed again: %s", self.folder / name, why)

    def entries(self) -> tuple[Entry, ...]:
        """All of them, the longest unused one first."""
        entries: list[Entry] = []
        for place in self._files(_ENTRY):
            # Another process may evict it meanwhile.
            with suppress(OSError):
                status = place.stat()
                if stat.S_ISREG(status.st_mode):
                    entries.append(Entry(place, place.suffix[1:], status.st_size, status.st_mtime_ns))
        return tuple(sorted(entries, key=lambda e: (e.used, e.path.name)))

    def clear(self) -> Cleared:
        """Delete all entries, and what writers that died left behind. Other files stay."""
        deleted: list[Entry] = []
        kept: list[Entry] = []
        for entry in self.entries():
            (deleted if _delete(entry.path) else kept).append(entry)
        for place in self._files(_PART):
            _delete(place)
        return Cleared(tuple(deleted), tuple(kept))

    def _evict(self) -> None:
        entries = self.entries()
        total = sum(e.bytes for e in entries)
        for entry in entries:
            if total <= self.limit:
                break
            _delete(entry.path)
            total -= entry.bytes
        for place in self._files(_PART):
            with suppress(OSError):
                if place.stat().st_mtime < time.time() - _STALE:
                    _delete(place)

    def _files(self, pattern: re.Pattern[str]) -> list[Path]:
        try:
            return [self.folder / name for name in sorted(os.listdir(self.folder)) if pattern.fullmatch(name)]
        except OSError:
            return []


def _digest(name: str, body: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + body).digest()


def _unpacked(name: str, data: bytes) -> bytes | None:
    head, body = data[:_HEAD], data[_HEAD:]
    if head != _MAGIC + _digest(name, body):
        return None
    try:
        return zlib.decompress(body)
    except zlib.error:
        return None


def _is_other(place: Path) -> bool:
    """Whether there is something that is no regular file."""
    try:
        return not stat.S_ISREG(place.stat().st_mode)
    except OSError:
        return False


def _delete(place: Path) -> bool:
    """Whether the file is gone: another process may have been faster, or the folder be read-only."""
    try:
        place.unlink(missing_ok=True)
    except OSError:
        return False
    return True
