"""JSON for the nouns: typed, deterministic, and strict on reading."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from .errors import UsageError

T = TypeVar("T")


def to_json(noun: object) -> bytes:
    """The canonical JSON of a noun: fields in declaration order, no white space.

    JSON has no infinities: they become the strings "inf" and "-inf", and NaN "nan". An array becomes an object of
    dtype, shape and data, the base64 of its elements, row-major and little-endian.
    """
    if _NOT_FINITE.search(msgspec.msgpack.encode(noun, enc_hook=_from_array)) is None:
        return msgspec.json.encode(noun, enc_hook=_from_array)
    return msgspec.json.encode(_finite(msgspec.to_builtins(noun, enc_hook=_from_array)))


_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]", re.DOTALL)
"""How every infinity and NaN begins in MessagePack, which is far faster to look through than the noun."""


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast("list[Any]", value)]
    return value


def _from_array(value: Any) -> object:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{type(value).__name__} has no JSON")
    little = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
    data = base64.b64encode(little.tobytes()).decode()
    return {"dtype": value.dtype.name, "shape": list(value.shape), "data": data}


def _to_array(kind: type, value: Any) -> object:
    if kind is not np.ndarray:
        raise TypeError(f"{kind.__name__} has no JSON")
    try:
        dtype = np.dtype(value["dtype"]).newbyteorder("<")
        content = np.frombuffer(base64.b64decode(value["data"], validate=True), dtype)
        return content.astype(dtype.newbyteorder("=")).reshape(value["shape"])
    except (TypeError, KeyError) as error:
        raise ValueError(f"not an array: {error}") from error


_LONG = re.compile(rb"[0-9]{19}")
"""What every whole number that cannot be written again contains; 2**63 has 19 digits."""


def from_json(data: bytes | str, kind: type[T]) -> T:
    """Read back what :func:`to_json` wrote; raises :class:`UsageError` naming the offending path."""
    try:
        noun = msgspec.json.decode(data, type=kind, strict=False, dec_hook=_to_array)
        if _LONG.search(data if isinstance(data, bytes) else data.encode()):
            to_json(noun)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"this is not a {kind.__name__}: {error}") from error
    except OverflowError as error:
        raise UsageError(f"this is not a {kind.__name__}: a whole number has more than 64 bits") from error
    return noun


def sha256(noun: object) -> str:
    """The hexadecimal SHA-256 of a noun's canonical JSON."""
    return hashlib.sha256(to_json(noun)).hexdigest()
