"""ONNX → Graph, in one screen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onnx

from ..ir.checks.check_graph import check_graph, check_op
from ..ir.custom_operators import operator_by_key
from ..ir.errors import CheckError, UnsupportedError, UsageError
from ..ir.graph import NARROWED, Graph, Op, Port
from .custom.module import custom_results
from .net.batch_independence import is_alike, is_independent
from .net.net import Net
from .net.net_pass import ImportListener, NetPass, run_passes
from .net.to_graph import to_graph
from .onnx import dims as dimensions
from .onnx.checks.check_model import check_model
from .onnx.load import ModelSource, load_model
from .onnx.prepare import Network, prepare
from .onnx.rewrite import rewrite
from .passes.bias import start_from_biases
from .passes.fold_movement import fold_movements
from .passes.fuse import fuse_operators
from .passes.lay_out_weights import lay_out_constants
from .passes.layout import choose_layouts
from .passes.merge_axes import merge_axes
from .passes.narrow_outputs import narrow_outputs
from .passes.peephole import fuse_functions
from .passes.precision import narrow_floats, widen_accumulators, wrap_hosts
from .passes.send_to_host import send_to_host
from .passes.shrink import shrink
from .passes.sum_products import sum_products
from .quantised.to_integers import to_integers
from .relax.convert import NotImportableError, importable
from .relax.host_samples import batch_dims
from .relax.importer import build_net

Precision = Literal["as-is", "fp16", "bf16"]


def passes(precision: Precision) -> tuple[NetPass, ...]:
    """What happens to a net between the conversion of its nodes and the graph, in order."""
    narrowed = NARROWED.get(precision)
    return (
        # Data stays where it is read from, channels innermost.
        NetPass(fold_movements, paddings_only=True),
        NetPass(choose_layouts),
        NetPass(fold_movements),
        # What each engine computes, and from constants in which layout.
        NetPass(sum_products),
        NetPass(narrow_outputs),
        NetPass(send_to_host, dtypes=("int64",) if narrowed else ("int64", "float64")),
        *((NetPass(wrap_hosts),) if narrowed else ()),
        NetPass(lay_out_constants),
        # Steps become operators.
        NetPass(merge_axes),
        NetPass(fuse_operators),
        # What they hold and how they compute it.
        *((NetPass(narrow_floats, dtype=narrowed),) if narrowed else ()),
        NetPass(widen_accumulators),
        NetPass(fuse_functions),
        NetPass(start_from_biases),
    )


def silent(name: str, done: int, total: int) -> None:
    """Ignore progress."""


def import_onnx(
    source: ModelSource,
    *,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    precision: Precision = "as-is",
    clusters: int = 1,
    listener: ImportListener = silent,
) -> Graph:
    """Read a network and return what one cluster computes of it.

    ``batch`` binds the symbolic dimension that the inputs begin with, and is divided over up to ``clusters``
    clusters; ``dims`` bind the other symbolic dimensions by name. ``listener`` is called for each node that is
    converted and before and after each pass. Raises :class:`~girih.ir.errors.UsageError` for a file or binding that
    cannot be, and :class:`~girih.ir.errors.UnsupportedError` for an operator that TVM lacks.
    With ``GIRIH_CHECK=1`` in the environment, the net is checked after each pass, and then the graph.
    """
    if precision not in ("as-is", *NARROWED):
        raise UsageError(f"precision {precision!r} is not one of as-is, {', '.join(NARROWED)}")
    try:
        model = load_model(source)
        check_model(model)
        part = read(model, batch, dims or {}, clusters, listener)
    except UnicodeDecodeError as error:
        # Protobuf decodes a text when it is first looked at.
        raise UsageError(
            f"a name or text in the model is not UTF-8 ({error.object[:20]!r}): the file is damaged; export it again"
        ) from error
    network, net = part.network, part.net
    infos = dict(zip((*network.inputs, *network.outputs), (net.tensors[t] for t in ports(net)), strict=True))
    net.drop_dead()
    run_passes(net, passes(precision), listener)

    def port(name: str, tensor: str) -> Port:
        info = infos[name]
        if name not in part.divided or part.batch is None:
            return Port(name, tensor, info.shape, info.dtype)
        return Port(name, tensor, (part.batch, *info.shape[1:]), info.dtype, 0)

    names = (*network.inputs, *network.outputs)
    all_ports = tuple(port(name, tensor) for name, tensor in zip(names, ports(net), strict=True))
    count = len(network.inputs)
    graph = to_graph(net, name_of(source, model), all_ports[:count], all_ports[count:], part.replicas, part.batch)
    graph = shrink(graph)
    for op in graph.ops:
        if op.template:
            _check_scheduled(op, graph)
    if os.environ.get("GIRIH_CHECK") == "1":
        check_graph(graph)
    return graph


def _check_scheduled(op: Op, graph: Graph) -> None:
    """Raise :class:`UsageError` unless an operator that its user schedules is one: no pass has made it so."""
    try:
        check_op(op, graph.tensor)
    except CheckError as error:
        custom = operator_by_key(op.template)
        raise UsageError(
            f"{custom.place}: the operator {custom.key} cannot have a template of its own: {error}; leave it out"
        ) from error


def convert_all(model: onnx.ModelProto, sizes: Mapping[str, int], listener: ImportListener) -> tuple[Network, Net]:
    """Clean and convert; what TVM fails to convert is replaced by its definition, if ONNX has one."""
    expanded: set[str] = set()
    while True:
        network = prepare(model, sizes, lambda op: op not in expanded and importable(op), custom_results)
        to_integers(network)
        rewrite(network)
        try:
            return network, build_net(network, listener)
        except NotImportableError as error:
            if error.op_type in expanded or not is_defined(error.op_type, network.opset):
                raise
            expanded.add(error.op_type)


def is_defined(op_type: str, opset: int) -> bool:
    """Whether ONNX has the operator and defines it by others."""
    if not onnx.defs.has(op_type, opset):
        return False
    schema = onnx.defs.get_schema(op_type, opset)
    return bool(schema.has_function or schema.has_context_dependent_function)  # pyright: ignore


def ports(net: Net) -> tuple[str, ...]:
    """The tensors of inputs and outputs."""
    return (*net.inputs, *net.outputs)


@dataclass(frozen=True)
class Part:
    """What one of ``replicas`` clusters computes; the ``divided`` inputs and outputs are shared out among them."""

    network: Network
    net: Net
    replicas: int
    divided: frozenset[str]
    batch: int | None


def read(
    model: onnx.ModelProto, batch: int | None, dims: Mapping[str, int], clusters: int, listener: ImportListener
) -> Part:
    """Convert the model, for a share of the batch if it can be divided."""
    binding = dimensions.bind(model, batch, dims)

    def convert(size: int | None) -> tuple[Network, Net]:
        sizes = dict(binding.sizes)
        if size is not None and binding.batch is not None:
            sizes[binding.batch] = size
        return convert_all(model, sizes, listener)

    if batch is None or binding.batch is None:
        return Part(*convert(None), 1, frozenset(), batch if binding.leading else None)
    share = -(-batch // min(clusters, batch))
    divided = {
        v.name
        for v in dimensions.network_inputs(model)
        if any(axis == 0 and s == binding.batch for axis, s in dimensions.symbols(v))
    }
    if share < batch:
        try:
            network, net = convert(share)
            # In a batch of one, every dimension looks independent of the batch; and what a literal of the network says
            # of a batch can be true of the share by chance, but not of both.
            probe = net if share > 1 else convert(2)[1]
            larger = convert(batch if batch > 2 else 3)[1]
        except (UsageError, UnsupportedError):
            pass  # The model insists on some batch; whatever else is wrong shows below.
        else:
            # A batch of one may vanish as a whole, where dimensions of one are squeezed.
            vanished = any(o not in net.tensors for o in probe.outputs) or any(
                net.tensors[o].shape != (share, *probe.tensors[o].shape[1:]) for o in probe.outputs
            )
            if (
                not vanished
                and is_alike(probe, larger)
                and all(is_independent(n, divided, batch_dims) for n in (probe, larger))
            ):
                return Part(network, net, -(-batch // share), frozenset(divided | {*network.outputs}), batch)
        return Part(*convert(None), 1, frozenset(), batch)
    network, net = convert(None)
    leads = all(net.tensors[o].shape[:1] == (batch,) for o in net.outputs)
    return Part(network, net, 1, frozenset(divided | {*network.outputs}) if leads else frozenset(), batch)


def name_of(source: ModelSource, model: onnx.ModelProto) -> str:
    if isinstance(source, (str, os.PathLike)):
        return Path(source).stem
    return model.graph.name or "network"
