"""Machine files as nobody would write them: the built-in machines with some keys changed, removed, doubled or damaged.

Every file is drawn from a ``random.Random``, so that a seed names it, and hypothesis can shrink it.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, cast

import girih
from benchmarks.hostile.case import Case, WrongResultError
from girih.ir.checks.check_machine import CLASSES
from girih.ir.graph import DTYPES
from girih.ir.load_machine import parse_machine
from girih.ir.machine import ROLES
from girih.models import build

Table = dict[str, Any]

NETWORKS: Mapping[str, Mapping[str, int]] = {
    "tiny-cnn": {"size": 8, "width": 8},
    "tiny-transformer": {"seq": 8, "layers": 1, "hidden": 16, "heads": 2, "ffn": 32},
}
"""What is compiled for each machine, with its parameters: small, so that many machines are tried."""

_BUILT_IN = Path(__file__).parents[2] / "ir" / "machines"
_NUMBERS = (0, -1, 1, 2, 3, 5, 7, 8, 12, 16, 31, 33, 64, 65, 100, 1000, 4096, 65535, 1 << 20)
_HUGE = (1 << 31, (1 << 40) - 1, 1 << 40, 1 << 63, 1 << 64, 10**30, 10**400)
_FRACTIONS = (0.0, -0.0, 0.5, 1.5, 1e-9, 1e-300, 5e-324, 1e300, math.inf, -math.inf, math.nan)
_OTHER_TYPES = (True, False, "", "text", [], [1], {}, {"float32": 1}, ["L1"], -1.0)
_TEXTS = ("", " ", "L1", "a b", "x\ny", '"', "\\", "é", "名", "\x00", "MME0", "x" * 300, "{{ 7 }}", "../up", "-1")


def machine_file(random: Random) -> str:
    """A machine file: most have one to three things wrong or odd, some are plausible machines, some not TOML at all."""
    table = _built_in(random)
    kind = random.random()
    if kind < 0.25:
        _resize(random, table)
    for _ in range(random.choice((0, 1, 1, 2)) if kind < 0.25 else random.choice((1, 1, 2, 3))):
        random.choice(_CHANGES)(random, table)
    text = to_toml(table)
    return _damaged(random, text) if random.random() < 0.03 else text


def plausible_machine_file(random: Random) -> str:
    """A machine file with other sizes and without some of the memories and ways, of which most are accepted."""
    table = _built_in(random)
    _resize(random, table)
    for change in _WITHOUT:
        if random.random() < 0.25:
            change(table)
    if random.random() < 0.3:
        _shuffle(random, table)
    return to_toml(table)


def to_toml(table: Mapping[str, Any]) -> str:
    """A machine as TOML: plain keys, then an array of tables for each list of tables."""
    lines = [f"{_key(k)} = {_value(v)}" for k, v in table.items() if not _is_tables(v)]
    for name, entries in table.items():
        if _is_tables(entries):
            for entry in entries:
                lines += ["", f"[[{_key(name)}]]", *(f"{_key(k)} = {_value(v)}" for k, v in entry.items())]
    return "\n".join(lines) + "\n"


def _built_in(random: Random) -> Table:
    name = random.choice(("stcp920", "tiny"))
    return tomllib.loads((_BUILT_IN / f"{name}.toml").read_text(encoding="utf-8"))


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in cast("list[Any]", value))


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else json.dumps(key)


def _value(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_value(v) for v in cast('list[Any]', value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(k)} = {_value(v)}' for k, v in cast('Table', value).items())} }}"
    return repr(value)


# Changes. Each takes the random numbers and the table, which it changes.


def _entries(table: Table) -> list[Table]:
    """The machine itself and all that it has."""
    lists = (table.get(name) for name in ("memories", "engines", "links"))
    return [table, *(e for entries in lists if isinstance(entries, list) for e in entries if isinstance(e, dict))]


def _some(random: Random, table: Table, name: str) -> Table | None:
    entries = table.get(name)
    return random.choice(entries) if _is_tables(entries) else None


def _change_number(random: Random, table: Table) -> None:
    entry = random.choice(_entries(table))
    keys = [k for k, v in entry.items() if isinstance(v, int | float)]
    if keys:
        key = random.choice(keys)
        old = entry[key]
        near = (old + 1, old - 1, old * 2, old * 3, old // 2, old // 3, -old)
        entry[key] = random.choice(random.choice((_NUMBERS, near, near, _HUGE, _FRACTIONS)))


def _change_rate(random: Random, table: Table) -> None:
    tables = [v for e in _entries(table) for v in e.values() if isinstance(v, dict)]
    if tables:
        rates = cast("Table", random.choice(tables))
        if rates and random.random() < 0.5:
            del rates[random.choice(list(rates))]
        if random.random() < 0.7:
            rates[random.choice((*DTYPES, *DTYPES, "fp8", ""))] = random.choice((*_NUMBERS, *_FRACTIONS, *_HUGE))


def _change_type(random: Random, table: Table) -> None:
    entry = random.choice(_entries(table))
    entry[random.choice(list(entry))] = deepcopy(random.choice(_OTHER_TYPES))


def _change_text(random: Random, table: Table) -> None:
    entry = random.choice(_entries(table))
    keys = [k for k, v in entry.items() if isinstance(v, str)]
    if keys:
        words = [str(e.get("name")) for e in _entries(table)]
        entry[random.choice(keys)] = random.choice((*_TEXTS, *words, *ROLES, "chip", "cluster", "core", "read"))


def _change_list(random: Random, table: Table) -> None:
    engine = _some(random, table, "engines")
    if engine is not None:
        key = random.choice(("classes", "reads", "writes"))
        values = engine.get(key)
        if isinstance(values, list):
            names = [str(e.get("name")) for e in _entries(table)[1:]]
            if values and random.random() < 0.5:
                values.remove(random.choice(values))
            else:
                values.append(random.choice((*CLASSES, "tensor") if key == "classes" else (*names, "L2")))


def _remove_key(random: Random, table: Table) -> None:
    entry = random.choice(_entries(table))
    if entry:
        del entry[random.choice(list(entry))]


def _add_key(random: Random, table: Table) -> None:
    keys = ("banks", "interleave", "burst", "queue_depth", "rows", "columns", "rate", "lanes", "special", "coers")
    random.choice(_entries(table))[random.choice(keys)] = random.choice((*_NUMBERS, {"float32": 2}))


def _remove_entry(random: Random, table: Table) -> None:
    entries = table.get(random.choice(("memories", "engines", "links")))
    if isinstance(entries, list) and entries:
        entries.remove(random.choice(entries))


def _double_entry(random: Random, table: Table) -> None:
    entries = table.get(random.choice(("memories", "engines", "engines", "links")))
    if _is_tables(entries):
        entry = deepcopy(random.choice(entries))
        if random.random() < 0.8:
            entry["name"] = f"{entry.get('name')}{random.choice(('2', '0', 'b'))}"
        if "scope" in entry and random.random() < 0.5:
            entry["scope"] = random.choice(("core", "cluster"))
        entries.insert(random.randrange(len(entries) + 1), entry)


def _split_engine(random: Random, table: Table) -> None:
    """An engine becomes two, which share its classes and memories."""
    engines = table.get("engines")
    if _is_tables(engines):
        engine = random.choice(engines)
        other = deepcopy(engine)
        other["name"] = f"{engine.get('name')}x"
        for key in ("classes", "reads", "writes"):
            if isinstance(engine.get(key), list) and engine[key] and random.random() < 0.5:
                other[key] = [random.choice(engine[key])]
                if random.random() < 0.5:
                    engine[key] = [v for v in engine[key] if v not in other[key]]
        engines.insert(random.randrange(len(engines) + 1), other)


def _merge_engines(random: Random, table: Table) -> None:
    """Two engines become one, which does what both did."""
    engines = table.get("engines")
    if _is_tables(engines) and len(engines) > 1:
        first, second = random.sample(engines, 2)
        for key, value in second.items():
            if isinstance(value, list) and isinstance(first.get(key), list):
                first[key] = list(dict.fromkeys([*first[key], *value]))
            else:
                first.setdefault(key, value)
        engines.remove(second)


def _shuffle(random: Random, table: Table) -> None:
    entries = table.get(random.choice(("memories", "engines", "links")))
    if isinstance(entries, list):
        random.shuffle(entries)


def _rename(random: Random, table: Table) -> None:
    """One thing is called otherwise, wherever it is named."""
    old = str(random.choice(_entries(table)).get("name"))
    new = random.choice(_TEXTS)
    for entry in _entries(table):
        for key, value in entry.items():
            if key in ("name", "memory") and value == old:
                entry[key] = new
            elif key in ("reads", "weights", "writes") and isinstance(value, list):
                entry[key] = [new if v == old else v for v in value]


def _align_all(random: Random, table: Table) -> None:
    alignment = random.choice((*_NUMBERS, 4, 32, 128, 256, 1 << 14))
    for entry in _entries(table):
        if "alignment" in entry:
            entry["alignment"] = alignment


_CHANGES: tuple[Callable[[Random, Table], None], ...] = (
    _change_number, _change_number, _change_number, _change_rate, _change_type, _change_text, _change_list,
    _change_list, _remove_key, _add_key, _remove_entry, _double_entry, _split_engine, _merge_engines, _shuffle,
    _rename, _align_all,
)  # fmt: skip


def _resize(random: Random, table: Table) -> None:
    """All sizes and rates are redrawn, from what a machine could have."""
    table["clusters"], table["cores"] = random.choice((1, 2, 3)), random.choice((1, 1, 2, 3, 5, 8))
    for memory in table["memories"]:
        memory["alignment"] = random.choice((8, 16, 32, 64, 128))
        memory["banks"] = random.choice((1, 1, 2, 4, 8))
        low, high = {"DDR": (24, 32), "LLB": (13, 23)}.get(memory["name"], (11, 20))
        memory["capacity"] = random.randrange(1 << low, 1 << random.randrange(low + 1, high)) // 1024 * 1024
        memory["interleave"] = random.choice((0, 0, 1, 4, 16)) * memory["alignment"]
        memory["bytes_per_cycle"] = random.choice((1, 7, 16, 64, 512))
    for engine in table["engines"]:
        engine["issue"], engine["latency"] = random.choice((0, 1, 16, 500)), random.choice((0, 1, 16, 500))
        if "rows" in engine:
            engine["rows"], engine["columns"] = random.choice((1, 3, 8, 64)), random.choice((1, 5, 16, 128))
            engine["rate"] = {d: random.choice((0.25, 1, 1.5, 4)) for d in ("float32", "float16", "int8")}
        if "lanes" in engine:
            engine["lanes"] = {d: random.choice((1, 3, 8, 64, 1000)) for d in DTYPES}
            engine["special"] = random.choice((1, 2, 7))
        if "bytes_per_cycle" in engine:
            engine["bytes_per_cycle"] = random.choice((1, 3, 64, 1024))
    for link in table["links"]:
        link["bytes_per_cycle"] = random.choice((0.3, 1, 8, 27.5, 1024))
        link["latency"], link["burst"] = random.choice((0, 1, 300)), random.choice((1, 3, 32, 4096))


def _instead(table: Table, name: str, other: str) -> None:
    """Engines use another memory in the place of one."""
    table["memories"] = [m for m in table["memories"] if m["name"] != name]
    table["links"] = [link for link in table["links"] if link["memory"] != name]
    for engine in table["engines"]:
        for key in ("reads", "weights", "writes"):
            if key in engine:
                engine[key] = list(dict.fromkeys(other if memory == name else memory for memory in engine[key]))


def _without_class(table: Table, kind: str) -> None:
    for engine in table["engines"]:
        engine["classes"] = [c for c in engine["classes"] if c != kind]
    table["engines"] = [e for e in table["engines"] if e["classes"]]


def _without_shared(table: Table) -> None:
    _without_class(table, "dma")
    _instead(table, "LLB", "DDR")


def _without_staging(table: Table) -> None:
    for engine in table["engines"]:
        if "copy" in engine["classes"] and "LLB" in engine["reads"]:
            engine["reads"] = ["LLB"]


def _direct(table: Table) -> None:
    """Cores load from the main memory as well."""
    for engine in table["engines"]:
        for key in ("reads", "writes"):
            if "copy" in engine["classes"] and "LLB" in engine[key]:
                engine[key] = ["DDR", *engine[key]]


_WITHOUT: tuple[Callable[[Table], None], ...] = (
    lambda table: _instead(table, "L1W", "L1"),
    lambda table: _instead(table, "IM", "L1"),
    _without_staging,
    _direct,
    _without_shared,
    lambda table: _without_class(table, "broadcast"),
    lambda table: _without_class(table, "host"),
    lambda table: _without_class(table, "scalar"),
)


def _damaged(random: Random, text: str) -> str:
    """Cut short, or with a character changed."""
    at = random.randrange(len(text))
    if random.random() < 0.3:
        return text[:at]
    return text[:at] + random.choice("[]{}=\"'\n,#.\x00é ") + text[at + random.randrange(2) :]


# Cases, and what is attempted with them.


def cases(seed: int) -> Iterator[Case]:
    """Machine files without end, each with a small network to compile for it."""
    for number in count():
        random = Random(f"{seed} {number}")
        kind = random.choice(("odd", "odd", "odd", "sized"))
        text = machine_file(random) if kind == "odd" else plausible_machine_file(random)
        options = {
            "network": random.choice(tuple(NETWORKS)),
            "precision": random.choice(("as-is", "fp16")),
            "strategy": random.choice(("layerwise", "graphturbo", "solver")),
            "batch": random.choice((1, 2, 3)),
        }
        change = f"file {number} of seed {seed}, " + ", ".join(map(str, options.values()))
        yield Case("machine", kind, change, text.encode("utf-8", "surrogatepass"), options)


def attempt(case: Case) -> None:
    """Read the file, compile the network for it, run that and compare every element with the graph."""
    options = dict(case.options)
    network = _network(options.pop("network"))
    machine = parse_machine(case.data.decode(), "machine.toml")
    compiled = girih.compile(network, target=machine, solver_timeout=0.2, cache=False, **options)
    result = compiled.run(check="exact")
    if result.cycles < compiled.plan.lower_bound_cycles:
        bound = compiled.plan.lower_bound_cycles
        raise WrongResultError(f"{result.cycles:,} cycles are less than the lower bound, {bound:,}")
    report = compiled.explain(result.trace)
    str(report), report.tables


@cache
def _network(name: str) -> bytes:
    return build(name, **NETWORKS[name]).SerializeToString()
