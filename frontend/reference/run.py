"""The network itself, run in float32 through TVM's LLVM build: what ``girih run --check`` compares with.

It shares with the compiler only the cleaning of the ONNX file (:mod:`..onnx.prepare`): the whole model goes through
TVM's importer, keeps its batch normalisations and layouts, and is fused and built by TVM. No other runtime knows the
custom operators of users: their own functions are built as well, so that what is checked of them is the compilation.
"""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import onnx
import tvm
from onnx import numpy_helper
from tvm import relax, tirx
from tvm.relax.frontend.onnx import from_onnx

from ...ir.errors import UnsupportedError, UsageError
from ...ir.graph import FLOATS
from ..custom.module import custom_results
from ..custom.whole_model import import_model
from ..net.linear import NotAffine
from ..onnx import dims
from ..onnx.forms.lrn import expand_even_lrn
from ..onnx.inline import Node, proto_of
from ..onnx.load import ModelSource, load_model, read_file
from ..onnx.prepare import Network, prepare
from ..onnx.rewrite import to_importable_forms
from ..quantised.parameters import dequantised_constants
from ..relax.convert import CLIP_INDICES, importable, is_small
from ..relax.tir_records import kind_of, read_kernel
from .cpu_schedule import schedule_for_cpu
from .equal_truths import equal_truths_to_logic
from .infinite_extremes import start_from_infinities
from .integer_products import integer_products_to_real
from .last_axis_resize import resize_last_axes
from .nan import keep_nans, keep_nans_of_signs
from .single_corner import resize_to_two
from .widened_floats import NARROW, to_single_precision

MACS = 20_000_000_000
"""About as many multiply-accumulates as a few seconds allow."""


@dataclass(frozen=True)
class Reference:
    """Outputs by name, of the first ``samples`` of the batch (``None``: of everything)."""

    outputs: dict[str, np.ndarray]
    samples: int | None


_EXTERNAL = b"location"
"""A key that each tensor with external data has, and hardly anything else."""


def model_bytes(source: ModelSource) -> bytes:
    """The model as one file, with its external data inside; what :func:`reference_outputs` can read later."""
    if not isinstance(source, onnx.ModelProto):
        data = source if isinstance(source, bytes) else read_file(source)
        # To write hundreds of megabytes anew takes seconds, and nearly every file is as it has to be.
        if _EXTERNAL not in data:
            return data
    model = load_model(source)
    for tensor in model.graph.initializer:
        tensor.ClearField("data_location")
        del tensor.external_data[:]
    try:
        return model.SerializeToString(deterministic=True)
    except ValueError as error:
        raise UsageError("the model has more than 2 GB of weights, which one ONNX file cannot hold") from error


def reference_outputs(
    source: ModelSource, inputs: Mapping[str, np.ndarray], *, batched: Collection[str] = (), macs: int = MACS,
    special: bool = False,
) -> Reference:  # fmt: skip
    """Run the network on whole-batch ``inputs``.

    ``batched`` names the inputs whose samples (along the first axis) are independent of one another. The network is
    then run sample by sample, and only for as many samples, from the first, as ``macs`` allow; at least for one.
    A NaN goes through maxima and minima, as it does in our instructions: where the inputs have one, or an infinity that
    may become one, and if it is ``special``, because the caller knows of one that constants or functions make.
    """
    model = load_model(source)
    special = special or any(a.dtype.name in FLOATS and not np.isfinite(a).all() for a in inputs.values())
    first = {n: a[:1] if n in batched else a for n, a in inputs.items()}
    program = ReferenceProgram(model, first, special=special)
    if not batched:
        return Reference(program.run(inputs), None)
    size = min(inputs[n].shape[0] for n in batched)
    count = min(size, max(1, macs // max(1, program.macs)))
    runs = [program.run({n: a[i : i + 1] if n in batched else a for n, a in inputs.items()}) for i in range(count)]
    outputs = {name: np.concatenate([r[name] for r in runs]) for name in runs[0]}
    return Reference(outputs, None if count == size else count)


class ReferenceProgram:
    """A network built for the shapes of some inputs. ``macs`` is what one run costs.

    ``special``: there may be NaNs, so that it matters what a maximum does with them.
    """

    def __init__(self, model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], *, special: bool = False) -> None:
        network = prepare(model, sizes_of(model, inputs), importable, custom_results)
        if special:
            keep_nans_of_signs(network)
        equal_truths_to_logic(network)
        dequantised_constants(network)
        integer_products_to_real(network)
        to_importable_forms(network)
        resize_last_axes(network)
        resize_to_two(network)
        expand_even_lrn(network)
        self.narrow = {n: network.infos[n].dtype for n in network.outputs if _is_narrow(n, network)}
        to_single_precision(network)
        self.inputs = {name: network.infos[name].dtype for name in network.inputs}
        self.outputs = network.outputs
        module, self.weights = import_whole(network)
        self.macs = count_macs(module)
        with TARGET, tvm.transform.PassContext(config={"tirx.disable_assert": True}):
            scheduled = schedule_for_cpu(start_from_infinities(module))
            built = tvm.compile(keep_nans(scheduled) if special else scheduled, TARGET)
        self.machine = relax.VirtualMachine(built, cast("Any", tvm.cpu()))

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        # Unlike np.ascontiguousarray, this keeps what has no dimensions as it is.
        arguments = [tvm.runtime.tensor(np.asarray(inputs[n], dtype, order="C")) for n, dtype in self.inputs.items()]
        result = self.machine["main"](*arguments, *self.weights)
        results = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
        arrays = {n: r.numpy() for n, r in zip(self.outputs, results, strict=True)}
        with np.errstate(over="ignore"):
            return arrays | {n: arrays[n].astype(dtype) for n, dtype in self.narrow.items()}


def _is_narrow(name: str, network: Network) -> bool:
    return name in network.infos and network.infos[name].dtype in NARROW


TARGET = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu(), "opt-level": 0})
"""Without LLVM's optimiser: the kernels that matter are vectorised by their schedule, and building takes a tenth."""


def sizes_of(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, int]:
    """What the symbolic dimensions are, by the shapes of the inputs."""
    sizes: dict[str, int] = {}
    for value in dims.network_inputs(model):
        if value.name not in inputs:
            raise UsageError(f"input {value.name!r} is missing")
        for axis, symbol in dims.symbols(value):
            size = inputs[value.name].shape[axis]
            if sizes.setdefault(symbol, size) != size:
                raise UsageError(f"dimension {symbol!r} is {sizes[symbol]} and, in input {value.name!r}, {size}")
    return sizes


def import_whole(network: Network) -> tuple[Any, list[Any]]:
    """The Relax module down to fused TIR, and the weights that it takes after the inputs."""
    weights = [n for n, a in network.constants.items() if not is_small(a)]
    protos = [proto_of(node) for node in network.nodes]
    custom: dict[str, Node] = {}
    for number, (node, proto) in enumerate(zip(network.nodes, protos, strict=True)):
        if node.custom is not None:
            proto.name = f"custom:{number}"  # Names of nodes may occur twice.
            custom[proto.name] = node
    graph = onnx.helper.make_graph(
        protos,
        "network",
        [value_info(n, network) for n in (*network.inputs, *weights)],
        [onnx.helper.make_empty_tensor_value_info(o) for o in network.outputs],
        initializer=[numpy_helper.from_array(a, n) for n, a in network.constants.items() if is_small(a)],
    )
    opsets = [onnx.helper.make_opsetid("", network.opset)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = import_model(model, custom) if custom else from_onnx(cast("Any", model))
            with TARGET:
                module = PASSES(module)
    except UsageError:
        raise
    except Exception as error:
        raise UnsupportedError(
            f"TVM cannot run the network for comparison: {error}; --exact compares with the graph instead"
        ) from error
    return module, [tvm.runtime.tensor(np.asarray(network.constants[n], order="C")) for n in weights]


PASSES = tvm.ir.transform.Sequential(
    [
        CLIP_INDICES,
        relax.transform.DecomposeOpsForInference(),
        relax.transform.CanonicalizeBindings(),
        relax.backend.DispatchSortScan(),
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
    ]
)


def value_info(name: str, network: Network) -> onnx.ValueInfoProto:
    info = network.infos[name]
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(info.dtype))
    return onnx.helper.make_tensor_value_info(name, kind, info.shape)


def count_macs(module: Any) -> int:
    """Points of all reductions, over all calls."""
    cost: dict[str, int] = {}
    for gvar, func in module.functions.items():
        if isinstance(func, tirx.PrimFunc):
            try:
                blocks = read_kernel(func).blocks
            except NotAffine:
                continue
            cost[gvar.name_hint] = sum(
                math.prod(i.extent for i in b.iters) for b in blocks if any(i.reduce for i in b.iters)
            )
    total = 0
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            if kind_of(value) == "Call" and getattr(value.op, "name", "") == "relax.call_tir":
                total += cost.get(value.args[0].name_hint, 0)
    return total
