"""Files that are either written whole or not at all."""

from __future__ import annotations

import io
import os
import stat
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from .errors import UsageError, wrong_type


def as_path(name: str, value: object) -> Path:
    """A path of a file or folder."""
    if not isinstance(value, (str, os.PathLike)):
        raise wrong_type(name, value, "a path")
    place = os.fspath(cast("os.PathLike[str] | str", value))
    if not isinstance(cast("object", place), str) or not place or "\0" in place:
        raise wrong_type(name, value, "a path as text, which is neither empty nor contains NUL")
    return Path(place)


def check_writable(path: str | Path) -> None:
    """Raise :class:`UsageError` if :func:`written_whole` could not write here: to be called before long work."""
    with _explained(path):
        place = _place(path)
        if place.is_dir():
            raise IsADirectoryError(None, "it is a directory")
        if place.exists() and not os.access(place, os.W_OK):
            raise PermissionError(None, "the file there is read-only")
        if _is_replaceable(place):
            # Permissions tell too little (read-only file systems, quotas): only trying tells.
            handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.", suffix=".part")
            os.close(handle)
            os.unlink(temporary)


def check_places(outputs: Iterable[str | Path | None], inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise :class:`UsageError` unless each output can be written, and replaces neither an input nor another output.

    To be called before long work; ``None`` stands for a file that nobody asked for.
    """
    reserved = {Path(path).resolve(): f"replace {path}, which is read" for path in inputs if path is not None}
    for path in outputs:
        if path is None:
            continue
        check_writable(path)
        place = _place(path)
        if place in reserved:
            raise UsageError(f"writing {path} would {reserved[place]}; choose another place")
        if _is_replaceable(place):
            reserved[place] = f"replace {path}, which is written as well"


def known_suffix(path: str | Path, known: Iterable[str]) -> str:
    """The ending of a file's name; raises :class:`UsageError` unless it is one of ``known``."""
    suffix = as_path("the file", path).suffix
    if suffix not in known:
        raise UsageError(f"cannot write {path}: the name must end in {' or '.join(known)}")
    return suffix


@contextmanager
def written_whole(path: str | Path) -> Generator[IO[bytes]]:
    """A binary file that appears at ``path`` when the block ends well.

    Until then, and for good if the block raises or the process dies, the file that was there before stays as it was.
    Devices and pipes get all of it at the end.
    """
    with _explained(path):
        place = _place(path)
        if not _is_replaceable(place):
            # Not directly: what cannot seek cannot take an archive.
            content = io.BytesIO()
            yield content
            place.write_bytes(content.getbuffer())
            return
        with tempfile.NamedTemporaryFile(
            dir=place.parent, prefix=f".{place.name}.", suffix=".part", delete=False
        ) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.chmod(file.name, _mode(place))
                os.replace(file.name, place)
            except BaseException:
                with suppress(OSError):
                    os.unlink(file.name)
                raise
        _sync_folder(place.parent)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file whole."""
    with written_whole(path) as file:
        file.write(text.encode())


@contextmanager
def _explained(path: str | Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; choose another place") from error


def _place(path: str | Path) -> Path:
    """Where links lead. A pipe that a shell has opened is found by the link alone, and has no such place."""
    place = as_path("the file", path)
    return place.resolve() if _is_replaceable(place) else place


def _is_replaceable(place: Path) -> bool:
    """Whether a file can be renamed to ``place``: there is a regular file, or nothing.

    One look decides: between two, another process may write the file, which then seemed to be a device.
    """
    try:
        return stat.S_ISREG(place.stat().st_mode)
    except (OSError, ValueError):
        return True


def _mode(place: Path) -> int:
    """The permissions of the file that is replaced, or those that a new file gets."""
    try:
        return place.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """Make the renaming durable, where the system lets folders be synchronised."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
