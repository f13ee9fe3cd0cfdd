"""Packs the data of a page: JSON whose arrays are in one binary block, compressed, as text.

Before compression the block is, all numbers little-endian:

    4 bytes   length n of the JSON
    n bytes   the JSON, in UTF-8; an array in it is {"$array": [type, offset, elements]}
    padding   zeros, up to a multiple of 8 bytes
    ...       the arrays, each from a multiple of 8 bytes on; offsets count from the first

``static/payload.js`` unpacks it.
"""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

_TYPES = {"u1", "i1", "u2", "i2", "u4", "i4", "f4", "f8"}
_ALIGNMENT = 8


def packed(data: object) -> str:
    """The data as base64; equal data give equal text.

    64-bit and Boolean arrays become the smallest type that holds their values. Raises ``TypeError`` for what is neither
    a value of JSON nor an array of numbers.
    """
    arrays: list[bytes] = []
    text = json.dumps(_plain(data, arrays), separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    head = struct.pack("<I", len(text)) + text
    block = b"".join(_padded(part) for part in (head, *arrays))
    # The time stamp of the archive would make equal pages differ.
    return base64.b64encode(gzip.compress(block, compresslevel=9, mtime=0)).decode()


def _plain(value: object, arrays: list[bytes]) -> object:
    """The value with references in place of arrays, which are appended to ``arrays``."""
    if isinstance(value, np.ndarray):
        array = _narrowed(value)
        offset = sum(len(_padded(part)) for part in arrays)
        arrays.append(array.tobytes())
        return {"$array": [array.dtype.str[1:], offset, array.size]}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value)
        return {key: _plain(item, arrays) for key, item in items.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item, arrays) for item in cast("Sequence[object]", value)]
    return value


def _narrowed(array: np.ndarray) -> np.ndarray:
    """The array, one-dimensional and little-endian, in a type that the browser has."""
    flat = array.reshape(-1)
    if flat.dtype == np.bool_:
        flat = flat.astype(np.uint8)
    elif flat.dtype.kind in "iu" and flat.dtype.itemsize == 8:
        low, high = (int(flat.min()), int(flat.max())) if flat.size else (0, 0)
        flat = flat.astype(next((t for t in ("u4", "i4") if np.iinfo(t).min <= low and high <= np.iinfo(t).max), "f8"))
    flat = flat.astype(flat.dtype.newbyteorder("<"))
    if flat.dtype.str[1:] not in _TYPES:
        raise TypeError(f"an array of {array.dtype} cannot be sent to the page")
    return flat


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % _ALIGNMENT)
