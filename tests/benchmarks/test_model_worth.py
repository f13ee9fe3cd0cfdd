"""What each model is worth is measured on eighteen networks and four machines, on any of which a hint is a plan."""

from __future__ import annotations

import pytest

from benchmarks.ablation import NETWORKS, Network, graph
from benchmarks.model_worth import ALL, CHOSEN, MACHINES, MODELS, Case, disabled, measure, report, target
from girih.solver.switches import SWITCHES


def test_there_are_eighteen_networks_on_four_machines() -> None:
    assert len(set(CHOSEN)) == 18 and set(CHOSEN) <= set(NETWORKS)
    whole, memory, bandwidth, cores = (target(name) for name in MACHINES)
    assert (
        memory.levels.activations.capacity * 2
        == memory.levels.exchange.capacity // 4
        == whole.levels.activations.capacity
    )
    assert bandwidth.links[0].bytes_per_cycle * 2 == whole.links[0].bytes_per_cycle
    assert cores.cores * cores.engine["MME"].rows * cores.engine["MME"].columns == 8192


def test_every_switch_of_a_model_belongs_to_one() -> None:
    assert set(disabled(ALL)) == {"joint-tiles", *(name for name in SWITCHES if name.endswith("-model"))}
    others = [model for model in MODELS if model != "tiling"]
    assert all(disabled(model) in ([], [f"{model}-model"]) for model in others) and not disabled(None)
    assert set(disabled("tiling")) == {"tiling-model", "joint-tiles"}


@pytest.mark.parametrize("without", [None, ALL])
def test_a_case_is_simulated(without: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS, "tiny", Network("tiny", "tiny-cnn", 4))
    graph.cache_clear()
    case, row = measure(Case("tiny", "sixteen-cores", without, 1.0))
    assert row["status"] == "ok" and row["cycles"] >= row["lower_bound_cycles"] > 0
    (entry,) = report([("tiny", "sixteen-cores")], 1.0, {case.key: row})["rows"]
    assert (entry["cycles"] if without is None else entry["without"][ALL]) == row["cycles"]
