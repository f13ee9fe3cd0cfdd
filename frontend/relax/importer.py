"""A cleaned network becomes a net of steps."""

from __future__ import annotations

from dataclasses import replace

from ...ir.custom_operators import CustomOperator
from ...ir.errors import CheckError, UnsupportedError, UsageError
from ...ir.graph import DTYPES
from ..net.check_net import check_step
from ..net.linear import Linear, NotAffine
from ..net.net import Extent, Info, Loop, Net, NetStep, Ref, fresh
from ..net.net_pass import ImportListener
from ..onnx.checks.quantised_types import check_quantised_types
from ..onnx.prepare import Declared, Network, Node
from .convert import Converter, renamed_step
from .template import Template, TemplateCall
from .tir_numpy import run


def build_net(network: Network, listener: ImportListener) -> Net:
    """Convert every node, telling ``listener``; the net's tensors carry the names of the ONNX values."""
    return _Importer(network).run(listener)


class _Importer:
    def __init__(self, network: Network) -> None:
        self.network = network
        self.net = Net()
        self.converter = Converter(network.opset)
        self.env: dict[str, str] = {}

    def run(self, listener: ImportListener) -> Net:
        net, network = self.net, self.network
        for name in network.inputs:
            info = network.infos.get(name)
            if info is None or info.dtype not in DTYPES:
                kind = "an unknown dtype" if info is None else f"dtype {info.dtype}"
                raise UnsupportedError(f"input {name!r} has {kind}, which is not supported")
            net.tensors[name] = info
            net.inputs.append(name)
            self.env[name] = name
        for name, array in network.constants.items():
            net.tensors[name] = Info(array.shape, array.dtype.name)
            net.constants[name] = array
            self.env[name] = name
        for position, node in enumerate(network.nodes):
            listener("convert nodes", position, len(network.nodes))
            self.add(position, node)
        listener("convert nodes", len(network.nodes), len(network.nodes))
        if not network.outputs:
            raise UsageError("the network has no outputs, so there is nothing to compute")
        written = {name for step in net.steps for name in step.outputs}
        for name in network.outputs:
            self.output(name, written)
        return net

    def add(self, position: int, node: Node) -> None:
        unknown = next((i for i in node.inputs if i and i not in self.env), None)
        if unknown is not None:
            raise UsageError(
                f"node {node.name!r} ({node.op_type}) reads {unknown!r}, which nothing before it makes: "
                "the graph has a cycle, or lacks a node"
            )
        names = [self.env[i] if i else None for i in node.inputs]
        while names and names[-1] is None:
            names.pop()
        infos = [self.net.tensors[n] if n else None for n in names]
        values = [self.net.constants.get(n) if n else None for n in names]
        check_quantised_types(node, infos, bool(values) and values[0] is not None)
        template = self.converter.template(node, infos, values)
        local = {f"in{p}": n for p, n in enumerate(names) if n}
        self.place(position, node, template, local)

    def place(self, position: int, node: Node, template: Template, local: dict[str, str]) -> None:
        net = self.net
        computed = {o for call in template.calls for o in call.outputs}
        for value, name in zip(node.outputs, template.outputs, strict=False):
            if value and name in computed and name not in local:
                local[name] = fresh(value, net.tensors)
                net.tensors[local[name]] = template.tensors[name]
        for name, info in template.tensors.items():
            if name not in local:
                local[name] = fresh(f"{node.outputs[0]}.{name}", net.tensors)
                net.tensors[local[name]] = info
                if name in template.constants:
                    net.constants[local[name]] = template.constants[name]
        main = max(range(len(template.calls)), key=lambda n: (importance(template.calls[n]), n), default=0)
        empty = next((t for t, i in template.tensors.items() if 0 in i.shape and t not in template.constants), None)
        if empty is not None:
            raise UnsupportedError(f"node {node.name!r}: {node.op_type} of tensors without elements is not supported")
        for number, call in enumerate(template.calls):
            inputs = [local[i] for i in call.inputs]
            if not call.steps:
                self.fold(node, call, inputs, [local[o] for o in call.outputs])
                continue
            private = {t: f"{local[call.outputs[0]]}/{t}" for s in call.steps for t in s.temps}
            unit = (f"{position}", number)
            for step in call.steps:
                new = renamed_step(step, {**local, **private})
                name = node.name if number == main else f"{node.name}.{step.name}"
                net.steps.append(replace(new, name=name, origin=node.origin, unit=unit))
                if node.custom is not None:
                    self.check_custom(node, node.custom, net.steps[-1])
        for value, name in zip(node.outputs, template.outputs, strict=False):
            if value:
                self.env[value] = local[name]
                expected, info = self.network.infos.get(value), net.tensors[local[name]]
                if node.custom is not None:
                    refuse_result(node, node.custom, value, self.network.declared.get(value, (None, None)), info)
                if expected not in (None, info):
                    raise UnsupportedError(
                        f"node {node.name!r}: TVM makes {info.dtype}{list(info.shape)} of {node.op_type}, which ONNX "
                        f"defines to be {expected.dtype}{list(expected.shape)}"
                    )

    def check_custom(self, node: Node, operator: CustomOperator, step: NetStep) -> None:
        """Raise :class:`UsageError` if the loops of a user's function break a rule that TVM does not check."""
        try:
            check_step(step, self.net)
        except CheckError as error:
            raise UsageError(
                f"{operator.place}: the operator {operator.key} for node {node.name!r} is not valid: {error}"
            ) from error

    def fold(self, node: Node, call: TemplateCall, inputs: list[str], outputs: list[str]) -> None:
        assert call.kernel is not None
        try:
            results = run(call.kernel, [self.net.constants[i] for i in inputs])
        except NotAffine as error:
            raise UnsupportedError(f"node {node.name!r}: {node.op_type} of constants: {error}") from error
        self.net.constants.update(zip(outputs, results, strict=True))

    def output(self, name: str, written: set[str]) -> None:
        """Make sure that a step writes the tensor that the output port names."""
        net = self.net
        if name not in self.env:
            raise UsageError(f"output {name!r} is made by no node")
        source = self.env[name]
        refuse_other(name, self.network.declared.get(name, (None, None)), net.tensors[source])
        if 0 in net.tensors[source].shape:
            raise UnsupportedError(f"output {name!r} has no elements")
        if source in written:
            written.remove(source)  # Only one port takes the tensor itself.
            net.outputs.append(source)
            return
        target = fresh(f"{name}.output", net.tensors)
        info = net.tensors[source]
        net.tensors[target] = info
        net.steps.append(copy_step(name, (name,), source, target, info))
        net.outputs.append(target)


def refuse_other(name: str, declared: Declared, info: Info) -> None:
    """Raise :class:`UsageError` if an output is not what the file declares."""
    if not _agree(declared, info):
        raise UsageError(
            f"output {name!r} is declared as {_shown(declared)}, but what the network makes of its inputs is "
            f"{info.dtype}{list(info.shape)}; correct the declaration, or export the model again"
        )


def refuse_result(node: Node, operator: CustomOperator, name: str, declared: Declared, info: Info) -> None:
    """The same for what a custom operator makes for ``node``."""
    if not _agree(declared, info):
        raise UsageError(
            f"{operator.place}: the operator {operator.key} for node {node.name!r} returns "
            f"{info.dtype}{list(info.shape)}, but the model says that {name!r} is {_shown(declared)}"
        )


def _agree(declared: Declared, info: Info) -> bool:
    dtype, shape = declared
    same = shape is None or (
        len(shape) == len(info.shape) and all(d in (None, n) for d, n in zip(shape, info.shape, strict=True))
    )
    return same and dtype in (None, info.dtype)


def _shown(declared: Declared) -> str:
    dtype, shape = declared
    sizes = "" if shape is None else f"[{', '.join('?' if n is None else str(n) for n in shape)}]"
    return f"{dtype or 'a tensor'}{sizes}"


def importance(call: TemplateCall) -> int:
    """Which kernel of a node carries the node's name: its matrix product, else its reduction, else the last."""
    loops = [loop for step in call.steps for loop in step.loops]
    return 2 * any(loop.is_matrix for loop in loops) + any(loop.combine for loop in loops)


def copy_step(name: str, origin: tuple[str, ...], source: str, target: str, info: Info) -> NetStep:
    """Copies a whole tensor."""
    axes = {f"i{d}": Extent(n) for d, n in enumerate(info.shape) if n > 1}
    index = tuple(Linear.axis(f"i{d}") if n > 1 else Linear() for d, n in enumerate(info.shape))
    loop = Loop(axes, Ref(target, index), "copy", (Ref(source, index),))
    return NetStep(name, origin, (f"copy {target}", 0), (target,), [loop])
