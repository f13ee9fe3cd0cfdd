"""Whole numbers that become int64 for an output alone stay as they are: the port converts them.

ONNX counts in int64, which no engine has lanes for, so that a conversion at the end would be a kernel of the host.
"""

from __future__ import annotations

from dataclasses import replace

from ..net.dataflow import Dataflow
from ..net.net import Net, NetStep

NARROWER = frozenset({"int32", "int8", "uint8"})
"""Whole numbers of the engines, all of which int64 has."""


def narrow_outputs(net: Net) -> None:
    """Give outputs that are moved or converted from whole numbers of engines the dtype of these.

    Before: steps have one loop each. After: no output is a conversion to int64 of what engines compute.

        y = int64(reshape(x))        becomes        y = reshape(x)
    """
    flow = Dataflow(net.steps)
    for output in dict.fromkeys(net.outputs):
        chain: list[str] = []
        name = output
        while _is_private(net, flow, name, output):
            chain.append(name)
            name = _moved_from(flow.writer(name))
        if chain and name in net.tensors and net.tensors[name].dtype in NARROWER:
            for moved in chain:
                net.tensors[moved] = replace(net.tensors[moved], dtype=net.tensors[name].dtype)


def _is_private(net: Net, flow: Dataflow[NetStep], name: str, output: str) -> bool:
    """Whether a tensor is int64, and serves the output alone."""
    if name not in net.tensors or net.tensors[name].dtype != "int64" or name in net.inputs or name in net.constants:
        return False
    return flow.reader_count(name) == (name != output) and (name == output or name not in net.outputs)


def _moved_from(writer: NetStep | None) -> str:
    """What a step moves or converts; empty if it does anything else."""
    if writer is None or writer.is_opaque or len(writer.loops) != 1:
        return ""
    (loop,) = writer.loops
    if not loop.is_movement or len(loop.factors) != 1 or loop.factors[0].fill is not None:
        return ""
    return loop.factors[0].tensor
