"""Networks on machines that lack memories and ways: right to the bit, and predicted."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

import girih
from girih.api.options import Strategy
from girih.ir.errors import UsageError
from girih.ir.load_machine import load_machine
from girih.models import build
from tests.support.machines import kinds_of, kinds_with_shared_engines, with_engines, without_class
from tests.support.onnx_models import Model
from tests.support.sampled import sampled_pairs

TINY = load_machine("tiny")
KINDS = kinds_of(TINY)
SHARED = kinds_with_shared_engines(TINY)


@cache
def network(name: str) -> bytes:
    return build(name).SerializeToString(deterministic=True)


def compiled(name: str, kind: str, strategy: Strategy) -> girih.Compiled:
    machine = (KINDS | SHARED)[kind]
    return girih.compile(network(name), target=machine, batch=2, strategy=strategy, solver_timeout=1, cache=False)


@pytest.mark.parametrize(("kind", "run"), sampled_pairs([*KINDS], [
    ("tiny-cnn", "layerwise"), ("tiny-cnn", "graphturbo"), ("tiny-cnn", "solver"),
    ("tiny-transformer", "graphturbo"), ("tiny-transformer", "solver"), ("tiny-transformer", "layerwise"),
]))  # fmt: skip
def test_programs_are_right_and_predicted(kind: str, run: tuple[str, Strategy]) -> None:
    name, strategy = run
    made = compiled(name, kind, strategy)
    result = made.run(check="exact")
    assert result.cycles >= made.plan.lower_bound_cycles
    # A plan whose operators wait for nothing but each other is the hardest to predict; the solver's are searched by it.
    assert 0.88 <= made.plan.cycles_predicted / result.cycles <= 1.08


@pytest.mark.parametrize(("kind", "run"), sampled_pairs([*SHARED], [
    ("tiny-cnn", "solver"), ("tiny-transformer", "solver"),
    ("tiny-transformer", "layerwise"), ("tiny-cnn", "layerwise"),
], 2))  # fmt: skip
def test_engines_share_the_work_of_a_core(kind: str, run: tuple[str, Strategy]) -> None:
    name, strategy = run
    made = compiled(name, kind, strategy)
    result = made.run(check="exact")
    assert result.cycles >= made.plan.lower_bound_cycles
    assert 0.88 <= made.plan.cycles_predicted / result.cycles <= 1.08
    streams = dict(zip(made.program.queues, made.program.streams, strict=True))
    for engine in (engine for kind in ("matrix", "vector") for engine in made.machine.team(kind)):
        assert any(q.engine == engine.name and stream for q, stream in streams.items()), f"{engine.name} is idle"


def test_without_shared_memory_nothing_is_fetched() -> None:
    plan = compiled("tiny-cnn", "shared memory", "solver").plan
    assert plan.shared and not any(b.fetch or b.store or b.memory != "DDR" for b in plan.shared)


def test_without_broadcasts_each_core_loads_for_itself() -> None:
    made = compiled("tiny-cnn", "broadcast", "solver")
    assert not any(i.mnemonic == "mbcast" for stream in made.program.streams for i in stream)
    whole = girih.compile(network("tiny-cnn"), target=TINY, batch=2, solver_timeout=1, cache=False)
    assert any(i.mnemonic == "mbcast" for stream in whole.program.streams for i in stream)


def test_without_copies_to_weight_memory_products_of_activations_run_on_the_vector_engine() -> None:
    engines = {
        kind: {t.op: t.engine for s in compiled("tiny-transformer", kind, "layerwise").plan.segments for t in s.tiles}
        for kind in ("copies to weight memory", "host")
    }
    moved = [op for op, engine in engines["copies to weight memory"].items() if engine != engines["host"][op]]
    assert moved and all("attention" in op for op in moved)


def test_weights_and_data_of_one_memory_do_not_meet() -> None:
    made = compiled("tiny-cnn", "weight memory", "solver")
    uses = {buffer.use for buffer in made.plan.local if buffer.memory == "L1"}
    assert uses == {"data", "weights"}


def test_an_operator_for_the_host_is_refused_by_name_where_there_is_none() -> None:
    model = Model()
    x = model.input("x", "N", 8)
    hidden = model.node("CumSum", x, model.constant("axis", 1), name="running")
    machine = without_class(without_class(TINY, "host"), "scalar")
    network = model.build(hidden).SerializeToString()
    with pytest.raises(UsageError, match=r"(?s)running.*no host and no scalar engine.*add an engine of class \"host\""):
        girih.compile(network, target=machine, batch=2, solver_timeout=1, cache=False)


@pytest.mark.parametrize(("change", "message"), [
    ({"scope": "core"}, 'HOST, of class "host", has scope "core"; give it scope "cluster"'),
    ({"writes": ("LLB",)}, 'let HOST, of class "host", read and write DDR, the main memory'),
])  # fmt: skip
def test_a_host_that_does_not_fit_is_named(change: dict[str, object], message: str) -> None:
    model = Model()
    x = model.input("x", "N", 8)
    hidden = model.node("CumSum", x, model.constant("axis", 1), name="running")
    machine = with_engines(
        without_class(TINY, "scalar"),
        lambda e: replace(e, **change) if "host" in e.classes else e,  # type: ignore[arg-type]
    )
    with pytest.raises(UsageError, match=message):
        girih.compile(model.build(hidden).SerializeToString(), target=machine, solver_timeout=1, cache=False, batch=2)
