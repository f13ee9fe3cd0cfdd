"""Products of dequantised numbers become products of integers, and what only moves numbers moves integers.

    q = Quantise(relu(Conv(Dequantise(x), Dequantise(W), Dequantise(b))))
    becomes    s = Product(x, W) + b';  q = Quantise(s)

by (x - zx) * W = x * W - zx * sum W, of which the second term is a constant, and part of b'. Convolutions whose zero is
not 0 are padded by it before. The one factor of Quantise is scale of x * scale of W / scale of q; where nothing is
quantised, Dequantise makes real numbers of the sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from ...ir.errors import UnsupportedError
from ..net.net import Info, fresh
from ..onnx.inline import Node
from ..onnx.prepare import Network
from .integer_nodes import addition, dequantise, quantise
from .integer_sums import LIMIT, Factor, fitting, totals, window_sums
from .node_list import NodeList
from .parameters import EIGHT_BITS, Quantised, dequantised_constants, parameters
from .vector_factors import product_sums

QUANTISED = frozenset({"QuantizeLinear", "DequantizeLinear", "ConvInteger", "MatMulInteger"})
MOVEMENTS = frozenset(
    {"MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Identity", "Expand", "Tile",
     "DepthToSpace", "SpaceToDepth", "Gather", "Split"}
)  # fmt: skip
"""Operators whose results are some of the elements of their first input."""


def to_integers(network: Network) -> None:
    """Rewrite the network in place."""
    if any(node.op_type in QUANTISED for node in network.nodes):
        _Rewriting(network, NodeList(network)).run()
    dequantised_constants(network)


MOST_POSITIONS = 1 << 16
"""Of a mean: its sum is a float32 without rounding then."""


SAME_UNIT = 1e-6
"""How far apart, relative to one, two units may be that are the same: products of a few rounded float32 numbers."""


@dataclass(frozen=True)
class _Target:
    """What a result is quantised as, and the limits that a ReLU or Clip before that leaves, where they are tighter."""

    quantised: Quantised
    least: int | None
    most: int | None


@dataclass
class _Rewriting:
    network: Network
    made: NodeList
    producer: dict[str, Node] = field(default_factory=dict[str, Node])
    readers: dict[str, list[Node]] = field(default_factory=dict[str, "list[Node]"])
    done: dict[str, str] = field(default_factory=dict[str, str])
    """By result of a QuantizeLinear that is computed already: the tensor that has it."""
    absorbed: set[str] = field(default_factory=set[str])
    """Results of additions that are biases of products."""
    copies: int = 0
    """How many nodes have been given a DequantizeLinear of their own."""

    def run(self) -> None:
        network = self.network
        for node in network.nodes:
            self.producer |= dict.fromkeys(node.outputs, node)
            for name in dict.fromkeys(node.inputs):
                self.readers.setdefault(name, []).append(node)
        for node in network.nodes:
            self._node(node)
        network.nodes = self.made.needed()

    def _node(self, node: Node) -> None:
        if any(output in self.absorbed for output in node.outputs):
            return
        node = self._own_dequantisations(node)
        if node.op_type == "QuantizeLinear" and node.outputs[0] in self.done:
            if self.done[node.outputs[0]] != node.outputs[0]:
                self.made.nodes.append(_identity(node, self.done[node.outputs[0]]))
            return
        rewrites = (
            self._product, self._integer_product, self._sum, self._mean, self._movement, self._conversion
        )  # fmt: skip
        if node.domain or not any(rewrite(node) for rewrite in rewrites):
            self.made.nodes.append(node)

    # Values.

    def quantised(self, name: str) -> Quantised | None:
        """What a tensor of real numbers is dequantised from."""
        node = self.producer.get(name)
        if node is None or node.op_type != "DequantizeLinear" or node.domain:
            return None
        return parameters(self.network, node)

    def _own_dequantisations(self, node: Node) -> Node:
        """The node with a DequantizeLinear of its own for each that another node reads, too."""
        inputs = list(node.inputs)
        for number, name in enumerate(inputs):
            known = self.quantised(name) if name else None
            if known is None or known.tensor in self.network.constants or len(self.readers.get(name, ())) < 2:
                continue
            source, self.copies = self.producer[name], self.copies + 1
            inputs[number] = fresh(f"{name}.{self.copies}", self.network.infos)
            self.network.infos[inputs[number]] = self.network.infos[name]
            own = replace(source, outputs=(inputs[number],))
            self.producer[inputs[number]] = own
            self._node(own)
        return replace(node, inputs=tuple(inputs))

    # Products.

    def _product(self, node: Node) -> bool:
        """Rewrite a product of quantised numbers; whether it was one."""
        if node.op_type not in ("Conv", "MatMul", "Gemm") or len(node.inputs) < 2:
            return False
        own, left, right = node.outputs, self.quantised(node.inputs[0]), self.quantised(node.inputs[1])
        info = self.network.infos.get(node.outputs[0])
        if left is None or right is None or info is None or not left.whole:
            return False
        if left.dtype not in EIGHT_BITS or right.dtype not in EIGHT_BITS:
            return False
        alpha = _number(node, "alpha")
        if alpha == 0.0:
            return False
        conv, turned = node.op_type == "Conv", _flag(node, "transB")
        columns = 1 if conv else len(info.shape) - 1
        rank = len(self.network.infos[right.tensor].shape)
        # That of a vector is summed over.
        if not right.whole and (rank == 1 or right.axis != (0 if conv or turned else rank - 1)):
            return False
        factor = alpha * np.float64(left.scale) * right.scale.astype(np.float64)
        node, bias = self._with_bias(node, factor, info, info.shape[columns] if rank > 1 else 1)
        second = self._second(node, right, turned)
        if bias is None or second is None or (conv and second.values is None):
            return False
        rows = self._turned(node, left.tensor) if _flag(node, "transA") else left.tensor
        # Half a unit of the sums is next to nothing of a step of 8 bits, but not of a float.
        whole = _is_whole(bias) or self._target(node) is not None
        added = np.rint(bias).astype(np.int64) if whole else np.zeros_like(bias, np.int64)
        sums = self._sums(node, Factor(rows, left.zero), second, info, added)
        if sums is not None:
            self.absorbed |= {*node.outputs} - {*own}
            self._result(node, sums, factor, columns, None if whole else bias * factor)
        return sums is not None

    def _turned(self, node: Node, tensor: str) -> str:
        """A matrix of integers with rows and columns exchanged."""
        info = self.network.infos[tensor]
        return self.made.add("Transpose", "turned", node, (tensor,), Info(info.shape[::-1], info.dtype), perm=[1, 0])

    def _with_bias(self, node: Node, factor: np.ndarray, info: Info, size: int) -> tuple[Node, np.ndarray | None]:
        """A product and its bias, as :meth:`_bias`: a constant that is added to a matrix product is one, too.

        The node then has the results of the addition.
        """
        joined = self._joined(node, info)
        bias = None if joined is None else self._bias(joined, factor, size)
        return (joined, bias) if joined is not None and bias is not None else (node, self._bias(node, factor, size))

    def _joined(self, node: Node, info: Info) -> Node | None:
        """A matrix product and the addition behind it, if that alone reads it and its other term is constant."""
        addition = self._only_reader(node.outputs[0])
        if node.op_type == "Conv" or any(node.inputs[2:]) or addition is None or addition.op_type != "Add":
            return None
        names = [name for name in addition.inputs if name != node.outputs[0]]
        known = self.quantised(names[0]) if names else None
        values = self.network.constants.get(known.tensor if known is not None else names[0]) if names else None
        if values is None or not info.shape or self.network.infos.get(addition.outputs[0]) != info:
            return None
        origin = tuple(dict.fromkeys((*node.origin, *addition.origin)))
        # beta is of a bias that the product has not.
        attributes = tuple(a for a in node.attributes if a.name != "beta")
        inputs = (*node.inputs[:2], names[0])
        return replace(node, inputs=inputs, outputs=addition.outputs, attributes=attributes, origin=origin)

    def _sums(
        self, node: Node, first: Factor, second: Factor, info: Info, bias: np.ndarray | None = None
    ) -> str | None:
        sums_of = window_sums if node.op_type.startswith("Conv") else product_sums
        return sums_of(self.made, node, first, second, info, bias)

    def _second(self, node: Node, right: Quantised, turned: bool) -> Factor | None:
        """The second factor of a product, without its zero if it is constant; ``None``: it cannot be turned."""
        values = self.network.constants.get(right.tensor)
        if values is None:
            return None if turned or not right.whole else Factor(right.tensor, right.zero)
        return self._without_zero(node, values.T if turned else values, right.zero)

    def _without_zero(self, node: Node, values: np.ndarray, zero: int | np.ndarray) -> Factor:
        """Constant integers from which their zeros are subtracted."""
        names = [self.made.constant(node, "weights", part) for part in fitting(values, zero, values.dtype.name)]
        return Factor(names[0], 0, values.astype(np.int64) - zero, tuple(names[1:]))

    def _integer_product(self, node: Node) -> bool:
        """Rewrite ConvInteger and MatMulInteger.

        Raises :class:`UnsupportedError` for a ConvInteger whose weights have a zero that can only be subtracted while
        the network runs: there would have to be a sum of activations for each window.
        """
        if node.op_type not in ("ConvInteger", "MatMulInteger"):
            return False
        conv, info = node.op_type == "ConvInteger", self.network.infos[node.outputs[0]]
        values = self.network.constants.get(node.inputs[1])
        left, right = (self._zeros(node, number) for number in (0, 1))
        second = None if values is None or isinstance(right, str) else self._without_zero(node, values, right)
        # A sum of each row costs less than three products.
        if second is None or (len(second.others) > 1 and not conv):
            second = Factor(node.inputs[1], self._as_zero(node, right), values)
        if conv and second.zero != 0:
            raise UnsupportedError(
                f"node {node.name!r}: ConvInteger whose weights have a zero point is supported only if the network "
                "computes neither of the two; make both constants, or leave the zero point out"
            )
        sums = self._sums(node, Factor(node.inputs[0], self._as_zero(node, left)), second, info)
        if sums is not None:
            self.made.nodes.append(Node(node.name, "Identity", (sums,), node.outputs, origin=node.origin))
        elif conv:
            raise UnsupportedError(f"node {node.name!r}: sums of ConvInteger are beyond 32 bits")
        return sums is not None

    def _zeros(self, node: Node, number: int) -> int | str | np.ndarray:
        """The zero of a factor of an integer product; or zeros that broadcast with it, or the tensor that has them."""
        name = (*node.inputs[2:], "", "")[number]
        known = self.network.constants.get(name)
        if not name or (known is not None and (known == known.flat[0]).all()):
            return 0 if known is None else int(known.flat[0])
        shape = self.network.infos[name].shape
        if len(shape) != 1 or shape[0] == 1 or (number and node.op_type == "MatMulInteger"):
            return name if known is None else known.astype(np.int64)
        # One for each row of the left factor, or for each filter.
        rank = len(self.network.infos[node.inputs[number]].shape) if number else 2
        shape = (*shape, *(1 for _ in range(rank - 1)))
        if known is not None:
            return known.astype(np.int64).reshape(shape)
        target = self.made.constant(node, "shape", np.array(shape, np.int64))
        return self.made.add("Reshape", "rows", node, (name, target), Info(shape, self.network.infos[name].dtype))

    def _as_zero(self, node: Node, zero: int | str | np.ndarray) -> int | str:
        """Zeros as those of a :class:`.integer_sums.Factor`."""
        if isinstance(zero, np.ndarray):
            return self.made.constant(node, "zeros", zero.astype(np.int32))
        return zero

    def _bias(self, node: Node, factor: np.ndarray, size: int) -> np.ndarray | None:
        """What is added to the sums, in their unit, for each column; ``None`` if it is no constant for each.

        It need not be whole.
        """
        name = node.inputs[2] if len(node.inputs) > 2 else ""
        if not name:
            return np.zeros(size)
        known = self.quantised(name)
        if known is not None and known.tensor in self.network.constants:
            numbers, unit = self.network.constants[known.tensor].astype(np.float64) - known.zero, known.scale
        elif name in self.network.constants:
            numbers, unit = self.network.constants[name].astype(np.float64), np.ones(())
        else:
            return None
        if numbers.size not in (1, size) or (numbers.ndim > 1 and numbers.shape[-1] != numbers.size):
            return None
        unit = _number(node, "beta") * unit.astype(np.float64) / factor
        # Scales are rounded to float32, and integers in the unit of the sums are added as they are.
        unit = np.where(np.isclose(unit, 1.0, rtol=SAME_UNIT, atol=0.0), 1.0, unit)
        exact = numbers.reshape(-1) * unit
        return None if np.abs(exact).max(initial=0) >= LIMIT else np.broadcast_to(exact, (size,))

    def _result(self, node: Node, sums: str, factor: np.ndarray, columns: int, bias: np.ndarray | None = None) -> None:
        """Quantise the sums if that is all that is done with them, after a ReLU or Clip or not; or dequantise them.

        ``bias``: real numbers, one for each index of dimension ``columns``, to add to what is dequantised.
        """
        target = self._target(node)
        if target is None:
            self._dequantised(node, sums, factor, columns, bias)
            return
        made = target.quantised
        scale = self.made.constant(node, "factor", (factor.astype(np.float32) / made.scale).astype(np.float32))
        result = self._unclipped(target)
        self.made.nodes.append(quantise(node.name, node.origin, sums, scale, result, made.zero, made.dtype, columns))
        self._clip(node, target, result)

    def _dequantised(self, node: Node, sums: str, factor: np.ndarray, columns: int, bias: np.ndarray | None) -> None:
        """The sums as real numbers, to which the bias is added."""
        scale, result = self.made.constant(node, "factor", factor.astype(np.float32)), node.outputs[0]
        info = self.network.infos[result]
        real = result if bias is None else self.made.value(f"{result}.product", info)
        self.made.nodes.append(dequantise(node.name, node.origin, sums, scale, real, 0, columns))
        if bias is not None:
            around = bias.astype(np.float32).reshape(-1, *(1 for _ in info.shape[columns + 1 :]))
            term = self.made.constant(node, "bias", around)
            self.made.nodes.append(Node(f"{node.name}.biased", "Add", (real, term), (result,), origin=node.origin))

    def _sum(self, node: Node) -> bool:
        """Rewrite an addition of quantised tensors of one shape, of which the result is quantised."""
        if node.op_type != "Add":
            return False
        terms, target = [self.quantised(name) for name in node.inputs], self._target(node)
        first, second = terms
        if first is None or second is None or target is None:
            return False
        integers = (first.tensor, second.tensor, target.quantised.tensor)
        if len({self.network.infos[name].shape for name in integers}) > 1:
            return False
        if not all(t.ordered for t in (first, second, target.quantised)):
            return False
        if not all(
            t.whole and t.dtype in EIGHT_BITS and t.tensor not in self.network.constants for t in (first, second)
        ):
            return False
        result = self._unclipped(target)
        self.made.nodes.append(addition(node, first, second, target.quantised, result))
        self._clip(node, target, result)
        return True

    def _mean(self, node: Node) -> bool:
        """Rewrite a mean over all positions: a sum of integers, of which the count is part of the factor."""
        source = self.quantised(node.inputs[0]) if node.op_type == "GlobalAveragePool" else None
        if source is None or not source.whole or source.dtype not in EIGHT_BITS:
            return False
        if source.tensor in self.network.constants:
            return False
        shape = self.network.infos[source.tensor].shape
        count = prod(shape[2:])
        if count > MOST_POSITIONS:
            return False
        sums = totals(self.made, node, source.tensor, range(2, len(shape)))
        if source.zero:
            zeros = self.made.constant(node, "zeros", np.array(-count * source.zero, np.int32))
            sums = self.made.add("Add", "shifted", node, (sums, zeros), self.network.infos[sums])
        self._result(node, sums, np.asarray(source.scale.astype(np.float64) / count), 1)
        return True

    def _target(self, node: Node) -> _Target | None:
        """As what the result of a node is quantised, if that is all that is done with it, clipped or not."""
        real, low, high = node.outputs[0], -np.inf, np.inf
        while (reader := self._only_reader(real)) is not None and (limits := self._limits(reader)) is not None:
            # The last one decides, where they exclude each other.
            low, high = (min(max(v, limits[0]), limits[1]) for v in (low, high))
            real = reader.outputs[0]
        last = self._only_reader(real)
        made = parameters(self.network, last) if last is not None and last.op_type == "QuantizeLinear" else None
        if last is None or made is None or not made.whole or made.dtype not in EIGHT_BITS or not made.scale:
            return None
        bounds = np.iinfo(made.dtype)
        # A negative scale turns their order round.
        ends = sorted(v / float(made.scale) for v in (low, high))
        least, most = (np.clip(np.rint(v) + made.zero, bounds.min, bounds.max) for v in ends)
        return _Target(made, int(least) if least > bounds.min else None, int(most) if most < bounds.max else None)

    def _unclipped(self, target: _Target) -> str:
        """The tensor to quantise to, before it is clipped."""
        name = target.quantised.tensor
        clipped = target.least is not None or target.most is not None
        return self.made.value(f"{name}.unclipped", self.network.infos[name]) if clipped else name

    def _clip(self, node: Node, target: _Target, result: str) -> None:
        made, info = target.quantised, self.network.infos[target.quantised.tensor]
        for op_type, limit in (("Max", target.least), ("Min", target.most)):
            if limit is not None:
                value = self.made.constant(node, op_type.lower(), np.array(limit, made.dtype))
                result = self.made.add(op_type, op_type.lower(), node, (result, value), info)
        self.done[made.tensor] = result

    def _only_reader(self, name: str) -> Node | None:
        readers = self.readers.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self.network.outputs else None

    def _limits(self, node: Node) -> tuple[float, float] | None:
        """What a ReLU or Clip of constants leaves."""
        if node.op_type == "Relu":
            return 0.0, np.inf
        if node.op_type != "Clip":
            return None
        values = [self.network.constants.get(i) if i else None for i in (*node.inputs[1:], "", "")[:2]]
        if any(i and v is None for i, v in zip(node.inputs[1:], values, strict=False)):
            return None
        # Before operator set 11, they are attributes.
        named = _number(node, "min", -np.inf), _number(node, "max", np.inf)
        low, high = (n if v is None else float(v.reshape(-1)[0]) for n, v in zip(named, values, strict=True))
        return low, high

    # Movements and conversions.

    def _movement(self, node: Node) -> bool:
        """Rewrite what only moves numbers between a DequantizeLinear and QuantizeLinears of equal parameters."""
        concat = node.op_type == "Concat"
        if not concat and (node.op_type not in MOVEMENTS or any(node.outputs[1:])):
            return False
        sources = [self.quantised(name) for name in (node.inputs if concat else node.inputs[:1])]
        # Which number is the largest, integers tell only where they are in the order of the numbers.
        picks = node.op_type == "MaxPool"
        if picks and not all(s is None or s.ordered for s in sources):
            return False
        if not concat and self._moved(node, sources[0]):
            return True
        readers = self.readers.get(node.outputs[0], [])
        made = [parameters(self.network, r) if r.op_type == "QuantizeLinear" else None for r in readers]
        if not readers or node.outputs[0] in self.network.outputs or made[0] is None:
            return False
        if any(s is None or not s.whole or s.dtype not in EIGHT_BITS for s in sources):
            return False
        if any(m is None or not m.whole or not m.same(made[0]) for m in made) or (picks and not made[0].ordered):
            return False
        names = [self._as(node, s, made[0]) for s in sources if s is not None]
        result = readers[0].outputs[0]
        self.made.nodes.append(replace(node, inputs=(*names, *node.inputs[len(names) :]), outputs=(result,)))
        for reader in readers:
            self.done[reader.outputs[0]] = result
        return True

    def _moved(self, node: Node, source: Quantised | None) -> bool:
        """Move integers where others than QuantizeLinears need the real numbers, which are made of them after that."""
        result = node.outputs[0]
        if source is None or not source.whole or source.dtype not in EIGHT_BITS:
            return False
        if source.tensor in self.network.constants or result not in self.network.infos:
            return False
        readers = self.readers.get(result, [])
        if result not in self.network.outputs and any(r.op_type == "QuantizeLinear" for r in readers):
            return False
        moved = self.made.value(f"{result}.moved", Info(self.network.infos[result].shape, source.dtype))
        self.made.nodes.append(replace(node, inputs=(source.tensor, *node.inputs[1:]), outputs=(moved,)))
        given = self.producer[node.inputs[0]]
        self.producer[result] = replace(given, inputs=(moved, *given.inputs[1:]), outputs=(result,))
        self._conversion(self.producer[result])
        return True

    def _as(self, node: Node, source: Quantised, target: Quantised) -> str:
        """The integers of a tensor by other parameters."""
        if source.same(target):
            return source.tensor
        info = Info(self.network.infos[source.tensor].shape, target.dtype)
        other = self.made.value(f"{node.outputs[0]}.{source.tensor}.as", info)
        self._requantise(node, source, target, other)
        return other

    def _requantise(self, node: Node, source: Quantised, target: Quantised, result: str) -> None:
        factor = self.made.constant(node, "factor", np.asarray(source.scale / target.scale, np.float32))
        zeros = target.zero, target.dtype, 0, source.zero
        self.made.nodes.append(quantise(node.name, node.origin, source.tensor, factor, result, *zeros))

    def _conversion(self, node: Node) -> bool:
        """Rewrite a QuantizeLinear or DequantizeLinear by itself."""
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or node.inputs[0] in self.network.constants:
            return False
        known = parameters(self.network, node)
        source = self.network.infos.get(node.inputs[0])
        if known is None or source is None:
            return False
        if node.op_type == "DequantizeLinear":
            scale = self.made.constant(node, "scale", known.scale)
            self.made.nodes.append(
                dequantise(node.name, node.origin, known.tensor, scale, node.outputs[0], known.zero, known.axis)
            )
            return True
        if source.dtype != "float32" or known.dtype not in EIGHT_BITS:
            return False
        before = self.quantised(node.inputs[0])
        if before is not None and before.dtype in EIGHT_BITS and before.whole and known.whole:
            self._requantise(node, before, known, known.tensor)
            return True
        inverse = self.made.constant(node, "inverse", (np.float32(1) / known.scale).astype(np.float32))
        self.made.nodes.append(
            quantise(node.name, node.origin, node.inputs[0], inverse, known.tensor, known.zero, known.dtype, known.axis)
        )
        return True


def _identity(node: Node, source: str) -> Node:
    return Node(node.name, "Identity", (source,), node.outputs, origin=node.origin)


def _is_whole(bias: np.ndarray) -> bool:
    """Whether a bias is of integers, but for the rounding of the float32 scales that it was multiplied with."""
    return bool(np.allclose(bias, np.rint(bias), rtol=1e-6, atol=0.0))


def _flag(node: Node, name: str) -> bool:
    return bool(node.attribute(name, 0))


def _number(node: Node, name: str, default: float = 1.0) -> float:
    value = node.attribute(name, default)
    return value if isinstance(value, float) else default
