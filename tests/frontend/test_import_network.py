"""The import as a list of passes: each is checked, tells its progress, and costs what its nodes cost."""

from __future__ import annotations

import time

import pytest

from girih.frontend import import_network, import_onnx
from girih.frontend.net.net import Net
from girih.frontend.net.net_pass import NetPass
from girih.ir.errors import CheckError
from tests.support.onnx_models import Model


def chain(length: int) -> Model:
    m = Model()
    x = m.input("x", 4, 8)
    for i in range(length):
        x = m.node(("Relu", "Sigmoid", "Neg", "Tanh")[i % 4], x)
    return m


def lose_last_step(net: Net) -> None:
    """A pass that is wrong."""
    net.steps.pop()


def test_the_net_is_checked_between_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    model = chain(3)
    model = model.build(model.nodes[-1].output[0])
    passes = (*import_network.passes("as-is")[:3], NetPass(lose_last_step))
    monkeypatch.setattr(import_network, "passes", lambda precision: passes)
    with pytest.raises(CheckError, match="after the pass 'lose last step': no step writes the outputs neg2"):
        import_onnx(model)


def test_the_net_is_not_checked_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    from girih.frontend.net import net_pass

    monkeypatch.delenv("GIRIH_CHECK", raising=False)
    monkeypatch.setattr(net_pass, "check_net", None)
    model = chain(3)
    import_onnx(model.build(model.nodes[-1].output[0]))


def test_the_graph_is_checked_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[object] = []
    monkeypatch.setattr(import_network, "check_graph", checked.append)
    model = chain(3)
    graph = import_onnx(model.build(model.nodes[-1].output[0]))
    assert checked == [graph]


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
def test_passes_say_their_contract(precision: import_network.Precision) -> None:
    for step in import_network.passes(precision):
        assert "Before:" in step.contract and "After:" in step.contract and "becomes" in step.contract, step.name


def test_progress_names_each_pass_and_counts_nodes() -> None:
    model = chain(20)
    news: list[tuple[str, int, int]] = []
    import_onnx(model.build(model.nodes[-1].output[0]), listener=lambda *n: news.append(n))
    names = list(dict.fromkeys(name for name, _, _ in news))
    assert names == ["convert nodes", *dict.fromkeys(step.name for step in import_network.passes("as-is"))]
    assert [done for name, done, _ in news if name == "convert nodes"] == list(range(21))
    assert all(0 <= done <= total for _, done, total in news)


def test_cost_grows_with_the_number_of_operators() -> None:
    """Eight times the operators cost about eight times as much; twenty leaves room for a busy machine."""
    seconds: list[float] = []
    for length in (250, 2000):
        model = chain(length)
        built = model.build(model.nodes[-1].output[0])
        began = time.process_time()
        graph = import_onnx(built)
        seconds.append(time.process_time() - began)
        assert sum(len(op.stages) for op in graph.ops) == length
    assert seconds[1] < 20 * seconds[0]
