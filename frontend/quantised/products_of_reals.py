"""Conv, MatMul and Gemm of dequantised tensors become products of integers, with their biases.

    y = Conv(Dequantise(x), Dequantise(W), Dequantise(b))     becomes     y = factor * (Product(x, W) + b')

by (x - zx) * W = x * W - zx * sum W, of which the second term is a constant, and part of b'. Convolutions whose zero is
not 0 are padded by it before. The factor is scale of x * scale of W, by which the sums are quantised or dequantised
(:mod:`.quantised_results`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..net.net import Info
from ..onnx.inline import Node
from .integer_sums import LIMIT, Factor, constant_factor, window_sums
from .parameters import EIGHT_BITS, Quantised
from .quantised_network import QuantisedNetwork, real_attribute
from .quantised_results import convert_sums, target_of
from .vector_factors import product_sums

_SAME_UNIT = 4e-7
"""How far apart, relative to one, two units may be that are the same.

A float32 rounding is of at most 6e-8: there is one of the bias's scale, and up to five of two scales, alpha and what is
multiplied of them. What is further apart is of another unit, and 32-bit integers would tell.
"""


def rewrite_product(quantised: QuantisedNetwork, node: Node) -> bool:
    """Rewrite a product of two dequantised tensors of 8 bits, and a constant addition behind a matrix product."""
    if node.op_type not in ("Conv", "MatMul", "Gemm") or len(node.inputs) < 2:
        return False
    infos, outputs = quantised.network.infos, node.outputs
    left, right, info = quantised.source(node.inputs[0]), quantised.source(node.inputs[1]), infos.get(outputs[0])
    if left is None or right is None or info is None or not left.whole:
        return False
    if left.dtype not in EIGHT_BITS or right.dtype not in EIGHT_BITS:
        return False
    alpha = real_attribute(node, "alpha", 1.0)
    if alpha == 0.0:
        return False
    conv, transposed = node.op_type == "Conv", bool(node.attribute("transB", 0))
    columns = 1 if conv else len(info.shape) - 1
    rank = len(infos[right.tensor].shape)
    # The scales must be of columns; the only axis of a vector is summed over.
    if not right.whole and (rank == 1 or right.axis != (0 if conv or transposed else rank - 1)):
        return False
    factor = alpha * np.float64(left.scale) * right.scale.astype(np.float64)
    node, bias = _with_bias(quantised, node, factor, info, info.shape[columns] if rank > 1 else 1)
    second = _second_factor(quantised, node, right, transposed=transposed)
    if bias is None or second is None or (conv and second.values is None):
        return False
    rows = _transposed(quantised, node, left.tensor) if node.attribute("transA", 0) else left.tensor
    # Half a unit of the sums is next to nothing of a step of 8 bits, but not of a float.
    in_sums = _is_whole(bias) or target_of(quantised, node) is not None
    added = np.rint(bias).astype(np.int64) if in_sums else np.zeros_like(bias, np.int64)
    sums_of = window_sums if conv else product_sums
    sums = sums_of(quantised.nodes, node, Factor(rows, left.zero), second, info, added)
    if sums is None:
        return False
    quantised.absorbed.update({*node.outputs} - {*outputs})
    convert_sums(quantised, node, sums, factor, columns, None if in_sums else bias * factor)
    return True


def _second_factor(quantised: QuantisedNetwork, node: Node, right: Quantised, *, transposed: bool) -> Factor | None:
    """The second factor of a product, without its zero if it is constant.

    ``None``: it is computed, and is transposed or has several scales.
    """
    values = quantised.network.constants.get(right.tensor)
    if values is None:
        return None if transposed or not right.whole else Factor(right.tensor, right.zero)
    return constant_factor(quantised.nodes, node, values.T if transposed else values, right.zero)


def _transposed(quantised: QuantisedNetwork, node: Node, tensor: str) -> str:
    """A matrix of integers with rows and columns exchanged."""
    info = quantised.network.infos[tensor]
    return quantised.nodes.add("Transpose", "turned", node, (tensor,), Info(info.shape[::-1], info.dtype), perm=[1, 0])


def _with_bias(
    quantised: QuantisedNetwork, node: Node, factor: np.ndarray, info: Info, size: int
) -> tuple[Node, np.ndarray | None]:
    """A product and its bias, as :func:`_bias_of` has it: a constant that is added to a matrix product is one, too.

    The node then has the results of the addition.
    """
    joined = _joined_with_addition(quantised, node, info)
    bias = None if joined is None else _bias_of(quantised, joined, factor, size)
    if joined is not None and bias is not None:
        return joined, bias
    return node, _bias_of(quantised, node, factor, size)


def _joined_with_addition(quantised: QuantisedNetwork, node: Node, info: Info) -> Node | None:
    """A matrix product and the addition behind it as one node, whose bias is the other term.

    ``None``: the product has a bias, other nodes read it, or the term is not constant or makes the result larger.
    """
    addition = quantised.only_reader(node.outputs[0])
    if node.op_type == "Conv" or any(node.inputs[2:]) or addition is None or addition.op_type != "Add":
        return None
    term = next((name for name in addition.inputs if name != node.outputs[0]), None)
    if term is None or not info.shape or quantised.network.infos.get(addition.outputs[0]) != info:
        return None
    source = quantised.source(term)
    if (term if source is None else source.tensor) not in quantised.network.constants:
        return None
    origin = tuple(dict.fromkeys((*node.origin, *addition.origin)))
    # beta is of a bias that the product has not.
    attributes = tuple(a for a in node.attributes if a.name != "beta")
    inputs = (*node.inputs[:2], term)
    return replace(node, inputs=inputs, outputs=addition.outputs, attributes=attributes, origin=origin)


def _bias_of(quantised: QuantisedNetwork, node: Node, factor: np.ndarray, size: int) -> np.ndarray | None:
    """What is added to each of the ``size`` columns of the sums, in their unit, which need not be whole.

    ``None``: it is no constant for each column, or is beyond 32 bits.
    """
    constants, name = quantised.network.constants, node.inputs[2] if len(node.inputs) > 2 else ""
    if not name:
        return np.zeros(size)
    source = quantised.source(name)
    if source is not None and source.tensor in constants:
        numbers, unit = constants[source.tensor].astype(np.float64) - source.zero, source.scale
    elif name in constants:
        numbers, unit = constants[name].astype(np.float64), np.ones(())
    else:
        return None
    if numbers.size not in (1, size) or (numbers.ndim > 1 and numbers.shape[-1] != numbers.size):
        return None
    unit = real_attribute(node, "beta", 1.0) * unit.astype(np.float64) / factor
    # Scales are rounded to float32, and integers in the unit of the sums are added as they are.
    unit = np.where(np.isclose(unit, 1.0, rtol=_SAME_UNIT, atol=0.0), 1.0, unit)
    exact = numbers.reshape(-1) * unit
    # A factor of 0 makes NaN, too, which is not less than anything.
    return np.broadcast_to(exact, (size,)) if np.abs(exact).max(initial=0) < LIMIT else None


def _is_whole(bias: np.ndarray) -> bool:
    """Whether a bias is of integers, but for the rounding of the float32 scales that it was multiplied with."""
    return bool(np.allclose(bias, np.rint(bias), rtol=1e-6, atol=0.0))
