"""What each memory is used for follows from the engines that read and write it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.checks.check_machine import check_machine, problems
from girih.ir.checks.machine_effects import without_effect
from girih.ir.errors import UsageError
from girih.ir.load_machine import load_machine, machine_names
from girih.ir.machine import ROLES, Memory
from girih.ir.machines.requirements import candidates
from tests.support.machines import kinds_of, with_engines, without_class

TINY = load_machine("tiny")
KINDS = kinds_of(TINY)


def names(kind: str) -> dict[str, str]:
    return {role: memory.name for role, memory in KINDS[kind].roles.items()}


@pytest.mark.parametrize("name", ["stcp920", "tiny"])
def test_a_memory_for_each_role(name: str) -> None:
    machine = load_machine(name)
    levels = machine.levels
    each = (levels.home, levels.exchange, levels.activations, levels.weights, levels.sums)
    assert [level.name for level in each] == ["DDR", "LLB", "L1", "L1W", "IM"] and levels.constants == levels.home
    assert all(level.memory in machine.memories and level.base == 0 for level in each)
    assert [level.role for level in each] == list(ROLES)
    assert [machine.use_of(m.name) for m in machine.memories] == list(ROLES)


def test_a_link_limits_something() -> None:
    with pytest.raises(UsageError, match="ddr limits no memory; name one"):
        check_machine(replace(TINY, links=(replace(TINY.links[0], memory=()), *TINY.links[1:])))


def test_the_order_of_the_file_does_not_matter_where_one_memory_fits() -> None:
    turned = replace(TINY, memories=TINY.memories[::-1])
    assert {r: m.name for r, m in turned.roles.items()} == {r: m.name for r, m in TINY.roles.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_machines_that_have_less_pass_their_checks(kind: str) -> None:
    check_machine(KINDS[kind])


def test_a_memory_plays_the_role_of_one_that_is_missing() -> None:
    assert names("weight memory") == {
        "main": "DDR",
        "shared": "LLB",
        "local": "L1",
        "weights": "L1",
        "accumulator": "IM",
    }
    assert names("accumulator")["accumulator"] == "L1"
    assert names("shared memory")["shared"] == "DDR" and not KINDS["shared memory"].levels.has_exchange
    assert set(names("all but local and main memory").values()) == {"DDR", "L1"}


def test_constants_have_their_homes_in_read_only_memory() -> None:
    flash = KINDS["main memory to write"]
    roles = names("main memory to write")
    assert (roles["constants"], roles["main"], roles["shared"]) == ("DDR", "LLB", "LLB")
    levels = flash.levels
    assert levels.source_of(constant=True) == levels.constants and levels.source_of(constant=False) == levels.exchange
    assert levels.has_constants and not TINY.levels.has_constants and TINY.levels.constants == TINY.levels.home
    deaf = with_engines(flash, lambda e: replace(e, reads=("LLB", "L1")) if "broadcast" in e.classes else e)
    assert "constants" not in deaf.roles, "no core copies from it"
    assert "DDR is never used: no core copies from it to where it needs them (in memories[0])" in without_effect(deaf)
    assert without_effect(flash) == without_effect(TINY)


def test_constants_come_through_the_shared_memory_where_dma_fills_it() -> None:
    rom = KINDS["main memory with constants"]
    roles = names("main memory with constants")
    assert (roles["constants"], roles["main"], roles["shared"]) == ("DDR", "RAM", "LLB")
    levels = rom.levels
    assert levels.has_exchange and levels.has_constants and levels.homes == ("RAM", "DDR")
    assert all(levels.source_of(constant=constant) == levels.exchange for constant in (False, True))
    assert [rom.mover("dma", level, levels.exchange).name for level in (levels.constants, levels.home)] == [
        "DMC",
        "DMR",
    ]
    deaf = with_engines(rom, lambda e: replace(e, reads=("RAM",)) if e.name == "DMC" else e)
    assert "constants" not in deaf.roles
    assert "DDR is never used: no DMA of the cluster copies from it to LLB (in memories[0])" in without_effect(deaf)
    assert without_effect(rom) == without_effect(TINY)
    near = with_engines(rom, lambda e: replace(e, reads=(*e.reads, "DDR")) if e.name == "MTI" else e)
    (warning,) = set(without_effect(near)) - set(without_effect(rom))
    assert warning.startswith("DDR in reads of MTI has no effect")


@pytest.mark.parametrize(("kind", "keys"), [("matrix", "rows and columns and rate and weights"), ("vector", "lanes")])
def test_a_class_of_engines_that_is_missing_is_named(kind: str, keys: str) -> None:
    message = f"there is no {kind} engine, and operators need one; add an engine of class '{kind}' to .*, with {keys} "
    with pytest.raises(UsageError, match=message):
        check_machine(without_class(TINY, kind))


def test_a_second_memory_behind_the_shared_one_is_refused() -> None:
    middle = replace(TINY.memory["DDR"], name="L3", capacity=1 << 22)
    fetch = replace(TINY.engine["DMR"], name="FETCH", reads=("L3",))
    save = replace(TINY.engine["DMW"], name="SAVE", writes=("L3",))
    outer = {"DMR": {"writes": ("L3",)}, "DMW": {"reads": ("L3",)}}
    machine = with_engines(TINY, lambda e: replace(e, **outer.get(e.name, {})))  # type: ignore[arg-type]
    machine = replace(machine, memories=(*machine.memories, middle), engines=(*machine.engines, fetch, save))
    (problem,) = problems(machine)
    assert problem[0] == "memories[0]"
    assert problem[1].startswith("DDR is behind L3, the main memory, which is behind LLB, the shared one: one memory ")
    assert "let DMR and DMW move data between DDR and LLB, and remove L3, or remove DDR" in problem[1]
    # What it advises helps, either way.
    check_machine(TINY)
    near = with_engines(machine, lambda e: None if e.name in ("DMR", "DMW") else replace(
        e, reads=tuple("L3" if n == "DDR" else n for n in e.reads), writes=tuple("L3" if n == "DDR" else n for n in e.writes)
    ))  # fmt: skip
    check_machine(replace(near, memories=near.memories[1:], links=near.links[1:]))


@pytest.mark.parametrize("kind", ["copy", "dma"])
def test_cores_that_move_data_outside_of_themselves_are_refused(kind: str) -> None:
    machine = with_engines(TINY, lambda e: replace(e, scope="core", classes=(kind,)) if "dma" in e.classes else e)
    (problem,) = problems(machine)
    assert problem[0] == "engines[4].scope"
    assert "DMR and DMW of the cores move data between DDR and LLB" in problem[1]
    assert problem[1].endswith('give DMR and DMW scope "cluster" and class "dma"')


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_one_memory_are_apart_aligned_and_all_of_it(kind: str) -> None:
    machine = KINDS[kind]
    for memory in machine.memories:
        levels = [level for level in machine.levels.of_core if level.name == memory.name]
        end = 0
        for level in levels:
            part = level.memory
            assert level.base == end and end % memory.alignment == 0 and part.capacity > 0
            assert (part.name, part.alignment, part.interleave) == (memory.name, memory.alignment, memory.interleave)
            assert end * memory.banks % memory.capacity == 0, "parts end where banks do"
            end += part.capacity
        assert not levels or end == memory.capacity
        assert len(levels) <= 1 or sum(level.memory.banks for level in levels) == memory.banks


def test_of_several_memories_that_cores_load_from_the_one_that_dma_fills_is_shared() -> None:
    direct = with_engines(
        TINY, lambda e: replace(e, reads=("DDR", *e.reads), writes=e.writes) if "copy" in e.classes else e
    )
    direct = with_engines(direct, lambda e: replace(e, writes=("LLB", "DDR")) if e.name == "MTO" else e)
    assert direct.levels.exchange.name == "LLB" and direct.levels.home.name == "DDR"


@pytest.mark.parametrize(("engine", "extra"), [
    ("VME", {"reads": ("IM", "L1"), "writes": ("L1",)}),
    ("MME", {"reads": ("L1", "IM"), "writes": ("L1W",)}),
])  # fmt: skip
def test_an_engine_before_the_one_that_fits_changes_no_role(engine: str, extra: dict[str, tuple[str, ...]]) -> None:
    other = replace(TINY.engine[engine], name="ACT", **extra)  # type: ignore[arg-type]
    for engines in ((other, *TINY.engines), (*TINY.engines, other)):
        machine = replace(TINY, engines=engines)
        check_machine(machine)
        assert machine.roles == TINY.roles and machine.ways == TINY.ways
        assert any(w.startswith("ACT is never used") for w in without_effect(machine))


def test_what_only_another_engine_of_the_class_does_is_told_with_the_name() -> None:
    reader = replace(TINY.engine["VME"], name="ACT", writes=("L1",))
    machine = with_engines(TINY, lambda e: replace(e, reads=("L1",)) if e.name == "VME" else e)
    with pytest.raises(UsageError, match="IM comes nearest, but ACT does not write it"):
        check_machine(replace(machine, engines=(reader, *machine.engines)))


def test_a_memory_with_one_task_is_the_better_one_for_it() -> None:
    both = with_engines(TINY, lambda e: replace(e, writes=("L1", "IM"), weights=("L1", "L1W")) if e.rows else e)
    assert both.roles == TINY.roles


def test_what_is_missing_is_told_of_the_memory_that_comes_nearest() -> None:
    shut = with_engines(TINY, lambda e: None if e.name == "MTO" else e)
    (local,) = (c for c in candidates(shut, "local", {}) if c.memory.name == "L1")
    assert local.lacks == ("nothing copies to a memory outside of the core",)
    assert "local" not in shut.roles


def test_a_part_has_the_banks_that_it_lies_in() -> None:
    memory = Memory("M", "core", 1 << 20, 64, banks=16)
    assert memory.unit == 1 << 16 and memory.part(0, 1 << 19).banks == 8
    turning = replace(memory, interleave=4096)
    assert turning.unit == 1 << 16 and turning.part(0, 1 << 19).banks == 16
    assert replace(memory, banks=1).unit == 64, "a single bank is divided anywhere"


@pytest.mark.parametrize("name", machine_names())
def test_every_memory_of_a_built_in_machine_is_used(name: str) -> None:
    machine = load_machine(name)
    assert all(machine.uses[memory.name] != "unused" for memory in machine.memories)


def test_roles_are_played_from_behind_staging_memories() -> None:
    machine = load_machine("ascend310")
    used = {memory.name: machine.use_of(memory.name) for memory in machine.memories if memory.scope == "core"}
    staging = dict.fromkeys(("L0A", "L0B", "UB"), "staging")
    assert used == {"L1": "local, weights", "L0C": "accumulator", **staging}
    stop = machine.stopover("L1", "L2")
    assert stop is not None and stop.name == "UB" and machine.mover("copy", "L1", "L2").name == "MTE3"
    vector = machine.engine_for("vector")
    staged = machine.staging(vector, "writes", "L1")
    assert staged is not None and (staged.into.name, staged.memory.name) == ("MTE1U", "UB")
    assert staged.out is not None and staged.out.name == "MTE3"
    assert machine.staging(vector, "reads", "L0C") is None, "which it reads itself"


def test_an_engine_without_a_copy_to_its_memory_is_told_so() -> None:
    machine = load_machine("ascend310")
    shut = with_engines(machine, lambda e: None if e.name == "MTE1A" else e)
    (_, message), *_ = problems(shut)
    assert "L1 comes nearest" in message and "no matrix engine of a core reads it" in message
