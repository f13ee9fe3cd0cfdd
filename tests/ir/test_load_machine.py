"""Machine files load: the built-in ones, those at a path, and what is no file; what engines lack has its line."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from pathlib import Path

import pytest

import girih.ir.load_machine
from girih.ir.checks.check_machine import check_machine, problems
from girih.ir.errors import EngineTypeError, UsageError
from girih.ir.load_machine import load_machine, machine_names, parse_machine, telling_lines
from girih.models import build
from tests.support.machines import kinds_of, with_engines

TINY = (Path(girih.ir.load_machine.__file__).parent / "machines" / "tiny.toml").read_text()


@pytest.mark.parametrize("name", machine_names())
def test_built_in_machines_load(name: str) -> None:
    machine = load_machine(name)
    assert machine.name == name
    assert name in str(machine)


def test_a_path(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(TINY)
    assert load_machine(tmp_path / "mine.toml") == load_machine("tiny") == load_machine(str(tmp_path / "mine.toml"))


def test_names_and_paths_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no machine 'teeny'; built in are .*tiny"):
        load_machine("teeny")
    with pytest.raises(UsageError, match=r"cannot read .*none\.toml"):
        load_machine(tmp_path / "none.toml")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xef\xbb\xbf" + TINY.encode())
    assert load_machine(tmp_path / "mine.toml") == load_machine("tiny")


def test_links_may_be_none() -> None:
    bare = TINY[: TINY.index("[[links]]")]
    with pytest.raises(UsageError, match=r"\[\[links\]\] tables are missing; write links = \[\] above all tables"):
        parse_machine(bare, "mine.toml")
    assert not parse_machine(f"links = []\n{bare}", "mine.toml").links


def test_broadcasts_are_optional() -> None:
    machine = parse_machine(TINY.replace('["copy", "broadcast"]', '["copy"]'), "mine.toml")
    assert not machine.moves("broadcast", "LLB", "L1") and machine.moves("copy", "LLB", "L1")


def test_the_first_engine_with_the_memories_for_it_is_used() -> None:
    machine = load_machine("tiny")
    matrix, dma = machine.engine["MME"], machine.engine["DMR"]
    idle = (replace(matrix, name="A", reads=("L1",)), replace(dma, name="B", scope="core"))
    changed = replace(machine, engines=(*idle, *machine.engines))
    assert changed.engine_for("matrix") == matrix
    assert changed.mover("dma", "DDR", "LLB") == dma
    assert changed.mover("dma", "LLB", "DDR").name == "DMW"


def test_kernels_must_reach_the_constants() -> None:
    machine = kinds_of(load_machine("tiny"))["main memory to write"]
    check_machine(machine)
    shut = with_engines(machine, lambda e: replace(e, reads=("LLB",)) if "host" in e.classes else e)
    message = r"HOST runs kernels, and cannot read DDR, which has the constants; .* \(in engines\[\d\].reads\)"
    with pytest.raises(UsageError, match=message):
        check_machine(shut)


def test_missing_tables() -> None:
    head = TINY[: TINY.index("[[memories]]")]
    with pytest.raises(UsageError, match=r"mine.toml:1: \[\[memories\]\] tables are missing"):
        parse_machine(head, "mine.toml")
    with pytest.raises(UsageError, match="must be tables"):
        parse_machine(head + "memories = 3\nengines = 3\nlinks = 4\n", "mine.toml")


def test_a_machine_that_is_no_file_is_checked_too() -> None:
    machine = load_machine("tiny")
    check_machine(machine)
    with pytest.raises(UsageError, match=r"machine 'tiny': cores must be greater than 0, not -1 \(in cores\)"):
        check_machine(replace(machine, cores=-1))
    with pytest.raises(UsageError, match=r"DMR reads an unknown memory 'DDR'"):
        check_machine(replace(machine, memories=machine.memories[1:]))


def test_any_number_gives_a_problem_or_none() -> None:
    """The checks do not rely on one another: none of them fails on what another one finds."""
    machine = load_machine("tiny")
    for table in ("memories", "engines", "links"):
        for index, entry in enumerate(getattr(machine, table)):
            for spec in fields(entry):
                if type(getattr(entry, spec.name)) in (int, float):
                    for value in (-1, 0, 3, 10**30):
                        rows = list(getattr(machine, table))
                        rows[index] = replace(entry, **{spec.name: value})
                        list(problems(replace(machine, **{table: tuple(rows)})))


def test_what_a_matrix_engine_multiplies() -> None:
    engine = load_machine("stcp920").engine_for("matrix")
    assert engine.rate_of("uint8") == engine.rate_of("int8") == 2 * (engine.rate_of("float16") or 0)
    assert engine.rate_of("float32") is None
    assert load_machine("stcp920").engine_for("vector").rate_of("float32") is None


def test_a_memory_that_is_read_but_never_written() -> None:
    extra = '[[memories]]\nname = "X"\nscope = "core"\ncapacity = 4096\nalignment = 32\nbytes_per_cycle = 8\n[[links]]'
    text = TINY.replace('["vector"]\nreads = ["L1", "IM"]', '["vector"]\nreads = ["L1", "IM", "X"]')
    text = text.replace("[[links]]", extra, 1)
    line = text.splitlines().index('name = "X"')
    with pytest.raises(UsageError, match=rf"^mine\.toml:{line}: no engine writes X, and it is not read_only; let an"):
        parse_machine(text, "mine.toml")


@pytest.mark.parametrize(("engine", "key", "wanted"), [("MME", "rate", "rate ="), ("VME", "lanes", "lanes =")])
def test_types_that_an_engine_has_not_are_told_with_the_line(
    tmp_path: Path, engine: str, key: str, wanted: str
) -> None:
    (tmp_path / "mine.toml").write_text(TINY)
    with pytest.raises(EngineTypeError) as told, telling_lines(tmp_path / "mine.toml"):
        raise EngineTypeError("no", engine, key)
    line = int(str(told.value).rpartition(":")[2].rstrip(")"))
    assert TINY.splitlines()[line - 1].startswith(wanted)
    # Engines that an entry counts, or that there are for each core, or both.
    with pytest.raises(EngineTypeError, match=r"^TPC has no lanes \(.*gaudi.toml:\d+\)"), telling_lines("gaudi"):
        raise EngineTypeError("TPC.b has no lanes", "TPC.b", "lanes")
    with pytest.raises(EngineTypeError, match=r"^TPC has no lanes \(.*gaudi.toml:\d+\)"), telling_lines("gaudi"):
        raise EngineTypeError("TPC.b.a has no lanes", "TPC.b.a", "lanes")
    # With the operator's name, and from a worker process.
    assert told.value.worded("other").key == key and str(told.value.worded("other")) == "other"
    assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)


def test_a_compilation_tells_the_line(tmp_path: Path) -> None:
    text = "\n".join("lanes = { float16 = 8 }" if line.startswith("lanes") else line for line in TINY.splitlines())
    (tmp_path / "mine.toml").write_text(text)
    line = next(i for i, x in enumerate(text.splitlines(), 1) if x.startswith("lanes"))
    with pytest.raises(EngineTypeError, match=rf"lanes for float16 alone.*mine.toml:{line}\)"):
        girih.compile(
            build("tiny-cnn"),
            target=tmp_path / "mine.toml",
            batch=1,
            precision="as-is",
            cache=False,
            solver_timeout=0.0,
        )
