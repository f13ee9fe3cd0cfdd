"""Changes of a whole model: versions, functions, bytes."""

from __future__ import annotations

from random import Random

import onnx
from onnx import helper

from benchmarks.hostile.changes.draw import (
    node_of,
    said,
)


def change_versions(model: onnx.ModelProto, rng: Random) -> str | None:
    how = rng.randrange(4)
    if how == 0:
        model.ir_version = rng.choice((0, 1, 2, 3, 7, 999))
        return f"IR version {model.ir_version}"
    if how == 1:
        del model.opset_import[:]
        return "no operator set"
    version = rng.choice((-1, 0, 1, 5, 6, 7, 9, 10, 11, 12, 13, 18, 20, 21, 22, 23, 999, 1 << 40))
    if how == 2:
        model.opset_import.append(helper.make_opsetid("", version))
        return f"operator set {version} as well"
    for opset in model.opset_import:
        opset.version = version
    return f"operator set {version}"


def add_function(model: onnx.ModelProto, rng: Random) -> str | None:
    """A node becomes a call of a local function, which may call itself."""
    node = node_of(model, rng)
    if node is None or not node.input or not node.output:
        return None
    recursive = rng.random() < 0.3
    inputs, outputs = list(dict.fromkeys(node.input)), list(node.output)
    body = onnx.NodeProto()
    body.CopyFrom(node)
    if recursive:
        body.CopyFrom(helper.make_node("Own", inputs, outputs, domain="local"))
    model.functions.append(helper.make_function("local", "Own", inputs, outputs, [body], [helper.make_opsetid("", 17)]))
    model.opset_import.append(helper.make_opsetid("local", 1))
    text = f"{said(node)} in a function{' that calls itself' if recursive else ''}"
    node.CopyFrom(helper.make_node("Own", inputs, outputs, name=node.name, domain="local"))
    return text


def damaged(data: bytes, rng: Random) -> tuple[str, bytes]:
    """Bytes that are cut short, changed, repeated or put in."""
    at = rng.randrange(len(data))
    how = rng.randrange(4)
    if how == 0:
        return f"cut after {at} bytes", data[:at]
    if how == 1:
        return f"one bit of byte {at}", data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if how == 2:
        end = min(len(data), at + rng.randrange(1, 40))
        return f"bytes {at} to {end} twice", data[:end] + data[at:]
    noise = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
    return f"{len(noise)} bytes of noise at {at}", data[:at] + noise + data[at:]
