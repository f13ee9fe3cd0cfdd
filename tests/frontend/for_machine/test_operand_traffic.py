"""The estimate of what parts of a product cost, against sums that are written out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from girih.frontend import import_onnx
from girih.frontend.for_machine.operand_traffic import FILL, OperandTraffic
from girih.frontend.for_machine.transfer_rates import TransferRates
from girih.ir.graph import Graph, contraction_axes
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from tests.support.onnx_models import Model
from tests.support.quantised_networks import Kind, quantised

PORT, MACS, LANES = 8, 128, 2
"""Of `ethos-u55-128`: bytes a cycle from the arena, products a cycle, and elements of int32 a cycle."""


def with_flash(rate: int) -> Machine:
    """`ethos-u55-128` with so many bytes a cycle from flash."""
    machine = load_machine("ethos-u55-128")
    return replace(
        machine,
        memories=tuple(replace(m, bytes_per_cycle=rate) if m.name == "FLASH" else m for m in machine.memories),
        links=tuple(replace(x, bytes_per_cycle=rate) if "FLASH" in x.memories else x for x in machine.links),
        engines=tuple(replace(e, bytes_per_cycle=rate) if e.name == "MEM" else e for e in machine.engines),
    )


U55 = with_flash(1 << 20)


def with_capacity(machine: Machine, memory: str, capacity: int) -> Machine:
    memories = (replace(m, capacity=capacity) if m.name == memory else m for m in machine.memories)
    return replace(machine, memories=tuple(memories))


def traffic(graph: Graph, machine: Machine) -> OperandTraffic:
    """Of the only product, cut along its longest axis."""
    (op,) = (op for op in graph.ops if op.contraction == 0)
    axes = op.stages[0].axes
    return OperandTraffic(graph, op, machine, max(contraction_axes(op.stages[0]).k, key=lambda a: axes[a].extent))


@pytest.fixture
def product(tmp_path: Path) -> Graph:
    """64 rows, a reduction of 256 and 32 columns of 8-bit integers; the result is dequantised to float32."""
    model = Model(seed=1)
    y = model.node("MatMul", model.input("x", 1, 64, 256), model.weight("w", 256, 32), name="product")
    return import_onnx(quantised(model.build(y), Kind(), tmp_path), batch=1)


def local(machine: Machine, data: int) -> Machine:
    """With room for so many bytes of operands and results, and not for 64 more: a half of the core's memory is for
    data."""
    return with_capacity(machine, "SHRAM", int(2 * (data + 32) / FILL))


X, W, ELEMENTS, Y = 64 * 256, 256 * 32, 64 * 32, 64 * 32 * 4
PRODUCTS = 64 * 256 * 32 / MACS


def test_what_fits_is_loaded_once(product: Graph) -> None:
    expected = max(PRODUCTS, W / PORT) + (X + Y) / PORT
    assert traffic(product, local(U55, 2 * (X + Y))).cycles(1) == pytest.approx(expected)


def test_cells_along_the_rows_load_the_weights_again(product: Graph) -> None:
    """A quarter of the rows fits."""
    machine = local(U55, X // 4 + 16 * 32 * 4)
    expected = max(PRODUCTS, 4 * W / PORT) + (X + Y) / PORT
    assert traffic(product, machine).cycles(1) == pytest.approx(expected)


def test_in_parts_more_rows_fit_and_sums_pass(product: Graph) -> None:
    """All rows of half of the reduction, with a sum and a result of 4 bytes for each element."""
    machine = local(U55, X // 2 + 2 * Y)
    expected = max(PRODUCTS, W / PORT) + X / PORT + (2 * Y + Y) / PORT + 2 * ELEMENTS / LANES
    assert traffic(product, machine).cycles(2) == pytest.approx(expected)


def test_nothing_fits(product: Graph) -> None:
    assert traffic(product, local(U55, 128)).cycles(1) == float("inf")


def test_weights_that_do_not_stay_are_fetched_for_each_cell(product: Graph) -> None:
    small = local(with_flash(1), X // 4 + 16 * 32 * 4)
    assert traffic(product, small).cycles(1) == pytest.approx(W + Y / PORT)
    assert traffic(product, with_capacity(small, "ARENA", W // 16)).cycles(1) == pytest.approx(4 * W + Y / PORT)


def test_sums_that_do_not_stay_go_to_main_memory_and_back(product: Graph) -> None:
    machine = local(U55, X // 2 + 2 * Y)
    full = with_capacity(machine, "ARENA", 2 * Y)
    spilled = traffic(product, with_capacity(machine, "ARENA", 2 * Y - 16)).cycles(2)
    rate = TransferRates.from_machine(U55).main
    assert traffic(product, full).cycles(2) == traffic(product, machine).cycles(2)
    assert spilled - traffic(product, full).cycles(2) == pytest.approx(2 * Y / rate)


def test_a_broadcast_reaches_all_cores_at_the_pace_of_one() -> None:
    """Both cores of `tiny` get a load of weights at once, 16 bytes a cycle; without broadcasts, each loads for itself
    through a link of 32."""
    tiny = load_machine("tiny")
    engines = (replace(e, classes=tuple(c for c in e.classes if c != "broadcast")) for e in tiny.engines)
    apart = replace(tiny, engines=tuple(engines))
    assert TransferRates.from_machine(tiny) == TransferRates(weights=16, data=32, constants=8, main=8, broadcast=True)
    assert TransferRates.from_machine(apart) == TransferRates(weights=32, data=32, constants=8, main=8, broadcast=False)


def test_a_cell_has_a_window_around_its_rows(tmp_path: Path) -> None:
    """A 3 x 3 window with stride 2: 3 of 7 rows of the input for one of the result, 5 for two."""
    model = Model(seed=2)
    x, w = model.input("x", 1, 32, 9, 9), model.weight("w", 8, 32, 3, 3)
    y = model.node("Conv", x, w, strides=[2, 2], name="conv")
    graph = import_onnx(quantised(model.build(y), Kind(), tmp_path), batch=1)
    whole, weights, results = 9 * 9 * 32, 9 * 32 * 8, 4 * 4 * 8
    products = 16 * 9 * 32 * 8 / MACS
    all_rows = traffic(graph, local(U55, whole + results))
    assert all_rows.cycles(1) == pytest.approx(max(products, weights / PORT) + (whole + results) / PORT)
    half = 5 * 9 * 32
    two = traffic(graph, local(U55, half + results // 2))
    assert two.cycles(1) == pytest.approx(max(products, 2 * weights / PORT) + (2 * half + results) / PORT)
