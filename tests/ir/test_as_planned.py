"""What a machine file says in short is spelt out for planning."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.checks.check_machine import problems
from girih.ir.load_machine import load_machine, machine_names
from girih.ir.machines.as_planned import as_planned, name_in_file
from tests.support.machines import kinds_with_shared_engines, of_the_cluster, staged_for_each_core, with_count

TINY = load_machine("tiny")
KINDS = {**kinds_with_shared_engines(TINY), **{name: load_machine(name) for name in machine_names()}}


@pytest.mark.parametrize("name", KINDS)
def test_what_is_planned_for_stays_as_it_is(name: str) -> None:
    planned = as_planned(KINDS[name])
    assert as_planned(planned) is planned
    assert not list(problems(KINDS[name])) and not list(problems(planned))


@pytest.mark.parametrize("name", KINDS)
def test_every_name_is_found_in_the_file(name: str) -> None:
    machine = KINDS[name]
    planned = as_planned(machine)
    for table in ("memories", "engines"):
        names = {name_in_file(machine, entry.name) for entry in getattr(planned, table)}
        assert names == {entry.name for entry in getattr(machine, table)}
    assert set(machine.uses) == set(machine.memory)
    for unknown in ("NONE", "NONE.a", ""):
        with pytest.raises(KeyError):
            name_in_file(machine, unknown)


def test_engines_of_a_kind_have_names_of_their_own() -> None:
    planned = as_planned(with_count(TINY, {"vector": 3}))
    assert [e.name for e in planned.team("vector")] == ["VME.a", "VME.b", "VME.c"]
    assert all(replace(e, name="VME") == TINY.engine["VME"] for e in planned.team("vector"))
    assert planned.engine_for("vector").name == "VME.a" and planned.shared_engine("vector").count == 3
    many = as_planned(with_count(TINY, {"vector": 28}))
    assert [e.name for e in many.team("vector")][25:] == ["VME.az", "VME.ba", "VME.bb"]


def test_a_slower_engine_is_of_no_team() -> None:
    slower = replace(TINY.engine["VME"], name="SLOW", issue=TINY.engine["VME"].issue + 1)
    equal = replace(TINY.engine["VME"], name="TWIN")
    machine = replace(TINY, engines=(*TINY.engines, slower, equal))
    assert [e.name for e in machine.team("vector")] == ["VME", "TWIN"]


def test_an_engine_of_a_cluster_makes_its_cores_one() -> None:
    machine = of_the_cluster(TINY, ("matrix",))
    planned = as_planned(machine)
    assert (machine.cores, planned.cores) == (2, 1)
    assert {m.scope for m in planned.memories if m.name in ("L1", "L1W", "IM")} == {"core"}
    assert [e.name for e in planned.team("matrix")] == ["MME"]
    assert [e.name for e in planned.team("vector")] == ["VME.a", "VME.b"]


def test_memories_of_cores_are_there_for_each_of_them() -> None:
    planned = as_planned(staged_for_each_core(TINY))
    assert {"UB.a", "UB.b"} <= set(planned.memory) and "UB" not in planned.memory
    first, second = planned.team("vector")
    assert (first.reads, second.reads) == (("UB.a",), ("UB.b",))
    stagings = [planned.staging(e, "writes", "L1") for e in (first, second)]
    assert [s and (s.memory.name, s.into.name) for s in stagings] == [("UB.a", "STAGE.a"), ("UB.b", "STAGE.b")]


def test_names_that_meet_are_refused() -> None:
    machine = with_count(TINY, {"vector": 2})
    clash = replace(machine, engines=(*machine.engines, replace(TINY.engine["MTI"], name="VME.b")))
    (found,) = problems(clash)
    assert found == ("engines[8].name", "VME.b is the name of one of several engines of a kind; rename it")


def test_a_machine_is_shown_as_its_file_says() -> None:
    text = str(load_machine("gaudi"))
    assert "1 cluster x 8 cores" in text and "MME  cluster matrix" in text and "local, weights, accumulator" in text
    assert "3 x VME" in str(with_count(TINY, {"vector": 3}))
