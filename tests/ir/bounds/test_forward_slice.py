"""Weights that come after an element: never more than follow from the worst point, counted element by element."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from random import Random

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from girih.frontend import import_onnx
from girih.ir.bounds.demanded_elements import demanded_points
from girih.ir.bounds.forward_slice import used_after
from girih.ir.graph import DTYPES, Access, Graph, Op
from tests.support import graphs
from tests.support.odd_graphs import odd_graph
from tests.support.random_graphs import random_graph
from tests.support.sampled import sampled

MOST_POINTS = 12_000

Element = tuple[str, tuple[int, ...]]


def stationary(graph: Graph) -> dict[str, str]:
    """Every constant that is a right operand, whatever else it is."""
    found = {op.name: op.stages[op.contraction].reads[1].tensor for op in graph.ops if op.contraction is not None}
    return {op: name for op, name in found.items() if name in graph.constant_names}


class Counted:
    """Element by element: what is needed, and, as bits of a number, which weights come after an element."""

    def __init__(self, graph: Graph, weights: dict[str, str]) -> None:
        self.graph = graph
        self.weights = weights
        self.after: dict[Element, int] = defaultdict(int)
        self._number: dict[Element, int] = {}
        self._bytes: list[int] = []
        needed = {(name, at) for name in graph.output_tensors for at in self._all(graph.tensor[name].shape)}
        for op in reversed(graph.ops):
            if op.host is not None:
                self._host(op, needed)
                continue
            for position in reversed(range(len(op.stages))):
                self._stage(op, position, needed)

    @staticmethod
    def _all(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        return product(*map(range, shape))

    def name(self, op: Op, tensor: str) -> str:
        """Operators may call their buffers by the same name."""
        return f"{op.name}/{tensor}" if any(tensor == b.name for b in op.buffers) else tensor

    def _host(self, op: Op, needed: set[Element]) -> None:
        every = {
            name: [(name, at) for at in self._all(self.graph.tensor[name].shape)] for name in (*op.inputs, *op.outputs)
        }
        bits = 0
        for name in op.outputs:
            for element in every[name]:
                bits |= self.after[element]
        for name in op.inputs:
            needed.update(every[name])
            for element in every[name]:
                self.after[element] |= bits

    def points(self, op: Op, position: int) -> Iterator[tuple[Element, list[Element]]]:
        """(what a point writes, what it reads) of all that read nothing out of bounds."""
        stage = op.stages[position]
        shapes = {b.name: b.shape for b in op.buffers} | {
            n: self.graph.tensor[n].shape for n in (*op.inputs, *op.outputs)
        }

        def at(access: Access, point: tuple[int, ...]) -> Element:
            return self.name(op, access.tensor), tuple(i.at(point) for i in access.index)

        for point in product(*(range(a.extent) for a in stage.axes)):
            reads = [at(read, point) for read in stage.reads]
            bounds = [shapes[read.tensor] for read in stage.reads]
            if all(
                0 <= i < e
                for (_, place), shape in zip(reads, bounds, strict=True)
                for i, e in zip(place, shape, strict=True)
            ):
                yield at(stage.write, point), reads

    def _stage(self, op: Op, position: int, needed: set[Element]) -> None:
        counts = op.name in self.weights and position == op.contraction
        for written, reads in self.points(op, position):
            if written not in needed:
                continue
            needed.update(reads)
            for operand, element in enumerate(reads):
                self.after[element] |= self.after[written]
                if counts and operand == 0:
                    self.after[element] |= 1 << self._bit(reads[1])

    def _bit(self, element: Element) -> int:
        if element not in self._number:
            self._number[element] = len(self._number)
            self._bytes.append(DTYPES[self.graph.tensor[element[0]].dtype])
        return self._number[element]

    def bytes_after(self, element: Element) -> int:
        return sum(size for bit, size in enumerate(self._bytes) if self.after[element] >> bit & 1)


def least_after(graph: Graph) -> dict[str, int]:
    """By operator: of all its points that are counted as needed, the least that comes after one of them."""
    counted = Counted(graph, stationary(graph))
    found: dict[str, int] = {}
    for name, stages in demanded_points(graph).items():
        op = graph.op[name]
        ends: set[Element] = set()
        for stage, mine in zip(op.stages, stages, strict=True):
            if mine.in_bounds is not None:
                for values in product(
                    *(zip(*(v.tolist() for v in g.values()), strict=True) for g in mine.in_bounds.groups)
                ):
                    axes = [a for g in mine.in_bounds.groups for a in g]
                    flat = dict(zip(axes, (v for group in values for v in group), strict=True))
                    point = tuple(flat[a] for a in range(len(axes)))
                    ends.add((counted.name(op, stage.write.tensor), tuple(i.at(point) for i in stage.write.index)))
        found[name] = min((counted.bytes_after(end) for end in ends), default=0)
    return found


def small(graph: Graph) -> bool:
    return sum(stage.points for op in graph.ops for stage in op.stages) <= MOST_POINTS


def drawn_network(seed: int) -> Graph:
    """Convolutions, shortcuts, concatenations, pools and products on small images; one result is read nowhere else."""
    rng = Random(f"network {seed}")
    net = graphs.Net("drawn", "float32")
    size, channels = rng.randint(2, 6), rng.randint(1, 4)
    live = [net.conv("stem", net.input("x", rng.randint(1, 2), size, size, channels), rng.randint(1, 4))]
    for n in range(rng.randint(1, 6)):
        x = rng.choice(live[-2:])
        kind = rng.choice(["conv", "conv", "conv", "depthwise", "concat", "exp"])
        if kind == "conv":
            width = rng.randint(1, 4)
            kernel, stride = rng.choice([(1, 1), (3, 1), (3, 2), (5, 1), (1, 2), (2, 2)])
            shape = net.tensors[x].shape
            same = (
                [y for y in live if net.tensors[y].shape == (*shape[:3], width)] if stride == 1 and kernel % 2 else []
            )
            add = rng.choice(same) if same else ""
            live.append(net.conv(f"n{n}", x, width, kernel=kernel, stride=stride, add=add))
        elif kind == "depthwise":
            live.append(net.depthwise(f"n{n}", x, kernel=3, stride=rng.choice([1, 2])))
        elif kind == "concat":
            shape = net.tensors[x].shape
            others = [y for y in live if net.tensors[y].shape[:3] == shape[:3] and y != x]
            live.append(net.concat(f"n{n}", x, *(others[-1:] or [net.elementwise(f"e{n}", "neg", x)])))
        else:
            live.append(net.elementwise(f"n{n}", "exp", x))
    if rng.random() < 0.7:
        live.append(net.matmul("fc", net.flatten("pool", live[-1]), rng.randint(1, 5)))
    return net.graph(*dict.fromkeys((live[-1], *rng.sample(live, rng.choice([0, 0, 1])))))


def assert_no_more(graph: Graph) -> None:
    exact = least_after(graph)
    found = used_after(graph, demanded_points(graph), stationary(graph))
    assert found.keys() == exact.keys()
    for name, size in found.items():
        assert size <= exact[name], f"after {name}: {size} bytes, and {exact[name]} are\n{graph}"


@pytest.mark.parametrize("seed", sampled(range(80)))
def test_no_more_than_what_follows_the_worst_point(seed: int) -> None:
    graphs_ = (
        random_graph(seed, "float32", Random(seed).randint(2, 6)),
        odd_graph(seed, "float32"),
        drawn_network(seed),
    )
    for graph in filter(small, graphs_):
        assert_no_more(graph)


def test_padding_alone_is_reached_by_nothing() -> None:
    """A slice that sees only what was padded: its elements exist, and none of them comes from anywhere."""
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["padded"]),
        helper.make_node("Slice", ["padded", "zero", "two", "one"], ["q"]),
        helper.make_node("Softmax", ["q"], ["p"]),
        helper.make_node("MatMul", ["p", "w"], ["y"]),
    ]
    constants = {
        "pads": np.array([0, 2, 0, 0]), "zero": np.array([0]), "two": np.array([2]), "one": np.array([1]),
        "w": np.ones((2, 8), np.float32),
    }  # fmt: skip
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [4, 6]), ("y", [4, 8]))]
    made = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "padding", ports[:1], ports[1:], made), opset_imports=[helper.make_opsetid("", 18)]
    )
    graph = import_onnx(model)
    after = used_after(graph, demanded_points(graph), stationary(graph))
    assert set(after) == {op.name for op in graph.ops}
