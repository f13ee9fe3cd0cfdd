"""Two products in parts: the same function, where nothing else fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from girih import models
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.frontend.for_machine.divide import divide
from girih.ir.bounds.lower_bound import lower_bound
from girih.ir.box import Affine
from girih.ir.checks.check_graph import check_graph
from girih.ir.graph import Access, Graph, Op, Stage
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.options import Options
from tests.support import graphs

STCP = load_machine("stcp920")


def small(local: int, shared: int) -> Machine:
    """The machine with memories of so many bytes."""
    sizes = {"local": local, "shared": shared}
    return replace(
        STCP, memories=tuple(replace(m, capacity=sizes.get(STCP.use_of(m.name), m.capacity)) for m in STCP.memories)
    )


def vit(precision: str = "fp16", layers: int = 2) -> Graph:
    """17 tokens of 256, and 2,048 between; of the last block one token is needed."""
    model = models.build("vit-b16", size=64, layers=layers, hidden=256, heads=4, ffn=2048, classes=10)
    return import_onnx(model, batch=8, precision=precision)  # type: ignore[arg-type]


MACHINE = small(1 << 16, 1 << 18)
"""In half precision, h of 8 images is as much as all cores have, and W with V is eight times the shared memory."""


def inputs(graph: Graph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {p.name: random.standard_normal(p.shape).astype(p.dtype) for p in graph.inputs}


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
def test_parts_compute_what_the_whole_did(precision: str) -> None:
    graph = vit(precision)
    made = divide(graph, MACHINE)
    check_graph(made)
    parts = [op.name for op in made.ops if op.name.startswith("encoder.0.mlp.fc2.matmul.part")]
    assert len(parts) >= 2 and len(made.ops) == len(graph.ops) + 2 * (len(parts) - 1)
    assert made.digest != graph.digest and set(made.data) == made.constant_names
    given = inputs(graph)
    whole, other = (next(iter(evaluate_graph(g, given, None).values())).astype(np.float64) for g in (graph, made))
    error = float(np.linalg.norm(whole - other) / np.linalg.norm(whole))
    assert 0 < error < (1e-6 if precision == "as-is" else 2e-3)


def test_every_product_is_done_once() -> None:
    graph = vit()
    made = divide(graph, MACHINE)
    macs = [sum(s.points for op in g.ops for s in op.stages if s.is_contraction) for g in (graph, made)]
    weights = [sum(t.bytes for t in g.tensors if t.name in g.constant_names) for g in (graph, made)]
    assert macs[0] == macs[1] and weights[0] == weights[1]
    assert lower_bound(graph, MACHINE) == lower_bound(made, MACHINE)


def test_a_plan_of_parts_is_shorter_and_right() -> None:
    graph = form("plain")
    made = divide(graph, MACHINE)
    plans = [plan(g, MACHINE, Options(timeout=2.0)).plan for g in (graph, made)]
    assert plans[1].cycles_predicted < plans[0].cycles_predicted
    given = inputs(graph)
    trace = simulate(lower(made, plans[1], MACHINE), MACHINE, made.data, given)
    expected = next(iter(evaluate_graph(made, given, None).values()))
    got = next(iter(trace.outputs.values()))
    assert trace.violations == ()
    assert np.abs(got.astype(np.float64) - expected).max() < 1e-2 * np.abs(expected).max()


def test_where_x_and_y_have_no_room_for_all_images() -> None:
    """They take 557,056 of 524,288 bytes, and h four times as much: half of the images come at once."""
    graph = form("plain", rows=68)
    in_parts = divide(graph, MACHINE)
    check_graph(in_parts)
    assert len(in_parts.ops) == 2 * 7, "of 458,752 bytes, x and y of half the images leave a sixth of their h"
    plans = [plan(g, MACHINE, Options(timeout=2.0)).plan for g in (graph, in_parts)]
    assert plans[1].cycles_predicted < plans[0].cycles_predicted


@pytest.mark.parametrize(("faster", "parts"), [(1, 16), (5, 3), (10, 1)])
def test_fewer_parts_and_more_shares_where_weights_come_fast(faster: int, parts: int) -> None:
    """16 parts of h have room with all images, 3 with half of them, and all of h with a quarter. Weights come once for
    each share, which takes longer than to add to y for each part, unless it hides behind the products."""
    graph, machine = form("plain", rows=68), small(98 << 10, 1 << 18)
    links, engines, memories = (
        tuple(replace(x, bytes_per_cycle=faster * x.bytes_per_cycle) for x in those)
        for those in (machine.links, machine.engines, machine.memories)
    )
    machine = replace(machine, links=links, engines=engines, memories=memories)
    assert len(divide(graph, machine).ops) == 2 * parts


def test_room_in_shared_memory_is_no_reason_against_it() -> None:
    """Where all of h, W and V fit there, parts still save the ways of h from the cores and back."""
    graph, machine = form("plain"), small(1 << 16, 1 << 23)
    in_parts = divide(graph, machine)
    assert len(in_parts.ops) > len(graph.ops)
    plans = [plan(g, machine, Options(timeout=2.0)).plan for g in (graph, in_parts)]
    assert plans[1].cycles_predicted < plans[0].cycles_predicted


@pytest.mark.parametrize(
    ("rows", "inner", "local", "why"),
    [
        (17, 2048, 1 << 20, "the cores have room for h"),
        (17, 2048, 1 << 14, "W and V twice are more than h there and back"),
        (68, 256, 40 << 10, "a quarter of the images have room with all of h, and weights are light"),
    ],
)
def test_nothing_changes_where_it_would_not_help(rows: int, inner: int, local: int, why: str) -> None:
    graph = form("plain", rows, inner)
    assert divide(graph, small(local, 1 << 12)) is graph, why


def started(graph: Graph) -> Graph:
    """Sums of products start from their biases, as those of the frontend do."""
    ops: list[Op] = []
    for op in graph.ops:
        if op.contraction is None:
            ops.append(op)
            continue
        product, biased, *rest = op.stages
        total, bias = biased.operands
        assert isinstance(total, Access) and isinstance(bias, Access)
        rank = len(product.axes)
        start = Access(bias.tensor, (Affine(tuple(int(a == rank - 2) for a in range(rank)), 0),))
        first, *others = rest
        operands = tuple(
            replace(o, tensor=total.tensor) if isinstance(o, Access) and o.tensor == biased.write.tensor else o
            for o in first.operands
        )
        stages = (replace(product, start=start), replace(first, operands=operands), *others)
        buffers = tuple(b for b in op.buffers if b.name != biased.write.tensor)
        ops.append(replace(op, stages=stages, buffers=buffers))
    return replace(graph, ops=tuple(ops))


def form(kind: str, rows: int = 17, inner: int = 2048) -> Graph:
    """x, h and y of 8 times so many rows; h has ``inner`` columns."""
    net = graphs.Net("other", "float16")
    x = net.input("x", 8, rows, 256)
    h = net.matmul("first", x, inner, relu=True)
    between = net.softmax("between", h) if kind == "something in between" else h
    width = inner if kind == "h is z" else 256
    y = net.matmul("second", between, width, add=h if kind == "h is z" else x, relu=kind == "more than a sum")
    more = [net.elementwise("more", "neg", h)] if kind == "h is read twice" else [h] if kind == "h is an output" else []
    return started(net.graph(y, *more))


KINDS = ("h is read twice", "h is an output", "h is z", "something in between", "more than a sum")


@pytest.mark.parametrize("kind", KINDS)
def test_other_forms_stay_as_they_are(kind: str) -> None:
    plain = form("plain")
    check_graph(plain)
    assert len(divide(plain, MACHINE).ops) > len(plain.ops)
    graph = form(kind)
    check_graph(graph)
    assert divide(graph, MACHINE) is graph


def test_columns_that_no_axis_walks_alone_are_not_divided() -> None:
    """64 groups of 32: the same function, but no axis can be shortened to some of the columns."""
    plain = form("plain")
    first = plain.ops[0]
    *stages, last = first.stages

    def grouped(access: Access) -> Access:
        (*rows, column) = access.index
        index = (*(Affine((*i.coeffs, 0), i.const) for i in rows), Affine((*column.coeffs[:-1], 32, 1), 0))
        return replace(access, index=index)

    assert last.axes[-1].extent == 2048 and not any(a.reduce for a in last.axes)
    last = replace(
        last,
        axes=(*last.axes[:-1], replace(last.axes[-1], extent=64), replace(last.axes[-1], name="group", extent=32)),
        operands=tuple(grouped(o) if isinstance(o, Access) else o for o in last.operands),
        write=grouped(last.write),
    )
    graph = replace(plain, ops=(replace(first, stages=(*stages, last)), *plain.ops[1:]))
    check_graph(graph)
    assert divide(graph, MACHINE) is graph


def test_columns_of_what_is_no_constant_are_not_divided() -> None:
    """A bias that is an input cannot be cut when the graph is made."""
    plain = form("plain")
    start = plain.ops[0].stages[0].start
    assert start is not None
    bias = plain.tensor[start.tensor]
    port = replace(plain.inputs[0], name=bias.name, tensor=bias.name, shape=bias.shape, dtype=bias.dtype)
    graph = replace(
        plain,
        inputs=(*plain.inputs, port),
        constants=tuple(c for c in plain.constants if c.tensor != bias.name),
        data={name: array for name, array in plain.data.items() if name != bias.name},
    )
    check_graph(graph)
    assert divide(graph, MACHINE) is graph


def beside(graph: Graph, other: Graph) -> Graph:
    """Both graphs in one, with the constants of the first; what is the second's own is called so."""
    own = {t: f"other.{t}" for t in other.tensor if t not in other.constant_names}
    own |= {b.name: f"other.{b.name}" for op in other.ops for b in op.buffers}

    def stage(old: Stage) -> Stage:
        read, write = (
            [replace(o, tensor=own.get(o.tensor, o.tensor)) if isinstance(o, Access) else o for o in of]
            for of in (old.operands, (old.write,))
        )
        assert isinstance(write[0], Access)
        return replace(old, operands=tuple(read), write=write[0])

    def op(old: Op) -> Op:
        names = (tuple(own.get(n, n) for n in of) for of in (old.inputs, old.outputs))
        buffers = tuple(replace(b, name=own[b.name]) for b in old.buffers)
        return Op(f"other.{old.name}", old.origin, *names, buffers, tuple(map(stage, old.stages)))

    ports = ((replace(p, name=own[p.tensor], tensor=own[p.tensor]) for p in of) for of in (other.inputs, other.outputs))
    taken, given = ports
    return replace(
        graph,
        tensors=(*graph.tensors, *(replace(t, name=own[t.name]) for t in other.tensors if t.name in own)),
        ops=(*graph.ops, *map(op, other.ops)),
        inputs=(*graph.inputs, *taken),
        outputs=(*graph.outputs, *given),
    )


def test_pairs_that_share_weights_may_have_other_parts() -> None:
    """Two lengths of tokens, one MLP."""
    graph = beside(form("plain"), form("plain", rows=13))
    made = divide(graph, small(40_000, 1 << 18))
    check_graph(made)
    parts = [sum(op.name.startswith(f"{name}second") for op in made.ops) for name in ("", "other.")]
    assert parts[0] != parts[1] and min(parts) > 1
    arrays = inputs(graph)
    before, after = (evaluate_graph(g, arrays) for g in (graph, made))
    for name, whole in before.items():
        assert np.abs(after[name].astype(np.float64) - whole).max() < 1e-2 * np.abs(whole).max(), name
