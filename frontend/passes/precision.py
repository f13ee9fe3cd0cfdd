"""float32 records become float16 or bfloat16 ones, by the rounding rule of the graph.

Activations and weights have 16 bits. What is accumulated, and what is computed from nothing but accumulated values,
stays float32 as long as it is private to an operator: sums of products, maxima, means, variances. Host kernels keep
their dtypes; a conversion stands between them and the rest.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Mapping
from dataclasses import replace
from math import inf, isinf

import ml_dtypes
import numpy as np

from ..net.dataflow import Dataflow
from ..net.linear import Linear
from ..net.net import Extent, Info, Loop, Net, NetStep, Operand, Ref, renamed
from ..relax.importer import copy_step

WIDE = "float32"
BROAD = (WIDE, "float64")
LARGEST = {name: float(ml_dtypes.finfo(name).max) for name in ("float16", "bfloat16")}
"""The largest finite number of each dtype of 16 bits."""


def wrap_hosts(net: Net) -> None:
    """Give host kernels float32 tensors of their own, with conversions to and from the rest of the net.

    Before: it is known what the host computes, and all floats are float32. After: between a host kernel and any other
    step or output port stands a copy, which becomes the conversion once :func:`narrow_floats` has run.

        y = kernel(x)               becomes      x.host = copy x; y = kernel(x.host); y.npu = copy y
    """
    outputs = set(net.outputs)
    hosts = [s for s in net.steps if s.host]
    written_by_host = {o for s in hosts for o in s.outputs}
    read_by_npu = {i for s in net.steps if not s.host for i in s.inputs}
    wide_of: dict[str, str] = {}
    narrow_of: dict[str, str] = {}
    steps: list[NetStep] = []
    for step in net.steps:
        if not step.host:
            step.loops = [renamed(loop, narrow_of) for loop in step.loops]
            steps.append(step)
            continue
        for name in dict.fromkeys(step.host_inputs):
            info = net.tensors[name]
            if info.dtype != WIDE or name in written_by_host or name in wide_of:
                continue
            if name in net.constants:
                if name in read_by_npu:
                    wide_of[name] = net.fresh_tensor(f"{name}.host")
                    net.tensors[wide_of[name]] = info
                    net.constants[wide_of[name]] = net.constants[name]
                continue
            wide_of[name] = net.fresh_tensor(f"{name}.host")
            net.tensors[wide_of[name]] = info
            steps.append(copy_step(wide_of[name], step.origin, name, wide_of[name], info))
        step.host_inputs = tuple(wide_of.get(i, i) for i in step.host_inputs)
        steps.append(step)
        for name in step.outputs:
            info = net.tensors[name]
            if info.dtype == WIDE and (name in read_by_npu or name in outputs):
                narrow_of[name] = net.fresh_tensor(f"{name}.npu")
                net.tensors[narrow_of[name]] = info
                steps.append(copy_step(narrow_of[name], step.origin, name, narrow_of[name], info))
    net.steps = steps
    net.outputs = [narrow_of.get(o, o) for o in net.outputs]


def accumulate_privately(net: Net, keep: set[str]) -> None:
    """Let loops that need an accumulator write a private buffer, from which a copy moves to where the result belongs.

    Matrix products always do, because a matrix engine does not write where results live; so do loops that combine a
    part of a tensor, because a buffer of their own is what they start from. Sums do where the output has fewer bits
    than they need, unless it is in ``keep``.
    """
    for step in net.steps:
        if step.host:
            continue
        infos = {step.output: net.tensors[step.output], **step.temps}
        writers = Counter(loop.write.tensor for loop in step.loops)
        rounded = infos[step.output].dtype in LARGEST and step.output not in keep
        loops: list[Loop] = []
        blocks: list[str] = []
        for number, loop in enumerate(step.loops):
            blocks += step.blocks[number : number + 1]
            target = loop.write.tensor
            result = target == step.output and (loop.is_matrix or (rounded and _accumulates(loop)))
            if not result and (loop.combine is None or writers[target] == 1):
                loops.append(loop)
                continue
            # The buffer has one dimension for each axis that is written, so that the copy can move as it converts.
            axes = [a for i in loop.write.index for a, _ in sorted(i.terms, key=lambda t: -t[1])]
            buffer = f"{target}/wide{number}"
            step.temps[buffer] = Info(tuple(loop.axes[a].size for a in axes), infos[target].dtype)
            inner = Ref(buffer, tuple(Linear.axis(a) for a in axes))
            loops.append(replace(loop, write=inner))
            loops.append(Loop({a: Extent(loop.axes[a].size) for a in axes}, loop.write, "copy", (inner,)))
            blocks += step.blocks[number : number + 1]
        step.loops, step.blocks = loops, tuple(blocks)


def _accumulates(loop: Loop) -> bool:
    """Whether partial results need more bits than the result: the largest of some numbers is one of them."""
    return loop.combine is not None and not (loop.combine in ("max", "min") and loop.func == "copy")


def narrow_floats(net: Net, dtype: str) -> None:
    """Convert float32 and float64 tensors and constants to ``dtype``, of 16 bits.

    Before: :func:`wrap_hosts` has run, and operators are fused. After: only what host kernels touch, and scales of
    integers, have more than 16 bits.

        x: float32, W: float32, y: float32      becomes      x: float16, W: float16, y: float16
    """
    kept = {n for s in net.steps if s.host for n in (*s.host_inputs, *s.outputs)} | _scales(net)
    for name, info in net.tensors.items():
        if info.dtype in BROAD and name not in kept:
            net.tensors[name] = Info(info.shape, dtype)
            if name in net.constants:
                net.constants[name] = narrow(net.constants[name], dtype)
    for step in net.steps:
        for name, info in step.temps.items():
            if info.dtype in BROAD:
                step.temps[name] = Info(info.shape, dtype)


def _scales(net: Net) -> set[str]:
    """Constants that only say what integers stand for: with fewer digits, numbers would be rounded to other ones."""
    scales: set[str] = set()
    others: set[str] = set()
    for step in net.steps:
        others.update(step.host_inputs)
        for loop in step.loops:
            values = [o.tensor if isinstance(o, Ref) else "" for o in loop.operands]
            is_conversion = loop.func in ("quant", "dequant")
            scales.update(values[1:] if is_conversion else ())
            others.update(values[:1] if is_conversion else values)
    return (scales & net.constants.keys()) - others


def widen_accumulators(net: Net) -> None:
    """Let accumulating loops write private buffers; in networks of 16 bits, these are float32, and numbers fit.

    Before: operators are fused and narrowed. After: no matrix product writes the output of its step, no loop combines a
    part of a tensor, and no number or fill of a loop of 16 bits is larger than its dtype can hold.

        y = sum x · W  of float16       becomes      s = sum x · W  of float32; y = copy s  of float16
    """
    narrow_net = any(info.dtype in LARGEST for info in net.tensors.values())
    statistics = _shared_statistics(net) if narrow_net else set[str]()
    accumulate_privately(net, statistics)
    if not narrow_net:
        return
    for name in statistics:
        if net.tensors[name].dtype in LARGEST:
            net.tensors[name] = Info(net.tensors[name].shape, WIDE)
    shared = {n: i.dtype for n, i in net.tensors.items()}
    for step in net.steps:
        if step.host:
            continue
        for name in _wide_temps(step, statistics):
            if step.temps[name].dtype in LARGEST:
                step.temps[name] = Info(step.temps[name].shape, WIDE)
        dtypes = ChainMap({n: i.dtype for n, i in step.temps.items()}, shared)
        step.loops = [_narrow_numbers(loop, dtypes) for loop in step.loops]


def _shared_statistics(net: Net) -> set[str]:
    """Tensors between operators that hold sums over rows, for element-wise use: they stay float32 too."""
    statistics: set[str] = set()
    flow = Dataflow(net.steps)
    combined_tensors = {r.tensor for step in net.steps for loop in step.loops if loop.combine for r in loop.reads}
    for step in net.steps:
        users = flow.readers(step.output)
        vector = all(s.host is None and not s.matrix_loops for s in (step, *users))
        combined = step.output in combined_tensors
        if not vector or combined or not users or step.output in net.outputs:
            continue
        known = set[str]()
        for loop in step.loops:
            summed = loop.combine == "sum" and not loop.is_matrix
            derived = bool(loop.reads) and all(r.tensor in known or r.tensor in statistics for r in loop.reads)
            if summed or (derived and not loop.combine):
                known.add(loop.write.tensor)
        small = all(net.tensors[step.output].elements * 2 <= net.tensors[o].elements for s in users for o in s.outputs)
        if step.output in known and small:
            statistics.add(step.output)
    return statistics


def _wide_temps(step: NetStep, shared: set[str]) -> set[str]:
    """Temporaries that stay float32: accumulators, and what is computed from statistics alone."""
    wide: set[str] = set()
    statistics: set[str] = set()
    for loop in step.loops:
        name = loop.write.tensor
        if name not in step.temps:
            continue
        if loop.combine:
            wide.add(name)
            if not loop.is_matrix:
                statistics.add(name)
        elif loop.reads and all(r.tensor in statistics or r.tensor in shared for r in loop.reads):
            wide.add(name)
            statistics.add(name)
    return wide


def narrow(array: np.ndarray, dtype: str) -> np.ndarray:
    """To a dtype of 16 bits; what is too large becomes the largest number; infinity, which masks have, stays.

    Were what is too large infinity as well, two of it would have no difference.
    """
    largest = LARGEST[dtype]
    return np.where(np.isinf(array), array, np.clip(array, -largest, largest)).astype(dtype)


def _narrow_numbers(loop: Loop, dtypes: Mapping[str, str]) -> Loop:
    """Numbers that a dtype of 16 bits cannot hold become the largest that it can, in its reads and results."""

    def fit(value: float, dtype: str) -> float:
        largest = LARGEST.get(dtype, inf)
        return value if isinf(value) else min(max(value, -largest), largest)

    def change(operand: Operand) -> Operand:
        if not isinstance(operand, Ref):
            return fit(operand, dtypes[loop.write.tensor])
        if operand.fill is None:
            return operand
        return replace(operand, fill=fit(operand.fill, dtypes[operand.tensor]))

    return replace(loop, operands=tuple(change(o) for o in loop.operands))
