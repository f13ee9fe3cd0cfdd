"""Rewrites of a cleaned network: sums, pads of pools, transposed convolutions, chains of scales and shifts a channel.

    Conv(x, W, b) → BatchNorm → Mul(·, s) → Add(·, t)    becomes   Conv(x, W', b')
    BatchNorm → Mul(·, s) → Add(·, t)                    becomes   Mul(x, s') → Add(·, t')

Batch normalisation is the scale ``scale / sqrt(var + epsilon)`` and the shift ``shift - mean * that``; the products
of all of them are taken in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ...ir.errors import UnsupportedError, UsageError
from ..net.dataflow import Dataflow
from ..net.net import Info, fresh
from .forms.auto_pad import pad_pools
from .forms.empty_parts import divided, joined
from .forms.layer_norm import of_sum, scaled_apart
from .forms.lrn import expand_even_lrn
from .forms.partial_scatter import scattered
from .forms.positions import chosen, extreme, hardmax
from .forms.powers import of_one_type
from .forms.reductions import ELEMENTWISE, with_finite_maximum, without_axes
from .forms.resizing import resized
from .forms.second_outputs import kept, without_indices
from .forms.single_precision import SINGLE, in_single, thresholded
from .forms.slice_bounds import with_inputs
from .inline import MICROSOFT
from .prepare import Network, Node
from .transposed import phases_to_channels


def rewrite(network: Network) -> None:
    """Apply all rewrites in place."""
    to_importable_forms(network)
    fold_channel_scales(network)
    phases_to_channels(network)
    expand_even_lrn(network)


def to_importable_forms(network: Network) -> None:
    """Replace, in place, forms of operators that TVM imports as something else; those of the reference as well."""
    sums_to_additions(network)
    sort_selections(network)
    network.nodes = pad_pools(network.nodes, network.infos)
    network.nodes = [new for node in network.nodes for new in to_importable_form(node, network)]


FORMS: dict[str, Callable[[Node, Network], list[Node]]] = {
    **dict.fromkeys(("ArgMax", "ArgMin"), extreme),
    **dict.fromkeys(("Resize", "Upsample"), resized),
    **dict.fromkeys(ELEMENTWISE, without_axes),
    **dict.fromkeys(("Scatter", "ScatterElements"), scattered),
    **dict.fromkeys(SINGLE, in_single),
    "Concat": joined,
    "Dropout": kept,
    "Hardmax": hardmax,
    "LayerNormalization": scaled_apart,
    "MaxPool": without_indices,
    "OneHot": chosen,
    "Pow": of_one_type,
    "ReduceLogSumExp": with_finite_maximum,
    "Slice": with_inputs,
    "Split": divided,
    "ThresholdedRelu": thresholded,
}
"""What computes the same as a node, by its operator; a node whose form is right already is returned itself."""


def to_importable_form(node: Node, network: Network) -> list[Node]:
    """The nodes that take the place of ``node``, of which there may be none but itself."""
    if node.domain == MICROSOFT and node.op_type == "SkipLayerNormalization":
        return of_sum(node, network)
    return FORMS[node.op_type](node, network) if node.op_type in FORMS and not node.domain else [node]


def sums_to_additions(network: Network) -> None:
    """``Sum(a, b, c)`` is ``Add(Add(a, b), c)``; of one input it is an Identity."""
    nodes: list[Node] = []
    for node in network.nodes:
        if node.op_type != "Sum":
            nodes.append(node)
            continue
        first, *rest = node.inputs
        if not rest:
            nodes.append(replace(node, op_type="Identity"))
        for position, term in enumerate(rest):
            last = position == len(rest) - 1
            result = node.outputs[0] if last else fresh(f"{node.outputs[0]}.{position}", network.infos)
            nodes.append(replace(node, op_type="Add", inputs=(first, term), outputs=(result,)))
            first = result
    network.nodes = nodes


def sort_selections(network: Network) -> None:
    """``TopK<sorted = 0>`` may give its results in any order: they are sorted, as TVM and our kernels do it."""
    network.nodes = [
        replace(n, attributes=tuple(a for a in n.attributes if a.name != "sorted")) if n.op_type == "TopK" else n
        for n in network.nodes
    ]


@dataclass(frozen=True)
class Scale:
    """``x * factor + offset``, a number for each channel or one for all (float64 arrays of rank 0 or 1)."""

    source: str
    factor: np.ndarray
    offset: np.ndarray

    def after(self, first: Scale) -> Scale:
        """This one applied to the result of ``first``."""
        offset = first.offset * self.factor + self.offset
        return Scale(first.source, first.factor * self.factor, offset)


def fold_channel_scales(network: Network) -> None:
    """Join neighbouring scales and shifts, and fold them into the convolution in front of them."""
    flow = Dataflow(network.nodes)
    outputs = frozenset(network.outputs)

    def private(name: str) -> bool:
        return flow.reader_count(name) == 1 and name not in outputs

    done: list[Node | tuple[list[Node], Scale]] = []
    place: dict[str, int] = {}
    for node in network.nodes:
        scale = as_scale(network, node)
        if scale is None:
            place |= {o: len(done) for o in node.outputs}
            done.append(node)
            continue
        before = done[place[scale.source]] if scale.source in place and private(scale.source) else None
        if isinstance(before, tuple):
            done[place[scale.source]] = ([*before[0], node], scale.after(before[1]))
            place[node.outputs[0]] = place[scale.source]
        elif before is not None and before.op_type == "Conv" and constant_weights(network, before):
            done[place[scale.source]] = scaled_conv(network, flow, before, node, scale)
            place[node.outputs[0]] = place[scale.source]
        else:
            place[node.outputs[0]] = len(done)
            done.append(([node], scale))
    network.nodes = []
    for entry in done:
        if isinstance(entry, Node):
            network.nodes.append(entry)
        elif len(entry[0]) == 1 and entry[0][0].op_type != "BatchNormalization":
            network.nodes.append(entry[0][0])
        else:
            network.nodes += multiply_add(network, *entry)
    kept = {name for node in network.nodes for name in node.inputs} | set(network.outputs)
    network.constants = {name: array for name, array in network.constants.items() if name in kept}


def as_scale(network: Network, node: Node) -> Scale | None:
    """The node as a scale and a shift, if it is one of constants."""
    constants = network.constants
    if node.op_type == "BatchNormalization":
        if node.attribute("training_mode", 0) or any(node.outputs[1:]):
            raise UnsupportedError(f"node {node.name!r}: BatchNormalization in training mode is not supported")
        if any(i not in constants for i in node.inputs[1:5]):
            return None  # Its statistics are computed: TVM decomposes it.
        scale, shift, mean, variance = (constants[i].astype(np.float64) for i in node.inputs[1:5])
        epsilon = node.attribute("epsilon", 1e-5)
        if not isinstance(epsilon, float):
            raise UsageError(f"node {node.name!r}: the attribute epsilon is no number")
        factor = scale / np.sqrt(variance + epsilon)
        return Scale(node.inputs[0], factor, shift - mean * factor)
    if node.op_type not in ("Mul", "Add") or not all(i in network.infos for i in (*node.inputs, node.outputs[0])):
        return None
    first, second = node.inputs[0], node.inputs[1]
    for source, constant in ((first, second), (second, first)):
        if constant in constants and source not in constants:
            info = network.infos[source]
            values = per_channel(constants[constant], info)
            if values is None or network.infos[node.outputs[0]] != info:
                return None
            unit, zero = np.ones(()), np.zeros(())
            return Scale(source, values, zero) if node.op_type == "Mul" else Scale(source, unit, values)
    return None


def per_channel(array: np.ndarray, info: Info) -> np.ndarray | None:
    """The array as one number a channel (dimension 1 of an image), or one for all."""
    rank = len(info.shape)
    if array.dtype.name != "float32" or rank < 3 or array.ndim > rank:
        return None
    if array.size == 1:
        return array.astype(np.float64).reshape(())
    shape = (1,) * (rank - array.ndim) + array.shape
    if shape != tuple(n if d == 1 else 1 for d, n in enumerate(info.shape)):
        return None
    return array.astype(np.float64).reshape(-1)


def constant_weights(network: Network, conv: Node) -> bool:
    return all(i in network.constants for i in conv.inputs[1:] if i)


def scaled_conv(network: Network, flow: Dataflow[Node], conv: Node, node: Node, scale: Scale) -> Node:
    """The convolution with the scale in its weights and the shift in its bias."""
    weight = network.constants[conv.inputs[1]]
    channels = weight.shape[0]
    factor = np.broadcast_to(scale.factor, (channels,))
    scaled = (weight * factor.reshape(-1, *[1] * (weight.ndim - 1))).astype(weight.dtype)
    name = conv.inputs[1]
    if flow.reader_count(name) == 1:
        network.constants[name] = scaled
    else:
        name = network.add_constant(name, scaled)
    source, _, *rest = conv.inputs
    old = rest[0] if rest else ""
    bias = (network.constants[old] if old else 0.0) * factor + scale.offset
    new = f"{conv.name}.bias"
    if old == new and flow.reader_count(new) == 0:
        network.constants[new] = bias.astype(weight.dtype)  # This function added it for an earlier scale.
    else:
        new = network.add_constant(new, bias.astype(weight.dtype))
    return replace(conv, inputs=(source, name, new), outputs=node.outputs, origin=(*conv.origin, *node.origin))


def multiply_add(network: Network, nodes: list[Node], scale: Scale) -> list[Node]:
    """A scale with nothing to fold into, as two nodes."""
    last = nodes[-1]
    info = network.infos.get(scale.source)
    if info is None:
        raise UnsupportedError(f"node {nodes[0].name!r}: the shape of its input is unknown")
    shape = (-1, *[1] * (len(info.shape) - 2)) if len(info.shape) > 2 else (-1,)
    middle = fresh(f"{last.outputs[0]}.scaled", network.infos)
    network.infos[middle] = info
    by = network.add_constant(f"{last.name}.scale", scale.factor.reshape(shape).astype(info.dtype))
    plus = network.add_constant(f"{last.name}.shift", scale.offset.reshape(shape).astype(info.dtype))
    origin = tuple(dict.fromkeys(o for n in nodes for o in n.origin))
    name = last.name
    return [
        Node(name, "Mul", (scale.source, by), (middle,), origin=origin),
        Node(name, "Add", (middle, plus), last.outputs, origin=origin),
    ]
