"""Which products swap their operands: where the array is fuller so, cores have room, and the network gains enough."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import ceil

import pytest

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.api.goals.graph_for import graph_for
from girih.frontend.for_machine.swap_operands import swappable, swapped
from girih.ir.checks.check_plan import check_plan
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.machines.as_planned import as_planned
from girih.ir.semantics.row_stream import row_stream
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.options import Options
from girih.solver.orientation.array_fill import LEAST_GAIN, MARGIN, array_cycles, even_parts, worth_judging
from girih.solver.orientation.better_form import better_swapped
from tests.support import graphs
from tests.support.numpy_check import error, inputs_of
from tests.support.staged_machines import staged_kinds

pytestmark = pytest.mark.usefixtures("unhurried_solver")

STCP = load_machine("stcp920")
"""8 cores, whose arrays are 64 rows of 32 columns."""
TIMEOUT = 10.0


def with_fast_memory(machine: Machine) -> Machine:
    """Main memory that is no limit: what is left are arrays."""
    return replace(
        machine,
        links=tuple(replace(link, bytes_per_cycle=4096.0) for link in machine.links),
        memories=tuple(replace(m, bytes_per_cycle=4096) if m.scope != "core" else m for m in machine.memories),
        engines=tuple(replace(e, bytes_per_cycle=4096) if e.bytes_per_cycle else e for e in machine.engines),
    )


FAST = with_fast_memory(STCP)


def dense(*shape: int, columns: Collection[int] = (1024,), dtype: str = "float16") -> Graph:
    """Layers one after the other."""
    net = graphs.Net("dense", dtype)
    x = net.input("x", *shape)
    for number, width in enumerate(columns):
        x = net.matmul(f"l{number}", x, width)
    return net.graph()


def chosen(graph: Graph, machine: Machine = FAST, timeout: float = TIMEOUT) -> frozenset[str]:
    """As a compilation chooses them."""
    names = worth_judging(graph, swappable(graph), machine)
    return better_swapped(graph, swapped(graph, names), names, machine, timeout) if names else names


# Arithmetic.


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "usual", "other"),
    [
        (750, 256, 1024, 2 * 32, 16 * 3),  # 94 rows a core: 2 blocks of 64 or 3 of 32
        (512, 256, 1024, 1 * 32, 16 * 2),  # 64 rows a core: full either way
        (8 * 32, 256, 1024, 1 * 32, 16 * 1),
        (8 * 65, 256, 1024, 2 * 32, 16 * 3),
        (8 * 97, 256, 1024, 2 * 32, 16 * 4),
        (8 * 193, 64, 96, 4 * 3, 2 * 7),  # columns that fill no blocks of 64
        (8, 100, 33, 1 * 2, 1 * 1),
    ],
)
def test_cycles_are_blocks_of_the_array(rows: int, depth: int, columns: int, usual: int, other: int) -> None:
    (op,) = dense(rows, depth, columns=(columns,)).ops
    assert array_cycles(op, STCP) == (usual * depth, other * depth)


def test_operators_without_products_take_no_cycles_of_the_array() -> None:
    net = graphs.Net("none", "float16")
    net.elementwise("y", "neg", net.input("x", 64, 64))
    assert [array_cycles(op, STCP) for op in net.graph().ops] == [(0.0, 0.0)]


def test_products_of_activations_count_as_full() -> None:
    """They cannot be swapped: what they take is the same in both forms."""
    graph = graphs.attention(batch=2, heads=3, length=17, width=32)
    cycles = {op.name: array_cycles(op, STCP) for op in graph.ops}
    for name in ("scores", "mixed"):
        assert cycles[name] == (pytest.approx(2 * 3 * 17 * 17 * 32 / (8 * 64 * 32)),) * 2


@pytest.mark.parametrize("cores", [1, 2, 6, 8])
@pytest.mark.parametrize("extents", [[750], [1, 750], [4, 6], [3, 5, 7], [16, 94], [8, 8, 8]])
def test_parts_are_even_and_cover_everything(extents: list[int], cores: int) -> None:
    for sizes in even_parts(extents, cores):
        parts = [ceil(extent / size) for extent, size in zip(extents, sizes, strict=True)]
        assert all(1 <= size <= extent for size, extent in zip(sizes, extents, strict=True))
        assert len([1 for size, extent in zip(sizes, extents, strict=True) if size < extent]) <= 2
        product = 1
        for number in parts:
            product *= number
        assert product <= cores


# Whether a product is swapped.


def test_ninety_four_rows_a_core_are_swapped() -> None:
    """94 rows fill one and a half blocks of 64, and nearly three of 32."""
    assert chosen(dense(750, 256)) == {"l0"}


def test_rows_that_fill_their_blocks_are_not() -> None:
    for rows in (512, 1024, 4096):
        assert chosen(dense(rows, 256)) == set(), rows


@pytest.mark.parametrize(("rows", "better"), [
    (8 * 20, True), (8 * 33, False), (8 * 63, False), (8 * 65, True), (8 * 96, True), (8 * 97, False),
])  # fmt: skip
def test_it_depends_on_how_rows_fill_blocks(rows: int, better: bool) -> None:
    assert bool(chosen(dense(rows, 256))) == better


def test_activations_have_to_fit_into_weight_memory() -> None:
    """Of 94 rows, those of 1,394 numbers do: 262,072 of 262,144 bytes."""
    capacity = STCP.levels.weights.capacity
    assert 94 * 2 * 1394 <= capacity < 94 * 2 * 1395
    assert chosen(dense(750, 1280)) == {"l0"}
    for depth in (1395, 2048):
        graph = dense(750, depth)
        assert worth_judging(graph, swappable(graph), FAST) == {"l0"}, "the array would gain"
        assert chosen(graph) == set()


def test_activations_have_to_fit_into_local_memory() -> None:
    """The same product with less of it: x, y and weights on their way have no room."""

    def machine(size: int) -> Machine:
        return replace(FAST, memories=tuple(replace(m, capacity=size) if m.name == "L1" else m for m in FAST.memories))

    graph = dense(750, 256)
    assert chosen(graph, machine(1 << 20)) == {"l0"}
    assert chosen(graph, machine(1 << 18)) == set()


def test_images_may_be_divided_over_cores() -> None:
    """Three images of 250 rows: along the rows, each core has 3 times 32, which fill three blocks of 32."""
    assert chosen(dense(3, 250, 256)) == {"l0"}
    # Eight of 64 are 64 for each core.
    assert chosen(dense(8, 64, 256)) == set()


def test_square_arrays_gain_nothing() -> None:
    for name in ("tiny", "stcp920-2"):
        machine = with_fast_memory(as_planned(load_machine(name)))
        for rows in (94, 750, 17):
            graph = dense(rows, 64, columns=(100, 64))
            assert worth_judging(graph, swappable(graph), machine) == set()


def test_each_layer_of_a_network_is_judged() -> None:
    assert chosen(dense(750, 256, columns=(1024, 256, 1024))) == {"l0", "l1", "l2"}
    # The second layer's activations do not fit, those of the others do.
    assert chosen(dense(750, 256, columns=(2048, 256))) == {"l0"}


def test_only_those_that_are_named_can_be_chosen() -> None:
    graph = dense(750, 256, columns=(1024, 256, 1024))
    for names in ({"l0"}, {"l1", "l2"}):
        assert worth_judging(graph, names, FAST) == names
        assert better_swapped(graph, swapped(graph, names), names, FAST, TIMEOUT) == names
    assert worth_judging(graph, (), FAST) == set()
    assert better_swapped(graph, graph, (), FAST, TIMEOUT) == set()


# Whether the network gains enough.


def beside(columns: int) -> Graph:
    """A layer of 94 rows a core, and one of 512 rows, that nothing could make better."""
    net = graphs.Net("beside", "float16")
    small, big = net.input("x", 750, 256), net.input("z", 4096, 512)
    return net.graph(net.matmul("small", small, 1024), net.matmul("big", big, columns))


@pytest.mark.parametrize(("columns", "gain"), [(256, True), (1024, False), (8192, False)])
def test_less_than_the_least_gain_changes_nothing(columns: int, gain: bool) -> None:
    graph = beside(columns)
    (usual, other), (rest, same) = (array_cycles(op, FAST) for op in graph.ops)
    assert rest == same and other <= MARGIN * usual
    assert (usual - other >= LEAST_GAIN * (usual + rest)) == gain
    assert chosen(graph) == ({"small"} if gain else set())
    fitted_graph = graph_for(graph, FAST, Options(timeout=TIMEOUT))
    assert (fitted_graph is graph) == (not gain)


def test_nothing_is_gained_where_main_memory_takes_longer() -> None:
    """One layer is over before its weights and results have gone their way; a network has more to do with what it has."""
    assert chosen(dense(750, 256), STCP) == set()
    deep = dense(8 * 193, 256, columns=(1024, 256) * 6)
    main = sum(deep.tensor[n].bytes for n in (*deep.constant_names, "x", deep.ops[-1].output)) / 27
    assert main < sum(array_cycles(op, STCP)[1] for op in deep.ops)
    # Every second layer has 1,024 numbers in each of 193 rows of a core: more than weight memory.
    assert chosen(deep, STCP) == {f"l{n}" for n in range(0, 12, 2)}


def test_a_short_timeout_judges_nothing() -> None:
    assert chosen(dense(750, 256), timeout=1.0) == set()
    assert chosen(dense(750, 256), timeout=5.0) == {"l0"}


def test_other_dataflows_and_staged_operands_change_nothing() -> None:
    """Blocks are no cycles where weights stay, and rows do not come tile by tile through staging memories."""
    graph = dense(750, 256)
    stationary = tuple(replace(e, dataflow="weight") if "matrix" in e.classes else e for e in FAST.engines)
    assert worth_judging(graph, swappable(graph), replace(FAST, engines=stationary)) == set()
    for machine in staged_kinds(FAST).values():
        assert machine.staging_memories
        assert worth_judging(graph, swappable(graph), machine) == set()


# The same answer.


def test_the_answer_is_the_same_again() -> None:
    graph = dense(750, 256, columns=(1024, 256, 1000, 2048))
    first = chosen(graph)
    assert first and chosen(graph) == first
    assert chosen(dense(750, 256, columns=(1024, 256, 1000, 2048))) == first


def test_the_order_of_names_and_operators_does_not_matter() -> None:
    net = graphs.Net("apart", "float16")
    for number, (rows, columns) in enumerate(((750, 1024), (512, 1024), (750, 512), (8 * 65, 1024), (750, 1024))):
        net.matmul(f"l{number}", net.input(f"x{number}", rows, 256), columns)
    graph = net.graph(*(f"l{number}" for number in range(5)))
    first = chosen(graph)
    assert first == {"l0", "l2", "l3", "l4"}
    names = sorted(first)
    for given in (names, names[::-1], (*names[2:], *names[:2])):
        assert worth_judging(graph, given, FAST) == first
        assert better_swapped(graph, swapped(graph, given), given, FAST, TIMEOUT) == first
    assert chosen(replace(graph, ops=graph.ops[::-1])) == first


# As a part of planning.


def test_it_can_be_switched_off() -> None:
    graph = dense(750, 256)
    options = Options(timeout=TIMEOUT)
    fitted_graph = graph_for(graph, FAST, options)
    assert row_stream(fitted_graph, fitted_graph.op["l0"]) == "l0.w"
    assert graph_for(graph, FAST, replace(options, disabled=frozenset({"swapped-operands"}))).digest == graph.digest
    # What the solver is compared with gets its products as they are.
    assert graph_for(graph, FAST, replace(options, strategy="layerwise")).digest == graph.digest


def test_a_swapped_network_is_planned_and_computes_what_it_did() -> None:
    """Fewer cycles, too: that is what it is for."""
    graph = dense(750, 256, columns=(1021, 256))
    cycles: list[int] = []
    given = inputs_of(graph)
    (expected,) = evaluate_graph(graph, given).values()
    for disabled in (frozenset[str](), frozenset({"swapped-operands"})):
        options = Options(timeout=TIMEOUT, disabled=disabled)  # type: ignore[arg-type]
        fitted_graph = graph_for(graph, FAST, options)
        planned = plan(fitted_graph, FAST, replace(options, timeout=2.0)).plan
        check_plan(planned, fitted_graph, FAST)
        trace = simulate(lower(fitted_graph, planned, FAST), FAST, fitted_graph.data, given)
        assert trace.violations == ()
        (output,) = trace.outputs.values()
        assert error(output, expected) <= 4e-3
        cycles.append(trace.summary.cycles)
    assert cycles[0] < cycles[1]
