"""The formats of what is explained, and which of them a file gets: by what is asked for, else by its name."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path

from ..ir.errors import UsageError
from ..ir.files import as_path

SUFFIXES: dict[str, tuple[str, ...]] = {
    "text": (".txt", ".md"),
    "json": (".json",),
    "html": (".html",),
    "perfetto": (".json",),
    "model-explorer": (".json",),
    "onnx": (".onnx",),
    "csv": (".csv",),
    "parquet": (".parquet",),
}
"""By format, as ``girih explain --format`` takes it, how names of its files end; the first format with a suffix is the
one that the suffix alone tells. A name without a suffix says nothing: it is text, unless a format is asked for."""

FORMATS = tuple(SUFFIXES)
DETAILS_FORMATS = ("text", "json")
COMPARISON_FORMATS = ("text", "json", "html")
CURVE_FORMATS = ("text", "json", "html", "csv")


def file_format(path: str | Path | None, by_option: str | None = None, known: Collection[str] = FORMATS) -> str:
    """The format ``by_option``, else the one of ``known`` that the name of a file tells; without both, ``text``.

    Raises :class:`UsageError` for a name that ends as no format does, or otherwise than the one asked for.
    """
    if by_option is not None and by_option not in known:
        raise UsageError(unknown_format(str(by_option), known))
    suffix = "" if path is None else as_path("the file", path).suffix
    if not suffix:
        return by_option or "text"
    by_name = next((name for name in known if suffix in SUFFIXES[name]), None)
    if by_option is None:
        if by_name is None:
            endings = _listed(list(dict.fromkeys(s for name in known for s in SUFFIXES[name])))
            raise UsageError(f"cannot tell the format of {path}: end the name in {endings}")
        return by_name
    if suffix not in SUFFIXES[by_option]:
        other = f", or ask for {by_name}" if by_name else ""
        raise UsageError(f"{path} is no name for {by_option}: end it in {_listed(SUFFIXES[by_option])}{other}")
    return by_option


def unknown_format(name: str, known: Collection[str] = FORMATS) -> str:
    """What to say about a format that there is not."""
    near = get_close_matches(name.lower(), known, 1, 0.5)
    instead = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"there is no format {name!r}; {instead}"


def _listed(words: Collection[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
