"""The inputs of a run: the user's, checked against what the network expects, or seeded random ones.

Inputs that a network uses as indices must be in the range of the tables that they index.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, cast
from zipfile import BadZipFile, is_zipfile

import numpy as np

from ..ir.errors import UsageError
from ..ir.graph import FLOATS, Port, from_file
from .arguments import named

if TYPE_CHECKING:
    from ..frontend.onnx.index_uses import IndexUse

RANDOM_INTEGERS = 100
"""Random integers are below this: valid indices of most embeddings."""


def describe(ports: Sequence[Port]) -> str:
    """What the network expects, in one line: ``image float32[1, 3, 224, 224], ...``."""
    return ", ".join(f"{p.name} {_spec(p.dtype, p.shape)}" for p in ports)


def load_inputs(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file, by name."""
    advice = "save them with numpy.savez(path, name=array)"
    try:
        with Path(path).open("rb") as file:
            if not is_zipfile(file):
                raise ValueError("it is no .npz file, or cut short")
            file.seek(0)
            with np.load(file, allow_pickle=False) as loaded:
                return {name: _array(name, loaded[name]) for name in loaded.files}
    except OSError as error:
        raise UsageError(f"cannot read inputs from {path}: {error.strerror or error}") from error
    except MemoryError as error:
        raise UsageError(f"cannot read inputs from {path}: one of its arrays is too large; {advice}") from error
    # NumPy parses the header of an array as Python.
    except (ValueError, BadZipFile, EOFError, zlib.error, NotImplementedError, SyntaxError, TokenError) as error:
        raise UsageError(f"cannot read inputs from {path}: {error}; {advice}") from error


def _array(name: str, entry: object) -> np.ndarray:
    # NumPy gives the bytes of what does not begin like an array.
    if not isinstance(entry, np.ndarray):
        raise ValueError(f"its entry {name!r} is no array (.npy)")
    return entry


def check_inputs(ports: Sequence[Port], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same arrays in the order of the ports; raises :class:`UsageError` that says what is expected."""
    if not isinstance(cast("object", inputs), Mapping):
        kind = type(inputs).__name__
        raise UsageError(f"inputs are of type {kind}; pass a dictionary of arrays by name: {describe(ports)}")
    inputs = named("inputs", inputs)
    expected = {p.name: p for p in ports}
    unknown = [name for name in inputs if name not in expected]
    missing = [name for name in expected if name not in inputs]
    if unknown or missing:
        parts = [f"there is no input {name!r}" for name in unknown] + [f"input {name!r} is missing" for name in missing]
        raise UsageError(f"{'; '.join(parts)}; the network expects {describe(ports)}")
    arrays: dict[str, np.ndarray] = {}
    for name, port in expected.items():
        try:
            if np.ma.isMaskedArray(inputs[name]):
                raise ValueError("a masked array, whose mask would be lost")
            array = arrays[name] = from_file(np.asarray(inputs[name]), port.dtype)
        except ValueError as error:
            wanted = _spec(port.dtype, port.shape)
            raise UsageError(f"input {name!r} is no array, the network expects {wanted}: {error}") from error
        if array.dtype != port.dtype or array.shape != port.shape:
            got, wanted = _spec(str(array.dtype), array.shape), _spec(port.dtype, port.shape)
            raise UsageError(f"input {name!r} is {got}, the network expects {wanted}")
    return arrays


def random_inputs(ports: Sequence[Port], seed: int, limits: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
    """Seeded arrays: floats from N(0, 1), integers from 0 to below ``limits[name]`` and 100, Booleans by a fair coin.

    Each input has a generator of its own, so that its values depend on its name and the seed alone.
    """
    arrays: dict[str, np.ndarray] = {}
    for port in ports:
        rng = np.random.Generator(np.random.PCG64([seed, zlib.crc32(port.name.encode())]))
        dtype = np.dtype(port.dtype)
        if dtype.name in FLOATS:
            arrays[port.name] = rng.standard_normal(port.shape, dtype=np.float32).astype(dtype)
        else:
            high = 2 if dtype.kind == "b" else min(RANDOM_INTEGERS, (limits or {}).get(port.name, RANDOM_INTEGERS))
            arrays[port.name] = rng.integers(0, high, port.shape).astype(dtype)
    return arrays


def _spec(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype}{list(shape)}"


def index_limits(uses: Sequence[IndexUse]) -> dict[str, int]:
    """For each input that holds indices: how many entries the smallest of its tables has."""
    limits: dict[str, int] = {}
    for use in uses:
        limits[use.input] = min(limits.get(use.input, min(use.entries)), *use.entries)
    return limits


def check_indices(uses: Sequence[IndexUse], arrays: Mapping[str, np.ndarray]) -> None:
    """Raise :class:`UsageError` for an index that its table does not have; negative ones count from the end."""
    for use in uses:
        array = arrays[use.input]
        if array.dtype.kind not in "iu" or not array.size:
            continue
        entries = np.broadcast_to(np.asarray(use.entries, np.int64), array.shape)
        signed = array.dtype.kind == "i"
        wrong = (array >= entries) | (array < -entries) if signed else array >= entries.astype(np.uint64)
        if not wrong.any():
            continue
        place = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), array.shape))
        value, limit = int(array[place]), int(entries[place])
        raise UsageError(
            f"input {use.input!r} holds the index {value} at [{', '.join(map(str, place))}], but {use.table!r}, which "
            f"node {use.node!r} indexes with it, has {limit} entries: give indices from {-limit} to {limit - 1} "
            f"({int(wrong.sum()):,} of {math.prod(array.shape):,} are out of range)"
        )
