"""Hostile ``.girih`` files: damaged, forged and mixed. What is accepted must run, and be right in every element."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, cast

import girih
from benchmarks.hostile.case import Case
from girih.api.compile import load
from girih.models import build

Entries = dict[str, bytes]
"""The contents of an archive, by the names of its entries."""

_SEAL = b"sha256:"
_JSON = ("graph.json", "plan.json", "machine.json", "log.json", "meta.json")
_NUMBERS = (0, -1, 1, 2, 3, 7, 64, 4096, 1 << 31, 1 << 63, 10**30, 0.5, 1e300)
_OTHERS = (None, True, "", "text", "x" * 300, [], {}, [0], {"a": 1}, "nan", "../up", "é\n")
_NETWORKS = {"tiny-cnn": 2, "tiny-transformer": 1}


@cache
def package(name: str) -> bytes:
    """A right file."""
    model = build(name).SerializeToString(deterministic=True)
    compiled = girih.compile(model, target="tiny", strategy="graphturbo", batch=_NETWORKS[name], cache=False)
    with tempfile.TemporaryDirectory() as folder:
        compiled.save(Path(folder) / "right.girih")
        return (Path(folder) / "right.girih").read_bytes()


def _entries(data: bytes) -> Entries:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _packed(entries: Entries, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of the entries whose seal is right."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
        archive.comment = _SEAL + b"0" * 64
    data = file.getvalue()[:-64]
    return data + hashlib.sha256(data).hexdigest().encode()


def _forged(entries: Entries) -> Entries:
    """The entries with the digests in ``meta.json`` recomputed."""
    meta = _parsed(entries["meta.json"])
    if not isinstance(meta, dict):
        return entries
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in entries.items() if name != "meta.json"}
    return entries | {"meta.json": json.dumps(cast("dict[str, Any]", meta) | {"entries": digests}).encode()}


def _parsed(content: bytes) -> Any:
    return json.loads(content)


# Changes. Each takes the random numbers and a file, and returns what it did and the file that it made of it.

Change = Callable[[Random, bytes], tuple[str, bytes]]


def bit_flips(random: Random, data: bytes) -> tuple[str, bytes]:
    damaged = bytearray(data)
    places = [random.randrange(len(data)) for _ in range(random.choice((1, 1, 2, 8)))]
    for place in places:
        damaged[place] ^= 1 << random.randrange(8)
    return f"bits of bytes {places}", bytes(damaged)


def sealed_bit_flips(random: Random, data: bytes) -> tuple[str, bytes]:
    """Bits of one entry, with all digests and the seal as if nothing had happened."""
    entries = _entries(data)
    name = random.choice(sorted(entries))
    content = bytearray(entries[name])
    place = random.randrange(len(content))
    content[place] ^= 1 << random.randrange(8)
    changed = entries | {name: bytes(content)}
    return f"a bit of byte {place} of {name}", _packed(changed if name == "meta.json" else _forged(changed))


def truncation(random: Random, data: bytes) -> tuple[str, bytes]:
    size = random.choice((random.randrange(len(data)), len(data) - random.randrange(1, 90), random.randrange(40)))
    return f"the first {size} bytes", data[:size]


def swapped_entries(random: Random, data: bytes) -> tuple[str, bytes]:
    """Entries of another package."""
    entries = _entries(data)
    other = _entries(package(random.choice(sorted(_NETWORKS))))
    names = random.sample(sorted(entries.keys() & other.keys()), random.choice((1, 1, 2, 3)))
    mixed = entries | {name: other[name] for name in names}
    forged = random.random() < 0.6
    return f"{names} of another, digests {forged}", _packed(_forged(mixed) if forged else mixed)


def json_edits(random: Random, data: bytes) -> tuple[str, bytes]:
    """One to three values of a noun."""
    entries = _entries(data)
    name = random.choice(_JSON)
    noun = _parsed(entries[name])
    places = [_edit(random, noun) for _ in range(random.choice((1, 1, 1, 2, 3)))]
    changed = entries | {name: json.dumps(noun).encode()}
    forged = name != "meta.json" and random.random() < 0.8
    return f"{name}: {'; '.join(places)}, digests {forged}", _packed(_forged(changed) if forged else changed)


def _edit(random: Random, noun: Any) -> str:
    """Change, remove, double or swap something of a noun; says what."""
    path: list[str] = []
    holder = noun
    while True:
        keys: list[Any] = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return "nothing"
        key = random.choice(keys)
        path.append(str(key))
        value = holder[key]
        if isinstance(value, dict | list) and value and random.random() < 0.92:
            holder = cast("Any", value)
            continue
        break
    kind = random.choice(("value", "value", "value", "near", "near", "near", "remove", "other", "swap"))
    if kind == "near" and isinstance(value, int) and not isinstance(value, bool):
        holder[key] = value + random.choice((-1, 1, 8, -64, 64))
    elif kind == "remove":
        del holder[key]
        return f"{'.'.join(path)} removed"
    elif kind == "swap":
        holder[key] = holder[random.choice(keys)]
    elif kind == "other":
        holder[key] = random.choice(_OTHERS)
    else:
        holder[key] = random.choice(_NUMBERS)
    return f"{'.'.join(path)} = {str(holder[key])[:40]}"


def zip_tricks(random: Random, data: bytes) -> tuple[str, bytes]:
    """What a ZIP archive may be and a package is not."""
    entries = _entries(data)
    name = random.choice(sorted(entries))
    trick = random.choice(("removed", "renamed", "added", "bomb", "empty", "method", "prefix", "suffix", "doubled"))
    if trick == "removed":
        del entries[name]
    elif trick == "renamed":
        entries[random.choice(("../" + name, name.upper(), "/" + name, name + "\x00"))] = entries.pop(name)
    elif trick == "added":
        entries[random.choice(("../../up", "constants/9999.npy", "extra", "graph.json/x"))] = b"more"
    elif trick == "bomb":
        entries[name] = b"0" * (1 << 25)
    elif trick == "empty":
        entries[name] = b""
    elif trick == "prefix":
        return f"{trick} {name}", b"#!/bin/sh\n" + data
    elif trick == "suffix":
        return f"{trick} {name}", data + bytes(random.randrange(1, 100))
    elif trick == "doubled":
        return f"{trick} {name}", data + data
    method = random.choice((zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    return f"{trick} {name}, method {method}", _packed(
        _forged(entries) if "meta.json" in entries and trick != "bomb" and entries["meta.json"] else entries, method
    )


_CHANGES: tuple[Change, ...] = (
    bit_flips, sealed_bit_flips, truncation, swapped_entries, json_edits, json_edits, json_edits, zip_tricks,
)  # fmt: skip


def cases(seed: int) -> Iterator[Case]:
    """Files without end."""
    for number in count():
        random = Random(f"{seed} {number}")
        name = random.choice(sorted(_NETWORKS))
        change = random.choice(_CHANGES)
        text, data = change(random, package(name))
        yield Case("girih", change.__name__, f"file {number} of seed {seed}, {name}: {text}", data)


def attempt(case: Case) -> None:
    """Read the file, explain it, run it and compare every element with what its graph says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.girih"
        path.write_bytes(case.data)
        compiled = load(path)
    compiled.run(check="exact")
    report = compiled.explain()
    str(report), report.tables
