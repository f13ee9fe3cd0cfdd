"""One ONNX node becomes steps, through TVM's Relax importer and its legalisation to TIR.

Nodes go through TVM one at a time: weights stay out of TVM, every loop nest knows its ONNX node, and nodes that differ
only in their weights are converted once (:class:`Converter` remembers them).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import onnx
import tvm
from onnx import numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx, onnx_frontend

from ...ir.custom_operators import CustomOperator, blaming, find_operator
from ...ir.errors import UnsupportedError
from ...ir.graph import DTYPES, FLOATS
from ..custom.call import wrong
from ..custom.module import node_module
from ..library.shipped_operators import DOMAIN
from ..net.linear import NotAffine
from ..net.net import Info, NetStep, renamed
from ..onnx.prepare import Node
from .host_kernel import as_host
from .integer_loops import quantised_node
from .matrix_operands import with_operands_apart
from .nests import Context, lower_block, with_infinite_padding
from .own_forms import as_shipped, own_module
from .resize import interpolated
from .template import Template, TemplateCall
from .tir_numpy import run
from .tir_records import Kernel, kind_of, read_kernel

SMALL = 8
"""Float constants up to this many elements are part of a node's identity, larger ones only by their shape."""
SMALL_INTEGERS = 4096
"""The same for integers, which are mostly shapes, axes and indices."""


def is_small(array: np.ndarray) -> bool:
    """Whether a constant's value, not just its shape, may matter to the conversion."""
    return array.size <= (SMALL if array.dtype.name in FLOATS else SMALL_INTEGERS)


class NotImportableError(UnsupportedError):
    """TVM has a converter for the operator, but it fails."""

    def __init__(self, message: str, op_type: str) -> None:
        super().__init__(message)
        self.op_type = op_type


class Converter:
    """Converts nodes, remembering what it has seen."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.seen: dict[str, Template] = {}

    def template(self, node: Node, infos: Sequence[Info | None], values: Sequence[np.ndarray | None]) -> Template:
        """The template of ``node``, whose inputs have ``infos`` (``None``: left out) and, if constant, ``values``."""
        small = [v if v is not None and is_small(v) else None for v in values]
        key = hashlib.sha256()
        key.update(repr((node.op_type, node.domain, len(node.outputs), [bool(o) for o in node.outputs])).encode())
        for attribute in sorted(node.attributes, key=lambda a: a.name):
            key.update(attribute.SerializeToString(deterministic=True))
        for info, value, constant in zip(infos, small, values, strict=True):
            key.update(repr((info, constant is not None)).encode())
            if value is not None:
                key.update(value.tobytes())
        digest = key.hexdigest()
        if digest not in self.seen:
            self.seen[digest] = self.convert(node, infos, small, [v is not None for v in values])
        return self.seen[digest]

    def convert(
        self,
        node: Node,
        infos: Sequence[Info | None],
        small: Sequence[np.ndarray | None],
        constant: Sequence[bool],
    ) -> Template:
        quantised = quantised_node(node, infos, small, self._of_variables)
        if quantised is not None:
            return quantised
        resized = interpolated(node, infos, small)
        if resized is not None:
            return resized
        shipped = as_shipped(node, infos, small)
        if shipped is not None:
            node, infos, small, constant = shipped, infos[:1], small[:1], constant[:1]
        if node.custom is not None:
            if node.custom.template is not None:
                small = [None for _ in small]  # The user schedules reads of constants as well.
            with blaming(node.custom, f"the legalisation for node {node.name!r}"), tvm.target.Target("llvm"):
                module = PASSES(node_module(node, infos, small))
        else:
            module = legalise(self.single(node, infos, small), node, infos)
        template = Template()
        for position, info in enumerate(infos):
            if info is not None and small[position] is None:
                template.tensors[f"in{position}"] = info
        params = [f"in{p}" for p, i in enumerate(infos) if i is not None and small[p] is None]
        # The same tensor can be given twice; TVM sees each position as an input of its own.
        reader = _Reader(module, template, node)
        reader.read(params, {f"in{p}" for p, c in enumerate(constant) if c})
        return template

    def _of_variables(self, node: Node, infos: Sequence[Info | None]) -> Template:
        return self.convert(node, infos, [None] * len(infos), [False] * len(infos))

    def single(self, node: Node, infos: Sequence[Info | None], small: Sequence[np.ndarray | None]) -> onnx.ModelProto:
        """A model that holds just this node."""
        names = [f"in{p}" if info is not None else "" for p, info in enumerate(infos)]
        proto = onnx.helper.make_node(
            node.op_type, names, [f"out{p}" if o else "" for p, o in enumerate(node.outputs)], name="node"
        )
        proto.attribute.extend(node.attributes)
        inputs: list[onnx.ValueInfoProto] = []
        weights: list[onnx.TensorProto] = []
        for name, info, value in zip(names, infos, small, strict=True):
            if info is None:
                continue
            if value is not None:
                weights.append(numpy_helper.from_array(value, name))
            else:
                kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(info.dtype))
                inputs.append(onnx.helper.make_tensor_value_info(name, kind, info.shape))
        outputs = [onnx.helper.make_empty_tensor_value_info(o) for o in proto.output if o]
        graph = onnx.helper.make_graph([proto], "node", inputs, outputs, initializer=weights)
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", self.opset)], ir_version=8)


def legalise(model: onnx.ModelProto, node: Node, infos: Sequence[Info | None]) -> Any:
    """The Relax module of one node, down to calls of TIR kernels."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = own_module(node, infos)
            if module is None:
                module = from_onnx(cast("Any", model))
            with tvm.target.Target("llvm"):
                return PASSES(module)
    except Exception as error:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        message = f"node {node.name!r}: TVM cannot import operator {node.op_type} in this form ({reason})"
        raise NotImportableError(message, node.op_type) from error


@relax.expr_functor.mutator
class _Clipped(relax.PyExprMutator):
    """Indices of look-ups stay within the table: TVM's default reads whatever lies beyond."""

    def visit_call_(self, op: Any) -> Any:
        call: Any = super().visit_call_(op)
        if call.op == tvm.ir.Op.get("relax.take") and call.attrs.mode == "fast":
            table, indices = call.args
            return relax.op.take(table, indices, call.attrs.axis, "clip")
        return call


def _clip_indices(module: Any, _: object) -> Any:
    mutator = _Clipped(module)
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function):
            mutator.builder_.update_func(variable, cast("Any", mutator.visit_expr(function)))
    return mutator.builder_.get()


CLIP_INDICES = tvm.ir.transform.module_pass(_clip_indices, opt_level=0, name="ClipIndices")

PASSES = tvm.ir.transform.Sequential(
    [
        CLIP_INDICES,
        relax.transform.DecomposeOpsForInference(),
        relax.transform.CanonicalizeBindings(),
        relax.backend.DispatchSortScan(),
        relax.transform.LegalizeOps(),
        relax.transform.DeadCodeElimination(),
    ]
)


class _Reader:
    """Reads the bindings of one legalised module into a template."""

    def __init__(self, module: Any, template: Template, node: Node) -> None:
        self.module = module
        self.template = template
        self.node = node
        self.names: dict[Any, Any] = {}
        self.known: dict[str, np.ndarray] = {}
        self.constant: set[str] = set()

    def read(self, params: list[str], constant: set[str]) -> None:
        main = self.module["main"]
        param_names = [p.name for p in main.params]
        for param in main.params:
            self.names[param] = param.name
        if set(param_names) - set(params):
            raise UnsupportedError(f"node {self.node.name!r}: unexpected inputs of {self.node.op_type}")
        self.constant = set(constant)
        for block in main.body.blocks:
            for binding in block.bindings:
                self.names[binding.var] = self.value(binding)
        result = self.resolve(main.body.body)
        outputs = result if isinstance(result, list) else [result]
        if any(o not in self.template.tensors for o in outputs):
            raise UnsupportedError(
                f"node {self.node.name!r}: the result of {self.node.op_type} is a shape that depends on data"
            )
        self.template.outputs = [str(o) for o in outputs]

    def resolve(self, expr: Any) -> Any:
        """Local name of a value, or a list of names for a tuple."""
        if kind_of(expr) == "GenericConst":
            return self.add_constant(expr.value.numpy())
        if kind_of(expr) == "Tuple":
            return [self.resolve(e) for e in expr.fields]
        if kind_of(expr) == "TupleGetItem":
            return self.resolve(expr.tuple_value)[expr.index]
        if expr in self.names:
            return self.names[expr]
        raise UnsupportedError(
            f"node {self.node.name!r}: operator {self.node.op_type} needs {type(expr).__name__}, which is not supported"
        )

    def value(self, binding: Any) -> Any:
        expr = binding.value
        if kind_of(expr) == "Call":
            return self.call(binding.var, expr)
        if kind_of(expr) == "ShapeExpr":
            return "shape"
        return self.resolve(expr)

    def add_constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.template.constants)}"
        self.template.constants[name] = array
        self.template.tensors[name] = Info(array.shape, array.dtype.name)
        self.known[name] = array
        self.constant.add(name)
        return name

    def call(self, var: Any, call: Any) -> Any:
        op = getattr(call.op, "name", None)
        if op != "relax.call_tir":
            raise UnsupportedError(
                f"node {self.node.name!r}: operator {self.node.op_type} has a result whose shape depends on data"
                f" or no kernel ({op}){_of_fixed_size(self.node.op_type)}"
            )
        gvar, args = call.args[0], call.args[1]
        func = self.module[gvar]
        inputs = [str(self.resolve(a)) for a in args.fields]
        types = call.ty_args[0]
        several = kind_of(types) == "TupleType"
        types = list(types.fields) if several else [types]
        outputs: list[str] = []
        for ty in types:
            name = f"t{len(self.template.tensors)}"
            shape = tuple(self.static(n) for n in ty.shape.values)
            dtype = str(ty.dtype.dtype)
            if dtype not in DTYPES:
                raise UnsupportedError(f"node {self.node.name!r}: dtype {dtype} is not supported")
            self.template.tensors[name] = Info(shape, dtype)
            outputs.append(name)
        self.lower(func, gvar.name_hint, inputs, outputs)
        return outputs if several else outputs[0]

    def static(self, extent: Any) -> int:
        if kind_of(extent) != "IntImm":
            raise UnsupportedError(
                f"node {self.node.name!r}: the shape of the result of {self.node.op_type} depends on data"
            )
        return int(extent.value)

    def lower(self, func: Any, hint: str, inputs: list[str], outputs: list[str]) -> None:
        kernel: Kernel | None = None
        reason = ""
        try:
            kernel = read_kernel(func)
        except NotAffine as error:
            reason = str(error)
        if kernel is not None and all(i in self.known for i in inputs):
            with contextlib.suppress(NotAffine):
                for name, array in zip(outputs, run(kernel, [self.known[i] for i in inputs]), strict=True):
                    self.template.constants[name] = array
                    self.known[name] = array
                    self.constant.add(name)
                return
        call = TemplateCall(kernel, func, hint, inputs, outputs, [])
        self.template.calls.append(call)
        operator = self.node.custom
        if operator is not None and operator.template is not None:
            call.steps = [self.scheduled_step(operator, kernel, reason, call)]
            return
        constant = all(i in self.constant for i in inputs)
        if kernel is not None:
            saved = dict(self.template.tensors), dict(self.template.constants)
            try:
                steps = self.steps(kernel, hint, inputs, outputs)
                call.steps = with_operands_apart(steps, self.template.tensors)
                if not constant or all(step.is_movement for step in call.steps):
                    return  # A moved weight is folded into its readers like any other movement.
                call.steps = []
            except NotAffine as error:
                reason = str(error)
            self.template.tensors, self.template.constants = saved
            if constant:
                self.constant.update(outputs)
                return  # The weights are constant: evaluated for each node by the importer.
        for_scalar = operator is not None and operator.height == "library"
        host = as_host(func, "it is written for a scalar engine" if for_scalar else reason, for_scalar=for_scalar)
        call.steps = [NetStep(hint, (), ("", 0), tuple(outputs), host=host, host_inputs=tuple(inputs))]

    def scheduled_step(
        self, operator: CustomOperator, kernel: Kernel | None, reason: str, call: TemplateCall
    ) -> NetStep:
        """One step for all of a kernel that its user schedules: results of all blocks but the last are private."""
        if len(call.outputs) != 1:
            raise wrong(operator, self.node.name, f"with a template it has one result, not {len(call.outputs)}")
        tensors_before = set(self.template.tensors)
        try:
            if kernel is None:
                raise NotAffine(reason)
            parts = self.steps(kernel, call.hint, call.inputs, call.outputs)
        except NotAffine as error:
            what = f"its template schedules what is no sequence of affine loop nests: {error}"
            raise wrong(operator, self.node.name, what) from error
        private = {step.output for step in parts} - {*call.outputs}
        temps = {n: self.template.tensors.pop(n) for n in list(self.template.tensors) if n in private - tensors_before}
        for step in parts:
            temps |= step.temps
        loops = [loop for step in parts for loop in step.loops]
        names = [str(block.name) for block in kernel.blocks for _ in block.stores]
        blocks = tuple(name for name, step in zip(names, parts, strict=True) for _ in step.loops)
        outputs = tuple(call.outputs)
        return NetStep(call.hint, (), ("", 0), outputs, loops, temps, template=operator.key, blocks=blocks)

    def steps(self, kernel: Kernel, hint: str, inputs: list[str], outputs: list[str]) -> list[NetStep]:
        names: dict[Any, str] = dict(zip(kernel.params, [*inputs, *outputs], strict=True))
        known = {p: self.known[n] for p, n in names.items() if n in self.known}
        for buffer in kernel.temps:
            shape, dtype = kernel.shape_dtype(buffer)
            names[buffer] = f"t{len(self.template.tensors)}"
            self.template.tensors[names[buffer]] = Info(shape, dtype)

        def temp() -> str:
            nonlocal count
            count += 1
            return f"{outputs[0]}.{count}"

        count = 0
        context = Context(names, known, self.add_constant, temp)
        steps: list[NetStep] = []
        is_pool = any(store.combine in ("max", "min") for block in kernel.blocks for store in block.stores)
        for block in kernel.blocks:
            for store in block.stores:
                single = replace(block, stores=(store,))
                nest = lower_block(single, context)
                if is_pool and block.name.startswith("pad_temp"):
                    nest.loops = with_infinite_padding(nest.loops, kernel.shape_dtype(store.buffer)[1])
                name = hint if names[store.buffer] in outputs else block.name
                steps.append(NetStep(name, (), ("", 0), (names[store.buffer],), nest.loops, nest.temps))
        return steps


def _of_fixed_size(op_type: str) -> str:
    """What to use instead of an operator whose results have no fixed size."""
    shipped = find_operator(DOMAIN, op_type)
    return f"; {DOMAIN}.{op_type} has results of fixed size (docs/custom_operators.md)" if shipped is not None else ""


def renamed_step(step: NetStep, names: dict[str, str]) -> NetStep:
    """The step with its tensors renamed."""
    return replace(
        step,
        outputs=tuple(names.get(o, o) for o in step.outputs),
        loops=[renamed(loop, names) for loop in step.loops],
        temps={names.get(n, n): i for n, i in step.temps.items()},
        host_inputs=tuple(names.get(i, i) for i in step.host_inputs),
    )


NOT_IMPORTED = frozenset(
    {
        # TVM's converter is for the operator of the same name of com.microsoft.
        "Attention",
        # Sequences and optional values have no shape of their own.
        *("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength"),
        *("SplitToSequence", "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement"),
    }
)


def importable(op_type: str) -> bool:
    """Whether TVM's importer has a converter for the operator that can be used here."""
    return op_type not in NOT_IMPORTED and op_type in onnx_frontend._get_convert_map()  # pyright: ignore[reportPrivateUsage]
