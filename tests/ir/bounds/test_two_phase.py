"""A bound of two phases: known totals, and no schedule of an idealised machine that is faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest

from girih.ir.bounds.demanded_elements import demanded_points
from girih.ir.bounds.lower_bound import lower_bound
from girih.ir.bounds.two_phase import TwoPhaseBound, on_chip_capacities, two_phase_bound
from girih.ir.bounds.unavoidable_work import on_matrix, unavoidable
from girih.ir.graph import Access, Graph, Host
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.machines.as_planned import as_planned
from tests.support import graphs
from tests.support.sampled import sampled

TINY, STCP = load_machine("tiny"), load_machine("stcp920")


def bound(graph: Graph, machine: Machine) -> TwoPhaseBound | None:
    """Of the matrix engine."""
    dtypes = {t.name: t.dtype for t in graph.tensors}
    matrix = [op for op in graph.ops if op.contraction is not None and on_matrix(op, op.contraction, dtypes, machine)]
    work = {w.resource: w.by_op for w in unavoidable(graph, machine) if w.resource == machine.engine_for("matrix").name}
    return two_phase_bound(graph, machine, demanded_points(graph), work, matrix)


def sized(machine: Machine, *, shared: int, weights: int, rate: float = 8.0, **links: float) -> Machine:
    """With other memories, another rate of the main memory and other links; no room for weights elsewhere in a core."""
    sizes = {"shared": shared, "weights": weights, "local": 0, "accumulator": 0}
    rates = {"ddr": rate, **links}
    return replace(
        machine,
        memories=tuple(replace(m, capacity=sizes.get(machine.use_of(m.name), m.capacity)) for m in machine.memories),
        links=tuple(replace(link, bytes_per_cycle=rates.get(link.name, 1e9)) for link in machine.links),
    )


# Known totals ---------------------------------------------------------------------------------------------------------


def late_weights() -> Graph:
    """A convolution that computes much, then products that have many weights."""
    net = graphs.Net("late", "float16")
    x = net.conv("front", net.input("x", 4, 64, 64, 64), 256, kernel=3)
    x = net.flatten("pool", x)
    for n in range(4):
        x = net.matmul(f"fc{n}", x, 256)
    return net.graph()


def test_weights_that_come_last_are_fetched_after_the_work() -> None:
    graph, machine = late_weights(), sized(STCP, shared=200_000, weights=1_000, rate=27.0)
    # Of the first product, the last element of the convolution needs one row; of the others, everything.
    after = (256 + 3 * 256 * 256) * 2
    work = next(w.by_op["front"] for w in unavoidable(graph, machine) if w.resource == "MME")
    found = bound(graph, machine)
    assert found is not None and found.operators == 1
    assert found.bytes == after - 200_000 - 8 * 1_000
    assert found.cycles == pytest.approx(work + found.bytes / 27)
    cycles, reason = lower_bound(graph, machine)
    assert cycles == pytest.approx(found.cycles, abs=1) and reason == found.reason
    assert reason.startswith("MME, then ddr: ")


def test_weights_that_have_room_are_no_second_phase() -> None:
    graph = late_weights()
    assert bound(graph, STCP) is None
    # The vector engines could multiply for the last products, which are small.
    assert lower_bound(graph, STCP)[1].startswith("MME or VME: ")


def test_the_way_from_shared_memory_counts_too() -> None:
    machine = sized(STCP, shared=1 << 30, weights=10_000, **{"llb-read": 16.0})
    found = bound(late_weights(), machine)
    assert found is not None and found.link == "llb-read"
    assert found.bytes == (256 + 3 * 256 * 256) * 2 - 8 * 10_000


def test_weights_that_are_also_read_as_data_are_not_counted() -> None:
    graph, machine = late_weights(), sized(STCP, shared=1_000, weights=1_000)
    second = graph.op["fc1"]
    # Its bias is a row of its weights, which therefore can be in the local memories.
    anchor, add, *rest = second.stages
    other = Access("fc2.w", (replace(add.operands[1].index[0], coeffs=(0, 0)), *add.operands[1].index))  # pyright: ignore
    tied = replace(
        second,
        stages=(anchor, replace(add, operands=(add.operands[0], other)), *rest),
        inputs=(*second.inputs, "fc2.w"),
    )
    changed = replace(graph, ops=tuple(tied if op is second else op for op in graph.ops))
    before, after = bound(graph, machine), bound(changed, machine)
    assert before is not None and after is not None
    assert before.bytes - after.bytes == 256 * 256 * 2


def test_tied_weights_count_once() -> None:
    graph, machine = late_weights(), sized(STCP, shared=1_000, weights=1_000)
    third = graph.op["fc3"]
    anchor = third.stages[0]
    left, right = anchor.factors
    stages = (replace(anchor, operands=(left, replace(right, tensor="fc2.w"))), *third.stages[1:])
    tied = replace(third, stages=stages, inputs=("fc2.w", *third.inputs))
    changed = replace(graph, ops=tuple(tied if op is third else op for op in graph.ops))
    before, after = bound(graph, machine), bound(changed, machine)
    assert before is not None and after is not None
    assert before.bytes - after.bytes == 256 * 256 * 2


def test_all_that_the_host_makes_comes_after_its_inputs() -> None:
    graph, machine = late_weights(), sized(STCP, shared=1_000, weights=1_000)
    pool = graph.op["pool"]
    on_host = replace(pool, stages=(), host=Host("", "a test"))
    found = bound(replace(graph, ops=tuple(on_host if op is pool else op for op in graph.ops)), machine)
    # Now all rows of the first product come after each element.
    assert found is not None and found.bytes == 4 * 256 * 256 * 2 - 1_000 - 8 * 1_000


def test_a_branch_without_weights_behind_it_does_not_hide_those_of_another() -> None:
    net = graphs.Net("branches", "float16")
    x = net.input("x", 4, 64, 64, 64)
    side = net.conv("side", x, 64, kernel=3)
    y = net.flatten("pool", net.conv("front", x, 256, kernel=3))
    for n in range(4):
        y = net.matmul(f"fc{n}", y, 256)
    machine = sized(STCP, shared=1_000, weights=1_000)
    with_branch, without = bound(net.graph(y, side), machine), bound(net.graph(y), machine)
    assert with_branch is not None and with_branch == without


# An idealised machine -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Product:
    """One multiply-accumulate: the weight that it uses, and the products that have to be done before."""

    weight: int
    after: int


def fewest_cycles(products: Sequence[Product], room: int, fetch: int) -> int:
    """The fewest cycles for all products: one a cycle, whose weight is on chip; a weight is fetched in ``fetch``.

    ``room`` weights are on chip or on their way there. All ways to go on are followed, cycle by cycle, but for those
    that cannot be better: to wait where a product or a fetch is possible, and to fetch what is no more used. Of
    products that differ in nothing the first is next.
    """
    later = [sum(1 << n for n, p in enumerate(products) if p.after >> m & 1) for m in range(len(products))]
    users = [0] * (1 + max(p.weight for p in products))
    for n, product in enumerate(products):
        users[product.weight] |= 1 << n
    every = (1 << len(products)) - 1
    states: set[tuple[int, int, int, int]] = {(0, 0, -1, 0)}
    cycle = 0
    while all(done != every for done, *_ in states):
        found: set[tuple[int, int, int, int]] = set()
        for done, held, coming, left in states:
            held = sum(1 << w for w, mine in enumerate(users) if held >> w & 1 and mine & ~done)
            starts = [(held, coming, left)]
            missing = [w for w, mine in enumerate(users) if mine & ~done and not held >> w & 1]
            if coming < 0 and missing and held.bit_count() < room:
                starts = [(held, weight, fetch) for weight in missing]
            elif coming < 0:
                starts += [(held & ~(1 << w), m, fetch) for m in missing for w in range(len(users)) if held >> w & 1]
            for now, on_its_way, rest in starts:
                ready: dict[tuple[int, int, int], int] = {}
                for n, p in enumerate(products):
                    if not done >> n & 1 and done & p.after == p.after and now >> p.weight & 1:
                        ready.setdefault((p.weight, p.after, later[n]), done | 1 << n)
                after = (now, on_its_way, rest - 1) if rest > 1 else (now | (1 << on_its_way if rest else 0), -1, 0)
                found.update((then, *after) for then in ready.values() or [done])
        states = found
        cycle += 1
    return cycle


def drawn_chain(rng: Random) -> tuple[Graph, list[Product]]:
    """Convolutions of one channel along a few rows, perhaps pooled, then products; and their multiply-accumulates."""
    net = graphs.Net("chain", "float32")
    images, rows = rng.choice([1, 1, 2]), rng.randint(1, 6)
    x = net.input("x", images, rows, 1, 1)
    products: list[Product] = []
    weights = 0
    # By image and row: the products that an element needs.
    made = {(n, y): 0 for n in range(images) for y in range(rows)}
    for number in range(rng.randint(1, 2)):
        kernel = rng.choice([1, 1, 3])
        stride = rng.choice([1, 1, 2])
        x = net.conv(f"c{number}", x, 1, kernel=kernel, stride=stride)
        found: dict[tuple[int, int], int] = {}
        for n in range(images):
            for y in range(net.tensors[x].shape[1]):
                for tap in range(kernel):
                    source = n, y * stride + tap - kernel // 2
                    if source in made:
                        found[n, y] = found.get((n, y), 0) | 1 << len(products)
                        products.append(Product(weights + tap, made[source]))
        made, weights = found, weights + kernel
    x = net.flatten("pool", x)
    before = [sum(bits for (n, _), bits in made.items() if n == image) for image in range(images)]
    for number in range(rng.randint(0, 7)):
        x = net.matmul(f"p{number}", x, 1)
        for image in range(images):
            products.append(Product(weights, before[image]))
            before[image] = 1 << len(products) - 1
        weights += 1
    return net.graph(), needed(products, sum(before))


def needed(products: Sequence[Product], results: int) -> list[Product]:
    """Those that ``results`` need: a stride may skip some."""
    for n in reversed(range(len(products))):
        if results >> n & 1:
            results |= products[n].after
    kept = [n for n in range(len(products)) if results >> n & 1]
    number = {n: i for i, n in enumerate(kept)}
    weights = {w: i for i, w in enumerate(dict.fromkeys(products[n].weight for n in kept))}
    return [
        Product(weights[products[n].weight], sum(1 << number[m] for m in kept if products[n].after >> m & 1))
        for n in kept
    ]


def ideal(room: int, fetch: int) -> Machine:
    """One core that multiplies two numbers a cycle; four bytes take ``fetch`` cycles."""
    machine = sized(TINY, shared=4 * (room - 1), weights=4, rate=4 / fetch)
    engines = [replace(e, rows=1, columns=1) if "matrix" in e.classes else e for e in machine.engines]
    return replace(machine, cores=1, engines=tuple(engines))


@pytest.mark.parametrize("seed", sampled(range(90)))
def test_no_schedule_of_an_idealised_machine_is_faster(seed: int) -> None:
    rng = Random(seed)
    found = None
    # About every second case has no bound of two phases, and shows nothing.
    while found is None:
        graph, products = drawn_chain(rng)
        room, fetch = rng.randint(1, 3), rng.randint(1, 3)
        if len(products) <= 12:
            found = bound(graph, ideal(room, fetch))
    assert found.cycles <= fewest_cycles(products, room, fetch) + 1e-9


def test_weights_that_are_staged_may_have_left_the_weight_memory() -> None:
    machine = as_planned(load_machine("ascend310"))
    memory, levels = machine.memory, machine.levels
    inside = sum(memory[name].capacity for name in {levels.weights.name, *machine.staging_memories}) * machine.cores
    assert "L0B" in machine.staging_memories
    rooms = {(x.memory, x.direction): room for x, room in on_chip_capacities(machine, on_vector=False)}
    assert rooms[levels.exchange.name, "read"] == inside
