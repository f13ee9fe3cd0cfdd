"""The ``.girih`` file: a compiled network as a ZIP archive that any tool opens.

    graph.json plan.json machine.json log.json   the nouns, as canonical JSON; the machine as it is planned for
    described.json                               the machine as its file describes it
    program.bin                                  the program, as the simulator reads it
    constants/0000.npy ...                       the data of the constants, in the order of ``graph.constants``
    model.onnx                                   the network that ``run --check`` compares with
    meta.json                                    versions, options, and the SHA-256 of every other entry

The archive's comment is "sha256:" and the SHA-256 of all bytes before the digits, so that no byte of the file can
change unnoticed. Order and time stamps of the entries are fixed, and the wall time of a compilation is not in the file:
equal compilations give equal bytes.

Entries are stored or deflated, none is more than :data:`INFLATION` times larger than it is compressed, and all together
are compressed to no more bytes than the file has: whoever reads a file can trust that it needs no more memory than so
many times its size, whatever it contains.
"""

from __future__ import annotations

import hashlib
import io
import json
import tokenize
import zipfile
import zlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TypeVar, cast

import numpy as np

from ..ir.codec import from_json, to_json
from ..ir.errors import UsageError
from ..ir.files import written_whole
from ..ir.graph import Graph, Tensor, from_file
from ..ir.machine import Machine
from ..ir.plan import Plan
from ..ir.program import Program
from ..solver.options import SolveLog
from .options import CompileOptions
from .provenance import versions

FORMAT = 12
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SEAL = b"sha256:"
_DIGITS = 2 * hashlib.sha256().digest_size
_BLOCK = 1 << 20
_LEVEL = 1
INFLATION = 100
"""An entry that would be so many times smaller is not compressed. JSON and programs become 3 to 20 times smaller."""
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError, OSError,
    tokenize.TokenError, SyntaxError,
)  # fmt: skip
"""What libraries raise for a damaged archive; the last two come from numpy, for the header of an array."""


@dataclass(frozen=True)
class Package:
    """Everything that a compilation produced. ``model`` holds the bytes of the ONNX network with dimensions bound.

    ``machine`` is the one that is planned for, ``described`` as its file describes it (``None``: the same).
    ``graph.data`` and ``model`` are empty after a partial read. ``versions`` are those of Girih and of the libraries
    that compiled it.
    """

    graph: Graph = field(repr=False)
    plan: Plan = field(repr=False)
    program: Program = field(repr=False)
    machine: Machine = field(repr=False)
    log: SolveLog = field(repr=False)
    options: CompileOptions
    model: bytes = field(repr=False)
    described: Machine | None = field(default=None, repr=False, compare=False, kw_only=True)
    versions: dict[str, str] = field(default_factory=versions, repr=False, compare=False, kw_only=True)

    def __str__(self) -> str:
        return f"{self.graph.name} on {self.machine.name}: {self.plan.cycles_text}"

    @cached_property
    def program_bytes(self) -> bytes:
        return self.program.to_bytes()

    @cached_property
    def plan_sha256(self) -> str:
        """Of ``plan.json``."""
        return _digest(to_json(self.plan))

    @cached_property
    def program_sha256(self) -> str:
        """Of ``program.bin``."""
        return _digest(self.program_bytes)


P = TypeVar("P", bound=Package)


@dataclass(frozen=True)
class Meta:
    """The contents of ``meta.json``; ``entries`` maps the name of each other entry to its SHA-256."""

    format: int
    versions: dict[str, str]
    options: CompileOptions
    entries: dict[str, str]


def save(package: Package, path: str | Path) -> None:
    """Write the package; raises :class:`UsageError` if it cannot be written, and then leaves nothing behind."""
    with written_whole(path) as file:
        with zipfile.ZipFile(file, "w") as archive:
            writer = _Writer(archive)
            writer.add("graph.json", to_json(replace(package.graph, data={})))
            writer.add("plan.json", to_json(package.plan))
            writer.add("program.bin", package.program_bytes)
            writer.add("machine.json", to_json(package.machine))
            writer.add("described.json", to_json(package.described or package.machine))
            writer.add("log.json", to_json(package.log.without_clock))
            for index, constant in enumerate(package.graph.constants):
                writer.add(_constant(index), _npy(package.graph.data[constant.tensor]), compressed=False)
            writer.add("model.onnx", package.model, compressed=False)
            writer.add(
                "meta.json",
                to_json(Meta(FORMAT, package.versions, package.options, writer.digests)),
            )
            archive.comment = _SEAL + b"0" * _DIGITS
        digits = _before_digits(file)
        file.seek(-_DIGITS, io.SEEK_END)
        file.write(digits)


def read(path: str | Path, kind: type[P], *, data: bool = True) -> P:
    """Read what :func:`save` wrote; without ``data`` the constants and the ONNX network are left out.

    Raises :class:`UsageError` that names the entry which is missing, damaged or does not fit.
    """
    place = Path(path)
    try:
        with place.open("rb") as file, zipfile.ZipFile(file) as archive:
            reader = _Reader(archive, place.stat().st_size)
            graph = from_json(reader.get("graph.json"), Graph)
            program = Program.from_bytes(reader.get("program.bin"))
            _check_origin("graph.json", program.graph_sha256, graph.digest)
            _check_origin("plan.json", program.plan_sha256, reader.digest("plan.json"))
            _check_origin("machine.json", program.machine_sha256, reader.digest("machine.json"))
            if data:
                graph.data.update(_constants(reader, graph))
            package = kind(
                graph=graph,
                plan=from_json(reader.get("plan.json"), Plan),
                program=program,
                machine=from_json(reader.get("machine.json"), Machine),
                described=from_json(reader.get("described.json"), Machine),
                log=from_json(reader.get("log.json"), SolveLog),
                options=reader.meta.options,
                model=reader.get("model.onnx") if data else b"",
                versions=reader.meta.versions,
            )
            # Last, because whatever is wrong with an entry says more.
            _check_seal(file)
            return package
    except UsageError as error:
        raise UsageError(f"cannot read {place}: {error}") from error
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {place}; `girih compile` makes one") from error
    except _DAMAGE as error:
        advice = "compile the model again" if zipfile.is_zipfile(place) else "it is no complete .girih file"
        raise UsageError(f"cannot read {place}: {error}; {advice}") from error


def _before_digits(file: IO[bytes]) -> bytes:
    """The hexadecimal SHA-256 of all of a file but its last digits."""
    remaining_bytes = file.seek(0, io.SEEK_END) - _DIGITS
    file.seek(0)
    digest = hashlib.sha256()
    while remaining_bytes > 0:
        block = file.read(min(remaining_bytes, _BLOCK))
        if not block:
            raise EOFError("it became shorter while it was read")
        digest.update(block)
        remaining_bytes -= len(block)
    return digest.hexdigest().encode()


def _check_seal(file: IO[bytes]) -> None:
    """Raise :class:`UsageError` unless the file is as it was written, byte by byte."""
    digits = _before_digits(file)
    file.seek(-len(_SEAL) - _DIGITS, io.SEEK_END)
    if file.read() != _SEAL + digits:
        raise UsageError(
            "its SHA-256 is not the one at its end: it was changed or packed again; compile the model again"
        )


def _check_origin(name: str, expected: str, actual: str) -> None:
    """Raise :class:`UsageError` unless the entry has the digest that the program says it was lowered from."""
    if expected != actual:
        raise UsageError(
            f"its program was lowered from another {name} (SHA-256 {expected[:12]}) than it contains "
            f"({actual[:12]}); compile the model again"
        )


def _check_format(meta: bytes) -> None:
    """Raise :class:`UsageError` unless ``meta.json`` says that the file has the format of this version.

    Other formats may have other keys, so that nothing else is read before.
    """
    try:
        content = json.loads(meta)
    except ValueError as error:
        raise UsageError("its meta.json is not JSON; compile the model again") from error
    number = cast("dict[str, object]", content).get("format") if isinstance(content, dict) else None
    if type(number) is not int:
        raise UsageError("its meta.json does not say as a number which format it has; compile the model again")
    if number > FORMAT:
        raise UsageError(
            f"its format is {number}, made by a newer Girih, and this one reads {FORMAT}: use that, or compile again"
        )
    if number < FORMAT:
        raise UsageError(f"its format is {number}, this is version {FORMAT}; compile the model again")


class _Writer:
    """Adds entries with a fixed time stamp, and remembers their digests."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.digests: dict[str, str] = {}

    def add(self, name: str, data: bytes, *, compressed: bool = True) -> None:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.external_attr = 0o644 << 16
        deflated = compressed and len(data) <= INFLATION * _deflated_size(data)
        info.compress_type = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
        self._archive.writestr(info, data, compresslevel=_LEVEL)
        self.digests[name] = _digest(data)


def _deflated_size(data: bytes) -> int:
    """How many bytes the archive needs for it: without the header and the checksum of :func:`zlib.compress`."""
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return len(deflate.compress(data)) + len(deflate.flush())


class _Reader:
    """Hands out entries whose sizes and digests are right, of an archive in a file of ``size`` bytes."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self._archive = archive
        if sum(info.compress_size for info in archive.infolist()) > size:
            raise UsageError("its entries claim more bytes than it has; compile the model again")
        content = self._entry("meta.json")
        _check_format(content)
        try:
            self.meta = from_json(content, Meta)
        except UsageError as error:
            raise UsageError("its meta.json was changed or is damaged; compile the model again") from error

    def digest(self, name: str) -> str:
        """What meta.json says that it is."""
        return self.meta.entries.get(name, "")

    def get(self, name: str) -> bytes:
        data = self._entry(name)
        if _digest(data) != self.digest(name):
            raise UsageError(f"the SHA-256 of {name} is not the one in meta.json; compile the model again")
        return data

    def _entry(self, name: str) -> bytes:
        try:
            info = self._archive.getinfo(name)
        except KeyError as error:
            raise UsageError(f"it has no entry {name}; compile the model again") from error
        # Others make as many bytes at once as come, however few are asked for.
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UsageError(
                f"{name} has the compression method {info.compress_type}, but entries are stored (0) or deflated (8); "
                "compile the model again"
            )
        if info.file_size > INFLATION * info.compress_size:
            raise UsageError(
                f"{info.compress_size:,} bytes of {name} claim to become {info.file_size:,}, more than {INFLATION} "
                "times as many, which no compilation writes; compile the model again"
            )
        data = bytearray()
        with self._archive.open(info) as entry:
            # In blocks: asked for all, zipfile makes as many bytes as come, whatever size the entry claims.
            while block := entry.read(_BLOCK):
                data += block
        return bytes(data)


def _constants(reader: _Reader, graph: Graph) -> dict[str, np.ndarray]:
    """The data of the constants, which cannot be written to."""
    arrays: dict[str, np.ndarray] = {}
    for index, constant in enumerate(graph.constants):
        name = _constant(index)
        arrays[constant.tensor] = _array(name, reader.get(name), graph.tensor[constant.tensor])
        _check_origin(name, constant.sha256, _digest(arrays[constant.tensor].tobytes()))
    return arrays


def _array(name: str, content: bytes, tensor: Tensor) -> np.ndarray:
    """The array of an entry; raises :class:`UsageError` unless it has type, shape and size of the tensor."""
    file = io.BytesIO(content)
    if (magic := np.lib.format.read_magic(file)) != (1, 0):
        raise UsageError(f"{name} has the version {magic} of the npy format, not (1, 0); compile the model again")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    size = len(content) - file.tell()
    named = from_file(np.empty(0, dtype), tensor.dtype).dtype
    if (shape, named, by_columns, size) != (tensor.shape, tensor.dtype, False, tensor.bytes):
        expected = f"{tensor.dtype}{list(tensor.shape)} of {tensor.bytes:,} bytes"
        raise UsageError(f"{name} is {named}{list(shape)} of {size:,} bytes, the graph says {expected}")
    return np.frombuffer(content, named, offset=file.tell()).reshape(shape)


def _constant(index: int) -> str:
    return f"constants/{index:04}.npy"


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
    return buffer.getvalue()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
