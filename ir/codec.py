"""JSON for the nouns: typed, deterministic, and strict on reading."""

from __future__ import annotations

import hashlib
import math
from typing import Any, TypeVar, cast

import msgspec

from .errors import UsageError

T = TypeVar("T")


def to_json(noun: object) -> bytes:
    """The canonical JSON of a noun: fields in declaration order, no white space.

    JSON has no infinities: they become the strings "inf" and "-inf", and NaN "nan".
    """
    return msgspec.json.encode(_finite(msgspec.to_builtins(noun)))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast("list[Any]", value)]
    return value


def from_json(data: bytes | str, kind: type[T]) -> T:
    """Read back what :func:`to_json` wrote; raises :class:`UsageError` naming the offending path."""
    try:
        return msgspec.json.decode(data, type=kind, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"this is not a {kind.__name__}: {error}") from error


def sha256(noun: object) -> str:
    """The hexadecimal SHA-256 of a noun's canonical JSON."""
    return hashlib.sha256(to_json(noun)).hexdigest()
